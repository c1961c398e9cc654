"""`export`: credited tokens in the form that another trainer reads, shard by shard."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import polars as pl

from prover_cli.config import ExportConfig
from prover_cli.errors import NothingToDoError, UsageError
from prover_cli.exports.registry import form
from prover_cli.exports.samples import Facts, Sample, samples_of
from prover_cli.shards.manifest import Manifest
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.store import make_directory, storage_error, write_json
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.world import rollout_config
from prover_cli.temporary import beside

DESCRIPTION = "export.json"
_TOKENS = ("traj_id", "turn", "group_id", "context_reset", "prompt_ids", "action_ids", "logprobs")
_CREDIT = ("traj_id", "turn", "estimator", "advantage", "token_advantages", "reason")


def run(
    config: ExportConfig, path: Path, out: Path, overwrite: bool, reporter: Reporter
) -> Summary:
    """Write `out`: a file for `jsonl`, a folder for the others.

    It appears when it is whole. Raises `UsageError` for an unknown form or estimator and for an
    `out` that exists, `NothingToDoError` when no turn has an advantage.
    """
    chosen = form(config.to)
    run_ = Run(path)
    rollout, advantage = run_.stage("rollout"), run_.stage(config.source)
    manifest = rollout.require_fresh()
    advantage.require_fresh()
    estimator = _estimator(config.estimator, advantage)
    _check_out(out, overwrite, is_file=chosen.file is None)
    shards = _Shards(rollout, advantage, estimator, manifest.n_shards)
    counts, widths = shards.measure()
    if not counts["sequences"]:
        raise NothingToDoError(f"no turn has an advantage of {estimator} in {advantage.folder}")
    facts = _facts(config, manifest, estimator, widths)
    make_directory(out.parent)
    temporary = beside(out)
    reporter.start("exporting", manifest.n_shards, "shards")
    try:
        if chosen.file is not None:
            temporary.mkdir()
        for index, samples in shards:
            name = chosen.file and chosen.file.format(index=index, n=manifest.n_shards)
            chosen.write(temporary if name is None else temporary / name, samples, facts)
            reporter.advance()
        if chosen.file is not None:
            write_json(
                temporary / DESCRIPTION, {"to": config.to, **asdict(facts), "counts": counts}
            )
        _replace(temporary, out)
    except OSError as error:
        raise storage_error(error, out) from error
    finally:
        _remove(temporary)
    return _summary(path, out, config.to, facts, counts)


def _check_out(out: Path, overwrite: bool, *, is_file: bool) -> None:
    """`UsageError` for an `out` that exists; with `overwrite`, for one that is not an export."""
    if not out.exists():
        return
    if not overwrite:
        raise UsageError(f"{out} exists already", hint="name another --out, or add --overwrite")
    if out.is_dir() if is_file else not (out / DESCRIPTION).is_file():
        raise UsageError(
            f"{out} is not an earlier export of this form, so it is not overwritten",
            hint="name another --out",
        )


def _estimator(wanted: str | None, advantage: Stage) -> str:
    """The estimator asked for, or the only one there is."""
    column = pl.scan_parquet(advantage.files("advantages")).select("estimator").unique()
    present = sorted(column.collect(engine="streaming").to_series())
    if wanted is None and len(present) == 1:
        return str(present[0])
    if wanted is None or wanted not in present:
        raise UsageError(
            f"{advantage.folder} holds the advantages of {', '.join(present) or 'no estimator'}"
            + (f", not of {wanted}" if wanted else ""),
            hint=f"prover export {advantage.run} --estimator NAME",
        )
    return wanted


class _Shards:
    """The sequences of each shard that have something to train on."""

    def __init__(self, rollout: Stage, advantage: Stage, estimator: str, n: int) -> None:
        self._rollout, self._advantage, self._estimator, self._n = rollout, advantage, estimator, n

    def __iter__(self) -> Iterator[tuple[int, list[Sample]]]:
        for index in range(self._n):
            yield index, [sample for sample in self._samples(index) if any(sample.mask)]

    def measure(self) -> tuple[dict[str, int], tuple[int, int]]:
        """What is exported and what is not, and the longest prompt and completion."""
        counts: Counter[str] = Counter(
            dict.fromkeys(
                ("sequences", "left_out", "tokens", "trained_tokens", "void", "unassigned"), 0
            )
        )
        prompt = completion = 0
        for index in range(self._n):
            for sample in self._samples(index):
                trained = sum(sample.mask)
                if not trained:
                    counts["left_out"] += 1
                    continue
                counts.update(sequences=1, tokens=len(sample.ids), trained_tokens=trained)
                prompt = max(prompt, sample.n_prompt)
                completion = max(completion, sample.n_completion)
            missing = self._turns(index, ["traj_id", "turn"]).filter(pl.col("advantage").is_null())
            void = missing.filter(reason="void").height
            counts.update(void=void, unassigned=missing.height - void)
        return dict(counts), (prompt, completion)

    def _samples(self, index: int) -> list[Sample]:
        trajectories = self._rollout.read(
            "trajectories", index, ["traj_id", "task_id", "reward"], ordered=False
        )
        return samples_of(self._turns(index, _TOKENS), trajectories)

    def _turns(self, index: int, columns: Sequence[str]) -> pl.DataFrame:
        """Turns with their credit, null where there is none, by traj_id and turn."""
        credit = self._advantage.read("advantages", index, _CREDIT, ordered=False)
        return self._rollout.read("turns", index, columns).join(
            credit.filter(estimator=self._estimator).drop("estimator"),
            on=["traj_id", "turn"],
            how="left",
            maintain_order="left",
        )


def _facts(
    config: ExportConfig, rollout: Manifest, estimator: str, widths: tuple[int, int]
) -> Facts:
    settings = rollout_config(rollout)
    assert rollout.policy is not None
    return Facts(
        estimator=estimator,
        policy_id=rollout.policy.policy_id,
        env=settings.env.name,
        temperature=settings.sampling.temperature or 1.0,
        n_shards=rollout.n_shards,
        prompt_width=widths[0],
        completion_width=widths[1],
        pad_id=config.pad_id,
    )


def _replace(temporary: Path, out: Path) -> None:
    """Put what was written in the place of what was there."""
    old = beside(out)
    if out.exists():
        os.replace(out, old)
    os.replace(temporary, out)
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _summary(run: Path, out: Path, to: str, facts: Facts, counts: dict[str, int]) -> Summary:
    masked = counts["void"] + counts["unassigned"]
    lines = [
        f"{counts['sequences']:,} sequences of {facts.estimator} as {to} in {out}",
        f"{counts['trained_tokens']:,} trained tokens of {counts['tokens']:,}; longest prompt "
        f"{facts.prompt_width:,}, longest completion {facts.completion_width:,}",
    ]
    if masked:
        lines.append(
            f"masked out: {counts['void']:,} turns of void trajectories, {counts['unassigned']:,} "
            f"turns without an advantage; {counts['left_out']:,} sequences have no other turn and "
            "are left out"
        )
    found = {"to": to, "out": str(out), "estimator": facts.estimator, **counts}
    return Summary(folder=out, facts=found, lines=tuple(lines))
