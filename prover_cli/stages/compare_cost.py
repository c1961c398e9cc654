"""What a credit method costs beyond the rollout, and whether it shares luck with a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prover_cli.shards.run import Run, Stage
from prover_cli.stages.compare_sources import Named, Sources


def spent(run: Run, stages: Sources) -> dict[str, Any]:
    """Generated tokens of the judge and the verification among the stages that a method reads, and
    their share of the rollout's.

    Continuations that came from a value cache count as if they had been sampled. What is computed
    and not generated, such as a scoring pass, is not in it.
    """
    verified = stages.get("verify")
    judged = stages.get("judge") or (None if verified is None else _judge(run, verified))
    tokens = {
        "judge_tokens": _counted(judged, "output_tokens"),
        "verify_tokens": _counted(verified, "action_tokens", "cached_action_tokens"),
    }
    rollout = _counted(run.stage("rollout"), "action_tokens")
    total = sum(tokens.values())
    return {**tokens, "token_share": total / rollout if rollout else None}


def _judge(run: Run, verified: Stage) -> Stage | None:
    """The judge whose proposals were verified; None where none was."""
    names = (name for name in verified.manifest().inputs if name.partition("@")[0] == "judge")
    return next((run.stage(name) for name in names), None)


def _counted(stage: Stage | None, *counters: str) -> int:
    if stage is None or not stage.exists():
        return 0
    found = stage.manifest().counters
    return int(sum(found.get(name, 0) for name in counters))


def warn_shared(stages: Mapping[Named, Sources], reference: Named) -> list[str]:
    """Which methods are computed from continuations that the reference is computed from too: their
    errors are the same ones, so they look closer than they are."""
    own = stages[reference].get("verify")
    warnings = []
    for method, sources in stages.items():
        other = sources.get("verify")
        if own is None or other is None or method == reference:
            continue
        if other.name == own.name:
            warnings.append(f"{method.label} and the reference are both computed from {own.name}")
        elif _seed(other) == _seed(own):
            warnings.append(
                f"{method.label} and the reference share continuations: {other.name} and "
                f"{own.name} have the same seed; verify with another --seed"
            )
    return warnings


def _seed(stage: Stage) -> Any:
    return stage.manifest().config.get("seed")
