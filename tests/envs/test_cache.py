"""Cache entries appear whole or not at all, whoever builds them; files are read once a version."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prover_cli.envs.cache import building, cache_home, remembered_hash
from prover_cli.errors import StorageError
from prover_cli.ids import file_hash

BUILD = """
import sys, time
from pathlib import Path
from prover_cli.envs.cache import building
folder, me, all_ = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with building(folder) as private:
    for number in range(50):
        (private / f"part-{number}").write_text("the same content")
    (folder.parent / f"ready-{me}").touch()
    while len(list(folder.parent.glob("ready-*"))) < all_:
        time.sleep(0.005)
print(len(list(folder.iterdir())))
"""
FILL = """
import sys
from pathlib import Path
from prover_cli.envs.cache import building
from prover_cli.errors import StorageError
try:
    with building(Path(sys.argv[1])) as private:
        exec(sys.argv[2])
except StorageError as error:
    print(error.message, error.hint)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of one's own."""
    monkeypatch.setenv("PROVER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_where_the_user_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_home() == home and not home.exists()
    monkeypatch.setenv("PROVER_CACHE", "~/somewhere")
    assert cache_home() == Path.home() / "somewhere"
    monkeypatch.delenv("PROVER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    assert cache_home() == home / "prover"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_home() == Path.home() / ".cache" / "prover"


def test_an_entry_appears_at_the_end_and_complete(home: Path) -> None:
    entry = home / "kind" / "entry"
    with building(entry) as private:
        (private / "one").write_text("1")
        assert not entry.exists()
        (private / "inner").mkdir()
        (private / "inner" / "two").write_text("2")
        assert not entry.exists() and private.parent == entry.parent
    assert sorted(path.name for path in entry.rglob("*")) == ["inner", "one", "parts.json", "two"]
    assert list(entry.parent.iterdir()) == [entry]
    assert entry.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_nothing_behind_and_is_told(home: Path, error: type[BaseException]) -> None:
    entry = home / "entry"
    with pytest.raises(error), building(entry) as private:
        (private / "part").write_text("half of it")
        raise error
    assert list(home.iterdir()) == []
    with building(entry) as private:
        (private / "part").write_text("whole")
    assert (entry / "part").read_text() == "whole"


def test_threads_that_build_the_same_entry_all_end_well(home: Path) -> None:
    entry, n_builders = home / "entry", 6
    together = threading.Barrier(n_builders)

    def build(number: int) -> str:
        with building(entry) as private:
            (private / "content").write_text("the same content")
            together.wait(timeout=30)
        return (entry / "content").read_text()

    with ThreadPoolExecutor(n_builders) as pool:
        assert set(pool.map(build, range(n_builders))) == {"the same content"}
    assert list(home.iterdir()) == [entry]


def test_processes_that_build_the_same_entry_all_end_well(home: Path) -> None:
    entry = home / "entry"
    command = [sys.executable, "-c", BUILD, str(entry)]
    builders = [
        subprocess.Popen([*command, str(me), "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for me in range(2)
    ]
    for builder in builders:
        output, errors = builder.communicate(timeout=60)
        assert (builder.returncode, output.strip()) == (0, b"51"), errors
    left = [path for path in home.iterdir() if not path.name.startswith("ready-")]
    assert left == [entry]


def test_a_cache_that_is_a_file_is_named_with_the_way_out(home: Path) -> None:
    home.write_text("no folder")
    entry, told = home / "kind" / "entry", pytest.raises(StorageError, match="cannot be written")
    with told as caught, building(entry):
        raise AssertionError("there is nothing to fill")
    assert str(entry) in caught.value.message
    assert caught.value.hint is not None and "PROVER_CACHE" in caught.value.hint
    with pytest.raises(StorageError) as caught:
        remembered_hash(Path(__file__))
    assert caught.value.hint is not None and "PROVER_CACHE" in caught.value.hint


def _small_files() -> None:
    # Writing beyond the limit fails as on a full disk.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.parametrize(
    "write",
    [
        "(private / 'part').write_bytes(bytes(100_000))",
        "import numpy; numpy.save(private / 'part.npy', numpy.zeros(100_000))",
        "import numpy; numpy.lib.format.open_memmap("
        "private / 'part.npy', mode='w+', shape=(10**6,))",
        "import pyarrow; file = pyarrow.OSFile(str(private / 'part'), 'wb'); "
        "file.write(bytes(100_000)); file.close()",
    ],
    ids=["plain", "numpy", "mapped", "arrow"],
)
def test_a_full_disk_is_one_message_and_leaves_nothing(home: Path, write: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(home / "entry"), write],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=_small_files,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(home / "entry") in done.stdout and "PROVER_CACHE" in done.stdout
    assert list(home.iterdir()) == []


def test_a_missing_input_is_not_blamed_on_the_cache(home: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, building(home / "entry"):
        (tmp_path / "input.json").read_bytes()
    assert caught.value.filename == str(tmp_path / "input.json")
    assert list(home.iterdir()) == []


def test_the_hash_of_a_file_is_that_of_its_bytes(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    assert remembered_hash(file) == remembered_hash(file) == file_hash(file)


@pytest.mark.parametrize("same_time", [False, True], ids=["another time", "the same time"])
def test_a_change_of_equal_size_is_noticed(home: Path, tmp_path: Path, same_time: bool) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"before")
    before, times = remembered_hash(file), file.stat()
    file.write_bytes(b"after.")
    if same_time:
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert remembered_hash(file) == file_hash(file) != before


def test_a_file_that_takes_the_place_of_another_is_noticed(home: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_bytes(b"before")
    other.write_bytes(b"after.")
    times = file.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    before = remembered_hash(file)
    other.rename(file)
    assert remembered_hash(file) == file_hash(file) != before


def _bytes_read() -> int:
    """How much this process has read from files so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts bytes read")
def test_an_unchanged_file_is_not_read_again(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(4_000_000))
    amounts = []
    for _ in range(3):
        before = _bytes_read()
        remembered_hash(file)
        amounts.append(_bytes_read() - before)
    first, *later = amounts
    assert first >= 4_000_000 and max(later) < 100_000


@pytest.mark.parametrize(
    "note", [b"", b"{", b"[]", b"null", b"{}", b'{"version": 1}', b"\xff\xfe", b'"text"']
)
def test_a_broken_note_is_written_anew(home: Path, tmp_path: Path, note: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    expected = remembered_hash(file)
    (path,) = (home / "hashes").iterdir()
    good = path.read_bytes()
    path.write_bytes(note)
    assert remembered_hash(file) == expected
    assert json.loads(path.read_bytes()) == json.loads(good)
    assert list((home / "hashes").iterdir()) == [path]


def test_one_file_has_one_note_by_whatever_path_it_is_reached(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    (tmp_path / "link").symlink_to(file)
    assert remembered_hash(file) == remembered_hash(tmp_path / "link")
    assert len(list((home / "hashes").iterdir())) == 1
