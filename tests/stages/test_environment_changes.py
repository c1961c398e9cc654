"""A run on changed data is refused with what changed; a reply without an action is never played."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from prover_cli.config import EngineConfig, EnvConfig, RolloutConfig, SamplingConfig
from prover_cli.envs.base import Observation, ParsedAction, StepResult, Task
from prover_cli.envs.toy import PlainStyle, ToyEnvironment, ToySession
from prover_cli.envs.webshop import nouns
from prover_cli.envs.webshop.generate import generate, write
from prover_cli.errors import TaskMismatchError
from prover_cli.shards.mode import Mode
from prover_cli.stages import rollout as rollout_stage
from tests.policies import scripted_policy
from tests.stages.pipeline import Listener, Rows, episodes, rollout, table, verify

SHOPPING = ("search[coffee table]", "search[red]", "click[<I0>]", "click[buy now]", "click[< prev]")
UNTAGGED = ("click[buy now]", "search[red]", "", "so I will <action>click[buy now]")
TAGGED = ("<action>search[coffee table]</action>", "<think>hm</think><action>search[red]</action>")


def _shop_run(run: Path, policy: Path, options: dict[str, Any], prompt: str | None = None) -> None:
    """Two groups of four in the shop."""
    config = RolloutConfig(
        EnvConfig("webshop", options, prompt, max_turns=5),
        SamplingConfig(),
        policy=str(policy),
        tasks=2,
        group_size=4,
        engine=EngineConfig("scripted", device="cpu", concurrency=8),
    )
    rollout_stage.run(config, run, Mode.REFUSE, Listener())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Official data of 30 products."""
    write(generate(30, 0), tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def shopper(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy", SHOPPING, max_len=1 << 16)


def _edit(folder: Path, name: str, change: Callable[[Any], object]) -> None:
    content = json.loads((folder / name).read_bytes())
    change(content)
    (folder / name).write_text(json.dumps(content))


def _recorded(run: Path) -> dict[str, str]:
    manifest = json.loads((run / "rollout" / "manifest.json").read_bytes())
    assets: dict[str, str] = manifest["environment"]["assets"]
    return assets


def _refusal(run: Path) -> str:
    with pytest.raises(TaskMismatchError) as caught:
        verify(run, k=1, proposer="all-turns")
    assert "webshop changed since the rollout" in caught.value.message
    assert caught.value.hint is not None and "--overwrite" in caught.value.hint
    assert not (run / "verify" / "manifest.json").exists()
    return caught.value.message


def _then(run: Path, *names: str) -> list[str]:
    return [f"{name} {_recorded(run)[name]} then, " for name in names]


def test_the_same_data_written_otherwise_is_verified(
    tmp_path: Path, data: Path, shopper: Path
) -> None:
    run = tmp_path / "run"
    _shop_run(run, shopper, {"data": str(data)})
    for path in data.iterdir():
        path.write_text(json.dumps(json.loads(path.read_bytes())))
    summary = verify(run, k=1, proposer="all-turns")
    assert summary.facts["diverged"] == 0
    assert table(run, "continuations")["replay_ok"].all()


def _price_everything(items: list[dict[str, Any]]) -> None:
    for item in items:
        item["pricing"] = "$5.00"


@pytest.mark.parametrize(
    ("file", "change", "names"),
    [
        ("items_shuffle.json", lambda items: items[0].update(name="Other"), ("catalogue",)),
        ("items_shuffle.json", lambda items: items.pop(), ("catalogue",)),
        ("items_shuffle.json", _price_everything, ("catalogue", "tasks")),
        ("items_human_ins.json", lambda human: human.popitem(), ("catalogue", "tasks")),
        ("items_ins_v2.json", lambda known: known.popitem(), ("catalogue",)),
        ("title_nouns.json", lambda nouns: nouns.popitem(), ("catalogue", "title nouns")),
    ],
    ids=["title", "product", "prices", "instructions", "attributes", "nouns"],
)
def test_changed_data_is_refused_with_what_changed(
    tmp_path: Path,
    data: Path,
    shopper: Path,
    file: str,
    change: Callable[[Any], object],
    names: Sequence[str],
) -> None:
    run = tmp_path / "run"
    _shop_run(run, shopper, {"data": str(data)})
    _edit(data, file, change)
    message = _refusal(run)
    assert all(part in message for part in _then(run, *names)), message
    assert "search" not in message and "attributes page" not in message


def test_another_tagger_of_titles_is_refused_by_name(
    tmp_path: Path, data: Path, shopper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(nouns.MODEL, reason="the extra webshop-nlp is not installed")
    (data / "title_nouns.json").unlink()
    run = tmp_path / "run"
    _shop_run(run, shopper, {"data": str(data)})
    monkeypatch.setattr(nouns, "MODEL", "a_model_that_nobody_has_installed")
    message = _refusal(run)
    assert _recorded(run)["title nouns"].startswith("en_core_web_sm")
    assert f"{_then(run, 'title nouns')[0]}all words now" in message
    assert "catalogue" not in message and "tasks" not in message


def test_data_put_back_is_verified(tmp_path: Path, data: Path, shopper: Path) -> None:
    run, file = tmp_path / "run", data / "items_shuffle.json"
    _shop_run(run, shopper, {"data": str(data)})
    before = file.read_bytes()
    _edit(data, file.name, lambda items: items.reverse())
    _refusal(run)
    file.write_bytes(before)
    assert verify(run, k=1, proposer="all-turns").facts["diverged"] == 0


class StrictStyle(PlainStyle):
    """Only a reply that begins with `!` has an action; the vault would obey others too."""

    name = "strict"

    def parse(self, reply: str, observation: Observation) -> ParsedAction:
        if not reply.startswith("!"):
            return ParsedAction("", False, "nothing to do")
        return ParsedAction(reply.removeprefix("!"), True)


class ListeningSession(ToySession):
    """Keeps every action that any session was given."""

    heard: list[str] = []  # noqa: RUF012

    def step(self, action: str) -> StepResult:
        self.heard.append(action)
        return super().step(action)


class ListeningVault(ToyEnvironment):
    default_prompt = "strict"
    prompts = MappingProxyType({"strict": StrictStyle()})

    def start(self, task: Task, seed: int) -> ToySession:
        return _listening(super().start(task, seed))

    def restore(self, task: Task, snapshot: bytes) -> ToySession:
        return _listening(super().restore(task, snapshot))


def _listening(plain: ToySession) -> ToySession:
    return ListeningSession(plain._rooms, plain._key_room, plain._colour, plain._slip, plain._state)


def _check_invalid(turns: Rows, text: str, reason: str) -> None:
    """Turns with that reply: nothing was done, and the next page is the same."""
    for turn, after in zip(turns, [*turns[1:], None], strict=True):
        if turn["action_text"] != text:
            continue
        assert (turn["action"], turn["action_valid"], turn["done"]) == ("", False, False)
        assert turn["reward"] == 0 and reason in json.loads(turn["info_json"])["parse_error"]
        if after is not None:
            assert after["observation"] == turn["observation"]
            assert after["state_key"] == turn["state_key"]


def test_the_environment_is_never_given_a_reply_without_an_action(tmp_path: Path) -> None:
    words = ("go", "open", "take red", "take blue", "take green", "take white")
    policy = scripted_policy(tmp_path / "policy", [*words, *(f"!{word}" for word in words)])
    run = tmp_path / "run"
    ListeningSession.heard.clear()
    rollout(run, policy, env="tests.stages.test_environment_changes:ListeningVault")
    turns = table(run, "turns")
    texts, actions = turns["action_text"].to_list(), turns["action"].to_list()
    assert set(texts) & set(words) and set(texts) - set(words)
    assert actions == ["" if text in words else text.removeprefix("!") for text in texts]
    assert sorted(ListeningSession.heard) == sorted(actions)
    for episode in episodes(run):
        for word in words:
            _check_invalid(episode, word, "nothing to do")
    ListeningSession.heard.clear()
    assert verify(run, k=2, proposer="all-turns").facts["diverged"] == 0
    assert table(run, "continuations")["replay_ok"].all()
    assert set(ListeningSession.heard) <= {"", *words} and "" in ListeningSession.heard


def test_the_shop_is_never_given_a_reply_without_an_action(tmp_path: Path, data: Path) -> None:
    """Replies that the shop itself could read are nothing without the tags of the style."""
    run = tmp_path / "run"
    policy = scripted_policy(tmp_path / "policy", [*UNTAGGED, *TAGGED], max_len=1 << 16)
    _shop_run(run, policy, {"data": str(data)}, "tags")
    seen = set(table(run, "turns")["action_text"])
    assert {"click[buy now]", "search[red]"} <= seen and set(TAGGED) & seen
    for episode in episodes(run):
        for text in UNTAGGED:
            _check_invalid(episode, text, "expected")
    assert set(table(run, "turns")["action"]) == {"", "search[coffee table]", "search[red]"}
    assert verify(run, k=1, proposer="all-turns").facts["diverged"] == 0
    assert table(run, "continuations")["replay_ok"].all()
    assert table(run, "values").height == table(run, "turns").height
