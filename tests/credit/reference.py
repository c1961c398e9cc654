"""Every credit method once more, slowly: dictionaries and loops, written from the formulas.

Each function takes a world of one or more groups and gives `{(traj_id, turn): advantage}`, where
None is no advantage. Groups are walked one by one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from math import exp, floor, log, sqrt
from typing import Any

from tests.credit.worlds import Row, World

Credit = dict[tuple[str, int], float | None]
FLAT = 1e-8


def mean(xs: Sequence[float]) -> float:
    return sum(xs) / len(xs)


def deviation(xs: Sequence[float], ddof: int = 1) -> float:
    m = mean(xs)
    return sqrt(sum((x - m) ** 2 for x in xs) / (len(xs) - ddof))


def relative(xs: Sequence[float], norm: str, ddof: int = 1, eps: float = 1e-6) -> list[float]:
    """Each less the mean, over the deviation; 0 for one or for equal numbers."""
    if max(xs) - min(xs) < FLAT:
        return [0.0] * len(xs)
    scale = deviation(xs, ddof) + eps if norm == "std" else 1.0
    return [(x - mean(xs)) / scale for x in xs]


def by_key(items: Sequence[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    sets = defaultdict(list)
    for key, item in items:
        sets[key].append(item)
    return dict(sets)


def outcomes(group: World, column: str = "reward") -> dict[str, float]:
    rows = sorted(group.trajectories, key=lambda row: row["traj_id"])
    return {r["traj_id"]: float(r[column]) for r in rows if r[column] is not None}


def group_base(group: World, norm: str, column: str = "reward", ddof: int = 1) -> dict[str, Any]:
    """Per trajectory; None when void or single."""
    known = outcomes(group, column)
    base: dict[str, Any] = {row["traj_id"]: None for row in group.trajectories}
    if len(known) < 2:
        return base
    xs = list(known.values())
    m, n = mean(xs), len(xs)
    flat = max(xs) - min(xs) < FLAT
    for traj_id, x in known.items():
        if flat:
            base[traj_id] = 0.0
        elif norm == "mean":
            base[traj_id] = x - m
        elif norm == "std":
            base[traj_id] = (x - m) / (deviation(xs, ddof) + 1e-6)
        elif norm == "rloo":
            base[traj_id] = x - (sum(xs) - x) / (n - 1)
        elif norm == "maxrl":
            base[traj_id] = (x - m) / m if m > 0 else 0.0
    return base


def signal(group: World, column: str = "reward") -> bool:
    xs = list(outcomes(group, column).values())
    return len(xs) > 1 and max(xs) - min(xs) >= FLAT


def spread(group: World, base: dict[str, Any]) -> Credit:
    return {(r["traj_id"], r["turn"]): base[r["traj_id"]] for r in group.turns}


def per_group(one: Callable[[World], Credit]) -> Callable[[World], Credit]:
    def all_groups(made: World) -> Credit:
        credit: Credit = {}
        for group_id in made.groups():
            credit |= one(made.only(group_id))
        return credit

    return all_groups


def relative_to_group(norm: str) -> Callable[[World], Credit]:
    return per_group(lambda group: spread(group, group_base(group, norm)))


# Run scope.


def reinforce(baseline: bool) -> Callable[[World], Credit]:
    def credit(made: World) -> Credit:
        x: dict[str, float | None] = {}
        for group_id in made.groups():
            group = made.only(group_id)
            if baseline:
                x |= group_base(group, "mean")
            else:
                x |= {r["traj_id"]: r["reward"] for r in group.trajectories}
        weight = {r["traj_id"]: r["n_action_tokens"] for r in made.trajectories}
        tokens = [v for t, v in x.items() if v is not None for _ in range(weight[t])]
        if not tokens or max(tokens) - min(tokens) < FLAT:
            return spread(made, {t: None if v is None else 0.0 for t, v in x.items()})
        scale = sqrt(deviation(tokens) ** 2 + 1e-8)
        return spread(
            made, {t: None if v is None else (v - mean(tokens)) / scale for t, v in x.items()}
        )

    return credit


def gpg(made: World) -> Credit:
    known = [r["reward"] for r in made.trajectories if r["reward"] is not None]
    alpha = len(known) / max(1, sum(1 for x in known if x != 0))
    plain = relative_to_group("mean")(made)
    return {key: None if a is None else alpha * a for key, a in plain.items()}


@per_group
def dapo(group: World) -> Credit:
    base = group_base(group, "std")
    return spread(group, base if signal(group) else dict.fromkeys(base))


def ragen(made: World) -> Credit:
    ranked = []
    for group_id in made.groups():
        xs = list(outcomes(made.only(group_id)).values())
        if len(xs) > 1:
            ranked.append((-round(deviation(xs), 12), group_id))
    kept = {name for _, name in sorted(ranked)[: max(1, floor(0.25 * len(ranked)))]}
    credit: Credit = {}
    for group_id in made.groups():
        group = made.only(group_id)
        base = group_base(group, "std")
        credit |= spread(group, base if group_id in kept else dict.fromkeys(base))
    return credit


# Turns compared with turns.


def episode(group: World, norm: str, across_steps: bool, penalty: float = 0.0) -> Credit:
    known = outcomes(group)
    if len(known) < 2:
        return spread(group, dict.fromkeys(r["traj_id"] for r in group.trajectories))
    if not across_steps:
        return spread(group, group_base(group, norm))
    score = {
        (r["traj_id"], r["turn"]): known[r["traj_id"]] - penalty * (not r["action_valid"])
        for r in group.turns
        if r["traj_id"] in known
    }
    values = dict(zip(score, relative(list(score.values()), norm), strict=True))
    return {(r["traj_id"], r["turn"]): values.get((r["traj_id"], r["turn"])) for r in group.turns}


def compared_turns(group: World) -> list[Row]:
    """Turns that are compared: of trajectories with an outcome, in groups of at least two."""
    known = outcomes(group)
    rows = [r for r in group.turns if r["traj_id"] in known and len(known) > 1]
    return sorted(rows, key=lambda r: (r["traj_id"], r["turn"]))


def discounted(group: World, traj_id: str, turn: int, gamma: float) -> float:
    rows = group.of(traj_id)
    return sum(gamma ** (r["turn"] - turn) * r["reward"] for r in rows if r["turn"] >= turn)


def within_sets(keyed: list[tuple[Any, tuple[Any, float]]], norm: str, ddof: int = 1) -> Credit:
    """`[(set, (place, number))]` to the number's place within its set."""
    credit: Credit = {}
    for members in by_key(keyed).values():
        places = [place for place, _ in members]
        numbers = relative([x for _, x in members], norm, ddof)
        credit |= dict(zip(places, numbers, strict=True))
    return credit


