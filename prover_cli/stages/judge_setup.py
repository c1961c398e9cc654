"""A judge and its model, made ready from a configuration; nothing is opened before it is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prover_cli.config import JudgeConfig, identity
from prover_cli.engines.chat import can_constrain, open_chat, remote_name
from prover_cli.engines.select import chosen
from prover_cli.errors import PolicyChangedError, UsageError
from prover_cli.ids import canonical_json, policy_id
from prover_cli.judges import registry
from prover_cli.judges.agentic import CHOICES, AgenticJudge
from prover_cli.judges.asker import Asker, ModelSource
from prover_cli.judges.base import Judge
from prover_cli.judges.cache import ReplyCache
from prover_cli.judges.instructions import Instructions
from prover_cli.judges.labels import Labeller, parse_kinds
from prover_cli.judges.spending import Spending
from prover_cli.shards.manifest import Manifest, PolicyEntry

SERVER_CONTEXT = 32_768
"""Tokens that a server's model is taken to have room for, unless `--max-model-len` says."""
_FREE = ("judge", "min_success", "max_success", "max_segment", "seed")
"""What decides the results of a judge that asks no model."""


@dataclass(frozen=True)
class Prepared:
    """`config` is resolved; `asker` is None where no model is asked."""

    config: JudgeConfig
    judge: Judge
    labeller: Labeller | None
    asker: Asker | None
    spending: Spending
    notes: tuple[str, ...]

    @property
    def identity(self) -> dict[str, Any]:
        found = identity(self.config)
        if self.asker is None:
            return {key: found[key] for key in _FREE}
        return found | {"max_model_len": self.config.engine.max_model_len}


def choose(config: JudgeConfig) -> tuple[JudgeConfig, str | None]:
    """The configuration with a judge, and why it is this one where none was named.

    Raises `UsageError` for settings that contradict each other.
    """
    why = None
    if config.judge is None:
        given = [
            flag
            for flag, value in (
                ("--judge-model", config.judge_model),
                ("--judge-url", config.judge_url),
            )
            if value is not None
        ]
        name = registry.AGENTIC if given else "contrast"
        why = f"judge {name}: " + (
            f"{' and '.join(given)} given" if given else "no --judge-model or --judge-url is given"
        )
        config = replace(config, judge=name)
    config = replace(config, labels=parse_kinds(config.labels))
    _check(config)
    return config, why


def uses_model(config: JudgeConfig) -> bool:
    """Whether a chosen configuration asks a model."""
    return bool(config.labels) or registry.AGENTIC in registry.members(config.judge or "")


def prepare(config: JudgeConfig, rollout: Manifest) -> Prepared:
    """Resolve everything; raises `UsageError` for a judge, model or file that cannot be used."""
    config, why = choose(config)
    notes = [] if why is None else [why]
    limits = (config.judge_tokens, config.judge_cost, config.judge_price or (0.0, 0.0))
    spending = Spending(*limits)
    assert config.judge is not None
    if not uses_model(config):
        judge = registry.make(config.judge, seed=config.seed, max_segment=config.max_segment)
        return Prepared(config, judge, None, None, spending, tuple(notes))
    instructions = Instructions.read(config.judge_prompt, config.labels)
    cache = None if config.judge_cache is None else ReplyCache(Path(config.judge_cache))
    source, said = _source(config, rollout.policy, cache)
    config = replace(config, judge_model_id=source.model, prompt_hash=instructions.hash)
    asker = Asker(
        source,
        temperature=config.judge_temperature,
        max_tokens=config.judge_max_tokens,
        in_flight=config.engine.concurrency,
        cache=cache,
        spending=spending,
    )
    judge = registry.make(
        config.judge or "",
        seed=config.seed,
        max_segment=config.max_segment,
        agentic=lambda: _agentic(config, asker, instructions),
    )
    labeller = None
    if config.labels:
        labeller = Labeller(asker, config.labels, config.seed, config.max_repairs)
    return Prepared(config, judge, labeller, asker, spending, (*notes, said))


def _agentic(config: JudgeConfig, asker: Asker, instructions: Instructions) -> AgenticJudge:
    return AgenticJudge(
        asker,
        instructions,
        config.seed,
        config.max_segment,
        config.trajectory,
        config.max_tool_calls,
        config.max_repairs,
    )


def _check(config: JudgeConfig) -> None:
    if config.trajectory not in CHOICES:
        raise UsageError(f"--trajectory is {', '.join(CHOICES)}, not {config.trajectory!r}")
    agentic = registry.AGENTIC in registry.members(config.judge or "")
    if config.trajectory != "shortest" and not agentic:
        raise UsageError(f"--trajectory is for --judge agentic; {config.judge} takes the shortest")
    if config.judge_cost is not None and config.judge_price is None:
        raise UsageError("--judge-cost needs the prices of tokens", hint="--judge-price IN,OUT")
    if config.judge_url is not None and config.judge_model is None and uses_model(config):
        raise UsageError(
            "which model does the server at --judge-url have?", hint="add --judge-model NAME"
        )


def _source(
    config: JudgeConfig, policy: PolicyEntry | None, cache: ReplyCache | None
) -> tuple[ModelSource, str]:
    """The model, and a sentence about it."""
    model, url, engine = config.judge_model, config.judge_url, config.engine
    if url is not None:
        assert model is not None
        name = remote_name(model, url)
        context = engine.max_model_len or SERVER_CONTEXT
        source = ModelSource(
            name, name, True, False, context, None, lambda: open_chat(engine, model, url)
        )
        return source, f"judge model {name}"
    path = model
    if path is None:
        assert policy is not None
        path = policy.path
    kind = chosen(engine)
    name = canonical_json([path, kind, engine.max_model_len])
    found = _local_id(Path(path), name, cache)
    if model is None and policy is not None and found != policy.policy_id:
        raise PolicyChangedError(
            f"{path} is not the policy of this rollout: {policy.policy_id} then, {found} now",
            hint="restore it, or name another judge: --judge-model DIR",
        )
    source = ModelSource(
        name,
        found,
        can_constrain(kind),
        True,
        None,
        engine.max_model_len,
        lambda: open_chat(engine, path, None),
    )
    which = "the policy of the rollout itself" if model is None else path
    return source, f"judge model {which}, {found}"


def _local_id(path: Path, name: str, cache: ReplyCache | None) -> str:
    """A checkpoint's content hash; that of a recorded one where the folder is gone."""
    known = None if cache is None else cache.known_model(name)
    return known.model if known is not None and not path.exists() else policy_id(path)
