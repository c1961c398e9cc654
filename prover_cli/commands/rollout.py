"""`prover rollout`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import EngineConfig, EnvConfig, RolloutConfig, SamplingConfig, as_json

NAME = "rollout"


def command(
    env: Annotated[str, options.option("--env", help="Environment.")] = "webshop",
    policy: Annotated[
        Path | None,
        options.option("--policy", help="Checkpoint; default: the environment's starting policy."),
    ] = None,
    out: Annotated[Path, options.option("--out", help="Run directory to write.")] = Path("shards"),
    split: Annotated[str, options.option("--split", help="train, valid, test or all.")] = "train",
    tasks: Annotated[
        int | None,
        options.option("--tasks", min=1, help="Tasks drawn from the split; default: 16 at most."),
    ] = None,
    group_size: Annotated[
        int, options.option("--group-size", min=1, help="Trajectories per task.")
    ] = 8,
    seed: options.Seed = 0,
    prompt: options.PromptName = None,
    history: options.History = None,
    thinking: options.Thinking = None,
    max_turns: options.MaxTurns = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = 1.0,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    data: options.EnvData = None,
    goals: options.Goals = None,
    products: options.Products = None,
    corpus: options.Corpus = None,
    env_option: options.EnvOptions = None,
    grader: options.GraderName = "rule",
    grader_model: options.GraderModel = None,
    grader_url: options.GraderUrl = None,
    quarantine: Annotated[
        Path | None,
        options.option("--quarantine", help="Leave out the tasks that a RUN/replay.json lists."),
    ] = None,
    groups_per_shard: Annotated[
        int, options.option("--groups-per-shard", min=1, help="Groups in one shard file.")
    ] = 8,
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
    shard: options.Shard = "0/1",
    config_file: options.ConfigFile = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Sample groups of trajectories for tasks of an environment."""
    given = options.env_options(env, data, env_option, goals, products, corpus)
    config = RolloutConfig(
        env=EnvConfig(env, given, prompt, history, max_turns, thinking),
        sampling=SamplingConfig(temperature, top_p, top_k, max_tokens),
        policy=str(policy or options.starting_policy(env)),
        split=split,
        tasks=tasks,
        group_size=group_size,
        seed=seed,
        groups_per_shard=groups_per_shard,
        retries=retries,
        grader=grader,
        grader_model=grader_model,
        grader_url=grader_url,
        quarantine=None if quarantine is None else str(quarantine),
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
        from prover_cli.stages.world import resolve

        console.dry_run(as_json(resolve(config)[0]))
    from prover_cli.stages import rollout

    with console.reporting() as reporter:
        summary = rollout.run(
            config, out, options.mode(resume, overwrite), reporter, options.slice_of(shard)
        )
    console.finish(summary, as_json_)
