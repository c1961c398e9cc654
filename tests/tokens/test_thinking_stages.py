"""Episodes of a policy that thinks are recorded, entered again and trained as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prover_cli.config import SamplingConfig
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.stages import rollout as rollout_stage
from prover_cli.stages.states import plan_states, recorded_tasks
from prover_cli.stages.update import training_batch
from prover_cli.stages.world import reopen
from prover_cli.tokens.render import ChatRenderer
from prover_cli.tokens.thinking import UNFINISHED
from tests.envs.searchqa_helpers import environment
from tests.envs.test_searchqa_replay import agent_of, episode
from tests.policies import scripted_policy
from tests.stages.pipeline import (
    Listener,
    Rows,
    credit_everything,
    episodes,
    rollout_config,
    table,
)
from tests.tokens.chat_models import chat_model

ACTIONS = ("go", "open", "take red", "take blue", "take green", "take white")
KINDS = [(name, thinking) for name in ("qwen3", "qwen35") for thinking in ("keep", "strip", "off")]


def thinker(folder: Path, name: str, thinking: str) -> Path:
    """Thinks before every action, and once does not come to an end."""
    opened = "" if name == "qwen35" or thinking == "off" else "<think>"
    close = "" if thinking == "off" else "\nhm\n</think>\n\n"
    unfinished = "<think>go" if thinking == "off" else f"{opened}go"
    replies = [*(f"{opened}{close}{action}" for action in ACTIONS), unfinished]
    policy = scripted_policy(folder, replies)
    return chat_model(policy, name)


def rolled(run: Path, policy: Path, thinking: str, tasks: int = 4) -> list[Rows]:
    config = rollout_config(
        policy, {"rooms": 3, "slip": 0.3}, sampling=SamplingConfig(max_tokens=64), tasks=tasks
    )
    config = replace(config, env=replace(config.env, thinking=thinking))
    rollout_stage.run(config, run, Mode.REFUSE, Listener())
    return episodes(run)


def given(turns: Rows) -> list[tuple[int, ...]]:
    """The ids that the engine was given at every turn."""
    found: list[tuple[int, ...]] = []
    context: tuple[int, ...] = ()
    for turn in turns:
        prompt = tuple(turn["prompt_ids"])
        found.append(prompt if turn["context_reset"] else (*context, *prompt))
        context = (*found[-1], *turn["action_ids"])
    return found


@pytest.mark.parametrize("name, thinking", KINDS)
def test_actions_and_prompts_of_an_episode_are_as_declared(
    tmp_path: Path, name: str, thinking: str
) -> None:
    policy = thinker(tmp_path / "policy", name, thinking)
    renderer = ChatRenderer.load(policy, thinking)
    recorded = rolled(tmp_path / "run", policy, thinking)
    assert max(map(len, recorded)) >= 4
    for turns in recorded:
        for turn, ids in zip(turns, given(turns), strict=True):
            assert turn["context_reset"] == (thinking == "strip" or turn["turn"] == 0)
            unfinished = not turn["action"]
            assert unfinished == (UNFINISHED in turn["info_json"])
            assert turn["action"] in ("", *ACTIONS)
            assert turn["action_text"].endswith(turn["action"] or "go")
            # A block is opened by the policy, or in the generation prompt.
            thoughts = turn["turn"] if thinking == "keep" else 0
            assert renderer.decode(ids).count("hm") == thoughts - sum(
                not past["action"] for past in turns[:thoughts]
            )


@pytest.mark.parametrize("name, thinking", KINDS)
def test_a_thinking_episode_is_entered_again_at_every_turn(
    tmp_path: Path, name: str, thinking: str
) -> None:
    run = tmp_path / "run"
    policy = thinker(tmp_path / "policy", name, thinking)
    recorded = rolled(run, policy, thinking, tasks=2)
    rollout = Run(run).stage("rollout").require_complete()
    config, world, entry = reopen(rollout)
    assert config.env.thinking == thinking
    plan = plan_states(
        world,
        world.agent(Path(entry.path), config.sampling),
        recorded_tasks(table(run, "tasks"), world.environment.tasks(config.split)),
        table(run, "trajectories"),
        table(run, "turns"),
        [(turn["traj_id"], turn["turn"]) for turns in recorded for turn in turns],
    )
    assert len(plan.at) == sum(map(len, recorded))
    assert all(work.state is not None for work in plan.at.values())
    for turns in recorded:
        for turn, ids in zip(turns, given(turns), strict=True):
            state = plan.at[turn["traj_id"], turn["turn"]].state
            assert state is not None
            begun = ids[: len(ids) - len(turn["prompt_ids"])]
            assert turn["context_reset"] or tuple(state.context.ids) == begun


@pytest.mark.parametrize("name, thinking", KINDS)
def test_an_episode_is_one_training_row_and_each_turn_of_it_is_where_thinking_is_stripped(
    tmp_path: Path, name: str, thinking: str
) -> None:
    run = tmp_path / "run"
    recorded = rolled(run, thinker(tmp_path / "policy", name, thinking), thinking, tasks=2)
    credit_everything(run)
    source = Run(run)
    batch = training_batch(source.stage("rollout"), source.stage("advantage"), "all")
    expected = [
        [turn] if thinking == "strip" else turns
        for turns in recorded
        for turn in (turns if thinking == "strip" else turns[:1])
    ]
    assert len(batch) == len(expected)
    for row, turns in zip(batch, expected, strict=True):
        assert row.ids == [i for t in turns for i in (*t["prompt_ids"], *t["action_ids"])]
        trained = [i for i, mine in zip(row.ids, row.mask, strict=True) if mine]
        assert trained == [i for t in turns for i in t["action_ids"]]


def test_a_reply_that_goes_on_after_a_search_has_left_its_thinking(tmp_path: Path) -> None:
    """Qwen3.5 opens the block once, in the generation prompt; the answer comes after a search."""
    renderer = ChatRenderer.load(chat_model(tmp_path / "policy", "qwen35"))
    env = environment(tmp_path)
    lines = ["<search>no</search> I see</think><search>director Mara Lind</search> x"]
    lines += ["<answer>Oslo</answer> and so on"]
    outcome = episode(env, agent_of(env, renderer, "search-r1"), lines)
    assert [turn["action_valid"] for turn in outcome.turns] == [True, True]
    assert outcome.turns[0]["action_text"] == lines[0].removesuffix(" x")
    assert outcome.turns[1]["action_text"] == "<answer>Oslo</answer>"
    assert not outcome.turns[1]["context_reset"] and outcome.reward == 1.0
    lines = ["<search>no</search> I see"] * env.max_turns
    unfinished = episode(env, agent_of(env, renderer, "search-r1"), lines)
    assert all(UNFINISHED in turn["info_json"] for turn in unfinished.turns)
