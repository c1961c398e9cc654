"""One group: its trajectories side by side, the proposed segment and what verification found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from prover_cli.views.advantages import advantages_table
from prover_cli.views.facts import Facts
from prover_cli.views.text import MARK, number, plain, shown

_TURN_COLUMN = 6
_TRAJECTORY_COLUMN = 24
_SEGMENT_STYLE = "bold yellow"
_OUTCOME_STYLES = {"success": "green", "failure": "red", "void": "dim"}


def group_view(facts: Facts, width: int) -> RenderableType:
    """The group of `GroupReader.group`, for a terminal of `width` columns.

    As many trajectories as fit are shown, the proposal's first and then by sample; how many are
    left out is said below them.
    """
    parts: list[RenderableType] = [_header(facts)]
    ordered = _ordered(facts)
    n_shown = min(len(ordered), fitting(width))
    parts.append(_side_by_side(ordered[:n_shown]))
    if n_shown < len(ordered):
        samples = ", ".join(f"#{t['sample']}" for t in ordered[n_shown:])
        left_out = f"{len(ordered) - n_shown} of {len(ordered)} trajectories"
        parts.append(Text(f"left out for lack of room: {left_out} ({samples})"))
    parts.extend(_judgement(facts))
    if facts["advantages"]:
        parts.append(advantages_table(facts["advantages"], _segment_turns(facts)))
    return Group(*parts)


def fitting(width: int) -> int:
    """How many trajectories fit side by side; at least one."""
    return max(1, (width - _TURN_COLUMN) // _TRAJECTORY_COLUMN)


def _header(facts: Facts) -> RenderableType:
    void = f", {facts['void']} void" if facts["void"] else ""
    line = (
        f"group {plain(facts['group_id'])}: {facts['successes']} of {facts['scored']} successful"
        f"{void}, policy {plain(facts['policy_id'] or 'n/a')}"
    )
    return Group(shown(facts["instruction"], "bold", lines=True), Text(line))


def _ordered(facts: Facts) -> list[Facts]:
    chosen = None if facts["proposal"] is None else facts["proposal"]["traj_id"]
    return sorted(facts["trajectories"], key=lambda t: (t["traj_id"] != chosen, t["sample"]))


def _side_by_side(trajectories: Sequence[Facts]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column(Text("turn"), justify="right", no_wrap=True)
    for trajectory in trajectories:
        table.add_column(_heading(trajectory), overflow="fold", ratio=1)
    for number_ in range(max((t["n_turns"] for t in trajectories), default=0)):
        cells = [
            cell(t["turns"][number_]) if number_ < t["n_turns"] else Text() for t in trajectories
        ]
        table.add_row(Text(str(number_)), *cells)
    return table


def _heading(trajectory: Facts) -> Text:
    outcome = trajectory["outcome"]
    line = f"#{trajectory['sample']} {outcome}\n"
    below = f"reward {number(trajectory['reward'], '.2f')}, {trajectory['n_turns']} turns"
    return Text(line + below, style=_OUTCOME_STYLES[outcome], overflow="fold")


def cell(turn: Facts) -> Text:
    """The action of a turn, marked when it lies in the segment or was invalid."""
    mark = f"{MARK} " if turn["in_segment"] else ""
    style = _SEGMENT_STYLE if turn["in_segment"] else ""
    text = Text(mark, style=style, overflow="fold")
    if not turn["action_valid"]:
        text.append("invalid: ", style="red")
    return text.append(plain(turn["action"]))


def _segment_turns(facts: Facts) -> range:
    return range(facts["proposal"]["start_turn"], facts["proposal"]["end_turn"])


def _judgement(facts: Facts) -> Iterator[RenderableType]:
    proposal = facts["proposal"]
    if proposal is None:
        return
    if proposal["traj_id"] is None:
        yield shown(f"no segment by judge {proposal['judge']}: {proposal['status']}")
    else:
        sample = proposal["traj_id"].rpartition(".")[2]
        yield shown(
            f"{MARK} segment by judge {proposal['judge']}: #{sample}, turns "
            f"[{proposal['start_turn']}, {proposal['end_turn']})"
        )
    if facts["estimate"] is not None and proposal["traj_id"] is not None:
        yield Text(verification(proposal, facts["estimate"]))
    for label in ("failure_mode", "rationale"):
        if proposal[label]:
            yield shown(f"{label.replace('_', ' ')}: {proposal[label]}", lines=True)


def verification(proposal: Facts, estimate: Facts) -> str:
    """What the continuations say about a segment, in one line."""
    if estimate["gain"] is None:
        return f"not verified: {plain(estimate['status'])}"
    line = (
        f"before turn {proposal['start_turn']}: {_rate(estimate, 'before')} -> "
        f"after turn {proposal['end_turn'] - 1}: {_rate(estimate, 'after')}, "
        f"gain {estimate['gain']:+.2f}"
    )
    if estimate["ci_low"] is not None and estimate["ci_high"] is not None:
        line += f" [{estimate['ci_low']:+.2f}, {estimate['ci_high']:+.2f}]"
    if estimate["p_positive"] is not None:
        line += f", P(gain>0) {estimate['p_positive']:.2f}"
    return line


def _rate(estimate: Facts, side: str) -> str:
    if estimate[f"success_{side}"] is None:
        return number(estimate[f"value_{side}"], ".2f")
    return f"{estimate[f'success_{side}']}/{estimate[f'n_{side}']}"
