"""`prover judge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import EngineConfig, JudgeConfig, as_json
from prover_cli.errors import UsageError

NAME = "judge"


def command(
    run: options.RunDir = Path("shards"),
    judge: Annotated[
        str | None,
        options.option(
            "--judge",
            help="agentic (a model with tools), contrast, random, uniform, last or "
            "ensemble:A,B,...; default: agentic with a judge model, else contrast.",
        ),
    ] = None,
    judge_model: Annotated[
        str | None,
        options.option(
            "--judge-model",
            help="Checkpoint folder, or a name at --judge-url; default: the rollout's policy.",
        ),
    ] = None,
    judge_url: Annotated[
        str | None,
        options.option("--judge-url", help="OpenAI-compatible server with the judge's model."),
    ] = None,
    judge_prompt: Annotated[
        Path | None,
        options.option("--judge-prompt", help="File with the judge's task in place of ours."),
    ] = None,
    trajectory: Annotated[
        str,
        options.option(
            "--trajectory", help="Successes that agentic chooses in: shortest, random or all."
        ),
    ] = "shortest",
    labels: Annotated[
        list[str] | None,
        options.option(
            "--labels", help="Ask a model for turns, roles, first-error, contribution too."
        ),
    ] = None,
    max_tool_calls: Annotated[
        int, options.option("--max-tool-calls", min=0, help="Tool calls for a group.")
    ] = 8,
    max_repairs: Annotated[
        int, options.option("--max-repairs", min=0, help="Wrong replies given back for a group.")
    ] = 3,
    judge_temperature: Annotated[
        float, options.option("--judge-temperature", min=0.0, help="The judge's temperature.")
    ] = 0.0,
    judge_max_tokens: Annotated[
        int, options.option("--judge-max-tokens", min=1, help="Tokens of one reply.")
    ] = 1024,
    judge_tokens: Annotated[
        int | None,
        options.option("--judge-tokens", min=1, help="Most tokens, read and written, of the run."),
    ] = None,
    judge_cost: Annotated[
        float | None, options.option("--judge-cost", min=0.0, help="Most dollars of the run.")
    ] = None,
    judge_price: Annotated[
        str | None,
        options.option(
            "--judge-price", help="IN,OUT: dollars for a million tokens read, and written."
        ),
    ] = None,
    judge_cache: Annotated[
        Path | None,
        options.option("--judge-cache", help="Folder that records replies and replays them."),
    ] = None,
    min_success: Annotated[
        int, options.option("--min-success", min=1, help="Fewest successes of an eligible group.")
    ] = 1,
    max_success: Annotated[
        int, options.option("--max-success", min=1, help="Most successes of an eligible group.")
    ] = 3,
    max_segment: Annotated[
        int, options.option("--max-segment", min=1, help="Most turns of a segment.")
    ] = 4,
    seed: options.Seed = 0,
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
    """Propose one short segment for every group with mixed outcomes."""
    config = JudgeConfig(
        judge=judge,
        min_success=min_success,
        max_success=max_success,
        max_segment=max_segment,
        seed=seed,
        trajectory=trajectory,
        judge_model=judge_model,
        judge_url=judge_url,
        judge_prompt=None if judge_prompt is None else str(judge_prompt),
        max_tool_calls=max_tool_calls,
        max_repairs=max_repairs,
        judge_temperature=judge_temperature,
        judge_max_tokens=judge_max_tokens,
        judge_tokens=judge_tokens,
        judge_cost=judge_cost,
        judge_price=None if judge_price is None else _prices(judge_price),
        labels=tuple(labels or ()),
        judge_cache=None if judge_cache is None else str(judge_cache),
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
        from prover_cli.stages.judge_setup import choose

        chosen, why = choose(config)
        if why is not None:
            console.talk(why)
        console.dry_run(as_json(chosen))
    from prover_cli.stages import judge as stage

    with console.reporting() as reporter:
        summary = stage.run(
            config,
            run,
            options.mode(resume, overwrite),
            reporter,
            variant,
            options.slice_of(shard),
        )
    console.finish(summary, as_json_)


def _prices(text: str) -> tuple[float, float]:
    """`IN,OUT`."""
    try:
        read, written = (float(part) for part in text.split(","))
        if read >= 0 and written >= 0:
            return read, written
    except ValueError:
        pass
    raise UsageError(f"--judge-price is IN,OUT in dollars, such as 0.25,2, not {text!r}")
