"""The facts of `prover explain`, from the number back to what it was made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from prover_cli.views.compare_estimators import grid
from prover_cli.views.text import number, plain, shown

Facts = dict[str, Any]


def explain_view(facts: Facts) -> RenderableType:
    """The facts of `stages.explain.run`."""
    return Group(
        *_head(facts),
        *_formula(facts),
        *_group(facts),
        *_proposals(facts),
        *_states(facts),
        *_siblings(facts),
        *_origin(facts),
    )


def _head(facts: Facts) -> Iterator[RenderableType]:
    found = facts["advantage"]
    yield shown(facts["instruction"], "bold", lines=True)
    yield Text(
        f"trajectory {plain(facts['traj_id'])}, turn {facts['turn']}: advantage "
        f"{number(found['advantage'], '+.6g')} by {plain(found['estimator'])}",
        style="bold",
    )
    yield shown(f"action: {facts['action']}" + ("" if facts["action_valid"] else " (invalid)"))
    means = "" if found["reason_means"] is None else f": {found['reason_means']}"
    yield shown(f"reason: {found['reason']}{means}")
    tokens = found["token_advantages"]
    if tokens is not None:
        yield Text(
            f"by token: {tokens['n']} ids, {tokens['min']:+.4g} to {tokens['max']:+.4g}, mean "
            f"{tokens['mean']:+.4g}"
        )
        if "values" in tokens:
            yield Text("  " + ", ".join(f"{value:+.4g}" for value in tokens["values"]))


def _title(text: str, path: str | None = None) -> Text:
    return Text(f"\n{text}", style="bold").append("" if path is None else f"  {path}", style="dim")


def _file(facts: Facts, table: str) -> str | None:
    path = facts["files"].get(table)
    return None if path is None else plain(path)


def _formula(facts: Facts) -> Iterator[RenderableType]:
    found = facts["advantage"]
    yield _title("formula", _file(facts, "advantages"))
    for line in facts["formula"]:
        yield shown(f"  {line}")
    again = number(found["recomputed"], "+.6g")
    same = "the same" if found["recomputed_is_same"] else "NOT what is stored"
    yield Text(f"  computed again from the tables below: {again}, {same}")


def _group(facts: Facts) -> Iterator[RenderableType]:
    yield _title(f"group {plain(facts['group_id'])}", _file(facts, "trajectories"))
    rows = [
        (
            "> " * (member["traj_id"] == facts["traj_id"]) + member["traj_id"],
            _outcome(member["success"]),
            number(member["reward"], ".3g"),
            str(member["n_turns"]),
            member["stop_reason"],
        )
        for member in facts["group"]
    ]
    yield grid(("trajectory", "outcome", "reward", "turns", "ended by"), rows)


def _outcome(success: bool | None) -> str:
    return "void" if success is None else "success" if success else "failure"


def _proposals(facts: Facts) -> Iterator[RenderableType]:
    for found in facts["proposals"]:
        yield _title(f"proposal of {plain(found['judge'])}", _file(facts, "proposals"))
        if found["traj_id"] is None:
            yield Text(f"  none: {plain(found['status'])}")
        else:
            holds = "holds this turn" if found["holds_turn"] else "does not hold this turn"
            yield Text(
                f"  {plain(found['traj_id'])}, turns [{found['start_turn']}, {found['end_turn']}): "
                f"{holds}"
            )
        for key in ("judge_model", "failure_mode", "rationale"):
            if found[key]:
                yield shown(f"  {key.replace('_', ' ')}: {found[key]}", lines=True)
        if found["raw_text"]:
            yield Text(f"  replies ({found['attempts']} asked for):", style="dim")
            yield Padding(shown(found["raw_text"], lines=True), (0, 0, 0, 4), expand=False)
            if found["raw_text_is_cut"]:
                yield Text("    ... (--full shows the rest)", style="dim")


def _states(facts: Facts) -> Iterator[RenderableType]:
    for one in facts["estimates"]:
        yield _title("estimate", _file(facts, "estimates"))
        if one["gain"] is None:
            yield Text(f"  none: {plain(one['status'])}")
            continue
        yield Text(
            f"  {plain(one['traj_id'])}, turns [{one['start_turn']}, {one['end_turn']}): "
            f"{_counts(one, 'before')} before -> {_counts(one, 'after')} after, gain "
            f"{one['gain']:+.4g} [{number(one['ci_low'], '+.3f')}, "
            f"{number(one['ci_high'], '+.3f')}], P(gain>0) {number(one['p_positive'], '.3f')}"
        )
    for state in facts["states"]:
        yield _title(
            f"state {plain(state['state_id'])}, {state['where']} (before turn {state['turn']})",
            _file(facts, "continuations"),
        )
        ends = ", ".join(f"{n} {plain(reason)}" for reason, n in state["stop_reasons"].items())
        left = "" if state["turns_left"] is None else f"; {state['turns_left']} turns left"
        yield Text(
            f"  {state['successes']}/{state['scored']} successes, {state['cached']} from a cache; "
            f"ended by: {ends or 'none'}{left}"
        )
        yield Padding(_continuations(state), (0, 0, 0, 2), expand=False)


def _counts(estimate: Facts, side: str) -> str:
    if estimate[f"success_{side}"] is None:
        return f"{estimate[f'value_{side}']:g} (recorded)"
    return f"{estimate[f'success_{side}']}/{estimate[f'n_{side}']}"


def _continuations(state: Facts) -> RenderableType:
    rows = [
        (
            str(row["k"]) + ("" if row["counted"] else " (control)"),
            _outcome(row["success"]),
            str(row["n_turns"]),
            row["stop_reason"],
            str(row["env_seed"]),
            str(row["sampler_seed"]),
            "cached" if row["cached"] else "sampled",
        )
        for row in state["continuations"]
    ]
    return grid(("k", "outcome", "turns", "ended by", "env seed", "sampler seed", "from"), rows)


def _siblings(facts: Facts) -> Iterator[RenderableType]:
    yield _title("in the same state elsewhere in the group", _file(facts, "turns"))
    if not facts["siblings"]:
        yield Text("  nobody was")
        return
    for row in facts["siblings"]:
        invalid = "" if row["action_valid"] else " (invalid)"
        yield shown(
            f"  {row['traj_id']} turn {row['turn']}, {_outcome(row['success'])}: "
            f"{row['action']}{invalid}"
        )


def _origin(facts: Facts) -> Iterator[RenderableType]:
    seeds = facts["seeds"]
    yield _title("origin")
    yield Text(
        f"  policy {plain(facts['policy_id'])} ({plain(facts['policy_path'] or 'path unknown')})"
    )
    yield Text(
        f"  env seed {seeds['env_seed']}, sampler seed {seeds['sampler_seed']}, of this turn "
        f"{seeds['turn_seed']}"
    )
