"""What other numbers of continuations would have cost and shown."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from prover_cli import console
from prover_cli.commands import plan as plan_command
from prover_cli.config import VerifyConfig
from prover_cli.errors import NothingToDoError, ShardError
from prover_cli.stages import plan
from prover_cli.stages.plan import Pairs, options, recommended, simulate
from prover_cli.stages.report import SilentReporter
from prover_cli.stages.verify_rule import endings, rule_of
from tests.stages.pipeline import judge, rollout, verify

N = 40


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    """Segments with many stored continuations, half of them with an effect."""
    n = np.full(N, 200.0)
    before = np.tile([20.0, 60.0, 100.0, 60.0], N // 4)
    after = before + np.tile([0.0, 60.0, 0.0, 100.0], N // 4)
    return Pairs(before, n, after, n, np.full(N, 30.0), np.full(N, 20.0), 20_000.0)


def by_size(found: list[plan.Option], rule: str) -> list[plan.Option]:
    return [option for option in found if option.rule == rule and option.per_group == 1]


def test_more_continuations_cost_more_and_err_less(pairs: Pairs) -> None:
    plain = by_size(list(options(pairs, 100, 0)), "plain")
    for small, large in pairwise(plain):
        assert large.noise < small.noise
        assert large.token_share == pytest.approx(2 * (small.token_share or 0))
        assert (large.clear_sign_error or 0) <= (small.clear_sign_error or 0)
    eight = next(option for option in plain if option.k == 8)
    assert eight.token_share == pytest.approx(N * 8 * 50 / 20_000)
    assert eight.continuations == 16


def test_adaptive_sizes_spend_less_than_plain_ones(pairs: Pairs) -> None:
    found = list(options(pairs, 100, 0))
    plain, adaptive = by_size(found, "plain"), by_size(found, "adaptive")
    for option in adaptive:
        same = next(other for other in plain if other.k == option.k)
        assert option.token_share is not None and same.token_share is not None
        assert option.token_share < same.token_share


def test_several_proposals_cost_as_often(pairs: Pairs) -> None:
    found = [option for option in options(pairs, 20, 0) if option.name == "plain 8"]
    shares = {option.per_group: option.token_share for option in found}
    assert shares == {n: pytest.approx(n * (shares[1] or 0)) for n in (1, 2, 4)}


@pytest.mark.parametrize("config", [VerifyConfig(), VerifyConfig(adaptive=True)])
def test_simulations_agree_with_the_exact_distribution(config: VerifyConfig) -> None:
    rule, n = rule_of(config), 20_000
    before, after = np.full(n, 0.3), np.full(n, 0.6)
    gains, spent = simulate(rule, before, after, np.random.default_rng(0))
    exact = list(endings(rule, 0.3, 0.6))
    mean = sum(
        e.probability * (e.counts[2] / e.counts[3] - e.counts[0] / e.counts[1]) for e in exact
    )
    cost = sum(e.probability * (e.counts[1] + e.counts[3]) for e in exact)
    assert gains.mean() == pytest.approx(mean, abs=0.01)
    assert (spent[0] + spent[1]).mean() == pytest.approx(cost, rel=0.02)


def test_the_recommendation_fits_the_budget(pairs: Pairs) -> None:
    found = list(options(pairs, 50, 0))
    for budget in (0.3, 1.0, 4.0):
        chosen = recommended(found, budget)
        assert chosen is not None and chosen.token_share is not None
        assert chosen.token_share <= budget and chosen.per_group == 1
    assert recommended(found, 0.001) is None
    assert recommended([replace(option, token_share=None) for option in found], 1.0) is None


def call(*arguments: object) -> Any:
    app = typer.Typer()
    app.command("plan")(console.guard(plan_command.command))
    app.command("other")(lambda: None)
    texts = [str(argument) for argument in arguments]
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, ["plan", *texts])


def test_the_command_prints_a_table_and_draws_a_plot(verified: Path, tmp_path: Path) -> None:
    result = call(verified, "--plot", tmp_path / "plan.svg", "--draws", 20, "--budget", 5)
    assert result.exit_code == 0, result.output
    assert "sign error" in result.stdout and "adaptive" in result.stdout
    assert "--k" in result.stdout
    drawing = ElementTree.fromstring((tmp_path / "plan.svg").read_text())
    assert len(drawing.findall(".//{http://www.w3.org/2000/svg}circle")) == 8
    assert not [element for element in drawing.iter() if "href" in element.attrib]


def test_a_plan_says_why_prover_chain_is_not_in_it(sampled: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(sampled, tmp_path / "run"))
    judge(run)
    verify(run, k=2)
    verify(run, k=3, variant="more")
    words = "prover-chain is not measured: that takes three continuations"
    assert words in call(run, "--draws", 5).stdout
    assert words not in call(run, "--draws", 5, "--from", "verify@more").stdout


def test_a_run_without_estimates_names_the_command(tmp_path: Path, policy: Path) -> None:
    rollout(tmp_path / "run", policy)
    with pytest.raises(ShardError, match="verify has no manifest"):
        plan.run(tmp_path / "run", SilentReporter())


def test_a_verification_without_pairs_has_nothing_to_plan(sampled: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(sampled, tmp_path / "run"))
    verify(run, k=1, proposer="every:9")
    with pytest.raises(NothingToDoError, match="no segment with continuations on both sides"):
        plan.run(run, SilentReporter())
