"""The generated world is coherent, reproducible, and as hard to search as it promises."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import asdict

import pytest

from prover_cli.envs.lucene import tokens
from prover_cli.envs.searchqa.scoring import normalise, score
from prover_cli.envs.searchqa.types import Passage, Question
from prover_cli.envs.searchqa.world import World, build, report
from prover_cli.envs.searchqa.world.facts import Facts, plain, says
from prover_cli.envs.searchqa.world.passages import WORDS
from prover_cli.envs.searchqa.world.questions import Plan
from prover_cli.envs.searchqa.world.relations import RELATIONS
from prover_cli.errors import UsageError

SIZES = (300, 3000)


@pytest.fixture(scope="module", params=SIZES)
def world(request: pytest.FixtureRequest) -> World:
    size: int = request.param
    return build(7, size)


def _asked(world: World) -> list[Question]:
    return [question for questions in world.questions.values() for question in questions]


def _pages(world: World) -> dict[str, Passage]:
    return {passage.title: passage for passage in world.passages}


def _digest(world: World) -> str:
    content = [[asdict(p) for p in world.passages], [asdict(q) for q in _asked(world)]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


_DIGEST = """
from tests.envs.test_searchqa_world import _digest
from prover_cli.envs.searchqa.world import build
print(_digest(build(3, 300)))
"""


def test_the_same_seed_gives_the_same_bytes_in_any_process() -> None:
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", _DIGEST]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == _digest(build(3, 300))


def test_another_seed_gives_another_world() -> None:
    first, second = build(0, 300), build(1, 300)
    shared = {p.title for p in first.passages} & {p.title for p in second.passages}
    assert len(shared) < 30


def test_size_is_the_number_of_passages_and_counts_that_of_questions(world: World) -> None:
    size = len(world.passages)
    assert size in SIZES
    for split, share in (("train", 1 / 2), ("valid", 1 / 15), ("test", 1 / 15)):
        questions = world.questions[split]
        assert len(questions) == pytest.approx(share * size, abs=3)
        by_hops = Counter(question.hops for question in questions)
        assert set(by_hops) == {1, 2, 3}
        assert max(by_hops.values()) - min(by_hops.values()) <= 3


def test_questions_of_a_split_do_not_depend_on_the_number_of_others() -> None:
    many, few = build(7, 300), build(7, 300, {"train": 30, "valid": 0})
    assert [len(few.questions[split]) for split in ("train", "valid", "test")] == [30, 0, 20]
    assert few.questions["test"] == many.questions["test"]
    assert few.passages == many.passages


@pytest.mark.parametrize("size", [0, 10, 199])
def test_a_world_that_is_too_small_is_refused_with_the_least_size(size: int) -> None:
    with pytest.raises(UsageError, match="200") as caught:
        build(0, size)
    assert str(size) in caught.value.message and caught.value.hint


@pytest.mark.parametrize("seed", range(4))
def test_the_smallest_world_has_questions_of_every_kind(seed: int) -> None:
    small = build(seed, 200)
    assert {q.hops for q in small.questions["train"]} == {1, 2, 3}
    assert all(small.questions.values())


def test_pages_are_plain_text_of_a_fixed_range_with_unique_titles(world: World) -> None:
    titles = [normalise(passage.title) for passage in world.passages]
    assert len(set(titles)) == len(titles)
    assert len({passage.passage_id for passage in world.passages}) == len(titles)
    for passage in world.passages:
        text = passage.title + passage.text
        assert WORDS[0] <= len(passage.text.split()) <= WORDS[1], passage
        assert text.isprintable() and not set(text) & set("<>{}[]|\\")
        assert plain(text).isascii()
        assert "  " not in text and passage.text.endswith(".")


def test_questions_are_plain_text_that_ends_with_a_question_mark(world: World) -> None:
    texts = [question.text for question in _asked(world)]
    assert len(set(texts)) == len(texts)
    assert len({question.question_id for question in _asked(world)}) == len(texts)
    for question in _asked(world):
        assert question.text.endswith("?") and question.text[0].isupper()
        assert question.text.isprintable() and not set(question.text) & set("<>{}")
        assert question.source == f"world-{question.hops}hop"
        assert len(question.chain) == len(question.gold) == question.hops


def test_nobody_acts_before_growing_up_or_after_death(world: World) -> None:
    facts = world.facts
    for kind, relation in (
        ("novel", "author"),
        ("film", "director"),
        ("film", "star"),
        ("film", "composer"),
        ("song", "writer"),
        ("painting", "painter"),
        ("company", "founder"),
        ("band", "singer"),
    ):
        for key in facts.of(kind):
            if person := facts.get(key, relation):
                year = facts.year(key, "year")
                assert facts.year(person, "born") + 20 <= year <= _last_year(facts, person)


def _last_year(facts: Facts, person: str) -> int:
    return facts.year(person, "died") if facts.get(person, "died") else 2019


def test_families_and_lives_are_possible(world: World) -> None:
    facts = world.facts
    for person in facts.of("person"):
        born = facts.year(person, "born")
        assert born < _last_year(facts, person) <= born + 100 or not facts.get(person, "died")
        if father := facts.get(person, "father"):
            assert facts.values[father]["sex"] == "man"
            assert facts.year(father, "born") + 20 <= born <= _last_year(facts, father)
        if teacher := facts.get(person, "teacher"):
            assert facts.year(teacher, "born") < born < _last_year(facts, teacher) - 10
        if spouse := facts.get(person, "spouse"):
            assert spouse != person and facts.get(spouse, "spouse") == person
            assert abs(facts.year(spouse, "born") - born) <= 12
        if school := facts.get(person, "university"):
            assert facts.year(school, "year") < born + 18
        assert facts.year(facts.values[person]["birthplace"], "year") < born


def test_works_follow_what_they_build_on(world: World) -> None:
    facts = world.facts
    for work in facts.of("novel"):
        if earlier := facts.get(work, "prequel"):
            assert facts.year(earlier, "year") < facts.year(work, "year")
            assert facts.get(earlier, "author") == facts.get(work, "author")
    for relation in ("publisher", "label", "novel", "band"):
        for key, known in facts.values.items():
            if relation in known:
                later = facts.year(known[relation], "year") <= facts.year(key, "year")
                assert later, (relation, key)


def test_places_nest_and_capitals_are_unique(world: World) -> None:
    facts = world.facts
    for region in facts.of("region"):
        assert facts.values[facts.values[region]["capital"]]["region"] == region
    for city in facts.of("city"):
        country = facts.values[facts.values[city]["region"]]["country"]
        if river := facts.get(city, "river"):
            assert facts.get(river, "country") == country
    capitals = [facts.values[country]["capital"] for country in facts.of("country")]
    assert len(set(capitals)) == len(capitals) >= 2
    for country, capital in zip(facts.of("country"), capitals, strict=True):
        assert facts.values[facts.values[capital]["region"]]["country"] == country


def test_every_relation_leads_to_an_entity_of_its_kind(world: World) -> None:
    for relation in RELATIONS:
        for key in world.facts.of(relation.subject) if not relation.inverse else ():
            if value := world.facts.get(key, relation.name):
                known = world.facts.entities.get(value)
                assert (known.kind if known else "") == relation.target


def _brute_force(world: World, plan: Plan, text: str) -> set[str]:
    """All values that a plan can mean, by a scan of the bare facts for every step."""
    facts = world.facts
    triples = [(s, r, v) for s, known in facts.values.items() for r, v in known.items()]
    names = [facts.entities[start].name for start in plan.starts]
    assert all(name in text for name in names)
    found = {key for key, entity in facts.entities.items() if entity.name in names}
    if plan.compared:
        years = {s: int(v) for s, r, v in triples if r == plan.compared and s in found}
        found = {key for key in found if years[key] == min(years.values())}
    for step in plan.steps:
        held = [(s, v) for s, r, v in triples if r == step.name]
        if step.inverse:
            found = {s for s, v in held if v in found and facts.entities[s].kind == step.target}
        else:
            found = {v for s, v in held if s in found}
    return {normalise(facts.shown(plan.steps[-1].name, value)) for value in found}


def test_every_question_has_exactly_one_right_answer(world: World) -> None:
    questions = _asked(world)
    for question in questions[:: max(1, len(questions) // 120)]:
        found = _brute_force(world, world.plans[question.question_id], question.text)
        assert found == {normalise(question.answers[0])}, question


def test_no_accepted_answer_names_another_entity(world: World) -> None:
    owners: dict[str, set[str]] = {}
    for key, entity in world.facts.entities.items():
        for wording in (entity.name, *entity.aliases):
            owners.setdefault(normalise(wording), set()).add(key)
    assert all(len(keys) == 1 for keys in owners.values())


def test_answers_stand_neither_in_the_question_nor_before_the_last_page(world: World) -> None:
    pages = _pages(world)
    for question in _asked(world):
        assert not says(normalise(question.text), question.answers), question
        texts = [normalise(f"{title} {pages[title].text}") for title in question.gold]
        assert says(texts[-1], question.answers[:1]), question
        assert not any(says(text, question.answers) for text in texts[:-1]), question


def test_aliases_are_right_under_exact_match(world: World) -> None:
    for question in _asked(world):
        for answer in question.answers:
            assert normalise(answer)
            for form in (answer, answer.upper(), f" the {answer}. "):
                assert score(form, question.answers).em == 1
    facts = world.facts
    assert "March 4, 1871" in facts.wordings("born", "1871-03-04")
    assert "1871-03-04" in facts.wordings("died", "1871-03-04")
    assert {"1,200 km", "1200"} <= set(facts.wordings("length", "1200"))
    river = facts.entities[facts.of("river")[0]]
    assert f"{river.short} River" in river.aliases
    accented = [e for e in facts.entities.values() if not e.name.isascii()]
    assert accented and all(plain(e.name) in e.aliases for e in accented)


def test_splits_share_no_start_and_no_last_step(world: World) -> None:
    owner: dict[tuple[str, str], str] = {}
    names = {entity.name: key for key, entity in world.facts.entities.items()}
    for split, questions in world.questions.items():
        for question in questions:
            plan = world.plans[question.question_id]
            bridge = names[_name_in(question.chain[-1], names)]
            for thing in (*(("start", start) for start in plan.starts), ("last", bridge)):
                assert owner.setdefault(thing, split) == split, question


def _name_in(query: str, names: Container[str]) -> str:
    """The longest name that a query begins with."""
    parts = query.split(" ")
    heads = (" ".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next(head for head in heads if head in names)


def test_chain_queries_use_only_words_known_by_then(world: World) -> None:
    pages = _pages(world)
    for question in _asked(world):
        known = question.text
        for query, title in zip(question.chain, question.gold, strict=True):
            assert set(query.split(" ")) <= set(_known_words(known)), (question, query)
            assert set(tokens(query)) <= set(tokens(known))
            known = f"{known} {pages[title].text}"


def _known_words(text: str) -> Iterator[str]:
    for word in text.split(" "):
        yield word
        yield word.rstrip("?.,;")


def test_comparisons_need_both_pages(world: World) -> None:
    compared = [q for q in _asked(world) if world.plans[q.question_id].compared]
    assert compared
    facts = world.facts
    for question in compared[:40]:
        plan = world.plans[question.question_id]
        older, younger = sorted(plan.starts, key=lambda key: facts.year(key, plan.compared or ""))
        assert facts.year(older, "year") < facts.year(younger, "year")
        wrong = _brute_force(world, Plan((younger,), plan.steps), question.text)
        assert normalise(question.answers[0]) not in wrong
        for start, title in zip(plan.starts, question.gold, strict=False):
            assert str(facts.year(start, "year")) in _pages(world)[title].text


def test_one_search_answers_one_hop_and_several_take_a_chain(world: World) -> None:
    figures = report(world, k=3, limit=200)
    one, two, three = (figures[f"world-{hops}hop"] for hops in (1, 2, 3))
    assert one["raw"] >= 0.9
    assert two["raw"] < 0.35
    assert three["raw"] < 0.2
    for of_hops in (one, two, three):
        assert of_hops["chain"] >= 0.9 and of_hops["steps"] >= 0.9


def test_some_names_are_almost_alike(world: World) -> None:
    surnames = {e.short for e in world.facts.entities.values() if e.kind == "person"}
    words = sorted(plain(name).lower() for name in surnames)
    vowels = str.maketrans("aeiou", "?????")
    shapes = Counter(word.translate(vowels) for word in words)
    assert sum(count - 1 for count in shapes.values()) >= 3
    shared = Counter(e.short for e in world.facts.entities.values() if e.kind == "person")
    assert shared.most_common(1)[0][1] >= 3
