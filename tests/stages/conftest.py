"""A scripted policy that plays the vault at random, and runs that it made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.policies import scripted_policy
from tests.stages.pipeline import judge, rollout, verify


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy")


@pytest.fixture(scope="session")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rollout to read from."""
    home = tmp_path_factory.mktemp("sampled")
    rollout(home / "run", scripted_policy(home / "policy"))
    return home / "run"


@pytest.fixture(scope="session")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rollout that slips, judged and verified, to read from."""
    home = tmp_path_factory.mktemp("verified")
    rollout(home / "run", scripted_policy(home / "policy"), {"slip": 0.3})
    judge(home / "run")
    verify(home / "run", k=5)
    return home / "run"


@pytest.fixture
def run(tmp_path: Path, verified: Path) -> Path:
    """A copy of it of one's own."""
    return Path(shutil.copytree(verified, tmp_path / "run"))
