"""What can go wrong between us and a server, told apart by what helps.

`Fault`: another try, or another server, may succeed. `Refused`: this request is bad, wherever it is
sent. A key that is not accepted is the user's to set right. Messages never contain the key.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from prover_cli.engines.openai_address import KEY_VARIABLES, readable
from prover_cli.errors import RequestFailed, UsageError

_PASSING = (408, 409, 425, 429)


class Fault(Exception):
    """A failure that may pass. `wait`: seconds that the server asks for; `down`: it is gone."""

    def __init__(self, message: str, *, wait: float = 0.0, down: bool = False) -> None:
        super().__init__(message)
        self.wait = wait
        self.down = down


class BusyFault(Fault):
    """The server takes no request now; nothing is wrong with it."""


class MissingFault(Fault):
    """Status 404: the server has no such page or model."""


class Refused(RequestFailed):
    """The server calls the request bad; `status` is 400 or another of its kind."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def translate(error: Exception, url: str, key: str) -> Exception:
    """The failure that an exception of the openai SDK, or a time-out of ours, stands for.

    `url` is the server, `key` what no message may contain.
    """
    import openai

    if isinstance(error, openai.APIStatusError):
        said = readable(_words(error), key)
        return _of_status(error.status_code, said, url, error.response.headers)
    cause = error.__cause__ or error
    what = readable(f"{type(cause).__name__}: {cause}".rstrip(": "), key)
    if isinstance(error, (openai.APITimeoutError, TimeoutError)):
        if "Connect" in type(cause).__name__:
            return Fault(f"no connection ({what})", down=True)
        return Fault("no answer in time")
    if isinstance(error, openai.APIConnectionError):
        return Fault(f"no connection ({what})", down=True)
    return Fault(f"no usable answer ({what})")


def _of_status(status: int, said: str, url: str, headers: Mapping[str, str]) -> Exception:
    message = f"status {status}: {said}"
    if status in (401, 403):
        variables = " or ".join(KEY_VARIABLES)
        return UsageError(f"{url} refuses the key: {message}", hint=f"set {variables}")
    if status == 404:
        return MissingFault(message, down=True)
    if status == 429 or (status == 503 and "retry-after" in headers):
        return BusyFault(message, wait=_asked_wait(headers))
    if status in _PASSING or status >= 500:
        return Fault(message, wait=_asked_wait(headers))
    return Refused(message, status)


def _words(error: Any) -> str:
    """The message in the body of an error, else the body."""
    body = error.body
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if not isinstance(inner, Mapping) or not inner.get("message"):
            return str(inner or body)
        message, parameter = str(inner["message"]), inner.get("param")
        return message if not parameter or parameter in message else f"{parameter}: {message}"
    return str(body or error.response.text or "no explanation")


def _asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds that `Retry-After` asks for, as a number or as a date; 0 without it."""
    asked = headers.get("retry-after", "").strip()
    try:
        return max(float(asked), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(asked).timestamp() - time.time(), 0.0)
    except ValueError:
        return 0.0
