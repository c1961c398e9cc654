"""The frozen tasks of a catalogue: hidden prices and goals, drawn once and read by everybody.

WebShop draws both anew in every process; here one seed decides them, and they are kept in a file
with a hash, so that rollout, verification and evaluation see the same shop.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prover_cli.envs.cache import check, mapped_array
from prover_cli.envs.rows import Rows, RowWriter
from prover_cli.envs.webshop import goals as rules
from prover_cli.envs.webshop.goals import Goal
from prover_cli.envs.webshop.store import Catalogue
from prover_cli.errors import UsageError
from prover_cli.ids import digest

GOALS, SUMMARY = "goals.arrow", "tasks.json"
_SCHEMA = pa.schema(
    [
        pa.field("asin", pa.string()),
        pa.field("text", pa.string()),
        pa.field("attributes", pa.list_(pa.string())),
        pa.field("options", pa.string()),
        pa.field("upper", pa.float64()),
    ]
)


def hidden_prices(catalogue: Catalogue, generator: random.Random) -> NDArray[np.float64]:
    """The price each product is scored with: its own, or one drawn from its range, in order."""
    low, high = catalogue.price_ranges()
    for place in np.flatnonzero(~np.isnan(high)):
        low[place] = generator.uniform(low[place], high[place])
    return low


def write(folder: Path, catalogue: Catalogue, mode: str, price_seed: int) -> None:
    """Draw prices and goals and write them into an empty folder."""
    generator = random.Random(price_seed)
    prices = hidden_prices(catalogue, generator)
    attributes: Counter[str] = Counter()
    with RowWriter(folder / GOALS, _SCHEMA) as writer:
        for goal in rules.draw(mode, catalogue.wished_for(prices), generator):
            writer.add({**goal.as_json(), "options": json.dumps(goal.options, ensure_ascii=False)})
            attributes.update(goal.attributes)
    order = np.array(rules.shuffled_order(writer.n_rows), dtype=np.int32)
    np.save(folder / "prices.npy", prices)
    np.save(folder / "order.npy", order)
    summary = {
        "hash": digest([writer.content_hash, hashlib.sha256(prices.tobytes()).hexdigest()]),
        "catalogue": catalogue.hash,
        "goals": mode,
        "price_seed": price_seed,
        "n_goals": writer.n_rows,
        "attribute_counts": dict(attributes) if mode == "synthetic" else {},
    }
    text = json.dumps(summary, indent=1, ensure_ascii=False)
    (folder / SUMMARY).write_text(text, encoding="utf-8")


class TaskFile(Sequence[Goal]):
    """Goals in WebShop's shuffled order, and the hidden prices they are scored with.

    Raises `UsageError` for a file that is damaged or of another catalogue.
    """

    def __init__(self, folder: Path, catalogue: Catalogue) -> None:
        check(folder)
        summary: dict[str, Any] = json.loads((folder / SUMMARY).read_bytes())
        self.prices: NDArray[np.float64] = mapped_array(folder / "prices.npy")
        self._order: NDArray[np.int32] = mapped_array(folder / "order.npy")
        if summary["catalogue"] != catalogue.hash:
            raise UsageError(
                f"the tasks in {folder} are of catalogue {summary['catalogue']}, "
                f"not {catalogue.hash}",
                hint=f"remove {folder}; it is made again when needed",
            )
        self.hash = str(summary["hash"])
        self._rows = Rows(folder / GOALS)
        self._attribute_counts: dict[str, int] = summary["attribute_counts"]

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: Any) -> Any:
        row = self._rows[int(self._order[index])]
        options = json.loads(row["options"])
        row["options"] = tuple(o if isinstance(o, str) else tuple(o) for o in options)
        return Goal(**row | {"attributes": tuple(row["attributes"])})

    def asins(self) -> list[str]:
        """The product of every goal, in order, without reading the rest."""
        column = pa.concat_arrays([batch["asin"] for batch in self._rows.batches(("asin",))])
        return [str(asin) for asin in column.take(pa.array(self._order)).to_pylist()]

    def weight(self, index: int) -> float:
        """How likely WebShop would draw a goal at random, relative to the others.

        The mean rarity of its attributes in synthetic mode, 1 for the goals of people.
        """
        if not self._attribute_counts:
            return 1.0
        attributes: tuple[str, ...] = self[index].attributes
        return sum(1 / self._attribute_counts[a] for a in attributes) / len(attributes)
