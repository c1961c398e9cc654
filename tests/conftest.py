"""Settings of all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("prover", deadline=None)
settings.load_profile("prover")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests, and the commands they start, keep their caches to themselves."""
    os.environ["PROVER_CACHE"] = str(tmp_path_factory.getbasetemp() / "cache")
