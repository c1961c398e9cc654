"""The engine `openai`: servers that complete token ids and give ids and log-probs (`vllm serve`).

The policy's folder is here for its tokenizer and its identity; its weights are where the servers
are. `openai_fleet` shares the work between them and sees to retries and to servers that come and
go, `openai_policy` to it that they serve the policy, and `openai_wire` to what is said to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest
from prover_cli.engines.openai_fleet import Fleet
from prover_cli.engines.openai_loop import LoopThread
from prover_cli.engines.openai_policy import Policy, check_server
from prover_cli.engines.openai_server import Patience, Server, check_installed
from prover_cli.engines.openai_wire import ServedModel, completion_body, generation
from prover_cli.engines.vllm_args import check_sampling
from prover_cli.errors import EngineDeadError, UsageError


class OpenAIEngine:
    """The engine `openai`. `max_model_len` None takes what the servers have.

    Raises `UsageError` for servers that cannot serve the policy, `EngineDeadError` when none
    answers.
    """

    name = "openai"

    def __init__(
        self,
        policy: Path,
        *,
        servers: Sequence[str],
        max_model_len: int | None = None,
        patience: Patience | None = None,
    ) -> None:
        if not servers:
            raise UsageError(
                "the engine openai needs a server",
                hint="add --server http://HOST:8000, once for each",
            )
        check_installed()
        self._policy = Policy.of(policy)
        self.policy_id = self._policy.policy_id
        self._asked_len = max_model_len
        self.served: dict[str, ServedModel] = {}
        """What each server said that it serves, by its address."""
        patience = patience or Patience()
        fleet = [Server(address, patience) for address in dict.fromkeys(servers)]
        self._fleet = Fleet(fleet, self._check, patience)
        self._loop = LoopThread("openai")
        self._closed = False
        self.max_model_len = 0
        try:
            self._loop.wait(self._fleet.start())
            self.max_model_len = self._shortest()
        except BaseException:
            self._shut_down()
            raise

    def load_policy(self, path: Path) -> str:
        """Confirm that `path` is the policy that the servers have; they cannot be given another."""
        if (wanted := Policy.of(path)).policy_id != self.policy_id:
            raise UsageError(
                f"the servers serve {self._policy.path} ({self.policy_id}) and cannot be given "
                f"{path} ({wanted.policy_id})",
                hint=f"restart each: {wanted.start_command}",
            )
        return self.policy_id

    async def generate(self, request: GenerationRequest) -> Generation:
        """Sample one reply. Raises `RequestFailed` or, without any server, `EngineDeadError`."""
        if isinstance(request.prompt_ids, str):
            raise TypeError("an engine takes token ids, not text")
        check_sampling(request.sampling)
        room = self.max_model_len - len(request.prompt_ids)
        if room <= 0:
            return Generation((), (), FinishReason.CONTEXT)
        budget = min(request.sampling.max_tokens, room)
        if budget <= 0:
            return Generation((), (), FinishReason.LENGTH)
        if self._closed:
            raise EngineDeadError("the engine was closed")
        send = partial(self._complete, request, budget)
        return await self._loop.run(self._fleet.ask(send, request.session))

    async def close(self) -> None:
        """End all connections; requests still in flight fail."""
        self._shut_down()

    def _shut_down(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.wait(self._fleet.close())
            self._loop.stop()

    async def _complete(
        self, request: GenerationRequest, budget: int, server: Server
    ) -> Generation:
        body = completion_body(self.served[server.url].id, request, budget)
        return generation(await server.complete(body), request, budget, server.url)

    async def _check(self, server: Server) -> None:
        model = await check_server(server, self._policy)
        if self.max_model_len and (model.max_model_len or self.max_model_len) < self.max_model_len:
            raise UsageError(
                f"{server.url} now has a context of {model.max_model_len} tokens, "
                f"not {self.max_model_len}"
            )
        self.served[server.url] = model

    def _shortest(self) -> int:
        """The longest context that every server has."""
        known = [m.max_model_len for m in self.served.values() if m.max_model_len is not None]
        if self._asked_len is None and not known:
            raise UsageError(
                "the servers do not tell the longest context that they take",
                hint="add --max-model-len N",
            )
        if self._asked_len is not None and self._asked_len > min(known, default=self._asked_len):
            raise UsageError(
                f"--max-model-len {self._asked_len}: the servers take {min(known)} tokens",
                hint=f"restart them with --max-model-len {self._asked_len}, or ask for less",
            )
        return self._asked_len or min(known)
