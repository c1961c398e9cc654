"""`prover evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from prover_cli import console, options
from prover_cli.config import EngineConfig, EnvConfig, RolloutConfig, SamplingConfig, as_json

NAME = "evaluate"


def command(
    run: options.RunDir = Path("shards"),
    policy: Annotated[
        Path | None, options.option("--policy", help="Checkpoint; default: RUN/update/policy.")
    ] = None,
    baseline: Annotated[
        str | None,
        options.option("--baseline", help="Evaluation to pair with: a variant's name or a folder."),
    ] = None,
    split: Annotated[str, options.option("--split", help="train, valid, test or all.")] = "test",
    tasks: Annotated[
        int | None,
        options.option(
            "--tasks", min=1, help="N tasks of the split, always the same; default: 64 at most."
        ),
    ] = None,
    samples: Annotated[int, options.option("--samples", min=1, help="Episodes per task.")] = 4,
    seed: options.Seed = 0,
    temperature: options.Temperature = 0.4,
    env: Annotated[
        str | None, options.option("--env", help="Environment; default: that of RUN's rollout.")
    ] = None,
    prompt: Annotated[
        str | None, options.option("--prompt", help="Prompt style; default: that of the rollout.")
    ] = None,
    history: options.History = None,
    thinking: options.Thinking = None,
    max_turns: options.MaxTurns = None,
    max_tokens: options.MaxTokens = None,
    data: options.EnvData = None,
    goals: options.Goals = None,
    products: options.Products = None,
    corpus: options.Corpus = None,
    env_option: options.EnvOptions = None,
    grader: options.GraderName = "rule",
    grader_model: options.GraderModel = None,
    grader_url: options.GraderUrl = None,
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
    config_file: options.ConfigFile = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json_: options.AsJson = False,
) -> None:
    """Measure a policy on a fixed panel, alone or paired with an earlier evaluation."""
    from prover_cli.stages import evaluate as stage
    from prover_cli.stages.world import resolve

    chosen = options.env_options(env, data, env_option, goals, products, corpus)
    given = EnvConfig(env or "", chosen, prompt, history, max_turns, thinking)
    config = RolloutConfig(
        env=stage.environment_for(run, given),
        sampling=SamplingConfig(temperature=temperature, max_tokens=max_tokens),
        policy=str(policy or stage.updated_policy(run)),
        split=split,
        tasks=tasks,
        group_size=samples,
        seed=seed,
        grader=grader,
        grader_model=grader_model,
        grader_url=grader_url,
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
        console.dry_run(as_json(resolve(config, stage.DEFAULT_TASKS)[0]))
    with console.reporting() as reporter:
        summary = stage.run(
            config, run, options.mode(resume, overwrite), reporter, variant, baseline
        )
    console.finish(summary, as_json_)
