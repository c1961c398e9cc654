"""A local model's thinking is no part of its reply, wherever the thinking was opened."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from prover_cli.engines.chat import ChatReply, EngineChat
from prover_cli.engines.scripted import ScriptedEngine
from prover_cli.envs.base import Message
from prover_cli.tokens.render import ChatRenderer
from tests.policies import scripted_policy

OPENS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
DECOY = json.dumps({"tool": "submit", "start_turn": 4})
ANSWER = json.dumps({"tool": "abstain", "reason": "none"})


def said(folder: Path, reply: str, template: str | None = None) -> ChatReply:
    policy = scripted_policy(folder / "policy", [reply])
    if template is not None:
        (policy / "chat_template.jinja").write_text(template)
    chat = EngineChat(ScriptedEngine(policy), ChatRenderer.load(policy))
    asked = chat.reply([Message("user", "which?")], max_tokens=900, temperature=0.0, seed=0)
    return asyncio.run(asked)


@pytest.mark.parametrize(
    ("reply", "template"),
    [
        (ANSWER, None),
        (f"<think>{DECOY}</think>\n\n{ANSWER}", None),
        (f"{DECOY}</think>\n\n{ANSWER}", OPENS),
    ],
)
def test_what_follows_the_thinking_is_the_reply(
    tmp_path: Path, reply: str, template: str | None
) -> None:
    assert said(tmp_path, reply, template).text == ANSWER


@pytest.mark.parametrize(
    ("reply", "template"), [(f"<think>{DECOY}", None), (DECOY, OPENS), (f"{DECOY} so", OPENS)]
)
def test_a_reply_that_ends_inside_its_thinking_says_nothing(
    tmp_path: Path, reply: str, template: str | None
) -> None:
    found = said(tmp_path, reply, template)
    assert found.text == "" and found.n_output_tokens > 0
