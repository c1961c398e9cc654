"""Several servers are one engine: work is shared, faults pass, and who dies is not missed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from prover_cli.engines.base import Generation, GenerationRequest, Sampling
from prover_cli.engines.openai_engine import OpenAIEngine
from prover_cli.engines.openai_server import Patience
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.errors import EngineDeadError, RequestFailed, UsageError
from prover_cli.tokens.render import ChatRenderer
from tests.engines.http_server import LocalServer
from tests.policies import scripted_policy

QUICK = Patience(
    answer=30.0, first_wait=0.01, longest_wait=0.05, longest_asked=2.0, probe=0.05, outage=0.6
)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return scripted_policy(tmp_path / "policy")


@pytest.fixture
def servers(policy: Path) -> Iterator[list[LocalServer]]:
    local = [LocalServer(ScriptedEngine(policy), policy) for _ in range(2)]
    yield local
    for server in local:
        server.close()


@pytest.fixture
def engine(policy: Path, servers: list[LocalServer]) -> Iterator[OpenAIEngine]:
    opened = OpenAIEngine(policy, servers=[s.url for s in servers], patience=QUICK)
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def single(policy: Path, servers: list[LocalServer]) -> Iterator[OpenAIEngine]:
    """An engine with the first server alone."""
    opened = OpenAIEngine(policy, servers=[servers[0].url], patience=QUICK)
    yield opened
    asyncio.run(opened.close())


def requests(policy: Path, n: int, session: str | None = None) -> list[GenerationRequest]:
    stops = ChatRenderer.load(policy).stop_ids
    return [GenerationRequest((1, 2, i % 250), Sampling(20, stops), i, session) for i in range(n)]


def ask(engine: OpenAIEngine, found: list[GenerationRequest]) -> list[Generation]:
    async def together() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(request) for request in found))

    return asyncio.run(together())


def expected(policy: Path, wanted: list[GenerationRequest]) -> list[Generation]:
    async def together() -> list[Generation]:
        here = ScriptedEngine(policy)
        return [await here.generate(request) for request in wanted]

    return asyncio.run(together())


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("fault", ["busy", "error", "half", "cut", "reset", "html", "no model"])
def test_a_fault_that_passes_changes_no_reply(
    single: OpenAIEngine, servers: list[LocalServer], policy: Path, fault: str
) -> None:
    wanted = requests(policy, 1)
    servers[0].misbehave(fault)
    assert ask(single, wanted) == expected(policy, wanted)
    assert len(servers[0].work) == 2


def test_a_slow_answer_is_waited_for_and_then_asked_for_again(
    policy: Path, servers: list[LocalServer]
) -> None:
    patience = replace(QUICK, answer=1.0)
    engine = OpenAIEngine(policy, servers=[servers[0].url], patience=patience)
    servers[0].slow_seconds = 0.2
    servers[0].misbehave("slow")
    wanted = requests(policy, 1)
    assert ask(engine, wanted) == expected(policy, wanted)
    assert len(servers[0].work) == 1
    servers[0].slow_seconds = 1.5
    servers[0].misbehave("slow")
    assert ask(engine, wanted) == expected(policy, wanted)
    assert len(servers[0].work) == 3
    asyncio.run(engine.close())


def test_a_busy_server_is_left_alone_as_long_as_it_asks(
    single: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    servers[0].retry_after = "0.4"
    servers[0].misbehave("busy")
    began = time.monotonic()
    wanted = requests(policy, 1)
    assert ask(single, wanted) == expected(policy, wanted)
    assert time.monotonic() - began >= 0.4


def test_a_busy_server_s_work_goes_to_the_other(
    engine: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    servers[0].retry_after = "60"
    servers[0].always = "busy"
    wanted = requests(policy, 20)
    assert ask(engine, wanted) == expected(policy, wanted)
    assert len(servers[1].work) == 20


def test_being_busy_costs_no_tries(
    single: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    servers[0].misbehave(*["busy"] * (QUICK.tries + 2))
    wanted = requests(policy, 1)
    assert ask(single, wanted) == expected(policy, wanted)


def test_servers_share_the_work_evenly(
    engine: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    wanted = requests(policy, 40)
    assert ask(engine, wanted) == expected(policy, wanted)
    assert [len(server.work) for server in servers] == [20, 20]


def test_an_idle_server_gets_what_a_slow_one_cannot_take(
    engine: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    servers[0].slow_seconds = 0.5
    servers[0].always = "slow"
    wanted = requests(policy, 40)

    async def few_at_once() -> list[Generation]:
        places = asyncio.Semaphore(8)

        async def one(request: GenerationRequest) -> Generation:
            async with places:
                return await engine.generate(request)

        return await asyncio.gather(*map(one, wanted))

    assert asyncio.run(few_at_once()) == expected(policy, wanted)
    assert len(servers[1].work) > 2 * len(servers[0].work)


def test_a_session_stays_with_its_server(
    engine: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    for name in "abcd":
        before = [len(server.work) for server in servers]
        for request in requests(policy, 5, session=name):
            ask(engine, [request])
        gained = [len(s.work) - n for s, n in zip(servers, before, strict=True)]
        assert sorted(gained) == [0, 5]
    assert all(server.work for server in servers)


def test_a_session_leaves_a_server_that_is_far_busier(
    engine: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    servers[0].slow_seconds = servers[1].slow_seconds = 0.3
    servers[0].always = servers[1].always = "slow"
    ask(engine, requests(policy, 40, session="one"))
    assert all(len(server.work) >= 10 for server in servers)


def test_a_server_that_dies_in_the_middle_is_not_missed(
    engine: OpenAIEngine,
    servers: list[LocalServer],
    policy: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for server in servers:
        server.slow_seconds, server.always = 0.1, "slow"
    wanted = requests(policy, 64)

    async def with_a_death() -> list[Generation]:
        work = [asyncio.create_task(engine.generate(request)) for request in wanted]
        await asyncio.to_thread(until, lambda: bool(servers[0].work))
        await asyncio.to_thread(servers[0].die)
        return await asyncio.gather(*work)

    assert asyncio.run(with_a_death()) == expected(policy, wanted)
    assert servers[0].work
    assert f"{servers[0].url}/v1 is put aside" in caplog.text
    assert "servers in use: 1 of 2" in caplog.text


def test_a_server_that_returns_is_used_again(
    engine: OpenAIEngine,
    servers: list[LocalServer],
    policy: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers[0].die()
    ask(engine, requests(policy, 20))
    before = len(servers[0].work)
    servers[0].come_back()
    until(lambda: "is used again" in caplog.text)
    ask(engine, requests(policy, 20))
    assert len(servers[0].work) > before


def test_a_server_that_returns_with_another_model_is_not_used(
    engine: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    servers[0].die()
    ask(engine, requests(policy, 20))
    before = len(servers[0].work)
    servers[0].cards[0] |= {"id": "other", "root": "other"}
    servers[0].come_back()
    until(lambda: bool(servers[0].keys))
    time.sleep(0.3)
    wanted = requests(policy, 20)
    assert ask(engine, wanted) == expected(policy, wanted)
    assert len(servers[0].work) == before


def test_an_outage_that_ends_in_time_is_waited_for(
    single: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    wanted = requests(policy, 8)
    servers[0].die()

    async def through_an_outage() -> list[Generation]:
        work = [asyncio.create_task(single.generate(request)) for request in wanted]
        await asyncio.sleep(0.2)
        await asyncio.to_thread(servers[0].come_back)
        return await asyncio.gather(*work)

    assert asyncio.run(through_an_outage()) == expected(policy, wanted)


def test_without_any_server_for_too_long_the_engine_is_dead(
    engine: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    for server in servers:
        server.die()
    began = time.monotonic()
    with pytest.raises(EngineDeadError, match=r"no server answered for 0\.6 s") as dead:
        ask(engine, requests(policy, 4))
    assert time.monotonic() - began < 20.0
    assert all(server.url in dead.value.message for server in servers)
    assert dead.value.exit_code == 3


def test_a_server_that_only_fails_is_dead_too(
    single: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    servers[0].always = "error"
    with pytest.raises(EngineDeadError, match="status 500: out of memory"):
        ask(single, requests(policy, 1))


def test_a_request_that_alone_fails_again_and_again_is_given_up(
    single: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    def poisoned() -> str | None:
        return "error" if servers[0].bodies[-1]["seed"] == 3 else None

    servers[0].next_fault = poisoned  # type: ignore[method-assign]
    wanted = requests(policy, 5)
    with pytest.raises(RequestFailed, match=r"no answer in 8 tries; .*status 500"):
        ask(single, [wanted[3]])
    assert ask(single, wanted[:3]) == expected(policy, wanted[:3])


def test_a_server_that_is_down_at_the_start_joins_later(
    policy: Path, servers: list[LocalServer], caplog: pytest.LogCaptureFixture
) -> None:
    servers[0].die()
    engine = OpenAIEngine(policy, servers=[s.url for s in servers], patience=QUICK)
    assert "is put aside" in caplog.text
    ask(engine, requests(policy, 4))
    servers[0].come_back()
    until(lambda: "is used again" in caplog.text)
    ask(engine, requests(policy, 8))
    assert servers[0].work
    asyncio.run(engine.close())


def test_no_server_at_the_start_is_an_engine_that_is_dead(
    policy: Path, servers: list[LocalServer]
) -> None:
    for server in servers:
        server.die()
    with pytest.raises(EngineDeadError, match=r"no server answers: .*no connection"):
        OpenAIEngine(policy, servers=[s.url for s in servers], patience=QUICK)


def test_a_cancelled_request_is_forgotten(
    single: OpenAIEngine, servers: list[LocalServer], policy: Path
) -> None:
    servers[0].slow_seconds, servers[0].always = 1.0, "slow"

    async def cancelled() -> None:
        work = asyncio.create_task(single.generate(requests(policy, 1)[0]))
        await asyncio.sleep(0.1)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())
    servers[0].always = None
    wanted = requests(policy, 3)
    assert ask(single, wanted) == expected(policy, wanted)


# The key


@pytest.mark.parametrize("variable", ["PROVER_API_KEY", "OPENAI_API_KEY"])
def test_the_key_comes_from_the_environment(
    policy: Path, servers: list[LocalServer], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("PROVER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "sk-secret-of-mine")
    engine = OpenAIEngine(policy, servers=[servers[0].url], patience=QUICK)
    ask(engine, requests(policy, 1))
    assert servers[0].keys == {"Bearer sk-secret-of-mine"}
    asyncio.run(engine.close())


def test_the_key_is_in_no_message(
    policy: Path,
    servers: list[LocalServer],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    import traceback

    monkeypatch.setenv("PROVER_API_KEY", "sk-secret-of-mine")
    caplog.set_level("DEBUG")
    servers[0].always = "unauthorised"
    with pytest.raises(UsageError, match=r"refuses the key: .*Bearer \[key\]") as refused:
        OpenAIEngine(policy, servers=[servers[0].url], patience=QUICK)
    shown = "".join(traceback.format_exception(refused.value)) + str(refused.value.hint)
    assert "sk-secret" not in shown + caplog.text
    assert "PROVER_API_KEY" in str(refused.value.hint)


@pytest.mark.parametrize(
    "address",
    ["http://me:sk-secret@host:8000", "http://sk-secret@host", "http://host/v1?key=sk-secret"],
)
def test_an_address_with_a_key_is_refused_without_repeating_it(policy: Path, address: str) -> None:
    with pytest.raises(UsageError, match="would be recorded") as refused:
        OpenAIEngine(policy, servers=[address], patience=QUICK)
    assert "sk-secret" not in refused.value.message + str(refused.value.hint)
