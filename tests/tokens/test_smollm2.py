"""The prompts of a real chat model are Hugging Face's, and no text makes its control tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover_cli.envs.base import Message
from prover_cli.errors import UsageError
from prover_cli.policies.smollm2 import find_weights, write_checkpoint
from prover_cli.tokens.render import ChatRenderer
from tests.tokens.test_templates import HARMLESS, HOSTILE, huggingface, messages_of


@pytest.mark.slow
def test_smollm2_is_rendered_as_hugging_face_renders_it(tmp_path: Path) -> None:
    try:
        weights = find_weights()
    except UsageError as error:
        pytest.skip(error.message)
    write_checkpoint(weights, tmp_path, "bfloat16")
    renderer = ChatRenderer.load(tmp_path)
    assert renderer.notes == () and not renderer.opens_thinking
    assert renderer.im_end_id in renderer.stop_ids
    for what, talk in HARMLESS.items():
        assert renderer.prompt(messages_of(talk)) == huggingface(tmp_path, talk), what
    start, end = renderer.im_start_id, renderer.im_end_id
    for content in HOSTILE:
        ids = renderer.prompt([Message("user", content)])
        assert [i for i in ids if i in (start, end)] == [start, end, start, end, start]
