"""Stages can be stopped anywhere, resumed, and never mixed up."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prover_cli.errors import ConfigMismatchError, LockedError, ShardError, UsageError
from prover_cli.shards.lock import stage_lock
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.schema import TABLES
from prover_cli.shards.status import run_status
from prover_cli.shards.validate import faults
from prover_cli.shards.writer import StagePlan, open_stage
from prover_cli.temporary import beside
from tests.shards.test_store import example


def plan(run: Path, n_shards: int = 3, name: str = "judge", **identity: Any) -> StagePlan:
    settings = {"seed": 0, **identity}
    return StagePlan(Stage(run, name), settings, settings, n_shards)


def proposals(index: int) -> dict[str, list[dict[str, Any]]]:
    rows = [
        example(TABLES["proposals"], i, group_id=f"g{index}.{i}", proposal_id=f"p{index}.{i}")
        for i in range(2)
    ]
    return {"proposals": rows}


def write(stage_plan: StagePlan, mode: Mode = Mode.RESUME, stop_after: int | None = None) -> int:
    """Write what is owed, or only the first `stop_after` shards; returns how many."""
    with open_stage(stage_plan, mode) as writer:
        owed = writer.owed[:stop_after]
        for index in owed:
            writer.commit(index, proposals(index), {"rows": 2})
        if not writer.owed:
            writer.complete()
        return len(owed)


def test_an_interrupted_stage_resumes_to_the_uninterrupted_table(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert write(plan(whole)) == 3
    assert [write(plan(parts), stop_after=1) for _ in range(3)] == [1, 1, 1]
    assert Stage(whole, "judge").read("proposals").equals(Stage(parts, "judge").read("proposals"))
    assert write(plan(parts)) == 0


def test_an_incomplete_stage_names_what_is_owed_and_the_command(tmp_path: Path) -> None:
    write(plan(tmp_path), stop_after=1)
    with pytest.raises(ShardError, match="1 of 3 shards") as caught:
        Stage(tmp_path, "judge").require_complete()
    assert caught.value.hint == f"finish it: prover judge {tmp_path} --resume"
    status = run_status(Run(tmp_path))[0]
    assert (status.state, status.owed) == ("running", 2)


def test_an_existing_stage_is_refused_without_a_mode(tmp_path: Path) -> None:
    write(plan(tmp_path))
    with pytest.raises(UsageError, match="exists already") as caught:
        write(plan(tmp_path), Mode.REFUSE)
    assert "--resume" in str(caught.value.hint)


def test_another_configuration_is_refused_and_the_keys_are_named(tmp_path: Path) -> None:
    write(plan(tmp_path, max_segment=4))
    with pytest.raises(ConfigMismatchError, match="max_segment: 4 -> 2"):
        write(plan(tmp_path, max_segment=2))
    with pytest.raises(ConfigMismatchError, match="max_segment: 4 -> None"):
        write(plan(tmp_path))


def test_overwriting_discards_everything(tmp_path: Path) -> None:
    write(plan(tmp_path, 3))
    write(plan(tmp_path, 1), Mode.OVERWRITE)
    stage = Stage(tmp_path, "judge")
    assert stage.read("proposals").height == 2
    assert len(list(stage.folder.glob("*.parquet"))) == 1


def test_a_changed_input_makes_a_stage_stale_and_cannot_be_resumed(tmp_path: Path) -> None:
    write(plan(tmp_path))
    digest = Stage(tmp_path, "judge").manifest().output_digest
    reader = replace(plan(tmp_path, 0, "judge@second"), inputs={"judge": digest})
    write(reader)
    assert {s.name: s.state for s in run_status(Run(tmp_path))}["judge@second"] == "complete"
    second = Stage(tmp_path, "judge@second").manifest().output_digest
    write(plan(tmp_path, seed=1), Mode.OVERWRITE)
    status = {s.name: s for s in run_status(Run(tmp_path))}["judge@second"]
    assert (status.state, status.stale) == ("stale", ("judge",))
    write(replace(plan(tmp_path, 0, "judge@third"), inputs={"judge@second": second}))
    stale = {s.name: s.stale for s in run_status(Run(tmp_path)) if s.stale}
    assert stale == {"judge@second": ("judge",), "judge@third": ("judge@second",)}
    now = replace(reader, inputs={"judge": Stage(tmp_path, "judge").manifest().output_digest})
    with pytest.raises(ConfigMismatchError, match="inputs changed since: judge"):
        write(now)


def test_a_damaged_shard_is_owed_again(tmp_path: Path) -> None:
    write(plan(tmp_path))
    stage = Stage(tmp_path, "judge")
    path = stage.files("proposals")[1]
    path.write_bytes(path.read_bytes()[:-10])
    (status,) = run_status(Run(tmp_path))
    assert status.state == "damaged" and str(path) in status.damaged[0]
    assert any(str(path) in what for _, what in faults(Run(tmp_path)))
    assert write(plan(tmp_path)) == 1
    assert not stage.damaged()


def test_slices_write_disjoint_files_and_make_one_stage(tmp_path: Path) -> None:
    whole = plan(tmp_path / "whole", 5)
    write(whole)
    run = tmp_path / "sliced"
    slices = [replace(plan(run, 5), slice_=f"{i}/2") for i in range(2)]
    assert write(slices[1]) == 2
    with pytest.raises(ShardError, match="2 of 5 shards"):
        Stage(run, "judge").require_complete()
    assert write(slices[0]) == 3
    Stage(run, "judge").require_complete()
    assert Stage(run, "judge").read("proposals").equals(whole.stage.read("proposals"))
    with pytest.raises(ConfigMismatchError, match="shard"):
        write(plan(run, 5))


def test_a_manifest_of_another_schema_version_is_refused(tmp_path: Path) -> None:
    write(plan(tmp_path))
    path = tmp_path / "judge" / "manifest.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "schema_version": 99, "tool_version": "9.9"}))
    with pytest.raises(ShardError, match=r"schema version 99.*written by prover 9\.9"):
        Stage(tmp_path, "judge").manifest()
    path.write_text(json.dumps({k: v for k, v in raw.items() if k != "n_shards"}))
    with pytest.raises(ShardError, match="damaged: n_shards"):
        Stage(tmp_path, "judge").manifest()
    path.write_text("{")
    with pytest.raises(ShardError, match="damaged"):
        Stage(tmp_path, "judge").manifest()


def test_a_lock_names_its_holder_and_is_gone_with_it(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from prover_cli.shards.lock import stage_lock\n"
        "with stage_lock(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(LockedError, match=f"process {holder.pid}"), stage_lock(tmp_path):
            pass
        with pytest.raises(LockedError), stage_lock(tmp_path, "0/2"):
            pass
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
    with stage_lock(tmp_path, "0/2"), stage_lock(tmp_path, "1/2"):
        pass


_KILLED = """
import sys
from pathlib import Path
from tests.shards.test_writer import plan, write
write(plan(Path(sys.argv[1]), 200))
"""


def test_a_writer_killed_anywhere_leaves_readable_shards_and_loses_none(tmp_path: Path) -> None:
    rng = random.Random(0)
    reported = 0
    for _ in range(5):
        child = subprocess.Popen([sys.executable, "-c", _KILLED, str(tmp_path)])
        folder = tmp_path / "judge"
        target = reported + rng.randrange(2, 20)
        deadline = time.monotonic() + 60
        while len(list(folder.glob("*.parquet"))) <= target and time.monotonic() < deadline:
            time.sleep(0.002)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        stage = Stage(tmp_path, "judge")
        assert not stage.damaged()
        assert len(stage.manifest().shards) >= reported
        reported = len(stage.manifest().shards)
        assert stage.read("proposals").height == 2 * reported
    assert 0 < reported < 200
    write(plan(tmp_path, 200))
    assert Stage(tmp_path, "judge").require_complete().counters == {"rows": 400}
    leftovers = [where for where, what in faults(Run(tmp_path)) if "killed" in what]
    assert not leftovers


def test_a_slice_removes_what_its_own_killed_writers_left_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    folder.mkdir()
    names = ["proposals-00000.parquet", "proposals-00001.parquet", "manifest-1-of-2.json", "policy"]
    left = {name: beside(folder / name) for name in names}
    for name, path in left.items():
        path.mkdir() if name == "policy" else path.touch()
    write(replace(plan(tmp_path), slice_="1/2"))
    assert {name for name, path in left.items() if path.exists()} == {names[0], names[3]}
    write(replace(plan(tmp_path), slice_="0/2"))
    assert {name for name, path in left.items() if path.exists()} == {names[3]}
    write(plan(tmp_path), Mode.OVERWRITE)
    assert not any(path.exists() for path in left.values())


def test_two_writers_at_once_one_wins(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from prover_cli.errors import ProverError\n"
        "from tests.shards.test_writer import plan, open_stage, Mode, proposals\n"
        "try:\n"
        "    with open_stage(plan(Path(sys.argv[1])), Mode.RESUME) as writer:\n"
        "        time.sleep(1.0)\n"
        "        for index in writer.owed:\n"
        "            writer.commit(index, proposals(index), {})\n"
        "        writer.complete()\n"
        "except ProverError as error:\n    sys.exit(error.exit_code)\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(2)]
    assert sorted(process.wait() for process in both) == [0, 5]
    Stage(tmp_path, "judge").require_complete()
