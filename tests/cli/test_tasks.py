"""`prover tasks`: looking at tasks, preparing official data, writing generated data."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from prover_cli.app import app
from tests.cli.run import PROVER, environment, prover, succeed
from tests.policies import scripted_policy

CHOSEN = ("--goals", "synthetic", "--products", "30")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that the commands of this module share."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def data(home: Path) -> Path:
    """Official files of 40 products."""
    folder = home / "data"
    _run(home, "generate", "webshop", "--out", folder, "--products", "40", "--seed", "3")
    return folder


def _run(
    home: Path, *arguments: str | Path, code: int = 0, **variables: Any
) -> subprocess.CompletedProcess[str]:
    """`prover tasks ...` with the cache of this module; expects an exit code."""
    result = prover("tasks", *arguments, PROVER_CACHE=str(home / "cache"), **variables)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result


def _facts(home: Path, *arguments: str | Path, **variables: Any) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(_run(home, *arguments, "--json", **variables).stdout)
    return facts


def _refused(home: Path, *arguments: str | Path, **variables: Any) -> str:
    """The message of a command that must fail with code 2 and print nothing."""
    result = _run(home, *arguments, code=2, **variables)
    assert result.stdout == ""
    return " ".join(result.stderr.replace("│", " ").split())


def test_show_prints_a_task_a_line_and_the_rest_beside_it(home: Path) -> None:
    plain = _run(home, "show", "webshop", "--products", "30", "--tasks", "3")
    facts = _facts(home, "show", "webshop", "--products", "30", "--tasks", "3")
    rows = [line.split("  ", 2) for line in plain.stdout.splitlines()]
    assert len(rows) == 3 and rows == [
        [str(task["index"]), task["task_id"], task["instruction"]] for task in facts["tasks"]
    ]
    assert f"n tasks: {facts['n_tasks']}" in plain.stderr
    assert facts["panel_hash"] in plain.stderr and "skipped: none" in plain.stderr


def test_show_has_everything_that_identifies_a_split(home: Path) -> None:
    facts = _facts(home, "show", "webshop", "--products", "30", "--split", "test")
    assert set(facts) == {
        *("env", "split", "n_tasks", "panel_hash", "skipped", "note", "fingerprint", "assets"),
        "tasks",
    }
    assert (facts["env"], facts["split"]) == ("webshop", "test")
    assert len(facts["tasks"]) == min(10, facts["n_tasks"]) > 0
    assert set(facts["assets"]) >= {"catalogue", "tasks", "title nouns", "search"}
    others = _facts(home, "show", "webshop", *CHOSEN, "--split", "test", "--tasks", "0")
    assert others["tasks"] == [] and others["panel_hash"] != facts["panel_hash"]


def test_show_works_for_any_environment(home: Path) -> None:
    facts = _facts(home, "show", "toy", "--env-option", "n_tasks=8", "--tasks", "100")
    assert facts["n_tasks"] == len(facts["tasks"]) == 4 and facts["assets"]["tasks"] == "8"


def test_generated_files_are_the_generated_shop(home: Path, data: Path) -> None:
    assert sorted(path.name for path in data.iterdir()) == [
        *("items_human_ins.json", "items_ins_v2.json", "items_shuffle.json", "title_nouns.json")
    ]
    read = _facts(home, "show", "webshop", "--data", data)
    options = ("--products", "40", "--env-option", "catalogue_seed=3")
    assert read["panel_hash"] == _facts(home, "show", "webshop", *options)["panel_hash"]


def test_generate_prints_the_folder_and_refuses_one_in_use(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "data"
    result = _run(home, "generate", "webshop", "--out", out, "--products", "5")
    assert result.stdout == f"{out}\n" and "products: 5" in result.stderr
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    message = _refused(home, "generate", "webshop", "--out", out, "--products", "6")
    assert str(out) in message and "not empty" in message and "--out" in message
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (tmp_path / "empty").mkdir()
    facts = _facts(home, "generate", "webshop", "--out", tmp_path / "empty", "--products", "5")
    assert facts.keys() == {"folder", "products", "seed", "seconds"} and facts["products"] == 5


def test_generate_names_a_place_it_cannot_write(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for out in (tmp_path / "file", tmp_path / "file" / "data"):
        message = _refused(home, "generate", "webshop", "--out", out, "--products", "5")
        assert str(out) in message and "cannot be written" in message


def test_prepare_says_the_same_again_and_reads_nothing_again(home: Path, data: Path) -> None:
    command = ("prepare", "webshop", "--data", data, "--env-option", "price_seed=5")
    first, second = _facts(home, *command), _facts(home, *command)
    seconds = [facts.pop("seconds") for facts in (first, second)]
    assert first == second and all(isinstance(value, float) for value in seconds)
    assert set(first) == {
        *("folder", "catalogue", "products", "skipped", "goals", "titles_without_nouns"),
    }
    assert first["products"] == 40 and first["skipped"] == {}
    assert first["goals"].keys() == {"human", "synthetic"} and min(first["goals"].values()) > 0
    shown = _facts(home, "show", "webshop", "--data", data, "--env-option", "price_seed=5")
    assert shown["assets"]["catalogue"] == first["catalogue"]
    assert Path(first["folder"]).is_relative_to(home / "cache")


def test_prepare_talks_on_stderr_and_prints_the_folder(home: Path, data: Path) -> None:
    result = _run(home, "prepare", "webshop", "--data", data, "--goals", "human")
    folder = Path(result.stdout.removesuffix("\n"))
    assert folder.is_dir() and (folder / "catalogue.json").is_file()
    for words in ("reading MB", "drawing human goals", "products: 40", "seconds: "):
        assert words in result.stderr
    assert "synthetic" not in result.stderr


def test_preparing_some_products_is_another_catalogue(home: Path, data: Path) -> None:
    some = _facts(home, "prepare", "webshop", "--data", data, "--products", "10")
    assert some["products"] == 10
    assert some["catalogue"] != _facts(home, "prepare", "webshop", "--data", data)["catalogue"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "mars"), ("mars", "toy", "webshop")),
        (("prepare", "mars"), ("mars", "webshop")),
        (("generate", "toy", "--out", "x"), ("toy", "generate", "webshop")),
        (("prepare", "toy"), ("toy", "prepare", "webshop")),
        (("show", "webshop", "--split", "dev"), ("dev", "train")),
        (("show", "webshop", "--goals", "both"), ("both", "human or synthetic")),
        (("prepare", "webshop", "--data", "{data}", "--goals", "both"), ("both", "human")),
        (("show", "webshop", "--env-option", "colour=red"), ("colour", "price_seed")),
        (("prepare", "webshop", "--data", ".", "--env-option", "x=1"), ("x", "price_seed")),
        (("generate", "webshop", "--out", "x", "--env-option", "x=1"), ("x", "products")),
        (("prepare", "webshop"), ("needs data", "--data")),
        (("prepare", "webshop", "--data", "nowhere"), ("nowhere", "items_shuffle")),
        (("show", "webshop", "--products", "0"), ("--products",)),
        (("generate", "webshop"), ("--out",)),
    ],
)
def test_what_cannot_be_done_is_answered_with_what_can(
    home: Path, data: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    # In this process, because there are many of them.
    given = ["tasks", *(argument.format(data=data) for argument in arguments)]
    result = CliRunner().invoke(app, given, env={"PROVER_CACHE": str(home / "cache")})
    assert (result.exit_code, result.stdout) == (2, ""), result.stdout
    assert all(word in result.stderr for word in words), result.stderr


def test_a_broken_file_is_named_and_leaves_no_entry(tmp_path: Path, data: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in data.iterdir():
        content = path.read_bytes()
        (broken / path.name).write_bytes(content[:-50] if "shuffle" in path.name else content)
    message = _refused(tmp_path, "prepare", "webshop", "--data", broken)
    assert str(broken / "items_shuffle.json") in message and "download" in message
    assert not list((tmp_path / "cache" / "webshop").iterdir())


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, data: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    message = _refused(tmp_path, "prepare", "webshop", "--data", data)
    assert str(tmp_path / "cache") in message and "export PROVER_CACHE" in message


def test_a_full_disk_is_one_message(tmp_path: Path, data: Path) -> None:
    def small_files() -> None:
        # Writing beyond the limit fails as on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))

    done = subprocess.run(
        [*PROVER, "tasks", "prepare", "webshop", "--data", str(data)],
        env=environment(PROVER_CACHE=str(tmp_path / "cache"), PYTHONDONTWRITEBYTECODE="1"),
        preexec_fn=small_files,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "PROVER_CACHE" in done.stderr
    assert not list((tmp_path / "cache" / "webshop").iterdir())


def test_the_variable_says_where_the_data_is_and_the_flag_wins(home: Path, data: Path) -> None:
    named = _facts(home, "show", "webshop", "--data", data)
    assert _facts(home, "show", "webshop", PROVER_WEBSHOP_DATA=str(data)) == named
    assert _facts(home, "show", "webshop", "--data", data, PROVER_WEBSHOP_DATA="nowhere") == named
    prepared = _facts(home, "prepare", "webshop", PROVER_WEBSHOP_DATA=str(data))
    assert prepared["catalogue"] == named["assets"]["catalogue"]
    message = _refused(home, "show", "webshop", PROVER_WEBSHOP_DATA="nowhere")
    assert "nowhere" in message
    assert _facts(home, "show", "toy", PROVER_WEBSHOP_DATA="nowhere")["env"] == "toy"


def test_variables_of_an_environment_leave_the_others_alone(home: Path) -> None:
    others = {"PROVER_WEBSHOP_GOALS": "human", "PROVER_SEARCHQA_CORPUS": "nowhere"}
    assert _facts(home, "show", "toy", **others)["env"] == "toy"
    assert "corpus without questions" in _refused(home, "show", "searchqa", **others)
    assert "products" in _refused(home, "show", "webshop", PROVER_WEBSHOP_PRODUCTS="many")


@pytest.mark.parametrize("verb", ["rollout", "evaluate"])
def test_flags_of_the_shop_reach_the_environment(
    tmp_path: Path, home: Path, data: Path, verb: str
) -> None:
    run, policy = tmp_path / "run", scripted_policy(tmp_path / "policy")
    place = ("--out", run) if verb == "rollout" else (run,)
    command = (verb, *place, "--env", "webshop", "--policy", policy, "--dry-run")
    cache: dict[str, Any] = {"PROVER_CACHE": str(home / "cache")}
    config = json.loads(succeed(*command, *CHOSEN, "--data", data, **cache))
    expected = {"data": str(data), "goals": "synthetic", "products": 30}
    assert config["env"]["options"] == expected
    variables = cache | {"PROVER_WEBSHOP_DATA": str(data), "PROVER_WEBSHOP_GOALS": "synthetic"}
    config = json.loads(succeed(*command, "--products", "30", **variables))
    assert config["env"]["options"] == expected
    config = json.loads(succeed(*command, "--products", "30", **cache))
    assert config["env"]["options"] == {"products": 30}
    assert not run.exists()
