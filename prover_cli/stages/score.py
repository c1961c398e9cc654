"""`score`: what the rollout's policy makes of every sampled id, afterwards.

Log-probs and entropies under the recorded context, and log-probs under one that also shows a
successful sibling (`score_context`). Nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from prover_cli.config import SamplingConfig, ScoreConfig, as_json, identity
from prover_cli.errors import UsageError
from prover_cli.ids import file_hash
from prover_cli.shards.manifest import Manifest, PolicyEntry
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.schema import TABLES
from prover_cli.shards.writer import StagePlan, StageWriter, open_stage
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.rollout import percent
from prover_cli.stages.score_context import Row, Scored, recorded, with_sibling
from prover_cli.stages.world import check_policy, rollout_config
from prover_cli.tokens.render import ChatRenderer

if TYPE_CHECKING:
    from prover_cli.training.score_pass import Scorer

DTYPES = ("float32", "bfloat16", "float16")
GAP_WARNING = 1e-2
"""A mean difference from the recorded log-probs above this is said aloud."""
_TURNS = (
    "traj_id",
    "turn",
    "group_id",
    "observation",
    "action",
    "context_reset",
    "prompt_ids",
    "action_ids",
    "logprobs",
)
_TRAJECTORIES = ("traj_id", "group_id", "sample", "n_turns", "n_action_tokens", "success")
_KEY = ["traj_id", "turn"]


def run(
    config: ScoreConfig, path: Path, mode: Mode, reporter: Reporter, slice_: str = "0/1"
) -> Summary:
    """Write `scores`: one row per turn.

    Raises `PolicyChangedError` when the policy is not the one that made the rollout, `UsageError`
    for an unknown precision and for a file of values that cannot be used or matches no turn.
    """
    if config.dtype not in DTYPES:
        raise UsageError(f"--dtype is {', '.join(DTYPES)}, not {config.dtype!r}")
    rollout = Run(path).stage("rollout")
    manifest = rollout.require_fresh()
    assert manifest.policy is not None
    policy = _moved(manifest.policy, config.policy)
    check_policy(policy)
    if config.values is not None:
        _check_values(Path(config.values), rollout)
        config = replace(config, values_hash=file_hash(Path(config.values)))
    stage = Stage(path, "score")
    plan = StagePlan(
        stage=stage,
        config=as_json(config),
        identity=identity(config),
        n_shards=manifest.n_shards,
        inputs={"rollout": manifest.output_digest},
        policy=policy,
        environment=manifest.environment,
        slice_=slice_,
    )
    with open_stage(plan, mode) as writer:
        for note in writer.notes:
            reporter.note(note)
        did_nothing = writer.already_complete
        if writer.owed:
            _score(writer, config, policy, rollout, reporter)
        if not did_nothing:
            writer.complete()
    return _summary(stage, manifest, did_nothing)


def _moved(policy: PolicyEntry, place: str | None) -> PolicyEntry:
    """The recorded policy where it lies now."""
    return (
        policy if place is None else policy.model_copy(update={"path": str(Path(place).resolve())})
    )


def _score(
    writer: StageWriter,
    config: ScoreConfig,
    policy: PolicyEntry,
    rollout: Stage,
    reporter: Reporter,
) -> None:
    from prover_cli.training.score_pass import Scorer

    settings, place = rollout_config(rollout.manifest()), Path(policy.path)
    scorer = Scorer.load(
        place,
        config.device,
        config.dtype,
        settings.sampling.temperature,
        config.microbatch_tokens,
    )
    thinking = settings.env.thinking or "keep"
    renderer = ChatRenderer.load(place, thinking) if config.hindsight else None
    reporter.start("scoring", len(writer.owed), "shards")
    for index in writer.owed:
        trajectories = rollout.read("trajectories", index, _TRAJECTORIES, ordered=False)
        turns = rollout.read("turns", index, _TURNS).to_dicts()
        rows, counters = _scored(turns, trajectories, scorer, renderer)
        if config.values is not None:
            given = pl.read_parquet(config.values, columns=[*_KEY, "value"])
            rows = rows.drop("value").join(
                _plain(given), on=_KEY, how="left", maintain_order="left"
            )
        counters["valued_turns"] = rows["value"].count()
        writer.commit(index, {"scores": rows.select(TABLES["scores"].names)}, counters)
        reporter.advance()


def _scored(
    turns: Sequence[Row], trajectories: pl.DataFrame, scorer: Scorer, renderer: ChatRenderer | None
) -> tuple[pl.DataFrame, dict[str, float]]:
    """The scores of one shard, without values, and what to count."""
    own = recorded(turns)
    logprobs, entropies = _by_turn(own, turns, scorer)
    hindsight: dict[int, list[float]] = {}
    shown: list[Scored] = []
    if renderer is not None:
        shown = with_sibling(own, turns, trajectories, renderer, scorer.longest)
        hindsight, _ = _by_turn(shown, turns, scorer)
    siblings = {row: one.shown for one in shown for row in one.rows}
    numbers = range(len(turns))
    rows = pl.DataFrame(
        {
            **{name: [row[name] for row in turns] for name in ("traj_id", "turn", "group_id")},
            "n_action_tokens": [len(row["action_ids"]) for row in turns],
            "token_logprobs": [logprobs.get(i, []) for i in numbers],
            "token_entropies": [entropies.get(i, []) for i in numbers],
            "hindsight_logprobs": [hindsight.get(i) for i in numbers],
            "hindsight_traj_id": [siblings.get(i) for i in numbers],
            "value": [None] * len(turns),
        },
        _SCHEMA,
    ).with_columns(pl.col("token_entropies").list.mean().cast(pl.Float64).alias("entropy"))
    gaps = (
        abs(now - then)
        for i, row in enumerate(turns)
        for now, then in zip(logprobs.get(i, []), row["logprobs"], strict=True)
    )
    return rows, {
        "turns": len(turns),
        "action_tokens": rows["n_action_tokens"].sum(),
        "hindsight_turns": rows["hindsight_logprobs"].count(),
        "entropy_sum": sum(map(sum, entropies.values())),
        "gap_sum": sum(gaps),
    }


_SCHEMA: Mapping[str, Any] = {
    "traj_id": pl.String,
    "turn": pl.Int32,
    "group_id": pl.String,
    "n_action_tokens": pl.Int32,
    "token_logprobs": pl.List(pl.Float32),
    "token_entropies": pl.List(pl.Float32),
    "hindsight_logprobs": pl.List(pl.Float32),
    "hindsight_traj_id": pl.String,
    "value": pl.Float64,
}


def _by_turn(
    batch: Sequence[Scored], turns: Sequence[Row], scorer: Scorer
) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """Log-probs and entropies by row number."""
    logprobs: dict[int, list[float]] = {}
    entropies: dict[int, list[float]] = {}
    scores = scorer.score([one.sequence for one in batch])
    for one, score in zip(batch, scores, strict=True):
        start = 0
        for row in one.rows:
            end = start + len(turns[row]["action_ids"])
            logprobs[row], entropies[row] = score.logprobs[start:end], score.entropies[start:end]
            start = end
    return logprobs, entropies


def _plain(values: pl.DataFrame) -> pl.DataFrame:
    return values.select(pl.col("traj_id").cast(pl.String), pl.col("turn").cast(pl.Int32), "value")


def _check_values(file: Path, rollout: Stage) -> None:
    """`UsageError` for a file of values that cannot be used."""
    try:
        values = _plain(pl.read_parquet(file, columns=[*_KEY, "value"]))
        values = values.with_columns(pl.col("value").cast(pl.Float64))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(
            f"{file} cannot be read as values: {error}",
            hint="write a Parquet file with the columns traj_id, turn and value",
        ) from error
    if repeated := values.height - values.select(_KEY).n_unique():
        raise UsageError(f"{file} holds {repeated} duplicated keys {_KEY}")
    if not values["value"].drop_nulls().is_finite().all():
        raise UsageError(f"{file} holds values that are not finite")
    turns = rollout.read("turns", columns=_KEY, ordered=False)
    if turns.join(values, on=_KEY, how="semi").is_empty():
        raise UsageError(f"no row of {file} is a turn of {rollout.folder}")


def describe(stage: Stage) -> dict[str, Any]:
    """What was scored; means and shares are null where nothing was."""
    counters = stage.manifest().counters
    turns, tokens = int(counters.get("turns", 0)), int(counters.get("action_tokens", 0))
    shown = int(counters.get("hindsight_turns", 0))
    return {
        "turns": turns,
        "action_tokens": tokens,
        "hindsight_turns": shown,
        "hindsight_share": shown / turns if turns else None,
        "valued_turns": int(counters.get("valued_turns", 0)),
        "mean_entropy": counters["entropy_sum"] / tokens if tokens else None,
        "logprob_gap": counters["gap_sum"] / tokens if tokens else None,
    }


def _summary(stage: Stage, rollout: Manifest, did_nothing: bool) -> Summary:
    facts = describe(stage)
    return Summary(
        folder=stage.run,
        facts=facts,
        lines=_lines(facts),
        warnings=_warnings(facts["logprob_gap"], rollout_config(rollout).sampling),
        did_nothing=did_nothing,
        next_command=f"prover advantage {stage.run} --estimator sharpo,gaca",
    )


def _lines(facts: Mapping[str, Any]) -> tuple[str, ...]:
    entropy, gap = facts["mean_entropy"], facts["logprob_gap"]
    return (
        f"{facts['turns']:,} turns, {facts['action_tokens']:,} tokens scored, "
        f"{percent(facts['hindsight_share'])} of the turns with hindsight"
        + (f", {facts['valued_turns']:,} with a value" if facts["valued_turns"] else ""),
        "no token was scored"
        if gap is None
        else f"mean entropy {entropy:.3f} nats, mean difference from the recorded log-probs "
        f"{gap:.1e}",
    )


def _warnings(gap: float | None, sampling: SamplingConfig) -> tuple[str, ...]:
    if gap is None or gap <= GAP_WARNING:
        return ()
    if sampling.top_p < 1.0 or sampling.top_k > 0:
        why = (
            f"the rollout was sampled with top_p {sampling.top_p:g} and top_k {sampling.top_k}, "
            "which its log-probs contain and scores do not"
        )
    else:
        why = "the engine computed with another precision or other kernels"
    return (f"scores differ from the recorded log-probs by {gap:.1e} on average: {why}",)
