"""The documentation agrees with the code: generated parts, links, commands, examples."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prover_cli.envs.alfworld import AlfworldEnvironment
from prover_cli.envs.searchqa import SearchQAEnvironment
from prover_cli.envs.toy import ToyEnvironment
from prover_cli.envs.webshop import WebShopEnvironment
from tests.cli.run import environment, prover, succeed
from tests.docs.examples import ROOT, Block, anchors, blocks, documents, generator, links
from tests.policies import scripted_policy

PAGES = documents()
COMMANDS: dict[tuple[str, ...], Any] = dict(generator().commands())


def name(path: Path) -> str:
    return path.name


def test_generated_parts_are_up_to_date() -> None:
    assert list(generator().stale()) == []


def test_a_stale_page_is_named_and_rewritten(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    page = tmp_path / "docs" / "shards.md"
    current = page.read_text(encoding="utf-8")
    page.write_text(current.replace("| `task_id` |", "| `other` |", 1), encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        script = [sys.executable, str(tmp_path / "docs" / "generate.py"), *arguments]
        return subprocess.run(script, env=environment(), capture_output=True, text=True)

    checked = run("--check")
    assert checked.returncode == 1 and "shards.md" in checked.stdout
    assert run().returncode == 0 and page.read_text(encoding="utf-8") == current
    assert run("--check").returncode == 0


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="tables:begin"):
        generator().with_part("# Shards\n", "tables", "rows")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for file, anchor in links(page):
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name} links to {file}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {file}#{anchor}"


def calls(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The `prover ...` calls in fenced blocks: where, and the words after `prover`."""
    for block in blocks(page, "", "sh", "bash", "console"):
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            if not re.match(r"\s*(\$ )?([A-Z_]+=\S* )*(\w+=\$\()?prover\s", line):
                continue
            words = shlex.split(line.strip().removesuffix(")"), comments=True)
            words = words[next(i for i, w in enumerate(words) if w.endswith("prover")) + 1 :]
            end = next((i for i, w in enumerate(words) if w in ("|", "&&", ";", ">", "||")), None)
            yield f"{page.name}:{block.line}: {line.strip()}", words[:end]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_command_line_parses(page: Path) -> None:
    for where, words in calls(page):
        called: tuple[str, ...] = ("prover",)
        while words and (*called, words[0]) in COMMANDS:
            called, words = (*called, words[0]), words[1:]
        command = COMMANDS[called]
        assert not getattr(command, "commands", None) or words[:1] == ["--help"], where
        values, rest, _ = command.make_parser(command.context_class(command)).parse_args(words)
        assert rest == [] or called[-1] == "prover", f"{where}: {rest}"
        assert values.keys() <= {p.name for p in command.params} | {"help"}, where


def test_there_are_command_lines_to_check() -> None:
    verbs = {words[0] for page in PAGES for _, words in calls(page)}
    assert {words[1] for words in COMMANDS if len(words) == 2} <= verbs


def test_configuration_examples_have_known_keys() -> None:
    for block in blocks(ROOT / "docs" / "commands.md", "toml"):
        for key, value in tomllib.loads(block.text).items():
            longest_first = sorted(COMMANDS.items(), key=lambda entry: -len(entry[0]))
            flags = {words[-1]: _flags(command) for words, command in longest_first}
            if isinstance(value, dict):
                assert value.keys() <= flags[key]
            else:
                assert any(key in known for known in flags.values())


def _flags(command: Any) -> set[str]:
    return {flag.lstrip("-") for parameter in command.params for flag in parameter.opts}


def test_every_toml_block_is_toml() -> None:
    for page in PAGES:
        for block in blocks(page, "toml"):
            assert tomllib.loads(block.text)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that examples run in; modules they write are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - known:
        if getattr(sys.modules[module], "__file__", None) == str(tmp_path / f"{module}.py"):
            del sys.modules[module]


def run_examples(page: str) -> None:
    """Run a page's Python blocks in order, in one namespace."""
    namespace: dict[str, Any] = {}
    for block in blocks(ROOT / "docs" / page, "python"):
        if block.module is not None:
            Path(block.module).write_text(block.text, encoding="utf-8")
            importlib.invalidate_caches()
        elif all(map(_installed, _imported(block))):
            where = f"{page}, block at line {block.line}"
            exec(compile(block.text, where, "exec"), namespace)


def _imported(block: Block) -> list[str]:
    return re.findall(r"^(?:import|from) (\w+)", block.text, re.MULTILINE)


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("page", ["credit.md", "environments.md"])
def test_examples_run(page: str, workplace: Path) -> None:
    run_examples(page)


def test_the_engine_example_samples_from_the_shipped_policy(workplace: Path) -> None:
    if not (ROOT / "prover_cli/policies/data/webshop/config.json").is_file():
        pytest.skip("this checkout has no starting policy")
    run_examples("engines.md")


def test_examples_of_reading_run_on_a_run(workplace: Path) -> None:
    policy = scripted_policy(workplace / "policy")
    succeed(*_rollout("toy", policy), "--out", "runs/demo", cwd=workplace)
    run_examples("shards.md")


def test_the_example_environment_goes_through_the_whole_loop(workplace: Path) -> None:
    run_examples("environments.md")
    policy = scripted_policy(workplace / "policy", [str(n) for n in range(4)])
    env = ("--env-option", "below=4")
    succeed(*_rollout("guessing:Guessing", policy), *env, cwd=workplace, PYTHONPATH=_path())
    for verb in ("judge", "verify", "advantage"):
        engine = ("--engine", "scripted") if verb == "verify" else ()
        result = prover(verb, "shards", *engine, cwd=workplace, PYTHONPATH=_path())
        assert result.returncode in (0, 4), result.stderr
        assert "diverged" not in result.stderr
    assert succeed("validate", "shards", cwd=workplace, PYTHONPATH=_path()) == ""


def _rollout(env: str, policy: Path) -> tuple[str | Path, ...]:
    return (
        "rollout", "--env", env, "--policy", policy, "--engine", "scripted", "--tasks", "4",
        "--groups-per-shard", "2",
    )  # fmt: skip


def _path() -> str:
    return f".:{ROOT}"


def test_the_documented_options_of_environments_are_the_real_ones() -> None:
    pages: dict[Any, str] = {
        ToyEnvironment: "environments.md",
        WebShopEnvironment: "webshop.md",
        AlfworldEnvironment: "alfworld.md",
        SearchQAEnvironment: "searchqa.md",
    }
    for env, page in pages.items():
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for option in list(inspect.signature(env).parameters):
            assert f"| `{option}`" in text, f"{env.name}: {option}"


def test_pages_use_no_html_and_short_lines() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        markers = re.compile(r"<!-- (\w+):begin -->.*?<!-- \1:end -->", re.DOTALL)
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", markers.sub("", text), flags=re.DOTALL)
        assert not re.search(r"</?[a-z]+[ >]", prose), page.name
        long = [line for line in markers.sub("", text).splitlines() if len(line) > 100]
        assert not [line for line in long if not line.startswith("|")], page.name
