"""What decides a draw is stated to vllm, for both of its builds."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from prover_cli.engines.base import Sampling
from prover_cli.engines.vllm_args import (
    Settings,
    check_sampling,
    engine_args,
    prepare_environment,
    sampling_values,
)
from prover_cli.engines.vllm_support import why_not
from prover_cli.errors import UsageError
from tests.engines.vllm_models import model

MODEL = Path("policy")
BUILDS = pytest.mark.parametrize("cpu_build", [True, False])
REASON = why_not("cpu")
with_vllm = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@BUILDS
def test_draws_and_log_probs_never_depend_on_what_the_model_says(cpu_build: bool) -> None:
    args = engine_args(MODEL, Settings(max_model_len=512, max_requests=9), cpu_build=cpu_build)
    expected = {
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "max_model_len": 512,
        "max_num_seqs": 9,
        "dtype": "float32" if cpu_build else "bfloat16",
    }
    assert expected.items() <= args.items()


def test_parallel_sizes_memory_and_device_reach_the_gpu_build() -> None:
    settings = Settings(tensor_parallel=2, data_parallel=3, memory_fraction=0.7)
    args = engine_args(MODEL, settings, cpu_build=False)
    assert (args["tensor_parallel_size"], args["data_parallel_size"]) == (2, 3)
    assert args["gpu_memory_utilization"] == 0.7
    plain = engine_args(MODEL, Settings(), cpu_build=False)
    assert plain["gpu_memory_utilization"] == 0.9
    assert "device_ids" not in args
    assert engine_args(MODEL, Settings("cuda:1"), cpu_build=False)["device_ids"] == [1]


def test_the_cpu_build_never_computes_a_prompt_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    args = engine_args(MODEL, Settings(kv_memory=1 << 20), cpu_build=True)
    assert args["enable_chunked_prefill"] is False
    assert args["kv_cache_memory_bytes"] == 1 << 20
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "2")
    assert "kv_cache_memory_bytes" not in engine_args(MODEL, Settings(), cpu_build=True)


def test_adapters_get_the_next_rank_that_vllm_knows() -> None:
    args = engine_args(MODEL, Settings(), lora_rank=9, cpu_build=True)
    assert (args["enable_lora"], args["max_lora_rank"]) == (True, 16)
    assert "enable_lora" not in engine_args(MODEL, Settings(), cpu_build=True)


def test_variables_that_the_user_set_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"VLLM_CPU_OMP_THREADS_BIND": "0-3"})
    prepare_environment(cpu_build=True)
    assert os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "0-3"
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert os.environ["VLLM_LOGGING_STREAM"] == "ext://sys.stderr"


@pytest.mark.parametrize("change", [{"temperature": 0.001}, {"temperature": 2.5}, {"top_p": 0.0}])
def test_what_vllm_would_change_silently_is_refused(change: dict[str, Any]) -> None:
    check_sampling(Sampling(5, (), temperature=0.0))
    with pytest.raises(UsageError, match="vllm"):
        check_sampling(Sampling(5, (), **change))


def test_prompt_log_probs_are_never_asked_for() -> None:
    assert sampling_values(Sampling(5, (1,)), 5, 3)["prompt_logprobs"] is None


@with_vllm
def test_every_parameter_of_a_request_that_decides_draws_is_stated() -> None:
    prepare_environment(cpu_build=True)
    from vllm.sampling_params import SamplingParams

    ours = set(sampling_values(Sampling(5, (1,)), 5, 3)) | {"output_kind", "structured_outputs"}
    # Text output, scoring of given tokens, debugging, and vllm's own bookkeeping.
    others = {
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "include_stop_str_in_output",
        "stream_interval",
        "skip_clone",
        "output_text_buffer_length",
        "prompt_logprob_token_ids",
        "prompt_logprob_start",
        "logprob_token_ids",
        "extra_args",
        "skip_reading_prefix_cache",
        "routed_experts_prompt_start",
        "trace_decode_token_ids",
    }
    fields = {name for name in SamplingParams.__struct_fields__ if not name.startswith("_")}
    assert fields == ours | others


@with_vllm
@BUILDS
def test_vllm_knows_every_engine_argument(cpu_build: bool) -> None:
    prepare_environment(cpu_build=True)
    from vllm.engine.arg_utils import AsyncEngineArgs, EngineArgs

    kind = EngineArgs if cpu_build else AsyncEngineArgs
    settings = Settings("cuda:1", memory_fraction=0.5)
    args = engine_args(MODEL, settings, lora_rank=8, cpu_build=cpu_build)
    assert set(args) <= {field.name for field in dataclasses.fields(kind)}


@with_vllm
def test_the_settings_that_vllm_resolves_are_those_asked_for(tmp_path: Path) -> None:
    prepare_environment(cpu_build=True)
    from vllm.engine.arg_utils import AsyncEngineArgs

    settings = Settings(max_model_len=128, max_requests=9, kv_memory=1 << 20)
    args = engine_args(model(tmp_path / "policy"), settings, cpu_build=True)
    config = AsyncEngineArgs(**args).create_engine_config()
    assert config.model_config.generation_config == "vllm"
    assert config.model_config.logprobs_mode == "processed_logprobs"
    assert config.model_config.max_model_len == 128
    assert str(config.model_config.dtype) == "torch.float32"
    assert config.cache_config.enable_prefix_caching is True
    assert config.cache_config.kv_cache_memory_bytes == 1 << 20
    assert config.scheduler_config.max_num_seqs == 9
    assert config.scheduler_config.enable_chunked_prefill is False
    assert config.structured_outputs_config.disable_any_whitespace is True
