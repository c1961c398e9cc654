"""What a method is said to read is all that it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from prover_cli.credit import compute, registry
from prover_cli.credit.base import CreditTables
from prover_cli.credit.columns import trajectory_columns, turn_columns
from prover_cli.credit.group_relative import GroupRelative
from tests.credit.worlds import world

HEAVY = {"prompt_ids", "action_ids", "action_text", "info_json", "observation", "logprobs"}
KNOBS: dict[str, dict[str, Any]] = {
    "gigpo": {"similarity": 0.9},
    "gigpo@code": {"key": "state_key"},
    "hgpo": {"key": "state_key", "base_group": True},
    "gae": {"pay": "success"},
    "spo-chain": {"prob_mask": 0.9},
}
ROLES = {"d": 0.2, "e": 0.1, "n": 0.0, "r": -0.2}
CASES = [(name, ROLES if name == "triage" else {}) for name in registry.names()]
CASES += list(KNOBS.items())


@pytest.mark.parametrize(("name", "knobs"), CASES, ids=lambda case: str(case))
def test_the_named_columns_are_enough(name: str, knobs: dict[str, Any]) -> None:
    frames = world(5, 8).frames()
    method = [registry.make(name, **knobs)]
    some = dict(frames)
    for table, columns in (
        ("turns", turn_columns(method)),
        ("trajectories", trajectory_columns(method)),
    ):
        assert columns is not None
        some[table] = frames[table].select(columns)
    assert_frame_equal(compute(name, **some, **knobs), compute(name, **frames, **knobs))


@pytest.mark.parametrize("name", registry.names())
def test_no_method_reads_texts_or_tokens_unless_it_is_told_to(name: str) -> None:
    columns = turn_columns([registry.make(name)])
    assert columns is not None and HEAVY.isdisjoint(columns)


@dataclass(frozen=True)
class Foreign:
    needs: ClassVar[frozenset[str]] = frozenset({"trajectories", "turns"})

    def advantages(self, tables: CreditTables) -> pl.DataFrame:
        return GroupRelative().advantages(tables)


def test_a_method_of_another_package_is_shown_everything() -> None:
    methods = [GroupRelative(), Foreign()]
    assert turn_columns(methods) is None and trajectory_columns(methods) is None
