"""What verification costs and how good its credit is: the plain rule beside cheaper ones.

    python benchmarks/verify_cost.py [--tasks 96] [--rooms 4] [--judge contrast] [--seed 0]

A scripted policy of known action probabilities plays the vault, so that every value is computed
exactly. The same proposals are verified in several ways. For each: continuations per segment,
tokens over the rollout's, how often the sign of the credit is wrong (against the exact gain, and
among gains of at least 1/8 either way), the root mean square error of the bonus, its bias, and the
correlation of the estimated gain with the exact one and with that of K = 64. `chain` is the gain
that prover-chain makes of the same continuations. All share a value cache, and what was found there
counts as if it had been sampled.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from prover_cli.config import (
    EngineConfig,
    EnvConfig,
    JudgeConfig,
    RolloutConfig,
    SamplingConfig,
    VerifyConfig,
)
from prover_cli.credit import CreditTables
from prover_cli.credit.prover_chain import ProVerChain
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.stages import judge, rollout, verify
from prover_cli.stages.report import SilentReporter
from prover_cli.tokens.render import IM_END, IM_START

REPLIES = ("go",) * 6 + ("open",) * 3 + ("take red", "take blue", "take green", "take white")
SLIP, CLEAR = 0.1, 0.125
ENGINE = EngineConfig("scripted", "cpu", concurrency=64)
WAYS: dict[str, dict[str, Any]] = {
    "K = 2": {"k": 2},
    "K = 4": {"k": 4},
    "K = 8 (paper)": {"k": 8},
    "K = 16": {"k": 16},
    "chain 1 + 1": {"k_before": 1, "k_after": 1},
    "chain 1 + 2": {"k_before": 1, "k_after": 2},
    "chain 1 + 3": {"k_before": 1, "k_after": 3},
    "chain K = 4": {"k": 4},
    "chain K = 8": {"k": 8},
    "adaptive 8": {"k": 8, "adaptive": True},
    "adaptive 16": {"k": 16, "adaptive": True},
    "adaptive 32": {"k": 32, "adaptive": True},
    "8, budget 15 %": {"k": 8, "token_budget": 0.15},
    "a8, budget 15 %": {"k": 8, "adaptive": True, "token_budget": 0.15},
    "ranked, 15 %": {"k": 8, "token_budget": 0.15, "budget_order": "information"},
    "a8 ranked, 15 %": {
        "k": 8,
        "adaptive": True,
        "token_budget": 0.15,
        "budget_order": "information",
    },
    "K = 64": {"k": 64},
}


def scripted_policy(folder: Path) -> Path:
    """A checkpoint of the scripted engine, with a token per byte."""
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"model_type": "scripted", "replies": REPLIES, "max_position_embeddings": 8192})
    )
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([IM_START, IM_END])
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({}, folder / "model.safetensors")
    return folder


def exact(run: Path, rooms: int, max_turns: int) -> Callable[[str, int], float]:
    """The success rate before a turn of a trajectory, by dynamic programming."""
    stage = Run(run).stage("rollout")
    pages = {
        (t["traj_id"], t["turn"]): t["observation"]
        for t in stage.read("turns").select("traj_id", "turn", "observation").iter_rows(named=True)
    }
    task_of = dict(stage.read("trajectories").select("traj_id", "task_id").iter_rows())
    payloads = dict(stage.read("tasks").select("task_id", "payload_json").iter_rows())

    def rate(traj_id: str, turn: int) -> float:
        found = re.fullmatch(r"You are in (.+)\. Keys.*hold: (\w+)\.", pages[traj_id, turn])
        assert found is not None
        place, held = found.groups()
        payload = json.loads(payloads[task_of[traj_id]])
        room = rooms - 1 if place == "the vault" else int(place.split()[1])
        holds = held == payload["colour"]
        return _value(rooms, payload["key_room"], payload["colour"], room, holds, max_turns - turn)

    return rate


@cache
def _value(rooms: int, key_room: int, colour: str, room: int, holds: bool, left: int) -> float:
    """Success rate of the scripted policy in a room, with the right key or without."""
    if left == 0:
        return 0.0

    def after(reply: str) -> float:
        if reply == "open" and room == rooms - 1:
            return float(holds)
        if reply == "go" and room < rooms - 1:
            stays, moves = (
                _value(rooms, key_room, colour, place, holds, left - 1)
                for place in (room, room + 1)
            )
            return SLIP * stays + (1 - SLIP) * moves
        taken = reply == f"take {colour}" if reply.startswith("take ") else holds
        kept = taken if room == key_room else holds
        return _value(rooms, key_room, colour, room, kept, left - 1)

    return sum(after(reply) for reply in REPLIES) / len(REPLIES)


def report(run: Path, name: str, summary: Any, rate: Callable[[str, int], float]) -> None:
    """One line of the comparison."""
    made = estimates(run, name)
    if made.is_empty():
        print(f"{name:15} {0:5}  the budget reaches no segment")
        return
    reference = made.join(estimates(run, "K = 64"), on="proposal_id", suffix="_64")
    gains = made["gain"].to_numpy()
    truth = np.array(
        [
            rate(traj_id, end) - rate(traj_id, start)
            for traj_id, start, end in made.select("traj_id", "start_turn", "end_turn").iter_rows()
        ]
    )
    wrong, clear = (gains > 0) != (truth > 0), np.abs(truth) >= CLEAR
    bonus = np.maximum(gains, 0) - np.maximum(truth, 0)
    facts = summary.facts
    drawn = facts["continuations"] + facts["cached_continuations"]
    tokens = facts["action_tokens"] + facts["cached_action_tokens"]
    print(
        f"{name:15} {made.height:5} {drawn / made.height:7.1f} "
        f"{tokens / facts['cost']['rollout']['tokens']:8.1%} {wrong.mean():8.1%} "
        f"{wrong[clear].mean():8.1%} "
        f"{np.sqrt((bonus**2).mean()):8.3f} {bonus.mean():+8.3f} "
        f"{np.corrcoef(gains, truth)[0, 1]:8.3f} "
        f"{np.corrcoef(reference['gain'], reference['gain_64'])[0, 1]:8.3f}"
    )


def estimates(run: Path, name: str) -> pl.DataFrame:
    """The verified segments of one way; with `chain` the gain is that of prover-chain."""
    stage, rolled = Run(run).stage(f"verify@{_variant(name)}"), Run(run).stage("rollout")
    found = stage.read("estimates").filter(pl.col("success_before").is_not_null())
    if name.startswith("chain"):
        tables = CreditTables(
            rolled.read("trajectories"),
            rolled.read("turns"),
            continuations=stage.read("continuations"),
            estimates=found,
        )
        method = ProVerChain()
        gains = method.fitted(method.statistics(tables)).gains(tables)
        found = found.join(gains, on="proposal_id").with_columns(gain="chain_gain")
    return found.sort("proposal_id")


def _variant(name: str) -> str:
    return re.sub(r"\W+", "", name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=96)
    parser.add_argument("--rooms", type=int, default=4)
    parser.add_argument("--judge", default="contrast")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    max_turns = 5 * arguments.rooms
    with tempfile.TemporaryDirectory() as home:
        policy, run = scripted_policy(Path(home) / "policy"), Path(home) / "run"
        quiet = SilentReporter()
        options = {"rooms": arguments.rooms, "slip": SLIP, "n_tasks": 2 * arguments.tasks}
        env = EnvConfig("toy", options, max_turns=max_turns)
        settings = RolloutConfig(
            env, SamplingConfig(), str(policy), tasks=arguments.tasks, seed=arguments.seed,
            engine=ENGINE,
        )  # fmt: skip
        rolled = rollout.run(settings, run, Mode.REFUSE, quiet).facts
        judged = judge.run(
            JudgeConfig(arguments.judge, seed=arguments.seed), run, Mode.REFUSE, quiet
        )
        print(
            f"success {rolled['success_rate']:.1%}, {rolled['mean_turns']:.1f} turns, judge "
            f"{arguments.judge}: {judged.facts['status'].get('ok', 0)} segments in "
            f"{rolled['groups']} groups of {settings.group_size}\n"
        )
        heads = ("tokens", "sign", "clear", "noise", "bias", "exact", "K=64")
        print(f"{'':15} segm. contin. " + " ".join(f"{head:>8}" for head in heads))
        summaries = {}
        for name in reversed(WAYS):
            config = VerifyConfig(
                **WAYS[name],
                seed=arguments.seed,
                value_cache=str(Path(home) / "cache"),
                engine=ENGINE,
            )
            summaries[name] = verify.run(config, run, Mode.REFUSE, quiet, _variant(name))
        rate = exact(run, arguments.rooms, max_turns)
        for name in WAYS:
            report(run, name, summaries[name], rate)


if __name__ == "__main__":
    main()
