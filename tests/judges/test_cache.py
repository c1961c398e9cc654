"""Recorded replies are replayed: nobody is asked twice, and the model need not exist any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prover_cli.engines.base import FinishReason
from prover_cli.engines.chat import ChatReply
from prover_cli.envs.base import Message
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError
from prover_cli.judges.base import ProposalStatus
from prover_cli.judges.cache import KnownModel, ReplyCache, Request
from prover_cli.judges.spending import OverBudget, Spending
from tests.judges.groups import propose
from tests.judges.model import ScriptedChat, judge, key_group, submit

REQUEST = Request("m", True, (Message("user", "which?"),), "{}", 0.0, 10, 3)
REPLY = ChatReply('{"a": "ä\u2028"}', 5, 3, FinishReason.STOP)
SEARCH = {"tool": "search_trajectory", "query": "leave", "k": 2}


def test_a_reply_is_found_again_by_everything_that_decides_it(tmp_path: Path) -> None:
    ReplyCache(tmp_path).add(REQUEST, REPLY)
    cache = ReplyCache(tmp_path)
    assert cache.find(REQUEST) == REPLY
    others = [
        replace(REQUEST, model="n"),
        replace(REQUEST, constrained=False),
        replace(REQUEST, messages=(Message("user", "which ?"),)),
        replace(REQUEST, messages=(Message("system", "which?"),)),
        replace(REQUEST, json_schema="[]"),
        replace(REQUEST, temperature=0.5),
        replace(REQUEST, max_tokens=11),
        replace(REQUEST, seed=4),
    ]
    assert [cache.find(other) for other in others] == [None] * len(others)


def test_a_judge_is_replayed_without_its_model(tmp_path: Path) -> None:
    script = [SEARCH, "?", submit(1, 2)]
    first = propose(judge(ScriptedChat(script), cache=ReplyCache(tmp_path)), key_group())
    gone = ScriptedChat(lambda messages: EngineDeadError("there is no model"))
    again = propose(judge(gone, cache=ReplyCache(tmp_path)), key_group())
    assert again == first and gone.asked == []
    assert again.status is ProposalStatus.OK


def test_a_judge_that_was_stopped_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    dead = ScriptedChat([SEARCH, "?", EngineDeadError("gone")])
    with pytest.raises(EngineDeadError):
        propose(judge(dead, cache=ReplyCache(tmp_path)), key_group())
    rest = ScriptedChat([submit(1, 2)])
    assert propose(judge(rest, cache=ReplyCache(tmp_path)), key_group()).start_turn == 1
    assert len(rest.asked) == 1


def test_failures_are_not_recorded(tmp_path: Path) -> None:
    failing = ScriptedChat([RequestFailed("busy")])
    propose(judge(failing, cache=ReplyCache(tmp_path)), key_group())
    assert (
        propose(judge(ScriptedChat([submit(1, 2)]), cache=ReplyCache(tmp_path)), key_group()).status
        is ProposalStatus.OK
    )


def test_a_line_that_was_cut_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    ReplyCache(tmp_path).add(REQUEST, REPLY)
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole + whole[:20], encoding="utf-8")
    assert ReplyCache(tmp_path).find(REQUEST) == REPLY


@pytest.mark.parametrize("line", ["half", "[1]", '{"key": "a"}', '{"key": "a", "reply": {"x": 1}}'])
def test_a_damaged_cache_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "replies-1.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"replies-1.jsonl is damaged") as caught:
        ReplyCache(tmp_path)
    assert "delete" in str(caught.value.hint)


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    one, other = ReplyCache(tmp_path), ReplyCache(tmp_path)
    one.add(REQUEST, REPLY)
    second = replace(REQUEST, seed=9)
    other.add(second, REPLY)
    other.add_model("name", KnownModel("m", 100))
    both = ReplyCache(tmp_path)
    assert both.find(REQUEST) == both.find(second) == REPLY
    assert both.known_model("name") == KnownModel("m", 100) and both.known_model("x") is None


def test_messages_are_not_written_down(tmp_path: Path) -> None:
    ReplyCache(tmp_path).add(REQUEST, REPLY)
    (path,) = tmp_path.glob("*.jsonl")
    assert "which?" not in path.read_text(encoding="utf-8")


# Budgets


def test_a_request_is_begun_only_where_the_rest_covers_it() -> None:
    spending = Spending(max_tokens=100)
    first = spending.reserve(40, 20)
    with pytest.raises(OverBudget, match="--judge-tokens 100"):
        spending.reserve(30, 20)
    spending.settle(first, 30, 5)
    spending.settle(spending.reserve(45, 20), 45, 20)
    assert (spending.read, spending.written) == (75, 25)
    with pytest.raises(OverBudget):
        spending.reserve(1, 0)


def test_dollars_are_counted_by_price() -> None:
    spending = Spending(max_dollars=0.01, prices=(1.0, 10.0))
    spending.settle(spending.reserve(5000, 400), 5000, 400)
    assert spending.dollars == pytest.approx(0.009)
    with pytest.raises(OverBudget, match=r"--judge-cost 0\.01"):
        spending.reserve(0, 200)
    assert not Spending().limited and spending.limited


def test_replies_from_a_cache_cost_nothing(tmp_path: Path) -> None:
    propose(judge(ScriptedChat([submit(1, 2)]), cache=ReplyCache(tmp_path)), key_group())
    poor = Spending(max_tokens=1)
    again = judge(ScriptedChat([]), cache=ReplyCache(tmp_path), spending=poor)
    assert propose(again, key_group()).status is ProposalStatus.OK and poor.read == 0
