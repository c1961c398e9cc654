"""A recorded episode is re-entered at every turn, token for token, while no engine answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from prover_cli.engines.base import FinishReason, Generation, GenerationRequest, Sampling
from prover_cli.envs.searchqa import SearchQAEnvironment
from prover_cli.ids import text_hash
from prover_cli.stages.agent import Agent, Context
from prover_cli.stages.episode import Outcome, Start, StopReason, play
from prover_cli.stages.replay import State, reenter
from prover_cli.tokens.render import ChatRenderer
from tests.envs.searchqa_helpers import DeadRetriever, SmallRetriever, environment, task_of
from tests.policies import byte_tokenizer

TAGGED = (
    "<think>t</think><search>director Mara Lind</search> and beyond",
    "no action",
    "<search>trap without</search>",
    "<search>zzzz</search>",
    "<answer>Oslo</answer>",
)
REPLIES = {
    "search-r1": TAGGED,
    "tags": TAGGED,
    "compact": (
        "search director Mara Lind",
        "?",
        "search trap without",
        "search zz",
        "answer Oslo",
    ),
    "react": (
        "Thought: t\nAction: search[director Mara Lind]",
        "no action",
        "Action: search[trap without]",
        "Action: search[zzzz]",
        "Action: answer[Oslo]",
    ),
}


class Spoken:
    """Says its lines, whatever it is asked."""

    def __init__(self, renderer: ChatRenderer, lines: Sequence[str]) -> None:
        self._renderer, self._lines = renderer, iter(lines)

    async def generate(self, request: GenerationRequest) -> Generation:
        ids = (*self._renderer.encode(next(self._lines)), self._renderer.im_end_id)
        return Generation(ids, (-0.5,) * len(ids), FinishReason.STOP)


@pytest.fixture
def renderer(tmp_path: Path) -> Iterator[ChatRenderer]:
    byte_tokenizer().save(str(tmp_path / "tokenizer.json"))
    yield ChatRenderer.load(tmp_path)


def agent_of(env: SearchQAEnvironment, renderer: ChatRenderer, style: str) -> Agent:
    chosen = env.prompts[style]
    sampling = Sampling(
        max_tokens=100, stop_ids=renderer.stop_ids, temperature=1.0, top_p=1.0, top_k=0
    )
    return Agent(renderer, chosen, chosen.history, sampling)


def episode(env: SearchQAEnvironment, agent: Agent, lines: Sequence[str]) -> Outcome:
    task = task_of(env)
    return asyncio.run(
        play(
            Spoken(agent.renderer, lines),  # type: ignore[arg-type]
            agent,
            task,
            lambda: Start(env.start(task, 0), Context()),
            max_turns=env.max_turns,
            sampler_seed=0,
            session_key="s",
        )
    )


@pytest.mark.parametrize("style", REPLIES)
def test_every_turn_is_reentered_without_any_search(
    tmp_path: Path, renderer: ChatRenderer, style: str
) -> None:
    env = environment(tmp_path)
    outcome = episode(env, agent_of(env, renderer, style), REPLIES[style])
    assert (outcome.stop_reason, outcome.reward, len(outcome.turns)) == (StopReason.DONE, 1.0, 5)
    assert [turn["action_valid"] for turn in outcome.turns] == [True, False, True, True, True]
    rows = [{"traj_id": "t", "group_id": "g", **turn} for turn in outcome.turns]

    retriever = DeadRetriever()
    offline = environment(tmp_path, retriever)
    task, agent = task_of(offline), agent_of(offline, renderer, style)
    offline.recall(task, rows)
    states = reenter(offline, agent, task, 0, rows, range(5), offline.max_turns)
    for number, state in states.items():
        assert isinstance(state, State), f"diverged at {number}"
        session = state.begin(offline, task, 1).session
        assert text_hash(session.observe().text) == rows[number]["observation_hash"]
    assert retriever.queries == []


def test_search_r1_keeps_one_reply_and_drops_what_follows_the_closing_tag(
    tmp_path: Path, renderer: ChatRenderer
) -> None:
    env = environment(tmp_path)
    outcome = episode(env, agent_of(env, renderer, "search-r1"), REPLIES["search-r1"])
    first, second = outcome.turns[:2]
    assert first["action_text"].endswith("</search>")
    assert not second["context_reset"]
    suffix = renderer.decode(second["prompt_ids"])
    assert suffix == f"\n\n<information>{second['observation']}</information>\n\n"
    assert renderer.im_end_id not in second["prompt_ids"]


def test_a_dead_engine_voids_the_episode(tmp_path: Path, renderer: ChatRenderer) -> None:
    env = environment(tmp_path, DeadRetriever())
    outcome = episode(env, agent_of(env, renderer, "search-r1"), REPLIES["search-r1"])
    assert (outcome.stop_reason, outcome.reward, outcome.success) == (StopReason.VOID, None, None)
    assert outcome.error_type == "RetrievalFailed"
    assert outcome.turns == []


def test_an_answer_given_after_a_search_is_scored(tmp_path: Path, renderer: ChatRenderer) -> None:
    env = environment(tmp_path, SmallRetriever(), reward="f1")
    outcome = episode(
        env, agent_of(env, renderer, "react"), [REPLIES["react"][0], "Action: answer[a b]"]
    )
    assert (outcome.stop_reason, outcome.reward, outcome.success) == (StopReason.DONE, 0.0, False)
