"""Text analysis of Lucene's English analyser: word tokens, stop words, Porter stems.

Search results decide what an agent sees, so a WebShop or wiki result is only comparable when the
analysis is the same: Unicode word breaks, possessives dropped, lower case, Lucene's 33 stop words,
and Porter's stemmer with its author's two later changes (`bli` -> `ble`, `logi` -> `log`), tokens
of at most two characters left alone.
"""

from __future__ import annotations

import re
from functools import lru_cache

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with".split()
)
# A word is a run of letters, digits and underscores; some punctuation joins letters, some digits;
# ideographs and hiragana stand alone.
_WORD = re.compile(
    r"[\u3040-\u309f\u4e00-\u9fff]"
    r"|\w(?:\w|(?<=[^\W\d_])[.'’:](?=[^\W\d_])|(?<=\d)[.,';](?=\d))*"
)
_POSSESSIVE = re.compile(r"['’][sS]$")


def tokens(text: str) -> list[str]:
    """The index terms of a text, in order, duplicates kept."""
    return [found for word in words(text) if (found := term(word)) is not None]


def words(text: str) -> list[str]:
    """The words of a text as they stand there."""
    return _WORD.findall(text)


@lru_cache(maxsize=1 << 16)
def term(word: str) -> str | None:
    """The index term of a word; None for one that is not indexed."""
    plain = _POSSESSIVE.sub("", word).lower()
    return None if plain in STOP_WORDS or not any(map(str.isalnum, plain)) else stem(plain)


def stem(word: str) -> str:
    """The Porter stem of a lower-case word."""
    if len(word) <= 2:
        return word
    for step in (_step_1a, _step_1b, _step_1c, _step_2, _step_3, _step_4, _step_5):
        word = step(word)
    return word


def _is_consonant(word: str, i: int) -> bool:
    letter = word[i]
    if letter in "aeiou":
        return False
    return letter != "y" or i == 0 or not _is_consonant(word, i - 1)


def _measure(part: str) -> int:
    """Number of vowel-consonant sequences (Porter's m)."""
    kinds = "".join("c" if _is_consonant(part, i) else "v" for i in range(len(part)))
    return len(re.findall("v+c+", kinds))


def _has_vowel(part: str) -> bool:
    return any(not _is_consonant(part, i) for i in range(len(part)))


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1)


def _ends_cvc(word: str) -> bool:
    n = len(word)
    return (
        n > 2
        and _is_consonant(word, n - 1)
        and not _is_consonant(word, n - 2)
        and _is_consonant(word, n - 3)
        and word[-1] not in "wxy"
    )


def _step_1a(word: str) -> str:
    for suffix, new in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(suffix):
            return word[: -len(suffix)] + new
    return word


def _step_1b(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        part = word[: -len(suffix)]
        if word.endswith(suffix):
            return _repair(part) if _has_vowel(part) else word
    return word


def _repair(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _ends_double(word) and word[-1] not in "lsz":
        return word[:-1]
    return word + "e" if _measure(word) == 1 and _ends_cvc(word) else word


def _step_1c(word: str) -> str:
    return word[:-1] + "i" if word.endswith("y") and _has_vowel(word[:-1]) else word


_STEP_2 = (
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e "
    "ousli:ous ization:ize ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous "
    "aliti:al iviti:ive biliti:ble logi:log"
)
_STEP_3 = "icate:ic ative: alize:al iciti:ic ical:ic ful: ness:"
_STEP_4 = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split()
# The longest matching suffix decides, so the rules are tried from the longest.
_RULES_2 = sorted((rule.split(":") for rule in _STEP_2.split()), key=lambda r: -len(r[0]))
_RULES_3 = sorted((rule.split(":") for rule in _STEP_3.split()), key=lambda r: -len(r[0]))
_RULES_4 = sorted(_STEP_4, key=len, reverse=True)
# Most words end in none of them, which one look at all of them tells.
_ENDS_2, _ENDS_3 = (tuple(suffix for suffix, _ in rules) for rules in (_RULES_2, _RULES_3))
_ENDS_4 = tuple(_RULES_4)


def _replace(word: str, rules: list[list[str]], ends: tuple[str, ...]) -> str:
    if not word.endswith(ends):
        return word
    for suffix, new in rules:
        if word.endswith(suffix):
            part = word[: -len(suffix)]
            return part + new if _measure(part) > 0 else word
    return word


def _step_2(word: str) -> str:
    return _replace(word, _RULES_2, _ENDS_2)


def _step_3(word: str) -> str:
    return _replace(word, _RULES_3, _ENDS_3)


def _step_4(word: str) -> str:
    if not word.endswith(_ENDS_4):
        return word
    for suffix in _RULES_4:
        if word.endswith(suffix):
            part = word[: -len(suffix)]
            if _measure(part) > 1 and (suffix != "ion" or part.endswith(("s", "t"))):
                return part
            return word
    return word


def _step_5(word: str) -> str:
    if word.endswith("e"):
        part = word[:-1]
        m = _measure(part)
        if m > 1 or (m == 1 and not _ends_cvc(part)):
            word = part
    if word.endswith("ll") and _measure(word) > 1:
        return word[:-1]
    return word
