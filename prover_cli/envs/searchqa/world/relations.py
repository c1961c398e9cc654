"""What can be asked about each kind of thing, and in which words.

Each wording goes with the keywords of the search that answers it; the keywords stand in the
wording, so a search holds nothing that the question does not say.
"""

from __future__ import annotations

from dataclasses import dataclass

Wordings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of question: from a `subject` of one kind to a value.

    `target` is the kind of entity that the value is, empty for a literal. `asks` are whole
    questions about {x}; `phrases` stand for the value within a longer question. An `inverse`
    relation leads from a value to its only subject: from an author to the only novel.
    """

    name: str
    subject: str
    target: str
    asks: Wordings
    phrases: Wordings = ()
    inverse: bool = False


def _pairs(text: str) -> Wordings:
    """`wording | keywords` lines."""
    lines = [line.split("|") for line in text.strip().splitlines()] if text else []
    return tuple((wording.strip(), keywords.strip()) for wording, keywords in lines)


def _relation(
    subject: str, name: str, target: str, asks: str, phrases: str = "", inverse: bool = False
) -> Relation:
    return Relation(name, subject, target, _pairs(asks), _pairs(phrases), inverse)


_PERSON = (
    _relation("person", "born", "", "On what date was {x} born? | born"),
    _relation("person", "died", "", "On what date did {x} die? | die"),
    _relation(
        "person",
        "birthplace",
        "city",
        """In which city was {x} born? | born
        Where was {x} born? | born
        What is the birthplace of {x}? | birthplace""",
        """the city where {x} was born | born
        the birthplace of {x} | birthplace""",
    ),
    _relation(
        "person",
        "spouse",
        "person",
        """Who was {x} married to? | married
        Who was the spouse of {x}? | spouse""",
        "the spouse of {x} | spouse",
    ),
    _relation(
        "person",
        "teacher",
        "person",
        """Who taught {x}? | taught
        Who was the teacher of {x}? | teacher""",
        "the teacher of {x} | teacher",
    ),
    _relation(
        "person",
        "father",
        "person",
        "Who was the father of {x}? | father",
        "the father of {x} | father",
    ),
    _relation(
        "person",
        "university",
        "university",
        """At which university did {x} study? | university study
        Where did {x} study? | study""",
        "the university where {x} studied | university studied",
    ),
    _relation("person", "author", "novel", "Which novel did {x} write? | novel", inverse=True),
    _relation("person", "director", "film", "Which film did {x} direct? | film", inverse=True),
    _relation(
        "person", "founder", "company", "Which company did {x} found? | company", inverse=True
    ),
)
_WORKS = (
    _relation(
        "novel",
        "author",
        "person",
        """Who wrote {x}? | wrote
        Who is the author of {x}? | author""",
        """the author of {x} | author
        the writer of {x} | writer""",
    ),
    _relation(
        "novel",
        "year",
        "",
        """In what year was {x} published? | published
        When was {x} published? | published""",
    ),
    _relation("novel", "pages", "", "How many pages does {x} have? | pages"),
    _relation(
        "novel",
        "publisher",
        "company",
        """Which company published {x}? | published
        Who is the publisher of {x}? | publisher""",
        "the publisher of {x} | publisher",
    ),
    _relation(
        "novel",
        "setting",
        "city",
        "In which city is {x} set? | set",
        "the city where {x} is set | set",
    ),
    _relation(
        "novel",
        "prequel",
        "novel",
        "Which novel does {x} continue? | continue",
        "the novel that {x} continues | continues",
    ),
    _relation(
        "film",
        "director",
        "person",
        """Who directed {x}? | directed
        Who is the director of {x}? | director""",
        "the director of {x} | director",
    ),
    _relation(
        "film",
        "star",
        "person",
        "Who is the star of {x}? | star",
        "the star of {x} | star",
    ),
    _relation(
        "film",
        "composer",
        "person",
        "Who composed the music of {x}? | composed music",
        "the composer of {x} | composer",
    ),
    _relation(
        "film",
        "novel",
        "novel",
        "On which novel is {x} based? | novel based",
        "the novel on which {x} is based | novel based",
    ),
    _relation("film", "year", "", "In what year was {x} released? | released"),
    _relation("film", "minutes", "", "How many minutes long is {x}? | minutes"),
    _relation(
        "song",
        "band",
        "band",
        "Which band recorded {x}? | band recorded",
        "the band that recorded {x} | band recorded",
    ),
    _relation("song", "writer", "person", "Who wrote {x}? | wrote", "the writer of {x} | writer"),
    _relation("song", "year", "", "In what year was {x} recorded? | recorded"),
    _relation(
        "painting",
        "painter",
        "person",
        """Who painted {x}? | painted
        Who is the painter of {x}? | painter""",
        "the painter of {x} | painter",
    ),
    _relation("painting", "year", "", "In what year was {x} painted? | painted"),
    _relation(
        "painting",
        "city",
        "city",
        "In which city does {x} hang? | hang",
        "the city where {x} hangs | hangs",
    ),
)
_PLACES = (
    _relation(
        "city",
        "region",
        "region",
        "In which region is {x}? | region",
        "the region of {x} | region",
    ),
    _relation(
        "city",
        "river",
        "river",
        "On which river is {x}? | river",
        "the river of {x} | river",
    ),
    _relation("city", "year", "", "In what year was {x} founded? | founded"),
    _relation("city", "population", "", "What is the population of {x}? | population"),
    _relation(
        "region",
        "country",
        "country",
        "In which country is {x}? | country",
        "the country of {x} | country",
    ),
    _relation(
        "region",
        "capital",
        "city",
        "What is the capital of {x}? | capital",
        "the capital of {x} | capital",
    ),
    _relation("region", "peak", "", "What is the highest peak of {x}? | peak"),
    _relation(
        "country",
        "capital",
        "city",
        "What is the capital of {x}? | capital",
        "the capital of {x} | capital",
    ),
    _relation("country", "currency", "", "What is the currency of {x}? | currency"),
    _relation("country", "year", "", "In what year did {x} become independent? | independent"),
    _relation("river", "length", "", "How long is {x}? | long"),
    _relation("river", "source", "", "On which mountain does {x} rise? | mountain rise"),
    _relation(
        "river",
        "country",
        "country",
        "Through which country does {x} flow? | country flow",
        "the country of {x} | country",
    ),
)
_SEAT = ("In which city is {x} based? | based", "the home city of {x} | city")
_BODIES = (
    _relation(
        "company",
        "founder",
        "person",
        """Who founded {x}? | founded
        Who was the founder of {x}? | founder""",
        "the founder of {x} | founder",
    ),
    _relation("company", "city", "city", *_SEAT),
    _relation("company", "year", "", "In what year was {x} founded? | founded"),
    _relation("university", "city", "city", *_SEAT),
    _relation("university", "year", "", "In what year was {x} founded? | founded"),
    _relation(
        "university",
        "rector",
        "person",
        "Who is the rector of {x}? | rector",
        "the rector of {x} | rector",
    ),
    _relation(
        "band",
        "singer",
        "person",
        "Who is the singer of {x}? | singer",
        "the singer of {x} | singer",
    ),
    _relation("band", "city", "city", *_SEAT),
    _relation("band", "year", "", "In what year was {x} formed? | formed"),
    _relation(
        "band",
        "label",
        "company",
        "What is the record label of {x}? | label",
        "the record label of {x} | label",
    ),
    _relation(
        "club", "coach", "person", "Who is the coach of {x}? | coach", "the coach of {x} | coach"
    ),
    _relation("club", "city", "city", *_SEAT),
    _relation("club", "ground", "", "What is the home ground of {x}? | ground"),
    _relation("club", "year", "", "In what year was {x} founded? | founded"),
)
RELATIONS: tuple[Relation, ...] = _PERSON + _WORKS + _PLACES + _BODIES

# How the older of two is called: (relation to compare, wording for {a} and {b}, keywords).
COMPARED: dict[str, tuple[str, str, str]] = {
    "novel": ("year", "the older of the novels {a} and {b}", "novels"),
    "film": ("year", "the older of the films {a} and {b}", "films"),
    "painting": ("year", "the older of the paintings {a} and {b}", "paintings"),
    "company": ("year", "the older of the companies {a} and {b}", "companies"),
    "band": ("year", "the older of the bands {a} and {b}", "bands"),
}