def gigpo_steps(group: World, norm: str = "std", penalty: float = 0.0) -> Credit:
    keyed = []
    for r in compared_turns(group):
        place = (r["traj_id"], r["turn"])
        total = discounted(group, *place, 0.95) - penalty * (not r["action_valid"])
        keyed.append((r["observation_hash"], (place, total)))
    return within_sets(keyed, norm)


def added(base: Credit, local: Credit) -> Credit:
    return {key: None if a is None else a + (local.get(key) or 0.0) for key, a in base.items()}


@per_group
def gigpo(group: World) -> Credit:
    return added(episode(group, "std", False), gigpo_steps(group))


@per_group
def gigpo_code(group: World) -> Credit:
    return added(episode(group, "std", True, 0.1), gigpo_steps(group, "std", 0.1))


@per_group
def hgpo(group: World) -> Credit:
    items: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    rows = compared_turns(group)
    seen = {(r["traj_id"], r["turn"]): r["observation_hash"] for r in rows}
    for k in (1, 2, 3):
        keyed = []
        for r in rows:
            t = r["turn"]
            if t >= k - 1:
                history = tuple(seen[r["traj_id"], s] for s in range(t - k + 1, t + 1))
                keyed.append(
                    (history, ((r["traj_id"], t), discounted(group, r["traj_id"], t, 0.95)))
                )
        for place, a in within_sets(keyed, "std", ddof=0).items():
            items[place].append((k, a))  # type: ignore[arg-type]
    credit: Credit = {(r["traj_id"], r["turn"]): None for r in group.turns}
    for place in seen:
        used = [(k + 1, a) for k, a in items[place] if a != 0]
        total = sum(w for w, _ in used) + 1e-6
        credit[place] = sum(w / total * a for w, a in used)
    return credit


