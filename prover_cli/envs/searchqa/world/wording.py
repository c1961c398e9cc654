"""The sentences of which pages are made.

Every group of `FACTS` is one place in a page; one of its variants is taken whose facts are known.
Fields: {name}, {short}, {He}, {his}/{His}, {role}, {decade}, those of `SLOTS`, and the relations of
the kind.
The fillers say nothing that is ever asked.
"""

from __future__ import annotations

FACTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "person": (
        (
            "{name} ({born} - {died}) was {role} born in {birthplace}.",
            "{name} was {role}, born on {born} in {birthplace}, who died on {died}.",
            "Born in {birthplace} on {born}, {name} was {role}; {short} died on {died}.",
            "{name} (born {born}) is {role} born in {birthplace}.",
            "{name} is {role}, born on {born} in {birthplace}.",
        ),
        (
            "{short} studied at {university}, and {his} teacher was {teacher}.",
            "{He} was taught by {teacher} and went to {university}.",
        ),
        ("{short} went to {university}.", "{He} studied at {university}."),
        ("{His} teacher was {teacher}.", "{short} was taught by {teacher}."),
        ("{short} was married to {spouse}.", "{His} spouse was {spouse}."),
        ("{His} father was {father}.", "The father of {short} was {father}."),
    ),
    "novel": (
        (
            "{name} is a novel by {author}, published in {year}.",
            "{name} is a {year} novel written by {author}.",
            "The novel {name} by the author {author} came out in {year}.",
        ),
        (
            "It was published by {publisher} and is set in {setting}.",
            "The story is set in {setting}; the publisher was {publisher}.",
        ),
        ("It is set in {setting}.", "The story is set in {setting}."),
        ("It continues {prequel}.", "The book is a sequel and continues {prequel}."),
        ("The first edition has {pages} pages.", "It has {pages} pages."),
    ),
    "film": (
        (
            "{name} is a {year} film directed by {director}.",
            "{name} is a film by the director {director}, released in {year}.",
            "The film {name}, directed by {director}, was released in {year}.",
        ),
        ("It is based on the novel {novel}.", "The script is based on {novel}, a novel."),
        (
            "Its star is {star}, and the music was composed by {composer}.",
            "The composer was {composer}; the star of the film is {star}.",
        ),
        ("Its star is {star}.", "{star} is its star."),
        ("It is {minutes} minutes long.", "The film runs for {minutes} minutes."),
    ),
    "song": (
        (
            "{name} is a song that {band} recorded in {year}.",
            "{name} is a song by the band {band}, recorded in {year}.",
            "The song {name} was recorded by {band} in {year}.",
        ),
        ("It was written by {writer}.", "{writer} wrote the song.", "Its writer is {writer}."),
    ),
    "painting": (
        (
            "{name} is a painting by {painter} from {year}.",
            "{name} was painted by {painter} in {year}.",
            "The painter {painter} finished the painting {name} in {year}.",
        ),
        ("It hangs in {city}.", "The picture hangs in a gallery in {city}."),
    ),
    "city": (
        (
            "{name} is a city in the region of {region} on the {river}.",
            "{name} is a city on the {river}, in the region of {region}.",
            "{name} is a city in the region of {region}.",
        ),
        (
            "{short} was founded in {year} and has a population of {population}.",
            "The city of {short} has a population of {population} and was founded in {year}.",
        ),
    ),
    "region": (
        (
            "{name} is a region of {country}; its capital is {capital}.",
            "{name}, with the capital {capital}, is a region in the country of {country}.",
        ),
        ("The highest peak of {short} is {peak}.", "Its highest peak is {peak}."),
    ),
    "country": (
        (
            "{name} is a country with the capital {capital}.",
            "{name} is a country; its capital is {capital}.",
        ),
        (
            "Independent since {year}, {short} has a currency called the {currency}.",
            "The currency of {short} is the {currency}; it became independent in {year}.",
        ),
    ),
    "river": (
        (
            "The {name} is a river in the country of {country}.",
            "The {name} is a river; it flows through the country of {country}.",
        ),
        (
            "The {short} rises on {source} and is {length} km long.",
            "It is {length} km long and rises on a mountain called {source}.",
        ),
    ),
    "company": (
        (
            "{name} is a company founded by {founder} in {year}.",
            "{name} is a company that {founder} founded in {year}.",
            "The company {name} was founded in {year}; the founder was {founder}.",
        ),
        ("{short} is based in {city}.", "Its home city is {city}."),
    ),
    "university": (
        (
            "{name} is a university in {city}, founded in {year}.",
            "{name} is a university based in the city of {city} and founded in {year}.",
        ),
        ("The rector of {short} is {rector}.", "Its rector is {rector}."),
    ),
    "band": (
        (
            "{name} are a band with the singer {singer}, formed in {year}.",
            "{name} are a band formed in {year}; the singer is {singer}.",
        ),
        (
            "They are based in {city}, and their record label is {label}.",
            "Their label is {label}, and their home city is {city}.",
        ),
        ("They are based in {city}.", "Their home city is {city}."),
    ),
    "club": (
        (
            "{name} is a sports club based in {city}, founded in {year}.",
            "{name} is a sports club in the city of {city}; it was founded in {year}.",
        ),
        (
            "The coach of {short} is {coach}, and the home ground is {ground}.",
            "Its home ground is {ground}; the coach is {coach}.",
        ),
    ),
}
ROLES = {
    "writer": "a novelist",
    "director": "a film director",
    "painter": "a painter",
    "musician": "a musician",
    "industrialist": "an industrialist",
    "scholar": "a scholar",
    "coach": "a sports coach",
    "actor": "an actor",
}
_THING = (
    "People talked a lot about {short} in the {decade}s.",
    "Early reports on {short} were mixed, later ones friendlier.",
    "A short documentary about {short} was shown on local television.",
    "The archive keeps {number} letters about {short}, most of them unread.",
    "An exhibition about {name} toured for {number} months.",
    "Collectors pay good prices for old posters of {short}.",
    "A {colour} stamp was printed in honour of {name}.",
    "School classes still discuss {short} every {season}.",
    "Several magazines printed long articles about {short}.",
    "The anniversary of {short} is marked every {season} with a small fair.",
)
_PERSON = (
    "{short} kept a diary and wrote letters to {number} friends abroad.",
    "Friends of {short} described {his} manner as calm and rather dry.",
    "{short} grew {colour} roses and bred rabbits.",
    "{short} spoke {number} languages and rarely travelled without a notebook.",
    "Every {season} {short} walked for weeks along the coast.",
    "A bronze bust of {short} stands in a small {colour} pavilion.",
    "Much of what is told about {name} goes back to {his} own notes.",
    "{short} was fond of chess and lost most games cheerfully.",
    "An illness in the {decade}s kept {short} at home for {number} months.",
    "{short} liked rowing, puzzles and long conversations by the fire.",
)
_PLACE = (
    "{short} is known for its {colour} roofs and a market held every {season}.",
    "Visitors come to {short} in {season} for the fishing and the mild air.",
    "A flood in the {decade}s changed the look of {short}.",
    "Farmers around {short} grow barley, plums and {colour} beans.",
    "There are {number} museums in {short}, all of them small.",
    "The dialect of {short} has {number} words for rain.",
    "Old maps of {short} are kept in a {colour} chest.",
    "Trams were brought to {short} in the {decade}s.",
    "Storks nest near {short} from {season} on.",
    "Tales of {name} often mention the {season} fog.",
)
PLACES = ("city", "region", "country", "river")
FILLERS: dict[str, tuple[str, ...]] = {
    kind: _PERSON if kind == "person" else _PLACE if kind in PLACES else _THING for kind in FACTS
}
SLOTS: dict[str, tuple[str, ...]] = {
    "colour": ("green", "grey", "blue", "brown", "yellow", "white"),
    "season": ("spring", "summer", "autumn", "winter"),
    "number": ("three", "four", "five", "six", "seven", "eight", "nine", "ten"),
}
SECTION_TITLES: dict[str, tuple[str, ...]] = {
    "person": ("Legacy of {}", "Character of {}", "Memories of {}"),
    "place": ("Daily life in {}", "Climate of {}", "Walks around {}"),
    "thing": ("Reception of {}", "Reputation of {}", "Stories about {}"),
}
