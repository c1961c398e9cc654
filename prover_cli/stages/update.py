"""`update`: the policy after a clipped policy-gradient step on the advantages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from prover_cli.config import UpdateConfig, as_json, identity
from prover_cli.errors import NothingToDoError, UsageError
from prover_cli.shards.manifest import Manifest
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.writer import StagePlan, StageWriter, open_stage
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.world import check_policy, rollout_config
from prover_cli.tokens.mask import TrainingSequence, TurnTokens, sequences


def run(
    config: UpdateConfig, path: Path, mode: Mode, reporter: Reporter, variant: str | None = None
) -> Summary:
    """Train on the advantages of one estimator; write `policy/`, `trainer_state/`, `metrics.jsonl`.

    The optimizer's state is carried over when the rollout's policy came from an update: its
    `trainer_state` beside it is restored. Raises `PolicyChangedError` when the shards were made by
    another policy than their path holds now, `NothingToDoError` when no advantage differs from 0.
    """
    run_ = Run(path)
    rollout = run_.stage("rollout").require_fresh()
    advantage = run_.stage(config.source)
    credited = advantage.require_fresh()
    assert rollout.policy is not None
    check_policy(rollout.policy)
    _check_sampling(rollout)
    stage = Stage(path, "update" if variant is None else f"update@{variant}")
    plan = StagePlan(
        stage=stage,
        config=as_json(config),
        identity=identity(config),
        n_shards=0,
        inputs={"rollout": rollout.output_digest, config.source: credited.output_digest},
        policy=rollout.policy,
        environment=rollout.environment,
    )
    with open_stage(plan, mode) as writer:
        for note in writer.notes:
            reporter.note(note)
        did_nothing = writer.already_complete
        if not did_nothing:
            _train(writer, config, rollout, run_, advantage, reporter)
    return _summary(stage, did_nothing)


def _check_sampling(rollout: Manifest) -> None:
    sampling = rollout_config(rollout).sampling
    if sampling.top_p < 1.0 or sampling.top_k > 0:
        raise UsageError(
            f"the rollout was sampled with top_p={sampling.top_p}, top_k={sampling.top_k}: its "
            "log-probs are not those of the policy that would be trained",
            hint="sample training data with --top-p 1 --top-k 0",
        )
    if sampling.temperature == 0.0:
        raise UsageError("the rollout was greedy: there is no distribution to learn from")


def _train(
    writer: StageWriter,
    config: UpdateConfig,
    rollout: Manifest,
    run: Run,
    advantage: Stage,
    reporter: Reporter,
) -> None:
    from prover_cli.training import TrainConfig, Trainer

    estimator = _estimator(config.estimator, advantage)
    batch = training_batch(run.stage("rollout"), advantage, estimator)
    if "continuation_advantages" in advantage.tables():
        batch += continuation_batch(run.stage("rollout"), _verified(run, advantage), advantage)
    if not any(a != 0.0 for sequence in batch for a in sequence.advantages):
        raise NothingToDoError(
            f"every advantage of {estimator} in {advantage.folder} is zero or unassigned: "
            "there is nothing to learn from",
            hint="sample more tasks or other ones: prover rollout with another --tasks or --seed",
        )
    assert rollout.policy is not None
    source = Path(rollout.policy.path)
    state = source.parent / "trainer_state"
    carried = state.is_dir() and source.name == "policy"
    reporter.note(
        f"optimizer state carried over from {state}" if carried else "optimizer state starts fresh"
    )
    settings = TrainConfig(
        lr=config.lr,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        kl_coef=config.kl_coef,
        epochs=config.epochs,
        minibatches=config.minibatches,
        tokens_per_microbatch=config.tokens_per_microbatch,
        temperature=rollout_config(rollout).sampling.temperature,
        seed=config.seed,
        device=config.device,
    )
    trainer = Trainer.load(source, state if carried else None, settings)
    reporter.start("training", config.epochs * config.minibatches, "steps")
    metrics = [{**step, "estimator": estimator} for step in _steps(trainer, batch, reporter)]
    new_policy = trainer.save(writer.folder / "policy", writer.folder / "trainer_state", source)
    (writer.folder / "metrics.jsonl").write_text(
        "".join(json.dumps(step, sort_keys=True) + "\n" for step in metrics), encoding="utf-8"
    )
    writer.complete({"policy_id": new_policy, "estimator": estimator, "last_step": metrics[-1]})


def _steps(
    trainer: Any, batch: list[TrainingSequence], reporter: Reporter
) -> Iterator[dict[str, Any]]:
    for step in trainer.update(batch, lambda _: reporter.advance()):
        yield step.as_json()


def _estimator(wanted: str | None, advantage: Stage) -> str:
    present = sorted(
        advantage.read("advantages", columns=["estimator"], ordered=False)["estimator"].unique()
    )
    if wanted is None and len(present) == 1:
        return str(present[0])
    if wanted is None or wanted not in present:
        raise UsageError(
            f"{advantage.folder} holds the advantages of {', '.join(present) or 'no estimator'}"
            + (f", not of {wanted}" if wanted else ""),
            hint=f"prover update {advantage.run} --estimator NAME",
        )
    return wanted


def training_batch(rollout: Stage, advantage: Stage, estimator: str) -> list[TrainingSequence]:
    """The training sequences of every group that holds a non-zero advantage.

    Turns without an advantage stay in the context and are masked out. Sequences of a trajectory
    keep its order; trajectories of a shard are sorted by id.
    """
    batch: list[TrainingSequence] = []
    for index in sorted(advantage.manifest().shards):
        rows = advantage.read("advantages", index).filter(pl.col("estimator") == estimator)
        signal = (pl.col("advantage").fill_null(0.0) != 0.0).any().over("group_id")
        credited = rows.filter(signal).select("traj_id", "turn", "advantage", "token_advantages")
        turns = rollout.read("turns", index).join(credited, on=["traj_id", "turn"])
        for part in turns.sort("traj_id", "turn").partition_by("traj_id", maintain_order=True):
            if part["advantage"].is_not_null().any():
                batch += sequences(_turn_tokens(row) for row in part.iter_rows(named=True))
    return [sequence for sequence in batch if sequence.n_policy]


def _verified(run: Run, advantage: Stage) -> Stage:
    """The verification whose continuations were credited."""
    inputs = advantage.manifest().inputs
    return run.stage(next(name for name in inputs if name.partition("@")[0] == "verify"))


def continuation_batch(rollout: Stage, verified: Stage, advantage: Stage) -> list[TrainingSequence]:
    """The training sequences of every continuation with a non-zero advantage.

    The recorded turns before its state are its context and masked out.
    """
    batch: list[TrainingSequence] = []
    for index in sorted(advantage.manifest().shards):
        rows = advantage.read("continuation_advantages", index)
        signal = rows.filter(pl.col("advantage").fill_null(0.0) != 0.0)
        before = rollout.read("turns", index, _TOKENS).with_columns(
            pl.lit(None, pl.Float64).alias("advantage")
        )
        after = verified.read("continuation_turns", index, ("state_id", "k", *_TOKENS[1:]))
        prefixes = before.partition_by("traj_id", as_dict=True)
        futures = after.partition_by("state_id", "k", as_dict=True)
        for row in signal.iter_rows(named=True):
            prefix = prefixes[row["traj_id"],].filter(pl.col("turn") < row["turn"]).sort("turn")
            future = futures.get((row["state_id"], row["k"]), after.clear()).sort("turn")
            credited = future.with_columns(pl.lit(row["advantage"]).alias("advantage"))
            turns = (*prefix.iter_rows(named=True), *credited.iter_rows(named=True))
            batch += sequences(_turn_tokens(turn) for turn in turns)
    return [sequence for sequence in batch if sequence.n_policy]


_TOKENS = ("traj_id", "turn", "context_reset", "prompt_ids", "action_ids", "logprobs")


def _turn_tokens(row: dict[str, Any]) -> TurnTokens:
    n = len(row["action_ids"])
    per_token = row.get("token_advantages")
    return TurnTokens(
        context_reset=row["context_reset"],
        prompt_ids=row["prompt_ids"],
        action_ids=row["action_ids"],
        logprobs=row["logprobs"],
        advantages=None
        if row["advantage"] is None
        else [row["advantage"]] * n
        if per_token is None
        else per_token,
    )


def _summary(stage: Stage, did_nothing: bool) -> Summary:
    facts = stage.manifest().facts
    step = facts["last_step"]
    return Summary(
        folder=stage.run,
        facts={key: facts[key] for key in ("policy_id", "estimator", "last_step")},
        lines=(
            f"policy {facts['policy_id']} in {stage.folder / 'policy'}",
            f"loss {step['loss']:.4f}, gradient norm {step['grad_norm']:.3f}, "
            f"entropy {step['entropy']:.3f}, clipped {step['clip_fraction']:.1%}",
            f"{step['n_policy_tokens']:,} policy tokens of {step['n_tokens']:,}, "
            f"{step['params_changed_fraction']:.1%} of the parameters changed",
        ),
        did_nothing=did_nothing,
        next_command=f"prover evaluate {stage.run}",
    )
