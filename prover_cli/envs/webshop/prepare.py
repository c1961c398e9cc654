"""What is done once and takes a while: preparing official data, writing generated data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from prover_cli.envs.base import Progress
from prover_cli.envs.progress import MegabytesRead
from prover_cli.envs.webshop import world
from prover_cli.envs.webshop.files import OfficialFiles
from prover_cli.envs.webshop.generate import generate, write
from prover_cli.envs.webshop.goals import MODES
from prover_cli.envs.webshop.nouns import choose, spacy_tagger
from prover_cli.envs.webshop.store import Catalogue
from prover_cli.errors import StorageError, UsageError

TITLES_AT_ONCE = 512


def prepare(
    progress: Progress,
    *,
    data: str,
    goals: str | None = None,
    products: int | None = None,
    price_seed: int = 0,
    tag_titles: bool = False,
) -> dict[str, Any]:
    """Build the catalogue, its search index and its tasks (of both kinds unless `goals` names one).

    With `tag_titles` the nouns of all titles are tagged too, which needs the extra `webshop-nlp`;
    otherwise a title is tagged when a purchase needs it. Returns what was found. Whatever was
    prepared before is kept.
    """
    files = OfficialFiles.find(Path(data))
    read = MegabytesRead(progress, files.n_bytes())
    catalogue = world.official(files.folder, products, read.advance)
    read.finish()
    modes = MODES if goals is None else (goals,)
    n_goals = {}
    for mode in modes:
        progress.note(f"drawing {mode} goals")
        n_goals[mode] = len(world.tasks(catalogue, mode, price_seed))
    tagger, warning = choose("auto")
    facts = {
        "folder": str(catalogue.folder),
        "catalogue": catalogue.hash,
        "products": len(catalogue),
        "skipped": catalogue.summary["skipped"],
        "goals": n_goals,
        "titles_without_nouns": catalogue.summary["n_titles_without_nouns"],
    }
    if not facts["titles_without_nouns"]:
        return facts
    if tag_titles:
        _tag(catalogue, progress)
    return facts | {"tagger": tagger.name, "warning": warning}


def generate_files(
    progress: Progress, *, out: str, products: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Write a generated catalogue as the official files, for `--data` and for other tools."""
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="name a new folder: --out DIR")
    progress.note(f"generating {products:,} products")
    try:
        write(generate(products, seed), folder)
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
    return {"folder": str(folder), "products": products, "seed": seed}


def _tag(catalogue: Catalogue, progress: Progress) -> None:
    tagger = spacy_tagger()
    missing = tagger.missing(catalogue.titles_without_nouns())
    progress.start("tagging", catalogue.summary["n_titles_without_nouns"], "titles")
    for titles in _batches(missing, TITLES_AT_ONCE):
        tagger.tag(titles)
        progress.advance(len(titles))


def _batches(items: Iterator[str], size: int) -> Iterator[Sequence[str]]:
    while batch := list(islice(items, size)):
        yield batch
