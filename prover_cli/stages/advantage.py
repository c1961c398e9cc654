"""`advantage`: what every turn is worth, by any number of credit methods on the same shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import polars as pl

from prover_cli.config import AdvantageConfig, as_json, identity
from prover_cli.credit import CreditTables, credit, prepare, registry
from prover_cli.credit.base import Method
from prover_cli.credit.carl import CARL
from prover_cli.credit.columns import TRAJECTORY, branching, trajectory_columns, turn_columns
from prover_cli.credit.continuations import continuation_advantages
from prover_cli.errors import ShardError, UsageError
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.schema import STAGE_TABLES, TABLES
from prover_cli.shards.store import read_table
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
    methods = _methods(config)
    sources = {"rollout": run_.stage("rollout")} | {
        stage.kind: stage for stage in needed_stages(config, methods, run_)
    }
    kept = _kept_turns(config, run_) if config.include_continuations else None
    read = {stage.name: stage for stage in (*sources.values(), *([kept] if kept else []))}
    stage = Stage(path, "advantage" if variant is None else f"advantage@{variant}")
    plan = StagePlan(
        stage=stage,
        config=as_json(config),
        identity=identity(config),
        n_shards=manifest.n_shards,
        inputs={name: stage.require_fresh().output_digest for name, stage in read.items()},
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
            _credit(writer, methods, sources, kept, reporter)
        if not did_nothing:
            writer.complete()
    return _summary(stage, config, did_nothing)


def _kept_turns(config: AdvantageConfig, run: Run) -> Stage:
    """The verification whose continuations are credited too; `ShardError` where it kept none."""
    stage = run.stage(config.source)
    if not stage.exists() or "continuation_turns" not in stage.tables():
        raise ShardError(
            f"{stage.folder} holds no turns of continuations, which --include-continuations needs",
            hint=f"{stage.command} --keep-turns --overwrite",
        )
    return stage


def _methods(config: AdvantageConfig) -> dict[str, Method]:
    """The credit methods by name; `UsageError` for an unknown or repeated name, or a knob."""
    repeated = {name for name in config.estimators if config.estimators.count(name) > 1}
    if repeated:
        raise UsageError(f"--estimator names {', '.join(sorted(repeated))} more than once")
    knobs = registry.split_knobs(config.estimators, config.knobs)
    return {name: registry.make(name, **knobs[name]) for name in config.estimators}


def needed_stages(config: AdvantageConfig, methods: Mapping[str, Method], run: Run) -> list[Stage]:
    """The stages beyond the rollout that the estimators read."""
    needs = {table for method in methods.values() for table in method.needs}
    verified = run.stage(config.source)
    if _carl_takes_scores(methods, run, verified):
        needs.add("scores")
    judged = verified_judge(verified) if verified.exists() else "judge"
    stages = []
    for kind, tables in (
        (judged, ("proposals",)),
        (config.source, _FROM_VERIFY),
        ("score", ("scores",)),
    ):
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


def _carl_takes_scores(methods: Mapping[str, Method], run: Run, verified: Stage) -> bool:
    """CARL's critical turns are those that `verify` chose by entropy; else scores tell, if any."""
    if not (any(isinstance(method, CARL) for method in methods.values()) and verified.exists()):
        return False
    chosen = str(verified.manifest().config.get("proposer", "")).startswith("entropy")
    return not chosen and run.stage("score").exists()


def verified_judge(verified: Stage) -> str:
    """The stage whose proposals were verified."""
    inputs = verified.manifest().inputs
    return next((name for name in inputs if name.partition("@")[0] == "judge"), "judge")


def _credit(
    writer: StageWriter,
    methods: Mapping[str, Method],
    sources: Mapping[str, Stage],
    kept: Stage | None,
    reporter: Reporter,
) -> None:
    reader = ShardReader(methods, sources)
    # All shards of the run, whichever of them this process owes.
    every = range(sources["rollout"].manifest().n_shards)
    estimators = {
        name: prepare(name, method, (reader.tables(index) for index in every))
        for name, method in methods.items()
    }
    for index, tables in _ahead(writer.owed, reader.tables):
        rows = pl.concat(credit(name, estimator, tables) for name, estimator in estimators.items())
        written = {"advantages": rows}
        if kept is not None:
            continuations = kept.read("continuations", index)
            written["continuation_advantages"] = continuation_advantages(continuations)
        writer.commit(index, written, {"rows": rows.height})
        reporter.advance()


def _ahead(
    indices: Sequence[int], read: Callable[[int], CreditTables]
) -> Iterator[tuple[int, CreditTables]]:
    """What `read` gives for each index; the next is read while the caller works on one."""
    with ThreadPoolExecutor(1) as pool:
        coming: Future[CreditTables] | None = None
        for index, following in zip(indices, [*indices[1:], None], strict=True):
            tables = read(index) if coming is None else coming.result()
            coming = None if following is None else pool.submit(read, following)
            yield index, tables


class ShardReader:
    """Reads of a shard what the methods may see: the tables and columns that they need."""

    def __init__(self, methods: Mapping[str, Method], sources: Mapping[str, Stage]) -> None:
        """Columns of parents that hold nothing are left out, as if they were not there."""
        ours = methods.values()
        columns = {"turns": turn_columns(ours), "trajectories": trajectory_columns(ours)}
        tables = {"trajectories", "turns"}.union(*(method.needs for method in ours))
        if columns["turns"] is None or any(isinstance(method, CARL) for method in ours):
            tables |= set(TABLES)  # a method may take what it can do without
        self._files: list[tuple[str, list[Path], list[str] | None]] = []
        for stage in sources.values():
            for name in STAGE_TABLES[stage.kind]:
                if name in tables and name != "tasks":
                    self._files.append((name, stage.files(name), columns.get(name)))
        if branching(ours) and not self._branches():
            self._files = [
                (name, files, list(TRAJECTORY) if name == "trajectories" else chosen)
                for name, files, chosen in self._files
            ]

    def _branches(self) -> bool:
        """Whether any trajectory of the run has a parent."""
        files = next(files for name, files, _ in self._files if name == "trajectories")
        return any(
            read_table([path], "trajectories", ["parent_traj_id"], ordered=False)
            .to_series()
            .is_not_null()
            .any()
            for path in files
        )

    def tables(self, index: int) -> CreditTables:
        """What the methods may read of one shard."""
        return CreditTables(
            **{
                name: read_table([files[index]], name, columns, ordered=False)
                for name, files, columns in self._files
            }
        )


def describe(advantages: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Per estimator: turns, turns with a non-zero advantage, locally credited turns, mean size."""
    return (
        advantages.lazy()
        .group_by("estimator")
        .agg(
            pl.len().alias("turns"),
            (pl.col("advantage").fill_null(0.0) != 0.0).sum().alias("non_zero"),
            pl.col("local").is_not_null().sum().alias("local"),
            pl.col("advantage").is_null().sum().alias("unassigned"),
            pl.col("advantage").abs().mean().alias("mean_size"),
        )
        .sort("estimator")
        .collect(engine="streaming")
    )


def _summary(stage: Stage, config: AdvantageConfig, did_nothing: bool) -> Summary:
    files = stage.files("advantages")
    table = describe(pl.scan_parquet(files)).to_dicts() if files else []
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
        next_command=_next_command(stage, config.estimators),
    )


def _next_command(stage: Stage, estimators: Sequence[str]) -> str:
    """Training on one method: of several, on the last that was named."""
    which = f" --estimator {estimators[-1]}" if len(estimators) > 1 else ""
    return f"prover update {stage.as_source}{which}"
