"""Invented names: short, pronounceable, each used once, some almost alike.

Names are made of few letters on purpose: a policy with a small vocabulary has to copy them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from prover_cli.envs.searchqa.scoring import normalise
from prover_cli.envs.searchqa.world.facts import plain

_ONSETS = "b d f g h j k l m n p r s t v w z".split() * 2 + "br dr gr kr sk st tr".split()
_MIDDLES = "b d g k l m n r s t v z".split() * 2 + "ll nd rn sk st lm".split()
_VOWELS = "a e i o u".split()
_CODAS = "n l r s m k t x".split() * 3 + "nd rn sk".split()
_ACCENTS = {"a": "á", "e": "é", "i": "í", "o": "ö", "u": "ü"}
_RUDE = (
    "ass bum cok cum dik fag fuk gook jap kik kok kun nig nud pis pub rap sex sht sod tit tut"
).split()
_CITY_ENDS = "bury ham ford ton mouth port vik gate holm by".split()
_REGION_ENDS = "land mark shire ria moor wold".split()
_COUNTRY_ENDS = "nia via stan dor lia gard".split()
_TRADES = "Motors Steel Foods Mills Glass Tools Optics Shipping Clocks Paper Brewery Rail".split()
_CLUBS = "Rovers United Athletic Wanderers Rangers Albion".split()
_ADJECTIVES = (
    "silver amber hollow crimson distant bitter velvet broken gentle frozen hidden golden "
    "paper scarlet pale restless quiet burning wooden marble iron copper salt smoky lonely "
    "crooked blind patient wild tender fallen drowned spotted secret empty royal bright "
    "dusty stormy sleeping dancing hungry humble idle jagged mellow narrow polished ragged "
    "rusty shallow sombre starlit stubborn tangled tidal timid twisted vacant wandering weary"
).split()
_NOUNS = (
    "orchard lantern harbour mirror garden candle tower meadow feather compass shadow ladder "
    "anchor blanket basket bridge button carriage castle cellar chapel clock cloud cradle crown "
    "curtain desert dragon eagle ember engine falcon ferry fiddle forest fountain fox glacier "
    "hammer hare heron horizon island ivy jewel kettle kite knot lark letter lily lion maple mask "
    "moth needle oak ocean owl palace pebble pepper pigeon plough raven ribbon rose saddle sail "
    "shell ship sparrow spindle staircase star swan thistle thorn thunder tiger trumpet violin "
    "wagon whistle willow window wolf"
).split()


class Namer:
    """Gives out names of one seed; `reserved` words (lower case) never become part of one."""

    def __init__(self, generator: random.Random, reserved: Iterable[str] = ()) -> None:
        self._random = generator
        self._taken = set(reserved)
        self._stems: list[str] = []

    def stem(self, syllables: int = 2, alike: float = 0.25) -> str:
        """A new capitalised word; a share of them differs from an earlier one in one vowel."""

        def draft() -> str:
            if self._stems and self._random.random() < alike:
                return self._twin(self._random.choice(self._stems))
            return self._word(syllables)

        word = self._new(draft)
        self._stems.append(word)
        return self._accent(word)

    def first_name(self, woman: bool) -> str:
        """A new given name: women's end in a vowel, men's in a consonant or o."""

        def draft() -> str:
            pick = self._random.choice
            middle = pick(_ONSETS) + pick(_VOWELS) + pick(_MIDDLES)
            return (middle + pick("aei" if woman else ["o", "en", "an", "is", "or"])).capitalize()

        return self._accent(self._new(draft))

    def city(self) -> str:
        return self._ended(_CITY_ENDS)

    def region(self) -> str:
        return self._ended(_REGION_ENDS)

    def country(self) -> str:
        return self._ended(_COUNTRY_ENDS, "aeio")

    def trade(self) -> str:
        """The second word of a company that makes things."""
        return self._random.choice(_TRADES)

    def club(self) -> str:
        """The second word of a sports club."""
        return self._random.choice(_CLUBS)

    def title(self) -> str:
        """The title of a work: everyday words, many of which occur in other titles."""

        def draft() -> str:
            pick = self._random.choice
            first, second = (w.capitalize() for w in self._random.sample(_NOUNS, 2))
            adjective = pick(_ADJECTIVES).capitalize()
            simple = [f"The {adjective} {first}", f"{adjective} {first}"]
            return pick([*simple, *simple, f"{first} of {second}", f"{first} {second}"])

        return self._new(draft)

    def band(self) -> str:
        """The name of a band."""

        def draft() -> str:
            pick = self._random.choice
            noun = pick(_NOUNS).capitalize()
            plural = noun if noun.endswith("s") else noun + "s"
            if noun.endswith(("s", "x", "sh")):
                plural = noun + "es"
            elif noun.endswith("y"):
                plural = noun[:-1] + "ies"
            return f"The {pick(_ADJECTIVES).capitalize()} {plural.replace('Wolfs', 'Wolves')}"

        return self._new(draft)

    def free(self, name: str) -> bool:
        """Whether a name is new; it is taken from now on."""
        key = normalise(plain(name))
        invented = " " not in key
        if key in self._taken or (invented and any(part in key for part in _RUDE)):
            return False
        self._taken.add(key)
        return True

    def _new(self, draft: Callable[[], str]) -> str:
        for _ in range(400):
            name = draft()
            if self.free(name):
                return name
        # Short names run out in a huge world; one more word makes room.
        while not self.free(name := f"{draft()} {self._word(2)}"):
            pass
        return name

    def _ended(self, ends: list[str], joint: str = "") -> str:
        def draft() -> str:
            pick = self._random.choice
            start = pick(_ONSETS) + pick(_VOWELS) + pick("ldnrstmk")
            return (start + (pick(joint) if joint else "") + pick(ends)).capitalize()

        return self._accent(self._new(draft))

    def _word(self, syllables: int) -> str:
        pick = self._random.choice
        parts = [pick(_ONSETS) + pick(_VOWELS)]
        parts += [pick(_MIDDLES) + pick(_VOWELS) for _ in range(syllables - 1)]
        return ("".join(parts) + pick(_CODAS)).capitalize()

    def _twin(self, word: str) -> str:
        places = [i for i, letter in enumerate(word) if letter in _VOWELS]
        place = self._random.choice(places) if places else len(word) - 1
        return word[:place] + self._random.choice(_VOWELS) + word[place + 1 :]

    def _accent(self, word: str) -> str:
        if self._random.random() > 0.06:
            return word
        places = [i for i, letter in enumerate(word) if letter in _ACCENTS]
        if not places:
            return word
        place = self._random.choice(places)
        return word[:place] + _ACCENTS[word[place]] + word[place + 1 :]
