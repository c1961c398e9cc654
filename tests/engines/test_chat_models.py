"""Chat models answer messages, from a checkpoint or a server, and an outage is never an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from prover_cli.config import EngineConfig
from prover_cli.engines.base import FinishReason
from prover_cli.engines.chat import ChatModel, ChatReply, EngineChat, open_chat
from prover_cli.engines.chat_server import ServerChat
from prover_cli.engines.openai_server import Patience
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.engines.torch_engine import TorchEngine
from prover_cli.envs.base import Message
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError
from prover_cli.ids import policy_id
from prover_cli.tokens.render import ChatRenderer
from tests.engines.http_server import LocalServer
from tests.policies import behave, scripted_policy, tiny_model

QUICK = Patience(answer=30.0, first_wait=0.01, longest_wait=0.05, probe=0.05, outage=0.5)
ASKED = (Message("system", "You judge."), Message("user", "Which one?"))
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}}'


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy", ['{"n": 1}', '{"n": 2}', '{"n": 3}'])


@pytest.fixture
def server(policy: Path) -> Iterator[LocalServer]:
    local = LocalServer(ScriptedEngine(policy), policy, "judge-1")
    yield local
    local.close()


@pytest.fixture
def chat(server: LocalServer) -> Iterator[ServerChat]:
    opened = ServerChat(server.url, "judge-1", patience=QUICK)
    yield opened
    asyncio.run(opened.close())


def say(chat: ChatModel, *seeds: int, messages: Sequence[Message] = ASKED, **more: Any) -> Any:
    async def all_at_once() -> list[ChatReply]:
        asked = {"max_tokens": 30, "temperature": 1.0, **more}
        return await asyncio.gather(*(chat.reply(messages, seed=seed, **asked) for seed in seeds))

    replies = asyncio.run(all_at_once())
    return replies if len(replies) > 1 else replies[0]


def test_a_checkpoint_and_a_server_of_it_say_the_same(chat: ServerChat, policy: Path) -> None:
    here = EngineChat(ScriptedEngine(policy), ChatRenderer.load(policy))
    replies = say(chat, *range(8))
    assert replies == say(here, *range(8))
    assert {reply.text for reply in replies} == {'{"n": 1}', '{"n": 2}', '{"n": 3}'}
    assert {reply.n_output_tokens for reply in replies} == {9}
    assert replies[0].n_prompt_tokens == len(ChatRenderer.load(policy).prompt(ASKED))
    assert here.model == policy_id(policy)
    assert chat.model == f"judge-1@{chat.model.partition('@')[2]}"
    assert chat.model.partition("@")[2].startswith("127.0.0.1:")


def test_a_real_model_is_asked_through_its_chat_template(tmp_path: Path) -> None:
    policy = tiny_model(tmp_path / "policy", max_len=160)
    renderer = ChatRenderer.load(policy)
    chat = EngineChat(TorchEngine(policy, device="cpu"), renderer)
    reply = say(chat, 3, max_tokens=5)
    assert reply.n_prompt_tokens == len(renderer.prompt(ASKED))
    assert reply.n_output_tokens == 5 and reply.finish_reason is FinishReason.LENGTH
    long = say(chat, 3, messages=[Message("user", "x" * 400)])
    assert long == ChatReply("", len(renderer.prompt([Message("user", "x" * 400)])), 0, "context")


def test_a_conversation_is_computed_once(tmp_path: Path) -> None:
    policy = tiny_model(tmp_path / "policy")
    engine, renderer = TorchEngine(policy, device="cpu"), ChatRenderer.load(policy)
    seen: list[int] = []
    generate = engine.generate

    async def watched(request: Any) -> Any:
        generation = await generate(request)
        seen.append(generation.n_cached)
        return generation

    engine.generate = watched  # type: ignore[method-assign]
    chat = EngineChat(engine, renderer)
    say(chat, 0)
    first = len(renderer.prompt(ASKED))
    say(chat, 0, messages=[*ASKED, Message("assistant", "this"), Message("user", "why?")])
    assert seen[0] == 0 and seen[1] >= first - 2


def test_a_cut_reply_says_so(chat: ServerChat) -> None:
    reply = say(chat, 1, max_tokens=4)
    assert reply.finish_reason is FinishReason.LENGTH and reply.n_output_tokens == 4


# Schemas


def test_a_schema_goes_to_a_server_that_takes_it(chat: ServerChat, server: LocalServer) -> None:
    say(chat, 1, json_schema=SCHEMA)
    sent = server.bodies[-1]["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"]["properties"] == {"n": {"type": "integer"}}
    assert chat.constrained and chat.notes == []


def test_a_server_that_refuses_schemas_is_asked_plainly_and_noted_once(
    chat: ServerChat, server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.always = "no schema"
    replies = say(chat, *range(4), json_schema=SCHEMA)
    assert all(reply.text.startswith('{"n"') for reply in replies)
    assert chat.constrained is False
    assert len(chat.notes) == 1 and "refuses JSON schemas" in chat.notes[0]
    assert "response_format: json_schema is not supported" in caplog.text
    before = len(server.bodies)
    say(chat, 9, json_schema=SCHEMA)
    assert len(server.bodies) == before + 1 and "response_format" not in server.bodies[-1]


def test_a_server_that_ignores_schemas_is_noted(tmp_path: Path) -> None:
    folder = scripted_policy(tmp_path / "plain", ["I think the second."])
    local = LocalServer(ScriptedEngine(folder), folder, "judge-1")
    chat = ServerChat(local.url, "judge-1", patience=QUICK)
    assert say(chat, 1, json_schema=SCHEMA).text == "I think the second."
    assert chat.constrained is False and "ignores JSON schemas" in chat.notes[0]
    asyncio.run(chat.close())
    local.close()


def test_engines_that_cannot_constrain_say_so_and_are_not_asked_to(policy: Path) -> None:
    chat = EngineChat(ScriptedEngine(policy), ChatRenderer.load(policy))
    assert chat.constrained is False
    assert say(chat, 1, json_schema=SCHEMA).text.startswith('{"n"')


def test_another_name_for_the_token_limit_is_learnt(chat: ServerChat, server: LocalServer) -> None:
    server.always = "new names"
    assert say(chat, 1).finish_reason is FinishReason.STOP
    say(chat, 2)
    assert [set(b) & {"max_tokens", "max_completion_tokens"} for b in server.bodies] == [
        {"max_tokens"},
        {"max_completion_tokens"},
        {"max_completion_tokens"},
    ]


# Servers that misbehave


@pytest.mark.parametrize("fault", ["busy", "error", "half", "cut", "reset", "html", "no usage"])
def test_a_fault_that_passes_is_asked_again(
    chat: ServerChat, server: LocalServer, fault: str
) -> None:
    expected = say(chat, 5)
    server.misbehave(fault)
    assert say(chat, 5) == expected


@pytest.mark.parametrize(
    ("fault", "message"),
    [("bad", "status 400: max_tokens is too large"), ("filtered", "'content_filter'")],
)
def test_a_request_that_is_refused_fails_at_once(
    chat: ServerChat, server: LocalServer, fault: str, message: str
) -> None:
    server.always = fault
    with pytest.raises(RequestFailed, match=message):
        say(chat, 1)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("fault", ["error", "html", "reset"])
def test_a_server_that_only_fails_gives_no_answer(
    chat: ServerChat, server: LocalServer, fault: str
) -> None:
    server.always = fault
    with pytest.raises((RequestFailed, EngineDeadError)):
        say(chat, 1)


def test_a_server_that_is_gone_is_dead(chat: ServerChat, server: LocalServer) -> None:
    server.die()
    with pytest.raises(EngineDeadError, match="no server answered"):
        say(chat, 1)


def test_a_server_without_the_model_is_refused(server: LocalServer) -> None:
    with pytest.raises(UsageError, match="has no model 'judge-2'; it has: judge-1"):
        ServerChat(server.url, "judge-2", patience=QUICK)


def test_the_key_is_in_no_message(
    chat: ServerChat, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVER_API_KEY", "sk-secret-of-mine")
    opened = ServerChat(server.url, "judge-1", patience=QUICK)
    server.always = "unauthorised"
    with pytest.raises(UsageError, match="refuses the key") as refused:
        say(opened, 1)
    assert "Bearer sk-secret-of-mine" in server.keys
    assert "sk-secret" not in refused.value.message and "sk-secret" not in opened.model
    asyncio.run(opened.close())


# Opening


def test_a_url_opens_a_server_and_a_folder_an_engine(policy: Path, server: LocalServer) -> None:
    remote = open_chat(EngineConfig("scripted"), "judge-1", server.url)
    local = open_chat(EngineConfig("scripted"), str(policy), None)
    assert isinstance(remote, ServerChat) and isinstance(local, EngineChat)
    assert say(remote, 4) == say(local, 4)
    asyncio.run(remote.close())
    asyncio.run(local.close())


def test_a_model_without_a_name_is_asked_for(server: LocalServer) -> None:
    with pytest.raises(UsageError, match="no chat model is named"):
        open_chat(EngineConfig("scripted"), None, None)
    with pytest.raises(UsageError, match=r"which model on the server 127\.0\.0\.1"):
        open_chat(EngineConfig("scripted"), None, server.url)


def test_a_dead_engine_is_a_dead_model(policy: Path) -> None:
    behave(policy, fail_after=0)
    chat = open_chat(EngineConfig("scripted"), str(policy), None)
    with pytest.raises(EngineDeadError):
        say(chat, 1)
