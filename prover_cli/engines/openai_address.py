"""Addresses of OpenAI-compatible servers, and the key that is sent to them.

The key comes from the environment only. An address that carries one is refused, since addresses
are recorded; what a server says is searched for the key before anybody sees it.
"""

from __future__ import annotations

import os
from urllib.parse import SplitResult, urlsplit, urlunsplit

from prover_cli.errors import UsageError

KEY_VARIABLES = ("PROVER_API_KEY", "OPENAI_API_KEY")
NO_KEY = "EMPTY"
"""What is sent where no variable is set; `vllm serve` without a key of its own takes anything."""
_SHOWN = 300
"""Characters of a server's own words in a message."""


def api_key() -> str:
    """The key of the first variable that is set."""
    return next((key for name in KEY_VARIABLES if (key := os.environ.get(name))), NO_KEY)


def base_url(address: str) -> str:
    """The address of a server's API: `/v1` is added where it has no path.

    Raises `UsageError` for what is no address, and for one with a user, a password or a query.
    """
    parts = _split(address)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or "/v1", "", ""))


def host(address: str) -> str:
    """`HOST` or `HOST:PORT` of a server, for records; raises `UsageError` as `base_url` does."""
    return _split(address).netloc


def readable(text: str, key: str) -> str:
    """What a server said, on one line, short and without the key."""
    if key != NO_KEY:
        text = text.replace(key, "[key]")
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises for what is no number
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            "a server's address is http://HOST:PORT or https://HOST, not "
            + (repr(address) if "@" not in address else "what was given")
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"the address of the server {parts.hostname} has a user, password or query, which "
            "would be recorded",
            hint=f"set {KEY_VARIABLES[0]} to its key and name the server without it",
        )
    return parts