def graph(group: World) -> tuple[list[Row], dict[Any, Any], dict[str, float]]:
    """Compared turns, the node each leads to, and every node's distance by brute force."""
    rows = compared_turns(group)
    won = {r["traj_id"]: r["success"] for r in group.trajectories}
    place = {(r["traj_id"], r["turn"]): r["observation_hash"] for r in rows}
    following = {
        (t, k): place.get((t, k + 1), "SUCCESS" if won[t] else "NOWHERE") for t, k in place
    }
    distance: dict[str, float] = dict.fromkeys(place.values(), float("inf"))
    distance |= {"SUCCESS": 0.0, "NOWHERE": float("inf")}
    for _ in range(len(place) + 1):
        for key, node in place.items():
            distance[node] = min(distance[node], distance[following[key]] + 1)
    return rows, following, distance


def graphgpo(cost: float, across_steps: bool) -> Callable[[World], Credit]:
    @per_group
    def credit(group: World) -> Credit:
        base = episode(group, "std", across_steps)
        rows, following, distance = graph(group)
        if not any(following[key] == "SUCCESS" for key in following):
            return base
        farthest = max(d for d in distance.values() if d < float("inf"))
        keyed = []
        for r in rows:
            key = (r["traj_id"], r["turn"])
            d = min(distance[following[key]], farthest + 1)
            keyed.append((r["observation_hash"], (key, 10 * 0.1 ** (d + cost))))
        return added(base, within_sets(keyed, "std"))

    return credit


def g2po(across_steps: bool) -> Callable[[World], Credit]:
    @per_group
    def credit(group: World) -> Credit:
        base = episode(group, "mean", across_steps)
        rows, following, _ = graph(group)
        known = outcomes(group)
        visits = by_key(
            [
                (
                    r["observation_hash"],
                    0.95 ** (len(group.of(r["traj_id"])) - r["turn"]) * known[r["traj_id"]],
                )
                for r in rows
            ]
        )
        value = {node: mean(xs) for node, xs in visits.items()} | {"NOWHERE": 0.0}
        reached, gains = [], []
        for r in rows:
            key = (r["traj_id"], r["turn"])
            node = following[key]
            ahead = known[r["traj_id"]] if node == "SUCCESS" else value[node]
            reached.append((r["observation_hash"], (key, ahead - 0.01 * (not r["action_valid"]))))
            gains.append(("all", (key, ahead - value[r["observation_hash"]])))
        return added(added(base, within_sets(reached, "mean")), within_sets(gains, "mean"))

    return credit


@per_group
def mt_grpo(group: World) -> Credit:
    known = outcomes(group, "success")
    credit: Credit = {(r["traj_id"], r["turn"]): None for r in group.turns}
    if len(known) < 2:
        return credit

    def z(xs: dict[str, float]) -> dict[str, float]:
        return dict(zip(xs, relative(list(xs.values()), "std", 1, 1e-4), strict=True))

    whole = z(known)
    early = z({t: sum(r["reward"] for r in group.of(t)[:-1]) for t in known})
    for t in known:
        last = len(group.of(t)) - 1
        for k in range(last + 1):
            credit[t, k] = whole[t] + (early[t] if k < last else 0.0)
    return credit


# Judge labels.


