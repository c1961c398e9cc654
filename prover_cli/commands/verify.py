"""`prover verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import EngineConfig, VerifyConfig, as_json

NAME = "verify"


def command(
    run: options.RunDir = Path("shards"),
    k: Annotated[int, options.option("--k", min=1, help="Continuations per state.")] = 8,
    k_before: Annotated[
        int | None, options.option("--k-before", min=1, help="Before a segment; default: --k.")
    ] = None,
    k_after: Annotated[
        int | None, options.option("--k-after", min=1, help="After a segment; default: --k.")
    ] = None,
    adaptive: Annotated[
        bool,
        options.option(
            "--adaptive",
            help="Rounds of 2, 4, 8, ...: stop where the gain is decided or negligible.",
        ),
    ] = False,
    until_ci: Annotated[
        float | None,
        options.option(
            "--until-ci",
            min=0.0,
            max=2.0,
            help="Double the continuations until the gain's 95 % interval is at most this wide.",
        ),
    ] = None,
    max_k: Annotated[
        int | None,
        options.option(
            "--max-k", min=1, help="Most per state with --until-ci or --adaptive; default: --k."
        ),
    ] = None,
    max_continuations: Annotated[
        int | None,
        options.option("--max-continuations", min=1, help="Most continuations of the whole run."),
    ] = None,
    token_budget: Annotated[
        float | None,
        options.option(
            "--token-budget", min=0.0, help="Expected tokens at most, as a share of the rollout's."
        ),
    ] = None,
    budget_order: Annotated[
        str,
        options.option(
            "--budget-order", help="Groups within a budget: seeded (drawn) or information (ranked)."
        ),
    ] = "seeded",
    keep_turns: Annotated[
        bool, options.option("--keep-turns", help="Store the turns of continuations too.")
    ] = False,
    measure_null: Annotated[
        int,
        options.option(
            "--measure-null", min=0, help="Segments without effect to verify as controls."
        ),
    ] = 0,
    proposer: Annotated[
        str,
        options.option(
            "--proposer", help="judge, or without one: all-turns, every:N, entropy:N, random:N."
        ),
    ] = "judge",
    source: options.From = "judge",
    seed: options.Seed = 0,
    value_cache: Annotated[
        Path | None,
        options.option("--value-cache", help="Folder of continuations that runs share."),
    ] = None,
    top_up: Annotated[
        bool,
        options.option(
            "--top-up", help="Keep the continuations of a verification of another size."
        ),
    ] = False,
    check_replay: Annotated[
        bool,
        options.option("--check-replay", help="Replay every trajectory, write replay.json, stop."),
    ] = False,
    quarantine: Annotated[
        Path | None,
        options.option(
            "--quarantine", help="Leave out the tasks it lists; default: RUN/replay.json."
        ),
    ] = None,
    retries: options.Retries = 2,
    engine: options.EngineName = "auto",
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    concurrency: options.Concurrency = 128,
    max_model_len: options.MaxModelLen = None,
    tensor_parallel: options.TensorParallel = 1,
    data_parallel: options.DataParallel = 1,
    memory_fraction: options.MemoryFraction = None,
    server: options.Servers = None,
    variant: options.As = None,
    shard: options.Shard = "0/1",
    config_file: options.ConfigFile = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Sample continuations before and after each proposed segment."""
    config = VerifyConfig(
        k=k,
        proposer=proposer,
        seed=seed,
        source=source,
        k_before=k_before,
        k_after=k_after,
        adaptive=adaptive,
        until_ci=until_ci,
        max_k=max_k,
        max_continuations=max_continuations,
        token_budget=token_budget,
        budget_order=budget_order,
        keep_turns=keep_turns,
        measure_null=measure_null,
        quarantine=None if quarantine is None else str(quarantine),
        value_cache=None if value_cache is None else str(value_cache),
        retries=retries,
        engine=EngineConfig(
            engine,
            device,
            dtype,
            concurrency,
            max_model_len,
            tensor_parallel,
            data_parallel,
            memory_fraction,
            tuple(server or ()),
        ),
    )
    if dry_run:
        console.dry_run(as_json(config))
    if check_replay:
        from prover_cli.stages.verify_replay import check_replay as check

        with console.reporting() as reporter:
            summary = check(run, reporter)
        console.finish(summary, as_json_)
        return
    from prover_cli.stages import verify as stage

    with console.reporting() as reporter:
        summary = stage.run(
            config,
            run,
            options.mode(resume, overwrite),
            reporter,
            variant,
            options.slice_of(shard),
            top_up,
        )
    console.finish(summary, as_json_)
