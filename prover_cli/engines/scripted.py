"""An engine without a model, for tests and for trying out the tools.

The policy is a folder whose `config.json` has the model type `scripted` and a list of `replies`;
each request gets one of them, chosen by its seed and prompt alone. The file `scripted.json` beside
it says how the engine behaves, which is no part of the policy: `delay_ms` before every answer,
`fail_after` a number of answers (the engine dies), `fail_requests` (a share of requests fails).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError
from prover_cli.ids import derive_seed, policy_id
from prover_cli.tokens.render import ChatRenderer


class ScriptedEngine:
    """Replies are uniform over the script, so their log-probs are known: -log n on the first id."""

    name = "scripted"

    def __init__(self, policy: Path) -> None:
        self.n_requests = 0
        self.load_policy(policy)

    def load_policy(self, path: Path) -> str:
        self.policy_id = policy_id(path)
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        if config.get("model_type") != "scripted" or not config.get("replies"):
            raise UsageError(
                f"{path} is no policy of the scripted engine: no replies in its config"
            )
        renderer = ChatRenderer.load(path)
        self._stop = renderer.stop_ids[0]
        self._replies = [tuple(renderer.encode(reply)) for reply in config["replies"]]
        self.max_model_len = int(config.get("max_position_embeddings", 4096))
        self._behaviour = _behaviour(path)
        return self.policy_id

    async def generate(self, request: GenerationRequest) -> Generation:
        if isinstance(request.prompt_ids, str):
            raise TypeError("an engine takes token ids, not text")
        room = self.max_model_len - len(request.prompt_ids)
        if room <= 0:
            return Generation((), (), FinishReason.CONTEXT)
        budget = min(request.sampling.max_tokens, room)
        if budget <= 0:
            return Generation((), (), FinishReason.LENGTH)
        await self._misbehave(request)
        draw = derive_seed("scripted", request.seed, *request.prompt_ids)
        ids = (*self._replies[draw % len(self._replies)], self._stop)
        cut = ids[:budget]
        logprobs = (-math.log(len(self._replies)), *[0.0] * (len(cut) - 1))
        reason = FinishReason.STOP if cut == ids else FinishReason.LENGTH
        return Generation(cut, logprobs, reason)

    async def _misbehave(self, request: GenerationRequest) -> None:
        self.n_requests += 1
        await asyncio.sleep(self._behaviour.get("delay_ms", 0) / 1000)
        if self.n_requests > self._behaviour.get("fail_after", math.inf):
            raise EngineDeadError("the scripted engine died, as its script says")
        share = self._behaviour.get("fail_requests", 0.0)
        if derive_seed("fault", request.seed) % 1000 < 1000 * share:
            raise RequestFailed("a scripted request failed, as its script says")

    async def close(self) -> None:
        pass


def _behaviour(path: Path) -> Mapping[str, Any]:
    file = path / "scripted.json"
    if not file.is_file():
        return {}
    behaviour: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return behaviour
