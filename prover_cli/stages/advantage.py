"""`advantage`: what every turn is worth, by any number of credit methods on the same shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.config import AdvantageConfig, as_json, identity
from prover_cli.credit import CreditTables, credit, prepare, registry
from prover_cli.errors import ShardError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.writer import StagePlan, StageWriter, open_stage
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.rollout import percent

_FROM_VERIFY = ("continuations", "values", "estimates")


def run(
    config: AdvantageConfig,
    path: Path,
    mode: Mode,
    reporter: Reporter,
    variant: str | None = None,
    slice_: str = "0/1",
) -> Summary:
    """Write `advantages`: one row per estimator and turn.

    Raises `UsageError` for an unknown estimator or knob, `ShardError` naming the stage to run for
    an estimator that lacks data.
    """
    run_ = Run(path)
    manifest = run_.stage("rollout").require_fresh()
    sources = {"rollout": run_.stage("rollout")} | {
        stage.kind: stage for stage in _needed_stages(config, run_)
    }
    stage = Stage(path, "advantage" if variant is None else f"advantage@{variant}")
    plan = StagePlan(
        stage=stage,
        config=as_json(config),
        identity=identity(config),
        n_shards=manifest.n_shards,
        inputs={s.name: s.require_fresh().output_digest for s in sources.values()},
        policy=manifest.policy,
        environment=manifest.environment,
        slice_=slice_,
    )
    with open_stage(plan, mode) as writer:
        for note in writer.notes:
            reporter.note(note)
        did_nothing = writer.already_complete
        if writer.owed:
            reporter.start("crediting", len(writer.owed), "shards")
            _credit(writer, config, sources, reporter)
        if not did_nothing:
            writer.complete()
    return _summary(stage, config, did_nothing)


def _needed_stages(config: AdvantageConfig, run: Run) -> list[Stage]:
    """The stages beyond the rollout that the estimators read."""
    repeated = {name for name in config.estimators if config.estimators.count(name) > 1}
    if repeated:
        raise UsageError(f"--estimator names {', '.join(sorted(repeated))} more than once")
    registry.split_knobs(config.estimators, config.knobs)
    needs = {table for name in config.estimators for table in registry.needs(name)}
    verified = run.stage(config.source)
    judged = _judge_of(verified) if verified.exists() else "judge"
    stages = []
    for kind, tables in ((judged, ("proposals",)), (config.source, _FROM_VERIFY)):
        if needs.isdisjoint(tables):
            continue
        stage = run.stage(kind)
        if not stage.exists():
            raise ShardError(
                f"{', '.join(config.estimators)} needs {', '.join(sorted(needs & set(tables)))}, "
                f"and {stage.folder} was not run",
                hint=f"{stage.command} (or --estimator grpo, which needs none)",
            )
        stages.append(stage)
    return stages


def _judge_of(verified: Stage) -> str:
    """The stage whose proposals were verified."""
    inputs = verified.manifest().inputs
    return next((name for name in inputs if name.partition("@")[0] == "judge"), "judge")


def _credit(
    writer: StageWriter, config: AdvantageConfig, sources: dict[str, Stage], reporter: Reporter
) -> None:
    # All shards of the run, whichever of them this process owes.
    every = range(sources["rollout"].manifest().n_shards)
    knobs = registry.split_knobs(config.estimators, config.knobs)
    estimators = {
        name: prepare(
            name, registry.make(name, **knobs[name]), (_tables(sources, index) for index in every)
        )
        for name in config.estimators
    }
    for index in writer.owed:
        tables = _tables(sources, index)
        rows: list[dict[str, Any]] = []
        for name, estimator in estimators.items():
            rows += credit(name, estimator, tables).to_dicts()
        writer.commit(index, {"advantages": rows}, {"rows": len(rows)})
        reporter.advance()


def _tables(sources: dict[str, Stage], index: int) -> CreditTables:
    """What the estimators may read of one shard."""
    read = {name: sources["rollout"].read(name, index) for name in ("trajectories", "turns")}
    if "judge" in sources:
        read["proposals"] = sources["judge"].read("proposals", index)
    if "verify" in sources:
        read |= {name: sources["verify"].read(name, index) for name in _FROM_VERIFY}
    return CreditTables(**read)


def describe(advantages: pl.DataFrame) -> pl.DataFrame:
    """Per estimator: turns, turns with a non-zero advantage, locally credited turns, mean size."""
    return (
        advantages.group_by("estimator")
        .agg(
            pl.len().alias("turns"),
            (pl.col("advantage").fill_null(0.0) != 0.0).sum().alias("non_zero"),
            pl.col("local").is_not_null().sum().alias("local"),
            pl.col("advantage").is_null().sum().alias("unassigned"),
            pl.col("advantage").abs().mean().alias("mean_size"),
        )
        .sort("estimator")
    )


def _summary(stage: Stage, config: AdvantageConfig, did_nothing: bool) -> Summary:
    table = describe(stage.read("advantages")).to_dicts()
    warnings = [
        f"{row['estimator']}: every advantage is zero or unassigned; nothing to learn from"
        for row in table
        if row["non_zero"] == 0
    ]
    if config.knobs.get("norm") == "std" and "prover" in config.estimators:
        warnings.append(
            "the base is divided by the group's standard deviation: gains weigh less against it "
            "than in the paper (lambda 1 on a mean-centred base)"
        )
    return Summary(
        folder=stage.run,
        facts={"estimators": table},
        lines=tuple(
            f"{row['estimator']}: {row['turns']} turns, "
            f"{percent(row['non_zero'] / row['turns'] if row['turns'] else None)} non-zero, "
            f"{row['local']} with local credit"
            for row in table
        ),
        warnings=tuple(warnings),
        did_nothing=did_nothing,
        next_command=f"prover update {stage.run}",
    )
