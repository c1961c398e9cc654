"""The work of a verification: every unit of it sampled, shard by shard.

A unit is a segment (both of its sides, in the rule's rounds), a state valued for itself, or a
control: one state on both sides. Units that share a state share its continuations. The estimates of
a shard use the continuations that its segments and values asked for; what a control draws beyond
those is counted for the control alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from prover_cli.credit.intervals import credited_by_chance
from prover_cli.engines.select import open_engine
from prover_cli.shards.writer import StageWriter
from prover_cli.stages.concurrent import run_shards
from prover_cli.stages.grading import open_grader
from prover_cli.stages.report import Reporter
from prover_cli.stages.states import StateWork
from prover_cli.stages.verify_cache import ValueCache
from prover_cli.stages.verify_plan import Opened, Plan
from prover_cli.stages.verify_proposers import Row, sides
from prover_cli.stages.verify_sample import Drawn, Sampler, successes
from prover_cli.stages.verify_tables import (
    continuation_row,
    estimate_row,
    turn_rows,
    value_rows,
    values_of,
)

_ALL_AT_ONCE = 1 << 30
"""Units wait for each other in the sampler, which bounds continuations, and nowhere else."""


@dataclass
class _Shard:
    opened: Opened
    drawn: Drawn
    requested: dict[str, int] = field(default_factory=dict)
    """Continuations that segments and values asked for, by state."""
    controls: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Counts of the controls: successes and continuations on both sides."""

    def ask(self, work: StateWork, n: int) -> range:
        self.requested[work.state_id] = max(n, self.requested.get(work.state_id, 0))
        return range(n)


