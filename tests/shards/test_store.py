"""Shard files: exact schemas, whole files or none, one clear error for everything else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prover_cli.errors import ShardError, StorageError
from prover_cli.shards import schema
from prover_cli.shards.schema import TABLES, Table
from prover_cli.shards.store import make_directory, read_table, to_arrow, write_json, write_table

_EXAMPLES: dict[str, Any] = {
    "string": "x",
    "large_string": "long",
    "int32": 1,
    "int64": 2,
    "double": 0.5,
    "bool": True,
    "list<item: int32>": [1, 2],
    "list<element: int32>": [1, 2],
    "list<item: float>": [0.5],
    "list<element: float>": [0.5],
    "list<item: string>": ["a"],
    "list<element: string>": ["a"],
}


def example(table: Table, number: int = 0, **values: Any) -> dict[str, Any]:
    row = {column.name: _EXAMPLES[str(column.type)] for column in table.columns}
    key = table.key[0]
    return {**row, key: f"{row[key]}{number}", **values}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_round_trips(name: str, tmp_path: Path) -> None:
    table = TABLES[name]
    path = tmp_path / f"{name}-00000.parquet"
    rows = [example(table, i) for i in range(3)]
    nullable = {column.name: None for column in table.columns if not column.required}
    rows.append({**example(table, 3), **nullable})
    assert write_table(path, table, rows, {}) == 4
    read = read_table([path], name)
    assert read.sort(table.key).to_dicts() == sorted(rows, key=lambda row: row[table.key[0]])
    assert pl.read_parquet(path).columns == list(table.names)


def test_empty_and_all_null_shards_have_the_same_types_as_full_ones(tmp_path: Path) -> None:
    table = TABLES["proposals"]
    nulls = {column.name: None for column in table.columns if not column.required}
    contents = [[], [example(table, 1, contrast_traj_ids=[], **nulls)], [example(table, 2)]]
    paths = []
    for number, rows in enumerate(contents):
        paths.append(tmp_path / f"proposals-{number:05d}.parquet")
        write_table(paths[-1], table, rows, {})
    frames = [read_table(order, "proposals") for order in (paths, paths[::-1], paths[:1])]
    assert frames[0].equals(frames[1])
    assert frames[0].schema == frames[2].schema
    assert frames[0]["start_turn"].to_list() == [None, 1]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_no_table_nests_structs_and_long_texts_have_wide_offsets(name: str) -> None:
    for column in TABLES[name].columns:
        assert not pa.types.is_struct(column.type)
        if pa.types.is_list(column.type):
            assert not pa.types.is_nested(column.type.value_type)
    assert TABLES["turns"].arrow().field("observation").type == pa.large_string()
    assert TABLES["proposals"].arrow().field("raw_text").type == pa.large_string()


def test_row_groups_stay_small(tmp_path: Path) -> None:
    path = tmp_path / "turns-00000.parquet"
    rows = [example(TABLES["turns"], i, observation="x" * 2**20) for i in range(200)]
    write_table(path, TABLES["turns"], rows, {})
    file = pq.ParquetFile(path)
    assert file.num_row_groups >= 3
    assert read_table([path], "turns").height == 200


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"observation": None}, "turns.observation is null"),
        ({"reward": float("nan")}, "turns.reward holds NaN"),
        ({"surplus": 1}, "missing or unknown columns"),
    ],
)
def test_bad_rows_are_refused_when_written(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        to_arrow(TABLES["turns"], [{**example(TABLES["turns"]), **change}])


def test_duplicated_keys_are_refused_when_written() -> None:
    rows = [example(TABLES["turns"]), example(TABLES["turns"])]
    with pytest.raises(ValueError, match="1 duplicated keys"):
        to_arrow(TABLES["turns"], rows)


def as_frame(rows: list[dict[str, Any]], name: str = "turns") -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_pylist(rows, TABLES[name].arrow()))
    assert isinstance(frame, pl.DataFrame)
    return frame


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_frame_is_written_as_its_rows_are(name: str, tmp_path: Path) -> None:
    table = TABLES[name]
    rows = [example(table, i) for i in range(3)]
    optional = {column.name: None for column in table.columns if not column.required}
    rows.append({**example(table, 3), **optional})
    frame = as_frame(rows, name).select(reversed(table.names))
    assert to_arrow(table, frame).equals(to_arrow(table, rows))
    assert to_arrow(table, frame.clear()).equals(to_arrow(table, []))
    paths = [tmp_path / f"{name}-0000{i}.parquet" for i in range(2)]
    for path, content in zip(paths, (frame, rows), strict=True):
        write_table(path, table, content, {})
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"observation": pl.lit(None, pl.String)}, "turns.observation is null"),
        ({"reward": pl.lit(float("nan"))}, "turns.reward holds NaN"),
        ({"logprobs": pl.lit([float("nan")])}, "turns.logprobs holds NaN"),
        ({"surplus": pl.lit(1)}, r"missing or unknown columns \['surplus'\]"),
        ({"traj_id": pl.lit("same")}, "1 duplicated keys"),
        ({"turn": pl.lit(2**40)}, "out of bounds|not in range"),
    ],
)
def test_bad_frames_are_refused_when_written(change: dict[str, pl.Expr], fault: str) -> None:
    frame = as_frame([example(TABLES["turns"], i) for i in range(2)])
    with pytest.raises(ValueError, match=fault):
        to_arrow(TABLES["turns"], frame.with_columns(**change))


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    path = tmp_path / "turns-00000.parquet"
    rows = [example(TABLES["turns"], i) for i in (2, 0, 1)]
    write_table(path, TABLES["turns"], rows, {})
    some = read_table([path], "turns", ["turn", "traj_id"])
    assert some.columns == ["turn", "traj_id"] and some["traj_id"].is_sorted()
    as_they_stand = read_table([path], "turns", ["reward", "traj_id"], ordered=False)
    assert as_they_stand["traj_id"].to_list() == [row["traj_id"] for row in rows]
    assert read_table([], "turns", ["turn"], ordered=False).schema == {"turn": pl.Int32}


def test_a_missing_a_damaged_and_an_old_shard_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "run" / "rollout" / "turns-00000.parquet"
    path.parent.mkdir(parents=True)
    with pytest.raises(ShardError, match="is missing"):
        read_table([path], "turns")
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(ShardError, match="is damaged"):
        read_table([path], "turns")
    arrow = to_arrow(TABLES["turns"], [example(TABLES["turns"])])
    now = schema.SCHEMA_VERSION
    old = {b"prover": json.dumps({"schema_version": now - 1}).encode()}
    pq.write_table(arrow.replace_schema_metadata(old), path)
    with pytest.raises(ShardError, match=f"schema version {now - 1}, this tool reads {now}"):
        read_table([path], "turns")


def test_a_full_disk_leaves_the_old_file_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "turns-00000.parquet"
    write_table(path, TABLES["turns"], [example(TABLES["turns"])], {})
    script = (
        "import resource, signal, sys, random\n"
        "from pathlib import Path\n"
        "from prover_cli.errors import StorageError\n"
        "from prover_cli.shards.schema import TABLES\n"
        "from prover_cli.shards.store import write_table\n"
        "from tests.shards.test_store import example\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "noise = ''.join(chr(random.randrange(33, 9999)) for _ in range(500_000))\n"
        "rows = [example(TABLES['turns'], observation=noise)]\n"
        "try:\n"
        "    write_table(Path(sys.argv[1]), TABLES['turns'], rows, {})\n"
        "except StorageError as error:\n"
        "    print(error.message); sys.exit(error.exit_code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "cannot write" in done.stdout and str(path) in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert read_table([path], "turns").height == 1


def test_json_is_read_back_and_refuses_nan(tmp_path: Path) -> None:
    value = {"a": {"0": {"files": ["x"]}, "1": {}}, "b": {}, "c": [1, None, "ä"], "d": True}
    write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == value and '\n  "0": {"files": ["x"]},\n' in text
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(tmp_path / "a.json", {"a": {"b": float("nan")}})
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == text


def test_a_directory_in_the_way_of_a_file_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="a parent of it is a file"):
        make_directory(tmp_path / "file" / "run")
