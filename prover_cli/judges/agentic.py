"""Judge `agentic`: a language model that works with tools over the group.

It is shown the task, a success in full and previews of the failed runs, looks closer with tools,
and ends with a segment or without one. A segment is checked before it is believed; a wrong answer
is given back with what is wrong, and after the last repair there is none.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prover_cli.envs.base import Message
from prover_cli.errors import RequestFailed
from prover_cli.ids import derive_seed
from prover_cli.judges.actions import Abstain, Action, Rules, Submit, schema
from prover_cli.judges.asker import Asker
from prover_cli.judges.base import GroupView, Proposal, ProposalStatus, TrajectoryView
from prover_cli.judges.instructions import Instructions
from prover_cli.judges.parse import Form
from prover_cli.judges.segments import valid_segments
from prover_cli.judges.shown import Shown
from prover_cli.judges.spending import OverBudget
from prover_cli.judges.talk import Talk, Unrepaired, as_json
from prover_cli.judges.tools import Tools

NAME = "agentic"
CHOICES = ("shortest", "random", "all")
"""Which successes a segment may be of."""
_FORM = 'Answer with one JSON object: {"thought": TEXT, "tool": NAME, ...}'
_LAST = "There are no tool calls left. Submit a segment or abstain."
_NO_ROOM = "The result does not fit any more. Submit a segment or abstain."


@dataclass(frozen=True)
class AgenticJudge:
    """`trajectory` is one of `CHOICES`."""

    asker: Asker
    instructions: Instructions
    seed: int
    max_segment: int
    trajectory: str = "shortest"
    max_tool_calls: int = 8
    max_repairs: int = 3
    name: str = NAME

    async def propose(self, group: GroupView) -> Proposal:
        chosen = self._chosen(group)
        if not chosen:
            missing = ProposalStatus.NO_VALID_SEGMENT if group.successes else None
            status = missing or ProposalStatus.NO_SUCCESS
            return Proposal(group.group_id, status, self.name)
        return await _Work(self, Shown.of(group, chosen, self.seed)).proposal()

    def _chosen(self, group: GroupView) -> list[TrajectoryView]:
        """The successes that are shown; those without any valid segment are no use."""
        if self.trajectory == "shortest":
            runs = [] if group.shortest_success is None else [group.shortest_success]
        else:
            runs = sorted(group.successes, key=lambda run: (len(run.turns), run.sample))
        usable = [run for run in runs if valid_segments(run, self.max_segment)]
        if self.trajectory == "random" and usable:
            draws = random.Random(derive_seed("judge-trajectory", self.seed, group.group_id))
            usable = [draws.choice(usable)]
        return usable


@dataclass
class _Work:
    """One group. Made for one proposal."""

    judge: AgenticJudge
    shown: Shown
    form: Form | None = None
    calls: list[str] = field(default_factory=list)
    """Names of the tools that were called, in order."""

    def __post_init__(self) -> None:
        judge, shown = self.judge, self.shown
        self.rules = Rules(shown.successes, shown.failures, judge.max_segment)
        self.tools = Tools(shown)
        system = Message("system", judge.instructions.to_propose(judge.max_segment))
        end = f"You may call tools {judge.max_tool_calls} times. {_FORM}"

        def opening(limit: int) -> list[Message]:
            return [system, Message("user", f"{shown.opening(limit)}\n\n{end}")]

        self.talk = Talk(
            judge.asker,
            opening,
            max_repairs=judge.max_repairs,
            seed_parts=("judge", judge.name, judge.seed, shown.group.group_id),
            with_tools=judge.max_tool_calls > 0,
        )

    async def proposal(self) -> Proposal:
        try:
            return self._answered(await self._end())
        except Unrepaired as fault:
            return self._without(ProposalStatus.INVALID_REPLY, {"invalid": str(fault)})
        except RequestFailed as error:
            return self._without(ProposalStatus.NO_REPLY, {"error": str(error)})
        except OverBudget as error:
            return self._without(ProposalStatus.OVER_BUDGET, {"error": str(error)})

    async def _end(self) -> Submit | Abstain:
        """The action that ends the work; raises as `Talk.until_valid` does."""
        may_call = self.judge.max_tool_calls > 0
        while True:
            action = await self._next(may_call)
            if isinstance(action, (Submit, Abstain)):
                return action
            self.calls.append(action.tool)
            left = self.judge.max_tool_calls - len(self.calls)
            room = self.talk.room(left)
            may_call = room > 0 and left > 0
            result = self.tools.answer(action, room) if room else _NO_ROOM
            more = f"Tool calls left: {left}." if may_call else _LAST
            self.talk.went_on(f"{result}\n\n{more}" if room else result)

    async def _next(self, may_call: bool) -> Action:
        allowed = schema(self.rules, tight=self.judge.asker.source.tight, may_call=may_call)
        action, self.form = await self.talk.until_valid(
            lambda value: self.rules.read(value, may_call), allowed
        )
        return action

    def _answered(self, action: Submit | Abstain) -> Proposal:
        if isinstance(action, Abstain):
            return self._proposal(ProposalStatus.ABSTAINED, rationale=action.reason)
        run = self.shown.successes[self.rules.chosen(action)]
        return self._proposal(
            ProposalStatus.OK,
            {"confidence": {run.traj_id: action.confidence}},
            traj_id=run.traj_id,
            start_turn=action.start_turn,
            end_turn=action.end_turn,
            failure_mode=action.failure_mode,
            rationale=action.rationale,
        )

    def _without(self, status: ProposalStatus, labels: Mapping[str, Any]) -> Proposal:
        return self._proposal(status, labels)

    def _proposal(
        self, status: ProposalStatus, labels: Mapping[str, Any] | None = None, **answer: Any
    ) -> Proposal:
        tally = self.talk.tally
        how = {"faults": tally.faults, "calls": self.calls, "form": self.form}
        noted = {key: value for key, value in how.items() if value}
        return Proposal(
            self.shown.group.group_id,
            status,
            self.judge.name,
            contrast_traj_ids=tuple(run.traj_id for run in self.shown.failures.values()),
            judge_model=self.judge.asker.model,
            prompt_hash=self.judge.instructions.hash,
            attempts=len(tally.replies),
            tool_calls=len(self.calls),
            raw_text=as_json(tally),
            labels={**noted, **(labels or {})},
            n_prompt_tokens=tally.n_prompt_tokens,
            n_output_tokens=tally.n_output_tokens,
            **answer,
        )
