"""Search results that a recorded trajectory has shown, so that its replay asks no engine."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import Any

from prover_cli.envs.searchqa.texts import Shown, read_results
from prover_cli.errors import TaskMismatchError

REMEMBERED_QUERIES = 8192


class Memory:
    """Results by query, those of the last `REMEMBERED_QUERIES` recalled ones. Thread safe.

    What a query finds is a function of the query, the engine and the corpus alone, and all
    episodes of an environment share the latter two.
    """

    def __init__(self, facts: Mapping[str, str]) -> None:
        self._facts = facts
        self._lock = Lock()
        self._results: OrderedDict[str, tuple[Shown, ...]] = OrderedDict()

    def get(self, query: str) -> tuple[Shown, ...] | None:
        with self._lock:
            return self._results.get(query)

    def learn(self, turns: Sequence[Mapping[str, Any]]) -> None:
        """Remember what the searches of a trajectory found.

        `turns` are its rows of the turns table in order; what a turn found is the observation of
        the next. Raises `TaskMismatchError` for turns that were recorded with another engine or
        corpus.
        """
        for turn, after in pairwise(turns):
            info = json.loads(turn["info_json"])
            if "docs" in info:
                self._check(turn, info)
                self._keep(info, after["observation"])

    def _check(self, turn: Mapping[str, Any], info: Mapping[str, Any]) -> None:
        for name, now in self._facts.items():
            if info.get(name) != now:
                raise TaskMismatchError(
                    f"turn {turn.get('turn')} of trajectory {turn.get('traj_id')} was recorded "
                    f"with {name} {info.get(name)}; now it is {now}",
                    hint="restore the corpus and the engine, or sample again: "
                    "prover rollout --overwrite",
                )

    def _keep(self, info: Mapping[str, Any], observation: str) -> None:
        found = read_results(observation, info["docs"], info["titles"], info["scores"])
        if found is None:
            return  # not a text of this version: the replay searches, and compares what it sees
        with self._lock:
            self._results[info["query"]] = found
            self._results.move_to_end(info["query"])
            while len(self._results) > REMEMBERED_QUERIES:
                self._results.popitem(last=False)
