"""What verification costs and how good its credit is: the plain rule beside cheaper ones.

    python benchmarks/verify_cost.py [--env toy] [--tasks 96] [--judge contrast] [--seed 0]

In `toy` a scripted policy of known action probabilities plays a vault of --rooms, so that every
gain is computed exactly. In other environments their starting policy plays, and the gains are those
of 64 further continuations a side. The same proposals are verified in several ways. For each:
continuations per segment, tokens over the rollout's, how often the sign of the credit is wrong
(among all gains, and among those of at least 1/8 either way), the root mean square error of the
bonus, its bias, and the correlation of the estimated gain with the exact one and with that of the
64. `chain` is the gain that prover-chain makes of the same continuations. All ways share a value
cache, and what was found there counts as if it had been sampled; the 64 have a seed of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
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
from prover_cli.policies.shipped import shipped_policy
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run
from prover_cli.stages import judge, rollout, verify
from prover_cli.stages.report import Reporter, SilentReporter
from prover_cli.tokens.render import IM_END, IM_START

REPLIES = ("go",) * 6 + ("open",) * 3 + ("take red", "take blue", "take green", "take white")
SLIP, CLEAR = 0.1, 0.125
Rate: TypeAlias = Callable[[str, int], float]
"""The success rate before a turn of a trajectory."""
WAYS: dict[str, dict[str, Any]] = {
    "K = 2": {"k": 2},
    "K = 4": {"k": 4},
    "K = 8 (paper)": {"k": 8},
    "K = 16": {"k": 16},
    "chain 1 + 1": {"k_before": 1, "k_after": 1},
    "chain 1 + 2": {"k_before": 1, "k_after": 2},
    "chain 1 + 3": {"k_before": 1, "k_after": 3},
    "chain K = 2": {"k": 2},
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
}
REFERENCE = "64 of their own"


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


def exact(run: Path, rooms: int, max_turns: int) -> Rate:
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


def report(run: Path, name: str, summary: Any, rate: Rate | None) -> None:
    """One line of the comparison; without exact rates the reference is what is true."""
    reference = estimates(run, REFERENCE).select("proposal_id", other="gain")
    made = estimates(run, name).join(reference, on="proposal_id")
    if made.is_empty():
        print(f"{name:15} {0:5}  the budget reaches no segment")
        return
    gains, other = made["gain"].to_numpy(), made["other"].to_numpy()
    truth = other if rate is None else exact_gains(made, rate)
    wrong, clear = (gains > 0) != (truth > 0), np.abs(truth) >= CLEAR
    bonus = np.maximum(gains, 0) - np.maximum(truth, 0)
    facts = summary.facts
    drawn = facts["continuations"] + facts["cached_continuations"]
    tokens = facts["action_tokens"] + facts["cached_action_tokens"]
    correlations = [] if rate is None else [np.corrcoef(gains, truth)[0, 1]]
    print(
        f"{name:15} {made.height:5} {drawn / made.height:7.1f} "
        f"{tokens / facts['cost']['rollout']['tokens']:8.1%} {wrong.mean():8.1%} "
        f"{wrong[clear].mean():8.1%} {np.sqrt((bonus**2).mean()):8.3f} {bonus.mean():+8.3f}",
        *(f"{c:8.3f}" for c in (*correlations, np.corrcoef(gains, other)[0, 1])),
    )


def exact_gains(made: pl.DataFrame, rate: Rate) -> npt.NDArray[np.float64]:
    places = made.select("traj_id", "start_turn", "end_turn").iter_rows()
    return np.array([rate(traj_id, end) - rate(traj_id, start) for traj_id, start, end in places])


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


def settings(arguments: argparse.Namespace, home: Path) -> RolloutConfig:
    """The rollout that is verified."""
    toy = arguments.env == "toy"
    env = EnvConfig(arguments.env, max_turns=arguments.max_turns)
    if toy:
        options = {"rooms": arguments.rooms, "slip": SLIP, "n_tasks": 2 * arguments.tasks}
        env = EnvConfig("toy", options, max_turns=arguments.max_turns or 5 * arguments.rooms)
    return RolloutConfig(
        env,
        SamplingConfig(),
        str(scripted_policy(home / "policy") if toy else shipped_policy(arguments.env)),
        tasks=arguments.tasks,
        seed=arguments.seed,
        engine=EngineConfig("scripted" if toy else "auto", "cpu", concurrency=64),
    )


def verified(config: RolloutConfig, run: Path, reporter: Reporter) -> dict[str, Any]:
    """The run's proposals verified in every way, and by the reference; the summaries by name."""
    shared = {"engine": config.engine, "value_cache": str(run.with_name("cache"))}
    ways = {name: {**way, **shared, "seed": config.seed} for name, way in WAYS.items()}
    ways[REFERENCE] = {"k": 64, "engine": config.engine, "seed": config.seed + 1}
    return {
        name: verify.run(VerifyConfig(**way), run, Mode.REFUSE, reporter, _variant(name))
        for name, way in reversed(ways.items())
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="toy")
    parser.add_argument("--tasks", type=int, default=96)
    parser.add_argument("--rooms", type=int, default=4, help="of the vault")
    parser.add_argument("--max-turns", type=int)
    parser.add_argument("--judge", default="contrast")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        run, quiet = Path(home) / "run", SilentReporter()
        config = settings(arguments, Path(home))
        rolled = rollout.run(config, run, Mode.REFUSE, quiet).facts
        judging = JudgeConfig(arguments.judge, seed=arguments.seed)
        judged = judge.run(judging, run, Mode.REFUSE, quiet).facts
        print(
            f"{arguments.env}: success {rolled['success_rate']:.1%}, {rolled['mean_turns']:.1f} "
            f"turns, judge {arguments.judge}: {judged['status'].get('ok', 0)} segments in "
            f"{rolled['groups']} groups of {config.group_size}\n"
        )
        summaries = verified(config, run, quiet)
        rate = None
        if arguments.env == "toy":
            rate = exact(run, arguments.rooms, config.env.max_turns or 0)
        heads = ["tokens", "sign", "clear", "noise", "bias", *(["exact"] if rate else []), "of 64"]
        print(f"{'':15} segm. contin. " + " ".join(f"{head:>8}" for head in heads))
        for name in WAYS:
            report(run, name, summaries[name], rate)


if __name__ == "__main__":
    main()
