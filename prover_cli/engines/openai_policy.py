"""Whether a server serves the policy, and as it must: found out before it gets any request.

The API tells names and no content, so a server is taken at its word only where the word is clear:
it serves the policy's folder, or was given the policy's folder name or id as its model's name. A
folder that it names and that is here is compared by content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prover_cli.engines.base import FinishReason, GenerationRequest, Sampling
from prover_cli.engines.openai_faults import MissingFault, Refused
from prover_cli.engines.openai_server import Server
from prover_cli.engines.openai_wire import (
    START_FLAGS,
    MissingField,
    ServedModel,
    completion_body,
    generation,
    served_models,
)
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id

_PROBE = GenerationRequest((0, 1, 2), Sampling(1, (), temperature=1.0, top_k=1), seed=0)
"""With one token to choose from, the log-prob of the sampled distribution is 0."""
_ZERO = 1e-6


@dataclass(frozen=True)
class Policy:
    """A checkpoint folder and its content hash."""

    path: Path
    policy_id: str

    @classmethod
    def of(cls, path: Path) -> Policy:
        return cls(path, policy_id(path))

    @property
    def names(self) -> frozenset[str]:
        """What a server may call it."""
        resolved = self.path.resolve()
        return frozenset((str(self.path), str(resolved), resolved.name, self.policy_id))

    @property
    def start_command(self) -> str:
        """How a server of this policy is started."""
        return f"vllm serve {self.path.resolve()} {START_FLAGS}"


async def check_server(server: Server, policy: Policy) -> ServedModel:
    """The model of a server that is the policy.

    Raises `UsageError` for a server that serves something else, gives no token ids, or gives the
    log-probs of another distribution; `Fault` for one that does not answer now.
    """
    try:
        models = served_models(await server.models())
        # Content is read in a thread: requests to other servers go on.
        found = await asyncio.to_thread(find, models, policy)
        if found is None:
            raise _another_model(server, models, policy)
        answer = await server.complete(completion_body(found.id, _PROBE, 1))
        reply = generation(answer, _PROBE, 1, server.url)
    except (MissingField, MissingFault, Refused) as error:
        raise _no_token_ids(server, error) from None
    assert reply.finish_reason is FinishReason.LENGTH
    if abs(reply.logprobs[0]) > _ZERO:
        raise UsageError(
            f"{server.url} gives log-probs of another distribution than it samples from: "
            f"{reply.logprobs[0]:.6f} for a token that had no alternative",
            hint=f"restart it: {policy.start_command}",
        )
    return found


def find(models: Sequence[ServedModel], policy: Policy) -> ServedModel | None:
    """The one of a server's models that is the policy."""
    return next((model for model in models if _is(model, policy)), None)


def _is(model: ServedModel, policy: Policy) -> bool:
    root = model.root or model.id
    if Path(root).resolve() == policy.path.resolve():
        return True
    if (here := _content(Path(root))) is not None:
        return here == policy.policy_id
    return model.id in policy.names or root in policy.names


def _content(folder: Path) -> str | None:
    """The id of the policy in a folder of this machine; None where there is none."""
    try:
        return policy_id(folder)
    except (UsageError, OSError):
        return None


def _another_model(server: Server, models: Sequence[ServedModel], policy: Policy) -> UsageError:
    served = ", ".join(
        repr(model.id) + (f" of {model.root}" if model.root not in (None, model.id) else "")
        for model in models
    )
    return UsageError(
        f"{server.url} serves {served or 'no model'}, which is not known to be the policy "
        f"{policy.path} ({policy.policy_id})",
        hint=f"restart it: {policy.start_command} (from a copy: --served-model-name "
        f"{policy.policy_id})",
    )


def _no_token_ids(server: Server, error: Exception) -> UsageError:
    return UsageError(
        f"{server.url} cannot serve a policy, which needs completions of token ids with token ids "
        f"and log-probs: {error}",
        hint="`vllm serve` can; for judges and graders any server of the chat API will do",
    )
