"""A scripted policy that plays the vault at random."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policies import scripted_policy


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy")
