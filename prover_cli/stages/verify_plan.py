"""What a verification will do, decided before anything is sampled.

Which segments there are, which groups a budget or a quarantine leaves out, which states serve as
controls without effect, and how many continuations each gets depend on the recorded tables and the
configuration alone, so every slice of a stage and every resumption decides the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl

from prover_cli.config import RolloutConfig, VerifyConfig
from prover_cli.envs.base import Task
from prover_cli.errors import UsageError
from prover_cli.ids import derive_seed, digest
from prover_cli.shards.manifest import PolicyEntry
from prover_cli.shards.run import Run, Stage
from prover_cli.stages.agent import Agent
from prover_cli.stages.states import Boundary, ShardStates, plan_states, recorded_tasks
from prover_cli.stages.verify_budget import GroupCost, affordable, group_costs
from prover_cli.stages.verify_proposers import Proposer, Row, Wanted, parse_proposer, sides
from prover_cli.stages.verify_rule import Rule, rule_of
from prover_cli.stages.verify_tables import EstimateStatus
from prover_cli.stages.world import World

_PROPOSAL = ("proposal_id", "group_id", "traj_id", "start_turn", "end_turn", "status")


@dataclass(frozen=True)
class Opened:
    """One shard with its states re-entered."""

    wanted: Wanted
    """All that was asked for."""
    chosen: Wanted
    """What of it is verified."""
    left_out: Mapping[str, str]
    """Groups that are not, with the status that says why."""
    states: ShardStates
    outcomes: Mapping[str, bool | None]
    groups: Mapping[str, str]
    """The group of each trajectory."""

    @property
    def n_skipped(self) -> int:
        """Groups of the shard for which something was wanted and nothing is verified."""
        asked = {row["group_id"] for row in self.wanted.segments}
        asked |= {self.groups[traj_id] for traj_id, _ in self.wanted.singles}
        return len(asked & self.left_out.keys())


@dataclass
class Plan:
    """The decisions of one verification. Made by `make_plan`."""

    config: VerifyConfig
    run: Run
    rollout: RolloutConfig
    world: World
    policy: PolicyEntry
    quarantine: frozenset[str]
    rule: Rule
    proposer: Proposer
    _wanted: dict[int, Wanted] = field(default_factory=dict)

    @property
    def recorded(self) -> Stage:
        """The rollout."""
        return self.run.stage("rollout")

    @cached_property
    def agent(self) -> Agent:
        return self.world.agent(Path(self.policy.path), self.rollout.sampling)

    @cached_property
    def tasks(self) -> dict[str, Task]:
        offered = self.world.environment.tasks(self.rollout.split)
        return recorded_tasks(self.recorded.read("tasks"), offered)

    @cached_property
    def setting(self) -> str:
        """What a future depends on beside the state: policy, sampling, prompts, world, grader."""
        world = self.world
        return digest(
            [
                self.policy.policy_id,
                asdict(self.agent.sampling),
                [world.style.name, world.history, world.thinking],
                [world.environment.name, world.environment.fingerprint],
                [self.rollout.grader, self.rollout.grader_id],
            ]
        )

    def wanted(self, index: int) -> Wanted:
        """What one shard is asked for, groups that are left out included."""
        if index not in self._wanted:
            proposals: list[Row] = []
            if self.proposer.reads_judge:
                rows = self.run.stage(self.config.source).read("proposals", index)
                proposals = list(rows.select(_PROPOSAL).iter_rows(named=True))
            self._wanted[index] = self.proposer.wanted(
                self.recorded.read("trajectories", index),
                self.recorded.read("turns", index) if self.proposer.kind == "entropy" else _NONE,
                proposals,
                self.config.seed,
            )
        return self._wanted[index]

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Groups that are not verified, with the status that says why."""
        groups = self.recorded.read("trajectories").select("group_id", "task_id").unique()
        found = {
            group: str(EstimateStatus.QUARANTINED)
            for group, task in groups.iter_rows()
            if task in self.quarantine
        }
        most, share = self.config.max_continuations, self.config.token_budget
        if most is None and share is None:
            return found
        spent = self.recorded.manifest().counters.get("action_tokens", 0.0)
        tokens = None if share is None else share * spent
        costs = [cost for cost in self._costs() if cost.group_id not in found]
        by_information = self.config.budget_order == "information"
        chosen = affordable(costs, self.config.seed, most, tokens, by_information)
        return found | {
            cost.group_id: str(EstimateStatus.BUDGET)
            for cost in costs
            if cost.group_id not in chosen
        }

    def _costs(self) -> Iterator[GroupCost]:
        for index in sorted(self.recorded.manifest().shards):
            yield from group_costs(
                self.wanted(index),
                self.recorded.read("trajectories", index),
                self.recorded.read("turns", index),
                self.rule,
                self.config.k,
            )

    @cached_property
    def controls(self) -> frozenset[Boundary]:
        """The states that are verified against themselves, drawn from those before segments (or
        valued for themselves) in all shards."""
        if not self.config.measure_null:
            return frozenset()
        seed = self.config.seed
        found = [b for index in self.recorded.manifest().shards for b in self._befores(index)]
        ranked = sorted(found, key=lambda b: (derive_seed("verify-null", seed, *b), b))
        return frozenset(ranked[: self.config.measure_null])

    def _befores(self, index: int) -> set[Boundary]:
        chosen = self.chosen(index)
        return {*chosen.singles, *(sides(row)[0] for row in chosen.segments)}

    def chosen(self, index: int) -> Wanted:
        """What one shard verifies."""
        rows = self.recorded.read("trajectories", index).select("traj_id", "group_id")
        return self.wanted(index).only(dict(rows.iter_rows()), self.left_out)

    def most(self, index: int) -> int:
        """Continuations of one shard, at most."""
        chosen, (before, after) = self.chosen(index), self.rule.most
        lengths = dict(
            self.recorded.read("trajectories", index).select("traj_id", "n_turns").iter_rows()
        )
        ends: int = sum(row["end_turn"] < lengths[row["traj_id"]] for row in chosen.segments)
        controls = len(self.controls & self._befores(index)) if self.controls else 0
        singles = len(chosen.singles) * self.config.k
        return singles + len(chosen.segments) * before + (ends + controls) * after

    def open(self, index: int) -> Opened:
        """Re-enter the states of one shard."""
        chosen = self.chosen(index)
        trajectories = self.recorded.read("trajectories", index)
        states = plan_states(
            self.world,
            self.agent,
            self.tasks,
            trajectories,
            self.recorded.read("turns", index),
            chosen.boundaries,
            self.setting,
        )
        outcomes = dict(trajectories.select("traj_id", "success").iter_rows())
        groups = dict(trajectories.select("traj_id", "group_id").iter_rows())
        return Opened(self.wanted(index), chosen, self.left_out, states, outcomes, groups)


_NONE = pl.DataFrame()
BUDGET_ORDERS = ("seeded", "information")


def make_plan(
    config: VerifyConfig,
    run: Run,
    rollout: RolloutConfig,
    world: World,
    policy: PolicyEntry,
    quarantine: frozenset[str],
) -> Plan:
    """The plan of a configuration; `UsageError` for a rule or proposer that cannot be."""
    rule, proposer = rule_of(config), parse_proposer(config.proposer)
    if config.budget_order not in BUDGET_ORDERS:
        raise UsageError(
            f"--budget-order is {' or '.join(BUDGET_ORDERS)}, not {config.budget_order!r}"
        )
    if config.keep_turns and config.value_cache is not None:
        raise UsageError("--keep-turns and --value-cache exclude each other: it keeps no turns")
    return Plan(config, run, rollout, world, policy, quarantine, rule, proposer)
