"""Exports: the right numbers at the right ids, under the names that trainers publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from prover_cli.config import ExportConfig
from prover_cli.errors import NothingToDoError, UsageError
from prover_cli.exports.registry import FORMS
from prover_cli.shards.run import Stage
from prover_cli.stages import export
from prover_cli.stages.report import SilentReporter, Summary
from prover_cli.stages.update import training_batch
from prover_cli.tokens.mask import TrainingSequence
from tests.policies import scripted_policy
from tests.stages.pipeline import credit, judge, rewrite, rollout, table, verify

PAD = 7


def made_run(home: Path, **changes: Any) -> Path:
    rollout(home / "run", scripted_policy(home / "policy"), {"slip": 0.3}, **changes)
    judge(home / "run")
    verify(home / "run", k=3)
    credit(home / "run", "grpo", "prover")
    return home / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Append-only conversations: one sequence per trajectory."""
    return made_run(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fresh prompts: one sequence per turn."""
    return made_run(tmp_path_factory.mktemp("window"), history="1")


def exported(run: Path, out: Path, to: str, overwrite: bool = False, **changes: Any) -> Summary:
    config = ExportConfig(**{"to": to, "estimator": "prover", "pad_id": PAD, **changes})
    return export.run(config, run, out, overwrite, SilentReporter())


def trained(run: Path) -> list[TrainingSequence]:
    """What `prover update` would train on, in the order of shards and trajectories."""
    return training_batch(Stage(run, "rollout"), Stage(run, "advantage"), "prover")


def sequences_with_signal(rows: list[dict[str, Any]], run: Path) -> list[dict[str, Any]]:
    """Rows of the groups that `update` trains on: it leaves out groups of zeros."""
    credit = table(run, "advantages").filter(estimator="prover")
    signal = credit.filter(pl.col("advantage") != 0)["group_id"].unique().to_list()
    return [row for row in rows if row["group_id"] in signal]


def objects(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def near(values: Any) -> Any:
    return pytest.approx(list(values), abs=1e-6)


@pytest.mark.parametrize("kind", ["run", "windowed"])
def test_jsonl_is_what_the_update_trains_on(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(kind)
    exported(run, tmp_path / "out.jsonl", "jsonl")
    rows = sequences_with_signal(objects(tmp_path / "out.jsonl"), run)
    batch = trained(run)
    assert len(rows) == len(batch) > 10
    for row, sequence in zip(rows, batch, strict=True):
        n = len(row["prompt_ids"])
        assert row["prompt_ids"] + row["completion_ids"] == sequence.ids
        assert [False] * n + [m == 1 for m in row["completion_mask"]] == sequence.mask
        assert row["advantages"] == near(sequence.advantages[n:])
        assert row["old_logprobs"] == near(sequence.logprobs[n:])
        assert not any(sequence.mask[:n]) and row["completion_mask"][0] == 1


def test_every_id_of_a_trajectory_is_where_the_turns_say(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "out.jsonl", "jsonl")
    credit = {
        (row["traj_id"], row["turn"]): row["advantage"]
        for row in table(run, "advantages").filter(estimator="prover").to_dicts()
    }
    by_id = {row["traj_id"]: row for row in objects(tmp_path / "out.jsonl")}
    parts = table(run, "turns").partition_by("traj_id", maintain_order=True)
    assert len(by_id) == len(parts)
    for part in parts:
        row = by_id[part["traj_id"][0]]
        ids, mask, logprobs, advantages = [], [], [], []
        for turn in part.to_dicts():
            n, k = len(turn["prompt_ids"]), len(turn["action_ids"])
            ids += turn["prompt_ids"] + turn["action_ids"]
            mask += [0] * n + [1] * k
            logprobs += [0.0] * n + turn["logprobs"]
            advantages += [0.0] * n + [credit[turn["traj_id"], turn["turn"]]] * k
        start = len(row["prompt_ids"])
        assert start == len(part["prompt_ids"][0])
        assert row["prompt_ids"] + row["completion_ids"] == ids
        assert row["completion_mask"] == mask[start:]
        assert row["old_logprobs"] == near(logprobs[start:])
        assert row["advantages"] == near(advantages[start:])
        assert (row["first_turn"], row["end_turn"]) == (0, part.height)


def test_turns_without_an_advantage_are_masked_counted_and_said(run: Path, tmp_path: Path) -> None:
    own = made_run(tmp_path, max_turns=5)
    credited = table(own, "advantages").filter(estimator="prover")
    void = credited["traj_id"].unique().sort()[0]
    single = credited.filter(pl.col("traj_id") != void).filter(turn=1)["traj_id"].sort()[0]

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        nothing = {"base": None, "local": None, "advantage": None}
        return [
            row | nothing | {"reason": "void"}
            if row["traj_id"] == void
            else row | nothing | {"reason": "not_critical"}
            if (row["traj_id"], row["turn"]) == (single, 1)
            else row
            for row in rows
        ]

    rewrite(Stage(own, "advantage"), "advantages", change)
    summary = exported(own, tmp_path / "out.jsonl", "jsonl")
    turns = table(own, "turns")
    n_void = turns.filter(traj_id=void).height
    assert summary.facts["void"] == n_void and summary.facts["unassigned"] == 1
    assert summary.facts["left_out"] == 1
    assert f"{n_void} turns of void trajectories, 1 turns without an advantage" in summary.lines[-1]
    rows = objects(tmp_path / "out.jsonl")
    assert void not in {row["traj_id"] for row in rows}
    kept = next(row for row in rows if row["traj_id"] == single)
    others = turns.filter((pl.col("traj_id") == single) & (pl.col("turn") != 1))
    assert sum(kept["completion_mask"]) == others["action_ids"].list.len().sum()
    tokens = turns["action_ids"].list.len().sum()
    lost = turns.filter((pl.col("traj_id") == void) | (pl.col("traj_id") == single))
    lost = lost.filter((pl.col("traj_id") == void) | (pl.col("turn") == 1))
    assert summary.facts["trained_tokens"] == tokens - lost["action_ids"].list.len().sum()


def test_hf_is_parquet_with_declared_types(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "hf", "hf")
    exported(run, tmp_path / "out.jsonl", "jsonl")
    files = sorted((tmp_path / "hf").glob("*.parquet"))
    assert [file.name for file in files] == [f"train-0000{i}-of-00002.parquet" for i in range(2)]
    schema = {field.name: str(field.type) for field in pq.read_schema(files[0])}
    assert schema["input_ids"].endswith("int32>") and schema["loss_mask"].endswith("int8>")
    assert schema["advantages"].endswith("float>") and schema["old_logprobs"].endswith("float>")
    rows = pl.concat(map(pl.read_parquet, files)).to_dicts()
    for row, plain in zip(rows, objects(tmp_path / "out.jsonl"), strict=True):
        n = row["prompt_length"]
        assert row["input_ids"] == plain["prompt_ids"] + plain["completion_ids"]
        assert row["loss_mask"] == [0] * n + plain["completion_mask"]
        assert row["advantages"] == near([0.0] * n + plain["advantages"])
        assert {len(row[name]) for name in ("loss_mask", "advantages", "old_logprobs")} == {
            len(row["input_ids"])
        }
    description = json.loads((tmp_path / "hf" / "export.json").read_text())
    assert description["estimator"] == "prover" and description["counts"]["sequences"] == len(rows)


def test_prime_rl_rows_are_training_samples(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "prime", "prime-rl")
    exported(run, tmp_path / "out.jsonl", "jsonl")
    files = sorted((tmp_path / "prime").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    fields = "token_ids mask logprobs temperatures env_name reward advantages"
    for row, plain in zip(rows, objects(tmp_path / "out.jsonl"), strict=True):
        n = len(plain["prompt_ids"])
        assert list(row) == fields.split()
        assert row["token_ids"] == plain["prompt_ids"] + plain["completion_ids"]
        assert row["mask"] == [False] * n + [m == 1 for m in plain["completion_mask"]]
        assert row["logprobs"] == near([0.0] * n + plain["old_logprobs"])
        assert row["advantages"] == near([0.0] * n + plain["advantages"])
        assert row["temperatures"] == [1.0] * len(row["token_ids"]) and row["env_name"] == "toy"
        assert all(isinstance(x, bool) for x in row["mask"])


def arrays(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    parts = [load_file(file) for file in sorted(folder.glob("*.safetensors"))]
    assert len(parts) == 2
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_verl_tensors_have_the_names_shapes_and_types_of_its_batches(
    run: Path, tmp_path: Path
) -> None:
    exported(run, tmp_path / "verl", "verl")
    exported(run, tmp_path / "out.jsonl", "jsonl")
    found, plain = arrays(tmp_path / "verl"), objects(tmp_path / "out.jsonl")
    whole = "input_ids attention_mask position_ids".split()
    response = "responses response_mask old_log_probs advantages".split()
    assert set(found) == {"prompts", *whole, *response}
    n, p = found["prompts"].shape
    c = found["responses"].shape[1]
    assert (n, p) == (len(plain), max(len(row["prompt_ids"]) for row in plain))
    assert c == max(len(row["completion_ids"]) for row in plain)
    assert all(found[name].shape == (n, p + c) for name in whole)
    assert all(found[name].shape == (n, c) for name in response)
    reals = {"old_log_probs", "advantages"}
    assert all(x.dtype == ("f4" if name in reals else "i8") for name, x in found.items())
    for i, row in enumerate(plain):
        a, b = len(row["prompt_ids"]), len(row["completion_ids"])
        assert found["prompts"][i].tolist() == [PAD] * (p - a) + row["prompt_ids"]
        assert found["responses"][i].tolist() == row["completion_ids"] + [PAD] * (c - b)
        assert found["attention_mask"][i].tolist() == [0] * (p - a) + [1] * (a + b) + [0] * (c - b)
        there = found["attention_mask"][i] == 1
        assert found["position_ids"][i][there].tolist() == list(range(a + b))
        assert found["response_mask"][i].tolist() == row["completion_mask"] + [0] * (c - b)
        assert found["advantages"][i][:b].tolist() == near(row["advantages"])
        assert found["old_log_probs"][i][:b].tolist() == near(row["old_logprobs"])
    outside = found["response_mask"] == 0
    assert not found["advantages"][outside].any() and not found["old_log_probs"][outside].any()
    assert (found["input_ids"] == np.concatenate([found["prompts"], found["responses"]], 1)).all()


def test_trl_inputs_attend_to_the_environment_and_do_not_train_on_it(
    run: Path, tmp_path: Path
) -> None:
    exported(run, tmp_path / "trl", "trl")
    exported(run, tmp_path / "verl", "verl")
    found, verl = arrays(tmp_path / "trl"), arrays(tmp_path / "verl")
    assert set(found) == {
        "prompt_ids",
        "prompt_mask",
        "completion_ids",
        "completion_mask",
        "tool_mask",
        "advantages",
        "old_per_token_logps",
    }
    assert (found["completion_mask"] * found["tool_mask"] == verl["response_mask"]).all()
    attention = np.concatenate([found["prompt_mask"], found["completion_mask"]], axis=1)
    assert (attention == verl["attention_mask"]).all()
    assert (found["tool_mask"][found["completion_mask"] == 0] == 1).all()
    assert (found["completion_mask"] == 1).sum() > verl["response_mask"].sum()
    assert (found["advantages"] == verl["advantages"]).all()
    assert (found["old_per_token_logps"] == verl["old_log_probs"]).all()
    assert found["advantages"].dtype == "f4" and found["tool_mask"].dtype == "i8"


def test_rows_of_tensors_say_whose_they_are(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "trl", "trl")
    exported(run, tmp_path / "out.jsonl", "jsonl")
    found: list[str] = []
    for file in sorted((tmp_path / "trl").glob("*.safetensors")):
        with safe_open(file, "np") as tensors:
            metadata = tensors.metadata()
        found += json.loads(metadata["traj_id"])
        assert metadata["estimator"] == "prover"
    assert found == [row["traj_id"] for row in objects(tmp_path / "out.jsonl")]


def test_advantages_per_token_reach_their_tokens(tmp_path: Path) -> None:
    run = made_run(tmp_path, max_turns=3, tasks=1)

    def per_token(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lengths = {
            (row["traj_id"], row["turn"]): len(row["action_ids"])
            for row in table(run, "turns").to_dicts()
        }
        return [
            row
            | {"token_advantages": [float(i) for i in range(lengths[row["traj_id"], row["turn"]])]}
            for row in rows
        ]

    rewrite(Stage(run, "advantage"), "advantages", per_token)
    exported(run, tmp_path / "out.jsonl", "jsonl")
    for row in objects(tmp_path / "out.jsonl"):
        expected, count = [], 0
        for trained_here in row["completion_mask"]:
            count = count + 1 if trained_here else 0
            expected.append(float(max(count - 1, 0)))
        assert row["advantages"] == expected


@pytest.mark.parametrize("to", sorted(FORMS))
def test_an_existing_output_is_kept_unless_it_may_be_overwritten(
    run: Path, tmp_path: Path, to: str
) -> None:
    out = tmp_path / "out"
    exported(run, out, to)
    with pytest.raises(UsageError, match="exists already"):
        exported(run, out, to)
    exported(run, out, to, overwrite=True, estimator="grpo")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    stranger = tmp_path / "mine"
    stranger.mkdir()
    (stranger / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(UsageError, match="is not an earlier export"):
        exported(run, stranger, to, overwrite=True)
    assert (stranger / "thesis.txt").exists()


def test_what_cannot_be_exported_is_refused_in_words(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--to is jsonl, hf, verl, trl, prime-rl, not 'tfrecord'"):
        exported(run, tmp_path / "out", "tfrecord")
    with pytest.raises(UsageError, match="advantages of grpo, prover, not of gigpo"):
        exported(run, tmp_path / "out", "hf", estimator="gigpo")
    with pytest.raises(UsageError, match="advantages of grpo, prover"):
        exported(run, tmp_path / "out", "hf", estimator=None)
    own = made_run(tmp_path, tasks=1, max_turns=2)

    def nothing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row | {"advantage": None, "reason": "filtered"} for row in rows]

    rewrite(Stage(own, "advantage"), "advantages", nothing)
    with pytest.raises(NothingToDoError, match="no turn has an advantage of prover"):
        exported(own, tmp_path / "out", "hf")
    assert not (tmp_path / "out").exists()