def labels(group: World, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in group.proposals:
        found |= json.loads(row["labels_json"]).get(kind, {})
    return found


@per_group
def criticsearch(group: World) -> Credit:
    base, said = group_base(group, "std"), labels(group, "turns")
    score = {
        (t, k): {"good": 1.0, "bad": 0.0}[word]
        for t, words in sorted(said.items())
        if base[t] is not None
        for k, word in enumerate(words)
        if word is not None
    }
    own = dict(zip(score, relative(list(score.values()), "std") if score else [], strict=True))
    credit: Credit = {}
    for r in group.turns:
        key, a = (r["traj_id"], r["turn"]), base[r["traj_id"]]
        if a is None or r["traj_id"] not in said:
            credit[key] = None
        else:
            credit[key] = 0.75 * a + 0.25 * own[key] if key in own else a
    return credit


@per_group
def cw_grpo(group: World) -> Credit:
    credit = spread(group, group_base(group, "std"))
    said = labels(group, "contribution")
    for t, a in group_base(group, "std").items():
        rounds = len(group.of(t)) - 1
        if a is None or a <= 0 or rounds == 0:
            continue
        rated = said.get(t)
        if rated is None or None in rated:
            credit |= dict.fromkeys((t, k) for k in range(rounds + 1))
            continue
        power = [exp(100.0 * (x["utility"] * x["validity"] - 1)) for x in rated]
        for k in range(rounds):
            credit[t, k] = a * power[k] / sum(power) * rounds
    return credit


@per_group
def vppo(group: World) -> Credit:
    said = labels(group, "first_error")
    known = outcomes(group, "success")
    credit: Credit = {(r["traj_id"], r["turn"]): None for r in group.turns}
    if len(known) < 2:
        return credit
    paid: dict[str, list[float]] = {}
    for t, won in known.items():
        n = len(group.of(t))
        if won:
            paid[t] = [1.0] * n
        elif t in said:
            good = n if said[t] is None else said[t]
            paid[t] = [0.5 if k < good else 0.0 for k in range(n)]
    if not paid:
        return credit
    baseline = mean([mean(xs) for xs in paid.values()])
    return credit | {(t, k): x - baseline for t, xs in paid.items() for k, x in enumerate(xs)}


CONSTANTS = {"d": 0.5, "e": 0.2, "n": 0.0, "r": -0.5}


def triage(made: World) -> Credit:
    x: Credit = {}
    for group_id in made.groups():
        group = made.only(group_id)
        base, said = group_base(group, "std"), labels(group, "roles")
        for r in group.turns:
            t, k = r["traj_id"], r["turn"]
            known = base[t] is not None and t in said
            role = said[t][k] if known else None
            x[t, k] = base[t] + (CONSTANTS[role.lower()] if role else 0.0) if known else None
    xs = [v for v in x.values() if v is not None]
    if not xs or max(xs) - min(xs) < FLAT:
        return {key: None if v is None else 0.0 for key, v in x.items()}
    scale = sqrt(deviation(xs) ** 2 + 1e-8)
    return {key: None if v is None else (v - mean(xs)) / scale for key, v in x.items()}


def segments_credit(group: World, table: str, bonus: Callable[[Row], float | None]) -> Credit:
    credit = spread(group, group_base(group, "mean"))
    if signal(group):
        for row in getattr(group, table):
            extra = bonus(row) if row["traj_id"] is not None else None
            if extra is None:
                continue
            for k in range(row["start_turn"], row["end_turn"]):
                a = credit[row["traj_id"], k]
                credit[row["traj_id"], k] = None if a is None else a + extra
    return credit


@per_group
def judge_only(group: World) -> Credit:
    return segments_credit(group, "proposals", lambda row: 0.25)


@per_group
def judge_confidence(group: World) -> Credit:
    said = labels(group, "confidence")
    return segments_credit(group, "proposals", lambda row: said.get(row["traj_id"]))


# Continuations.


def positive_gain(row: Row) -> float | None:
    return row["gain"] if row["gain"] is not None and row["gain"] > 0 else None


@per_group
def prover(group: World) -> Credit:
    return segments_credit(group, "estimates", positive_gain)


def constant(made: World) -> Credit:
    plain = relative_to_group("mean")(made)
    total = sum(a for a in prover(made).values() if a is not None)
    mass = total - sum(a for a in plain.values() if a is not None)
    counted = per_group(lambda group: segments_credit(group, "estimates", lambda row: 1.0))(made)
    n = sum(a - plain[key] for key, a in counted.items() if a is not None)  # type: ignore[operator]
    share = mass / round(n) if round(n) else 0.0
    return per_group(lambda group: segments_credit(group, "estimates", lambda row: share))(made)


def chain_value(episodes: list[Any], share: float, state: str, left: int) -> float:
    """Chance of success within `left` turns, by recursion over (state, turns left)."""
    leads: dict[str, list[Any]] = {}
    for states, success, cut in episodes:
        ends = [True] if success else [] if cut else [False]
        for here, ahead in zip(states, [*states[1:], *ends], strict=False):
            leads.setdefault(here, []).append(ahead)

    @cache
    def chance(at: str, turns: int) -> float:
        if turns == 0:
            return 0.0
        seen = leads.get(at, [])
        won = sum(float(x) if isinstance(x, bool) else chance(x, turns - 1) for x in seen)
        return (won + 0.2 * share) / (len(seen) + 0.2)

    return chance(state, left)


def chain_of(group: World) -> tuple[dict[Any, Any], float]:
    """The scored episodes of a group by their key, and its success share."""
    won = {r["traj_id"]: r["success"] for r in group.trajectories if r["success"] is not None}
    episodes: dict[Any, Any] = {
        row["traj_id"]: (
            [turn["state_key"] for turn in group.of(row["traj_id"])],
            row["success"],
            row["stop_reason"] == "max_turns",
        )
        for row in group.trajectories
        if row["success"] is not None
    }
    for row in group.continuations:
        if row["success"] is not None:
            start = [r for r in group.of(row["traj_id"]) if r["turn"] == row["turn"]]
            states = row["state_keys"] or [start[0]["state_key"]]
            cut = row["stop_reason"] == "max_turns"
            episodes[row["state_id"], row["k"]] = (states, row["success"], cut)
    return episodes, mean(list(won.values())) if won else 0.0


def chain_question(group: World, state: str) -> tuple[str, int]:
    row = next(row for row in group.continuations if row["state_id"] == state)
    turn = next(r for r in group.of(row["traj_id"]) if r["turn"] == row["turn"])
    return turn["state_key"], row["turns_left"]


def calibrated(xs: list[tuple[float, int]], ys: list[bool]) -> list[float]:
    """The coefficients, one at a time until none moves."""
    c = [0.0, 0.0, 1.0]
    logits = [log(v / (1 - v)) for v in (clip(v, 0.02, 0.98) for v, _ in xs)]
    features = [(1.0, side, z) for (_, side), z in zip(xs, logits, strict=True)]
    for _ in range(20_000):
        before = list(c)
        for i in range(3):
            slope, bend = (1.0 if i == 2 else 0.0) - c[i], 1.0
            for x, y in zip(features, ys, strict=True):
                p = sigmoid(sum(a * b for a, b in zip(c, x, strict=True)))
                slope += x[i] * (y - p)
                bend += x[i] * x[i] / 4  # the most that it can be: no step goes too far
            c[i] += slope / bend
        if max(abs(a - b) for a, b in zip(c, before, strict=True)) < 1e-13:
            break
    return c


def chain_logit(v: float, side: int, c: Sequence[float]) -> float:
    v = clip(v, 0.02, 0.98)
    return c[0] + c[1] * side + c[2] * log(v / (1 - v))


def prover_chain(made: World) -> Credit:
    groups = {g: made.only(g) for g in made.groups()}
    xs: list[tuple[float, int]] = []
    ys: list[bool] = []
    for group in groups.values():
        episodes, share = chain_of(group)
        for state, side in chain_sides(group):
            for key in [key for key in episodes if isinstance(key, tuple) and key[0] == state]:
                rest = [episode for other, episode in episodes.items() if other != key]
                xs.append((chain_value(rest, share, *chain_question(group, state)), side))
                ys.append(episodes[key][1])
    c = calibrated(xs, ys)

    def bonus(row: Row) -> float | None:
        if row["gain"] is None:
            return None
        group = groups[row["group_id"]]
        episodes, share = chain_of(group)
        rates = []
        for side, name in enumerate(("before", "after")):
            state = row[f"state_{name}"]
            if state is None:
                rates.append(row[f"value_{name}"])
                continue
            at = chain_value(list(episodes.values()), share, *chain_question(group, state))
            rates.append(sigmoid(chain_logit(at, side, c)))
        return max(0.0, rates[1] - rates[0])

    return per_group(lambda group: segments_credit(group, "estimates", bonus))(made)


def chain_sides(group: World) -> set[tuple[str, int]]:
    return {
        (row[f"state_{name}"], side)
        for row in group.estimates
        for side, name in enumerate(("before", "after"))
        if row["gain"] is not None and row[f"state_{name}"] is not None
    }


def values_of(group: World, t: str) -> list[float | None]:
    known = {r["turn"]: r["mean"] for r in group.of(t, "values")}
    return [known.get(k) for k in range(len(group.of(t)))]


def minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def spo_chain(interval: int) -> Callable[[World], Credit]:
    @per_group
    def credit(group: World) -> Credit:
        found: Credit = {}
        for row in group.trajectories:
            t = row["traj_id"]
            v = values_of(group, t)
            end = None if row["success"] is None else float(row["success"])
            for k in range(len(v)):
                start = k - k % interval
                stop = start + interval
                after = v[stop] if stop < len(v) else end
                found[t, k] = None if end is None else minus(after, v[start])
        return found

    return credit


@per_group
def carl(group: World) -> Credit:
    full = spo_chain(1)(group)
    credit: Credit = dict.fromkeys(full)
    for row in group.trajectories:
        rated = [r for r in group.of(row["traj_id"], "scores") if r["entropy"] is not None]
        if rated:
            best = max(rated, key=lambda r: (r["entropy"], -r["turn"]))
            key = (best["traj_id"], best["turn"])
            credit[key] = full[key]
    return credit


@per_group
def pivoarl(group: World) -> Credit:
    base = group_base(group, "mean", "success")
    credit = spread(group, base)
    if not signal(group, "success"):
        return credit
    said = labels(group, "first_error")
    for row in group.trajectories:
        t = row["traj_id"]
        if row["success"] is not False:
            continue
        for k in range(row["n_turns"]):
            if t not in said:
                credit[t, k] = None
            elif said[t] is not None and k < said[t]:
                value = values_of(group, t)[said[t]]
                credit[t, k] = None if value is None else base[t] + value
    return credit


def lineage(group: World) -> dict[str, tuple[str | None, int | None]]:
    return {r["traj_id"]: (r["parent_traj_id"], r["parent_turn"]) for r in group.trajectories}


def owner(group: World, t: str, k: int) -> str:
    parent, turn = lineage(group)[t]
    return t if parent is None or turn is None or k > turn else owner(group, parent, k)


def root(group: World, t: str) -> str:
    parent, _ = lineage(group)[t]
    return t if parent is None else root(group, parent)


def tree_grpo(form: str) -> Callable[[World], Credit]:
    @per_group
    def credit(group: World) -> Credit:
        base = group_base(group, "std")
        known = {t: a for t, a in base.items() if a is not None}
        x = {t: outcomes(group)[t] for t in known} if form == "paper" else known
        inside: dict[str, float] = {}
        for members in by_key([(root(group, t), t) for t in sorted(known)]).values():
            numbers = relative([x[t] for t in members], "std")
            inside |= dict(zip(members, numbers, strict=True))
        whole = {
            t: None if a is None else inside[t] + (a if form == "paper" else 0.0)
            for t, a in base.items()
        }
        return spread(group, whole)

    return credit


def tree_values(group: World, leaf: dict[str, float]) -> dict[Any, tuple[float, float, int]]:
    """Per turn, the values before and after it, and the leaves behind it."""
    through = by_key(
        [((owner(group, t, k), k), leaf[t]) for t in sorted(leaf) for k in range(len(group.of(t)))]
    )
    found = {}
    for t in leaf:
        n = len(group.of(t))
        for k in range(n):
            behind = through[owner(group, t, k + 1), k + 1] if k + 1 < n else [leaf[t]]
            before = mean(through[owner(group, t, k), k])
            found[t, k] = (before, mean(behind), len(behind))
    return found


@per_group
def treerl(group: World) -> Credit:
    credit: Credit = {(r["traj_id"], r["turn"]): None for r in group.turns}
    leaf = {t: a for t, a in group_base(group, "rloo").items() if a is not None}
    for key, (before, after, n) in tree_values(group, leaf).items():
        credit[key] = ((after - before) + after) / sqrt(n)
    return credit


@per_group
def spo_tree(group: World) -> Credit:
    credit: Credit = {(r["traj_id"], r["turn"]): None for r in group.turns}
    known = outcomes(group)
    if len(known) > 1:
        for key, (before, after, _) in tree_values(group, known).items():
            if not signal(group):
                credit[key] = 0.0
            elif abs(after - before) >= FLAT:
                credit[key] = after - before
    return credit


# Scoring pass.


def scores_of(group: World, t: str) -> list[Row | None]:
    known = {r["turn"]: r for r in group.of(t, "scores")}
    return [known.get(k) for k in range(len(group.of(t)))]


def gaps(group: World, t: str, average: bool) -> list[float | None]:
    found: list[float | None] = []
    for row in scores_of(group, t):
        if row is None or row["hindsight_logprobs"] is None:
            found.append(None)
            continue
        pairs = zip(row["hindsight_logprobs"], row["token_logprobs"], strict=True)
        each = [a - b for a, b in pairs]
        found.append(mean(each) if average else sum(each))
    return found


def z_known(xs: Sequence[float | None]) -> list[float | None]:
    known = [x for x in xs if x is not None]
    if not known or max(known) == min(known):
        return [None if x is None else 0.0 for x in xs]
    m, s = mean(known), deviation(known, 0) + 1e-6
    return [None if x is None else (x - m) / s for x in xs]


def sign(x: float) -> int:
    return (x > 0) - (x < 0)


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def clip(x: float, low: float, high: float) -> float:
    return max(low, min(high, x))


def tilted(weights: Callable[[World, str, float], list[float | None]]) -> Callable[[World], Credit]:
    """The group's advantage (std) times a weight per turn; None is 1."""

    @per_group
    def credit(group: World) -> Credit:
        found: Credit = {}
        for t, a in group_base(group, "std").items():
            n = len(group.of(t))
            ws = weights(group, t, a) if a else [None] * n
            for k in range(n):
                w = ws[k]
                found[t, k] = a if a is None or w is None else a * w
        return found

    return credit


@per_group
def gaca(group: World) -> Credit:
    base, steps = spread(group, group_base(group, "std")), gigpo_steps(group)
    for row in group.trajectories:
        t = row["traj_id"]
        surprise = [None if r is None else -mean(r["token_logprobs"]) for r in scores_of(group, t)]
        for k, z in enumerate(z_known(surprise)):
            a = base[t, k]
            if z is not None and a is not None:
                base[t, k] = a + clip(1 + 0.5 * z, 0, 2) * (steps[t, k] or 0.0)
    return base


@tilted
def sharpo(group: World, t: str, a: float) -> list[float | None]:
    return [
        None if gap is None else 0.95 + 0.05 * 2 * sigmoid(sign(a) * gap)
        for gap in gaps(group, t, True)
    ]


def agentopsd(prior: str) -> Callable[[World], Credit]:
    @tilted
    def weights(group: World, t: str, a: float) -> list[float | None]:
        rate = clip(mean(list(outcomes(group, "success").values())), 1e-4, 1 - 1e-4)
        belief = rate if prior == "group" else 0.5
        logit, c, broken = log(belief / (1 - belief)), 0.0, False
        q: list[float | None] = []
        for e in gaps(group, t, False):
            broken = broken or e is None
            if broken or e is None:
                q.append(None)
                continue
            c = 0.95 * c + e
            new = sigmoid(logit + c)
            q.append(sign(a) * (new - belief))
            belief = new
        return [None if z is None else 0.5 + 0.5 * clip(1 + 0.2 * z, 0.8, 1.2) for z in z_known(q)]

    return weights


@tilted
def hcapo(group: World, t: str, a: float) -> list[float | None]:
    found: list[float | None] = []
    smooth: float | None = None
    for k, gap in enumerate(gaps(group, t, True)):
        if gap is None or (k and smooth is None):
            smooth = None
        else:
            ratio = clip(exp(gap), 0.8, 1.2)
            smooth = ratio if smooth is None else 0.5 * smooth + 0.5 * ratio
        found.append(smooth)
    return found


def gae(lam: float) -> Callable[[World], Credit]:
    @per_group
    def credit(group: World) -> Credit:
        found: Credit = {}
        for row in group.trajectories:
            t = row["traj_id"]
            v = [None if r is None else r["value"] for r in scores_of(group, t)]
            rewards = [r["reward"] for r in group.of(t)]
            ahead: float | None = 0.0
            for k in reversed(range(len(v))):
                following = v[k + 1] if k + 1 < len(v) else 0.0
                own = v[k]
                if following is None or own is None:
                    ahead = None
                else:
                    delta = rewards[k] + following - own
                    ahead = delta if lam == 0 else None if ahead is None else delta + lam * ahead
                found[t, k] = None if row["success"] is None else ahead
        return found

    return credit


REFERENCE: dict[str, Callable[[World], Credit]] = {
    "grpo": relative_to_group("mean"),
    "grpo-std": relative_to_group("std"),
    "dr-grpo": relative_to_group("mean"),
    "rloo": relative_to_group("rloo"),
    "maxrl": relative_to_group("maxrl"),
    "search-r1": relative_to_group("std"),
    "reinforce++": reinforce(False),
    "reinforce++-baseline": reinforce(True),
    "gpg": gpg,
    "dapo": dapo,
    "ragen": ragen,
    "gigpo": gigpo,
    "gigpo@code": gigpo_code,
    "hgpo": hgpo,
    "graphgpo@paper": graphgpo(1.0, False),
    "graphgpo@code": graphgpo(0.0, True),
    "g2po": g2po(False),
    "g2po@code": g2po(True),
    "mt-grpo": mt_grpo,
    "criticsearch": criticsearch,
    "cw-grpo": cw_grpo,
    "vppo": vppo,
    "triage": triage,
    "prover-judge-only": judge_only,
    "prover": prover,
    "constant": constant,
    "prover-chain": prover_chain,
    "vineppo": spo_chain(1),
    "spo-chain": spo_chain(1),
    "carl": carl,
    "pivoarl": pivoarl,
    "tree-grpo@paper": tree_grpo("paper"),
    "tree-grpo@code": tree_grpo("code"),
    "treerl": treerl,
    "spo-tree": spo_tree,
    "gaca": gaca,
    "sharpo": sharpo,
    "agentopsd@paper": agentopsd("group"),
    "agentopsd@code": agentopsd("half"),
    "hcapo": hcapo,
    "gae": gae(0.95),
    "steppo": gae(0.95),
    "actor-critic": gae(0.0),
}
