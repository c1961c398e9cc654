"""The object in a reply is found without guessing, and what is wrong is said exactly."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover_cli.judges.parse import Fault, Form, read

GOOD = '{"tool": "abstain", "reason": "none"}'
OTHER = '{"tool": "submit", "start_turn": 1}'


def check(value: dict[str, Any]) -> dict[str, Any]:
    if value.get("tool") != "abstain":
        raise Fault(f"tool is {value.get('tool')!r}")
    return value


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (GOOD, Form.JSON),
        (f"  \n{GOOD}\n\n", Form.JSON),
        (f"```json\n{GOOD}\n```", Form.FENCE),
        (f"```\n{GOOD}\n```", Form.FENCE),
        (f"Here it is:\n```json\n{GOOD}\n```\nDone.", Form.EMBEDDED),
        (f"I abstain. {GOOD}", Form.EMBEDDED),
        (f"{GOOD} That is all.", Form.EMBEDDED),
        (f"{OTHER} no, rather {GOOD}", Form.EMBEDDED),
        (f"{GOOD} and not {OTHER}", Form.EMBEDDED),
        (f'{GOOD}\n{{"tool": "subm', Form.EMBEDDED),
        (f"<think>{OTHER}</think>{GOOD}", Form.JSON),
        (f"{OTHER} so I say</think>\n\n{GOOD}", Form.JSON),
        (f"<think>a</think><think>{OTHER}</think>{GOOD}", Form.JSON),
        ("{{{{ " + GOOD, Form.EMBEDDED),
        ("x" * 40_000 + GOOD, Form.EMBEDDED),
        ('{"tool": "abstain", "reason": "```json\\n{}\\n```"}', Form.JSON),
        ('```json\n{"tool": "abstain", "reason": "use ```x``` here"}\n```', Form.FENCE),
        ('{"tool": "abstain", "reason": "schlüssel 鍵 \\ud83d\\udd11"}', Form.JSON),
        ('{"tool": "abstain", "reason": "a } and a { and \\"{\\""}', Form.JSON),
    ],
)
def test_an_object_is_found_in_what_models_write_around_it(text: str, form: Form) -> None:
    value, found = read(text, check)
    assert value["tool"] == "abstain" and found is form


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the reply is empty"),
        ("  \n ", "the reply is empty"),
        ("<think>hm</think>  ", "the reply is empty"),
        ("I abstain.", "no complete JSON object"),
        ('{"tool": "abstain", "reason": "none"', "no complete JSON object"),
        ('{"tool": "abstain", "reason": "no', "no complete JSON object"),
        ('{"tool": "abstain", "reason": "none",}', "no complete JSON object"),
        ("{'tool': 'abstain'}", "no complete JSON object"),
        ('{"tool": "abstain", "tool": "abstain"}', 'the key "tool" occurs twice'),
        ('{"tool": "abstain", "reason": NaN}', "NaN is not a number of JSON"),
        (f"[{GOOD}]", "the reply is a JSON array; one object is wanted"),
        ('"abstain"', "a JSON string"),
        ("null", "a JSON null"),
        ("3", "a JSON number"),
        (f"<think>{GOOD}", "the reply ended before its thinking did"),
        (f"{GOOD}<think>", "the reply ended before its thinking did"),
        (OTHER, "tool is 'submit'"),
        (f"First {OTHER} then {OTHER.replace('submit', 'buy')}", "tool is 'buy'"),
        ('{"a": ' * 5000, "no complete JSON object"),
        ("[" * 100_000, "no complete JSON object"),
    ],
)
def test_what_is_no_answer_is_a_fault_that_says_why(text: str, fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        read(text, check)


def test_long_nonsense_is_read_quickly() -> None:
    for text in ('{"a":' * 20_000, "{" * 100_000, '{"x' * 30_000):
        began = time.perf_counter()
        with pytest.raises(Fault):
            read(text, check)
        assert time.perf_counter() - began < 1.0


@given(st.text(), st.text(), st.text())
def test_whatever_stands_around_an_answer_it_is_read_or_refused(
    before: str, reason: str, after: str
) -> None:
    answer = {"tool": "abstain", "reason": reason}
    try:
        value, _ = read(before + json.dumps(answer) + after, check)
    except Fault:
        return
    assert value["tool"] == "abstain"
