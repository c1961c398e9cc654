"""Generated games: solvable, balanced, the same everywhere, and equal once written to files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from prover_cli.envs.alfworld import AlfworldEnvironment, play_file
from prover_cli.envs.alfworld.errands import ROOMS_OF
from prover_cli.envs.alfworld.game import Game, task_sentence
from prover_cli.envs.alfworld.generate import SIZES, GeneratedGame, games
from prover_cli.envs.alfworld.grammar import parse
from prover_cli.envs.alfworld.official import TASK_TYPES
from prover_cli.envs.alfworld.prepare import RECORD_FILE, generate_files, prepare
from prover_cli.envs.alfworld.session import AlfworldSession
from prover_cli.envs.alfworld.texts import RETELLINGS, SHAPES
from prover_cli.envs.alfworld.vocabulary import MAY_HOLD, PROPERTIES, ROOMS
from prover_cli.errors import StorageError, UsageError

CUT = set(';|"<>[]#{}')
"""Characters at which the official reader of grammars ends a sentence."""
N = 24


class Silence:
    """Progress that nobody watches."""

    def start(self, what: str, total: int, unit: str) -> None:
        self.left = total

    def advance(self, n: int = 1, facts: str = "") -> None:
        self.left -= n

    def note(self, text: str) -> None:
        pass


@pytest.fixture(scope="module")
def made() -> dict[tuple[int, str], list[GeneratedGame]]:
    """Games of every level and split."""
    return {
        (level, split): [one.checked() for one in games(split, level, N, 0)]
        for level in (1, 2, 3)
        for split in SIZES
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    generate_files(Silence(), out=str(folder), seed=3, games=24, held_out=12)
    return folder


def everything(made: Mapping[tuple[int, str], list[GeneratedGame]]) -> list[GeneratedGame]:
    return [one for each in made.values() for one in each]


def scene_of(one: GeneratedGame) -> int:
    return int(one.traj_data["scene"]["scene_num"])


def facts(one: GeneratedGame, name: str) -> list[tuple[str, ...]]:
    """What is said with a predicate, by ids."""
    game = parsed(one)
    return [tuple(game.ids[x] for x in row) for row in game.initial.all_of(name)]


def kinds_by_name(one: GeneratedGame, predicate: str) -> dict[str, str]:
    pairs = [(name, kind) for name, kind in facts(one, predicate)]
    return dict(pairs)


def parsed(one: GeneratedGame) -> Game:
    return _parsed(*(one.game[part] for part in ("pddl_domain", "pddl_problem", "grammar")))


@cache
def _parsed(domain: str, problem: str, grammar: str) -> Game:
    return Game(domain, problem, grammar)


def receptacles(one: GeneratedGame) -> int:
    return len(facts(one, "receptacleatlocation"))


def test_every_game_is_open_at_first_and_solved_by_its_plan(made: Any) -> None:
    for one in everything(made):
        session = AlfworldSession(parsed(one))
        assert not session.won and one.game["solvable"] is True
        plan = one.game["walkthrough"]
        assert 3 <= len(plan) <= 15
        for command in plan:
            assert not session.won and session.step(command).valid
        assert session.won, one.path


@pytest.mark.parametrize("shared_spots", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_other_seeds_are_solvable_too(seed: int, shared_spots: bool) -> None:
    for level in (1, 2, 3):
        for one in games("valid_unseen", level, 30, seed, shared_spots=shared_spots):
            assert one.checked().game["walkthrough"]


def test_types_take_turns_in_rooms_that_fit_them(made: Any) -> None:
    for each in made.values():
        types = [one.traj_data["task_type"] for one in each]
        assert len(each) == N and Counter(types) == dict.fromkeys(TASK_TYPES, N // 6)
        for one in each:
            rooms = [ROOMS[name] for name in ROOMS_OF[one.traj_data["task_type"]]]
            assert any(0 <= scene_of(one) - room.first_scene < 30 for room in rooms)


def test_splits_have_the_sizes_that_were_asked_for() -> None:
    alfworld = AlfworldEnvironment(games=18)
    assert [len(alfworld.tasks(split)) for split in ("train", "valid", "test")] == [18, 60, 60]
    assert len({task.task_id for task in alfworld.tasks("all")}) == 138


def test_unseen_scenes_occur_in_no_other_split(made: Any) -> None:
    for level in (1, 2, 3):
        train, seen, unseen = (made[level, split] for split in SIZES)
        scenes = [{scene_of(one) for one in each} for each in (train, seen, unseen)]
        assert scenes[1] <= scenes[0] and not scenes[2] & scenes[0]
        assert {10, 219, 308, 424}.isdisjoint(scenes[0])
        furniture = [
            {tuple(sorted(row[1] for row in facts(one, "receptacletype"))) for one in each}
            for each in (games("train", level, 150, 0), unseen)
        ]
        assert not furniture[0] & furniture[1]


def test_the_same_scene_has_the_same_receptacles_in_train_and_valid_seen(made: Any) -> None:
    train, seen, _ = (made[2, split] for split in SIZES)
    by_scene = {scene_of(one): facts(one, "receptacleatlocation") for one in train}
    assert all(by_scene[scene_of(one)] == facts(one, "receptacleatlocation") for one in seen)
    assert not {one.game["pddl_problem"] for one in train} & {
        one.game["pddl_problem"] for one in seen
    }


def test_things_lie_only_where_they_may(made: Any) -> None:
    allowed = {
        (f"{r}type".lower(), f"{o}type".lower()) for r, things in MAY_HOLD.items() for o in things
    }
    for one in everything(made):
        of_object, of_place = kinds_by_name(one, "objecttype"), kinds_by_name(one, "receptacletype")
        carried = {thing for (thing,) in facts(one, "pickupable")}
        assert set(facts(one, "cancontain")) <= allowed
        for thing, place in facts(one, "inreceptacle"):
            pair = of_place[place], of_object[thing]
            assert pair in allowed or thing.startswith("desklamp")
            assert thing.startswith("desklamp") != (thing in carried)


def test_wanted_objects_are_never_where_they_belong(made: Any) -> None:
    for one in everything(made):
        wanted = one.traj_data["pddl_params"]
        place, thing = wanted["parent_target"].lower(), wanted["object_target"].lower()
        rows = facts(one, "inreceptacle")
        kinds = kinds_by_name(one, "receptacletype")
        lying = [kinds[r] for o, r in rows if o.startswith(f"{thing}_bar_")]
        assert f"{place}type" not in lying
        assert len(lying) >= (2 if "two" in one.traj_data["task_type"] else 1)


def test_properties_are_those_of_the_kind(made: Any) -> None:
    for one in made[3, "train"]:
        kinds = kinds_by_name(one, "objecttype")
        for predicate, able in PROPERTIES.items():
            types = {f"{kind}type".lower() for kind in able}
            expected = {thing for thing, kind in kinds.items() if kind in types}
            assert {row[0] for row in facts(one, predicate.lower())} == expected


def test_every_receptacle_has_a_place_of_its_own_unless_asked_otherwise(made: Any) -> None:
    for one in everything(made):
        spots = [spot for _, spot in facts(one, "receptacleatlocation")]
        ((_, start),) = facts(one, "atlocation")
        assert len({start, *spots}) == len(spots) + 1
    shared = games("train", 3, 12, 0, shared_spots=True)
    used = [[spot for _, spot in facts(one, "receptacleatlocation")] for one in shared]
    assert sum(len(set(each)) < len(each) for each in used) > 6


def test_sentences_survive_the_grammar(made: Any) -> None:
    told = {sentence for each in (*SHAPES.values(), *RETELLINGS.values()) for sentence in each}
    assert all(not CUT & set(sentence.format(thing="x", place="y")) for sentence in told)
    for one in everything(made):
        sentence = task_sentence(one.game)
        assert sentence is not None and sentence == parsed(one).instruction
        assert sentence.endswith(".") and not CUT & set(sentence)
        for annotation in one.traj_data["turk_annotations"]["anns"]:
            assert parse(annotation["task_desc"]) == (annotation["task_desc"],)


def test_texts_look_like_the_official_ones(made: Any) -> None:
    one = next(o for o in made[1, "train"] if "examine the" in (task_sentence(o.game) or ""))
    session = AlfworldSession(parsed(one), show_help=True)
    first = session.observe().text.split("\n\n")
    assert first[0] == "-= Welcome to TextWorld, ALFRED! =-"
    assert first[1].startswith("You are in the middle of a room. Looking quickly around you, ")
    assert first[2] == f"Your task is to: {task_sentence(one.game)}"
    plan = one.game["walkthrough"]
    texts = [session.step(command).observation.text for command in (*plan, "look", "inventory")]
    place, thing = plan[0].removeprefix("go to "), plan[-3].split(" from ")[0].removeprefix("take ")
    assert texts[0].startswith(f"You arrive at {place}. ")
    assert texts[-5] == f"You pick up the {thing} from the {plan[-3].split(' from ')[1]}."
    assert texts[-3] == "You turn on the desklamp 1."
    assert texts[-2].startswith("You are facing the ")
    assert texts[-2].endswith("Next to it, you see nothing.")
    assert texts[-1] == f"You are carrying: a {thing}."
    assert "take ... from ..." in session.step("help").observation.text


def test_levels_grow(made: Any) -> None:
    each = [[made[level, split] for split in SIZES] for level in (1, 2, 3)]
    games_of = [[one for split in splits for one in split] for splits in each]
    n_places = [[receptacles(one) for one in level] for level in games_of]
    n_things = [mean(len(facts(one, "objecttype")) for one in level) for level in games_of]
    plans = [mean(len(one.game["walkthrough"]) for one in level) for level in games_of]
    assert set(n_places[0]) == {4, 5, 6} and set(n_places[1]) == {10, 11, 12}
    assert 18 < mean(n_places[2]) < 30
    assert n_things == sorted(n_things) and n_things[0] < 6 and n_things[2] > 20
    assert plans == sorted(plans) and plans[2] - plans[0] > 0.4


def test_the_first_games_do_not_depend_on_how_many_there_are() -> None:
    assert games("train", 1, 20, 5)[:7] == games("train", 1, 7, 5)
    assert games("train", 1, 7, 5) != games("train", 1, 7, 6)


def test_the_same_seed_writes_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.envs.test_alfworld_generate import Silence;"
        "from prover_cli.envs.alfworld.prepare import generate_files;"
        "generate_files(Silence(), out=sys.argv[1], seed=7, level=3, games=12, held_out=6)"
    )
    trees = []
    for hash_seed in ("1", "2"):
        out = tmp_path / hash_seed
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run([sys.executable, "-c", code, str(out)], check=True, env=environment)
        files = sorted(path for path in out.rglob("*") if path.is_file())
        trees.append({path.relative_to(out).as_posix(): path.read_bytes() for path in files})
    assert trees[0] == trees[1] and len(trees[0]) == 2 * 24 + 1


def test_written_files_load_back_to_the_same_games(written: Path) -> None:
    from_files = AlfworldEnvironment(data=str(written))
    for split, theirs in (("train", "train"), ("valid", "valid_seen"), ("test", "valid_unseen")):
        loaded = from_files.tasks(split)
        drawn = {one.path: one for one in games(theirs, 1, 24 if split == "train" else 12, 3)}
        assert [task.payload["game"] for task in loaded] == sorted(drawn) and not loaded.skipped
        for task in loaded:
            one = drawn[task.payload["game"]]
            assert task.instruction == task_sentence(one.game)
            assert from_files.game(task).content == parsed(one).content
    made_here = AlfworldEnvironment(games=24, seed=3).tasks("train")
    assert [t.payload for t in made_here] == [t.payload for t in from_files.tasks("train")]


def test_written_games_are_official_files(written: Path) -> None:
    folders = sorted((written / "json_2.1.1").glob("*/*/*"))
    assert len(folders) == 48
    for folder in folders:
        assert sorted(file.name for file in folder.iterdir()) == [
            "game.tw-pddl",
            "traj_data.json",
        ]
        trajectory = json.loads((folder / "traj_data.json").read_text())
        wanted = trajectory["pddl_params"]
        place = wanted["parent_target"] or wanted["toggle_target"]
        parts = [trajectory["task_type"], wanted["object_target"], "None", place]
        assert folder.parent.name == "-".join([*parts, str(trajectory["scene"]["scene_num"])])
        assert folder.name == trajectory["task_id"]
        session = play_file(folder / "game.tw-pddl")
        for command in json.loads((folder / "game.tw-pddl").read_text())["walkthrough"]:
            session.step(command)
        assert session.won


def test_files_are_not_written_over_others(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        generate_files(Silence(), out=str(tmp_path))
    with pytest.raises(StorageError, match="cannot be written"):
        generate_files(Silence(), out=str(tmp_path / "notes.txt"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_sizes_levels_and_splits_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one game"):
        generate_files(Silence(), out=str(tmp_path / "a"), games=0)
    with pytest.raises(UsageError, match="levels are 1, 2, 3, not 4"):
        generate_files(Silence(), out=str(tmp_path / "b"), level=4)
    with pytest.raises(UsageError, match="no split 'test'"):
        games("test", 1, 1, 0)


def test_preparing_counts_games_and_what_is_left_out(written: Path, tmp_path: Path) -> None:
    silence = Silence()
    found = prepare(silence, data=str(written))
    recorded = json.loads((written / RECORD_FILE).read_text())
    assert found["games"] == recorded["games"] == dict(zip(SIZES, (24, 12, 12), strict=True))
    assert found["contents"] == recorded["contents"] and found["skipped"] == {}
    assert silence.left == 0
    partly = tmp_path / "json_2.1.1/train/a/b"
    partly.mkdir(parents=True)
    (partly / "traj_data.json").write_text('{"task_type": "pick_two_obj_and_place"}')
    assert prepare(silence, data=str(tmp_path))["skipped"] == {"no game file": 1}
