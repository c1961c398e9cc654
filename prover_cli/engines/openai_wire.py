"""The completions API with token ids, as `vllm serve` has it: what is sent and what comes back.

Every sampling parameter is stated. What an answer can be held to is checked: a server that adds
tokens to the prompt, stops where it was not asked to, or cuts a reply short has settings that would
change the sampled distribution without a word.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest
from prover_cli.engines.openai_faults import Fault
from prover_cli.errors import UsageError

START_FLAGS = "--generation-config vllm --logprobs-mode processed_logprobs"
"""What `vllm serve` needs to sample as it is asked to and to say so."""


class MissingField(Fault):
    """The answer of a server that does not give token ids, or not their log-probs."""


class _Logprobs(BaseModel):
    token_logprobs: list[float | None] | None = None


class _Choice(BaseModel):
    finish_reason: str | None = None
    text: str = ""
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class _Details(BaseModel):
    cached_tokens: int | None = None


class _Usage(BaseModel):
    prompt_tokens_details: _Details | None = None


class _Completion(BaseModel):
    choices: list[_Choice]
    usage: _Usage | None = None


class ServedModel(BaseModel):
    """A model that a server lists; `root` is the folder or name that it was started with."""

    id: str
    root: str | None = None
    max_model_len: int | None = None


class _ModelList(BaseModel):
    data: list[ServedModel]


def served_models(answer: dict[str, Any]) -> list[ServedModel]:
    """What `GET /models` lists; `Fault` for what is no such list."""
    try:
        return _ModelList.model_validate(answer).data
    except ValidationError as error:
        raise Fault(f"its list of models is none ({_first_error(error)})") from None


def completion_body(model: str, request: GenerationRequest, budget: int) -> dict[str, Any]:
    """Fields of `POST /completions` for at most `budget` tokens: OpenAI's own, then vllm's."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(request.prompt_ids),
        "max_tokens": budget,
        "n": 1,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": request.seed,
        "logprobs": 0,
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "min_tokens": 0,
        "stop_token_ids": list(sampling.stop_ids),
        # Only our stop ids stop: the model's own end-of-text ids are ordinary tokens here.
        "ignore_eos": True,
        "add_special_tokens": False,
        "skip_special_tokens": False,
        "return_token_ids": True,
    }
    if sampling.json_schema is not None:
        body["structured_outputs"] = {"json": json.loads(sampling.json_schema)}
    return body


def generation(
    answer: dict[str, Any], request: GenerationRequest, budget: int, url: str
) -> Generation:
    """The reply in an answer of the server at `url`.

    Raises `MissingField` without token ids or log-probs, `Fault` for an answer that is none, and
    `UsageError` for a server whose settings change what was asked for.
    """
    try:
        completion = _Completion.model_validate(answer)
    except ValidationError as error:
        raise Fault(f"the answer is no completion ({_first_error(error)})") from None
    if len(completion.choices) != 1:
        raise Fault(f"the answer has {len(completion.choices)} choices instead of one")
    choice = completion.choices[0]
    ids, logprobs = _sampled(choice)
    if choice.prompt_token_ids not in (None, list(request.prompt_ids)):
        raise UsageError(
            f"{url} samples after another prompt than it is given: "
            f"{len(choice.prompt_token_ids or ())} ids instead of {len(request.prompt_ids)}"
        )
    reason = _reason(choice, ids, request.sampling.stop_ids, budget, url)
    if request.sampling.json_schema is not None and reason is FinishReason.STOP:
        _check_constrained(choice.text, url)
    details = completion.usage and completion.usage.prompt_tokens_details
    return Generation(ids, logprobs, reason, (details and details.cached_tokens) or 0)


def _sampled(choice: _Choice) -> tuple[tuple[int, ...], tuple[float, ...]]:
    if choice.token_ids is None:
        raise MissingField("the answer lacks choices[0].token_ids")
    if choice.logprobs is None or choice.logprobs.token_logprobs is None:
        raise MissingField("the answer lacks choices[0].logprobs.token_logprobs")
    ids, logprobs = choice.token_ids, choice.logprobs.token_logprobs
    finite = [value for value in logprobs if value is not None and math.isfinite(value)]
    if not ids or len(ids) != len(logprobs) or len(finite) != len(logprobs):
        raise Fault(f"{len(ids)} ids with {len(finite)} log-probs, finish {choice.finish_reason!r}")
    return tuple(ids), tuple(finite)


def _reason(
    choice: _Choice, ids: Sequence[int], stop_ids: Sequence[int], budget: int, url: str
) -> FinishReason:
    if choice.finish_reason not in ("stop", "length"):
        raise Fault(f"the server ended the request as {choice.finish_reason!r}")
    if len(ids) > budget:
        raise Fault(f"{len(ids)} ids where at most {budget} were asked for")
    if ids[-1] in stop_ids:
        return FinishReason.STOP
    if choice.finish_reason == "stop":
        raise UsageError(
            f"{url} stops at token {ids[-1]}, which is none of the stop ids "
            f"{list(stop_ids)} that it is given",
            hint=f"start it without stop tokens of its own: vllm serve ... {START_FLAGS}",
        )
    if len(ids) < budget:
        raise UsageError(
            f"{url} cuts replies after {len(ids)} tokens where {budget} are asked for",
            hint=f"start it without a limit of its own: vllm serve ... {START_FLAGS}",
        )
    return FinishReason.LENGTH


def _check_constrained(text: str, url: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        raise UsageError(
            f"{url} does not constrain replies: it was given a JSON schema in "
            "structured_outputs and answered with something else",
            hint="upgrade the server's vllm: before structured_outputs the field was guided_json",
        ) from None


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
