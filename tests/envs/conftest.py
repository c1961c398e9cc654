"""Worlds and reference data shared by the environment tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover_cli.envs.webshop import WebShopEnvironment


@pytest.fixture(scope="session")
def webshop() -> WebShopEnvironment:
    """The generated shop with its default size."""
    return WebShopEnvironment()


@pytest.fixture(scope="session")
def small_shop() -> WebShopEnvironment:
    """A generated shop that searches and prints a little faster."""
    return WebShopEnvironment(products=150)


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of recordings of the official engine; skips where it is absent."""
    folder = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "webshop"
    if not folder.is_dir():
        pytest.skip("the WebShop reference data is not beside the repository")
    return folder