class Work:
    """What one call of `verify` does."""

    def __init__(self, plan: Plan, cache: str | None, reporter: Reporter, began: float) -> None:
        self._plan, self._reporter, self._since = plan, reporter, began
        folder = None if cache is None else Path(cache)
        self._cache = ValueCache(folder, plan.policy.policy_id, plan.config.seed)

    async def sample(self, writer: StageWriter) -> None:
        """Sample and commit every owed shard; no engine is opened where nothing is to sample."""
        plan = self._plan
        total = sum(plan.most(index) for index in writer.owed)
        if total == 0:
            for index in writer.owed:
                self._commit(writer, index, _Shard(plan.open(index), Drawn({})))
            return
        shards: dict[int, _Shard] = {}
        engine = open_engine(plan.config.engine, Path(plan.policy.path))
        self._reporter.note(f"engine {engine.name}, policy {engine.policy_id}")
        grader = open_grader(plan.rollout, plan.world.environment)
        sampler = Sampler(
            plan.config, plan.world, plan.agent, engine, grader, self._cache, self._reporter
        )
        self._reporter.start("verifying", total, "continuations")

        def jobs(index: int) -> Sequence[Callable[[], Awaitable[None]]]:
            opened = plan.open(index)
            shards[index] = _Shard(opened, sampler.shard(opened.states.to_sample))
            return self._units(sampler, shards[index])

        def commit(index: int, _: list[None]) -> None:
            self._commit(writer, index, shards.pop(index))

        try:
            await run_shards(writer.owed, jobs, commit, _ALL_AT_ONCE)
        finally:
            await sampler.close()

    def _units(self, sampler: Sampler, shard: _Shard) -> list[Callable[[], Awaitable[None]]]:
        chosen, at = shard.opened.chosen, shard.opened.states.at
        units: list[Callable[[], Awaitable[None]]] = [
            partial(self._single, sampler, shard, at[boundary]) for boundary in chosen.singles
        ]
        units += [partial(self._segment, sampler, shard, row) for row in chosen.segments]
        units += [
            partial(self._control, sampler, shard, at[boundary])
            for boundary in sorted(self._plan.controls & at.keys())
        ]
        return units

    async def _single(self, sampler: Sampler, shard: _Shard, work: StateWork) -> None:
        if work.state is not None:
            await sampler.draw(shard.drawn, work, shard.ask(work, self._plan.config.k))

    async def _segment(self, sampler: Sampler, shard: _Shard, row: Row) -> None:
        """Both sides, round by round; a segment that ends its trajectory has one side only, and
        one with a side that cannot be re-entered has none."""
        start, end = (shard.opened.states.at.get(side) for side in sides(row))
        if any(work is not None and work.state is None for work in (start, end)):
            return
        if start is None:
            return
        if end is None:
            n = self._plan.config.k_before or self._plan.config.k
            await sampler.draw(shard.drawn, start, shard.ask(start, n))
            return
        for n_before, n_after in self._plan.rule.rounds:
            before, after = await asyncio.gather(
                sampler.draw(shard.drawn, start, shard.ask(start, n_before)),
                sampler.draw(shard.drawn, end, shard.ask(end, n_after)),
            )
            if self._plan.rule.stops((*successes(before), *successes(after))):
                return

    async def _control(self, sampler: Sampler, shard: _Shard, work: StateWork) -> None:
        """A segment without effect: the same state on both sides, under the same rule. The other
        side's continuations are numbered beyond all that an estimate can ask for."""
        if work.state is None:
            return
        first = max(*self._plan.rule.most, self._plan.config.k)
        counts = (0, 0, 0, 0)
        for n_before, n_after in self._plan.rule.rounds:
            before, after = await asyncio.gather(
                sampler.draw(shard.drawn, work, range(n_before)),
                sampler.draw(shard.drawn, work, range(first, first + n_after)),
            )
            counts = (*successes(before), *successes(after))
            if self._plan.rule.stops(counts):
                break
        if counts[1] and counts[3]:
            shard.controls.append(counts)

    def _commit(self, writer: StageWriter, index: int, shard: _Shard) -> None:
        opened, rows = shard.opened, shard.drawn.rows()
        by_state: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            by_state.setdefault(row["state_id"], []).append(row)
        values = values_of(opened.states, by_state, shard.requested)
        diverged = self._diverged(opened)
        tables = {
            "continuations": rows + diverged,
            "values": value_rows(opened.states, values),
            "estimates": [
                estimate_row(
                    row,
                    opened.states,
                    values,
                    opened.outcomes,
                    self._plan.rule,
                    opened.left_out.get(row["group_id"]) if row["status"] == "ok" else None,
                )
                for row in opened.wanted.proposals
            ],
        }
        if self._plan.config.keep_turns:
            tables["continuation_turns"] = turn_rows(rows, shard.drawn.turns)
        writer.commit(index, tables, self._counters(shard, rows, len(diverged)))
        self._cache.add(rows)

    def _diverged(self, opened: Opened) -> list[dict[str, Any]]:
        return [
            continuation_row(
                work, 0, None, policy_id=self._plan.policy.policy_id, env_seed=0, sampler_seed=0
            )
            for work in opened.states.distinct
            if work.state is None
        ]

    def _counters(
        self, shard: _Shard, rows: Sequence[dict[str, Any]], diverged: int
    ) -> dict[str, float]:
        new = [row for row in rows if not row["cached"]]
        now, since = time.perf_counter(), self._since
        self._since = now
        return {
            "continuations": len(new),
            "cached_continuations": len(rows) - len(new),
            "void": sum(row["reward"] is None for row in rows),
            "diverged": diverged,
            "skipped_groups": shard.opened.n_skipped,
            "prompt_tokens": sum(row["n_prompt_tokens"] for row in new),
            "action_tokens": sum(row["n_action_tokens"] for row in new),
            "cached_action_tokens": sum(row["n_action_tokens"] for row in rows)
            - sum(row["n_action_tokens"] for row in new),
            "context_tokens": shard.drawn.prompts.given,
            "context_tokens_cached": shard.drawn.prompts.cached,
            "null_segments": len(shard.controls),
            "null_positive": sum(k1 * n0 > k0 * n1 for k0, n0, k1, n1 in shard.controls),
            "null_expected": sum(
                credited_by_chance((k0 + k1) / (n0 + n1), n0, n1)
                for k0, n0, k1, n1 in shard.controls
            ),
            "wall_seconds": now - since,
        }
