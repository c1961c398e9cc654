"""Comparisons as tables and drawings: nothing is lost, and nothing in them can act."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from prover_cli.stages import compare_audit, compare_estimators, compare_judges
from prover_cli.views import svg
from prover_cli.views.compare_audit import audit_svg, audit_view
from prover_cli.views.compare_estimators import estimators_view
from prover_cli.views.compare_estimators_svg import estimators_svg
from prover_cli.views.compare_judges import judges_svg, judges_view
from tests.views.compare_runs import whole

NAMES = "grpo,prover,vineppo:verify@audit"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole(tmp_path_factory.mktemp("hand"))


def printed(view: Any, width: int = 110) -> str:
    console = Console(width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as capture:
        console.print(view)
    return capture.get()


def drawn(text: str) -> list[ElementTree.Element]:
    """All elements of a drawing, which refers to nothing outside it."""
    elements = list(ElementTree.fromstring(text).iter())
    assert not [element for element in elements if "href" in "".join(element.attrib)]
    return elements


def words(text: str) -> list[str]:
    return [element.text or "" for element in drawn(text) if element.tag.endswith("text")]


def test_estimators_are_printed_and_drawn(run: Path) -> None:
    facts = compare_estimators.run(run, NAMES, {}, "verify", per_task=True)
    text = printed(estimators_view(facts))
    for cell in (
        "11.1%",
        "20.0%",
        "+0.590",
        "+0.575",
        "1 (11.1%)",
        "turn 1: +0.500 -> +1.000",
    ):
        assert cell in text
    assert "task-ga" in text and "segments of judge" in text
    shown = words(estimators_svg(facts))
    names = {"1  grpo", "2  prover", "3  vineppo:verify@audit"}
    assert names | {"+0.58", "11%", "20.0%"} <= set(shown)
    lines = [e for e in drawn(estimators_svg(facts)) if e.tag.endswith("polyline")]
    assert len(lines) == 4


def test_one_method_without_a_judge_can_be_drawn(run: Path) -> None:
    facts = compare_estimators.run(run, "grpo", {}, "verify", per_task=False)
    facts |= {"segments_of": None, "segment_turn_share": None, "position_turn_shares": None}
    facts["estimators"][0] |= {"segment_credit_share": None, "position_credit_shares": None}
    assert "no judge" in printed(estimators_view(facts))
    assert "no judge: no segments" in words(estimators_svg(facts))


def test_an_audit_is_printed_and_drawn(run: Path) -> None:
    wanted = compare_audit.Audit("grpo,prover", "vineppo", {}, reference_source="verify@audit")
    facts = compare_audit.run(run, wanted)
    text = printed(audit_view(facts))
    for cell in ("83% [67%, 100%]", "+0.58 [", "50.0%", "400.0%", "0.281", "44.4%"):
        assert cell in text
    assert len([e for e in drawn(audit_svg(facts)) if e.tag.endswith("circle")]) == 8


def test_scores_that_do_not_exist_are_shown_as_such(run: Path) -> None:
    wanted = compare_audit.Audit("grpo", "vineppo", {}, reference_source="verify@audit")
    facts = compare_audit.run(run, wanted)
    nothing = {key: None for key in facts["estimators"][0] if key not in ("estimator", "coverage")}
    facts["estimators"][0] |= nothing
    assert "n/a" in printed(audit_view(facts))
    assert words(audit_svg(facts)).count("n/a") == 4


def test_judges_are_printed_and_drawn(run: Path) -> None:
    facts = compare_judges.run(run, ["judge"])
    text = printed(judges_view(facts))
    for cell in ("50.0%", "1 ok, 1 no_contrast", "1 of 1", "+0.500", "+25.000", "100.0%"):
        assert cell in text
    assert "verify" in words(judges_svg(facts))


def test_texts_in_drawings_are_escaped() -> None:
    element = ElementTree.fromstring(svg.document(10, 10, [svg.text(0, 0, "<a> & </text>")]))
    assert element[1].text == "<a> & </text>"
