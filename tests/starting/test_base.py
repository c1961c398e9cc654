"""`policy init --base`: what is learned, from what, and what is written."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch

from prover_cli.envs.base import Message
from prover_cli.errors import UsageError
from prover_cli.ids import policy_id
from prover_cli.policies.adapters import base_of, is_adapter, new_adapter
from prover_cli.policies.demos import Demo
from prover_cli.policies.fine_tune import FineTune, rows_of, seconds_per_step, train
from prover_cli.stages.policy_base import BaseConfig, run
from prover_cli.stages.policy_folder import claim
from prover_cli.stages.report import SilentReporter
from prover_cli.tokens.mask import TrainingSequence
from prover_cli.tokens.render import ChatRenderer
from prover_cli.training.checkpoint import load_model
from tests.cli.run import prover
from tests.policies import tiny_model
from tests.starting.adapted import adapter_of
from tests.tokens.chat_models import MODELS

CPU = torch.device("cpu")
DEMOS = [
    Demo((Message("user", f"the {word}"),), f"take {word}", kind)
    for kind, words in {"colour": ("red", "blue", "green"), "size": ("big", "small")}.items()
    for word in words
]
SETTINGS = FineTune({"colour": 3, "size": 1}, rows_per_step=4, steps=30, lr=1e-2)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("base") / "model", max_len=1024)


def learn(
    base: Path, rank: int | None, settings: FineTune = SETTINGS
) -> tuple[torch.nn.Module, list[float]]:
    torch.manual_seed(0)
    model = load_model(base, CPU)
    model = model if rank is None else new_adapter(model, rank)
    rows, _ = rows_of(DEMOS, ChatRenderer.load(base), None)
    losses: list[float] = []
    train(model, rows, settings, lambda step, loss: losses.append(loss))
    return model, losses


def test_only_replies_are_learned(base: Path) -> None:
    renderer = ChatRenderer.load(base)
    rows, left_out = rows_of(DEMOS, renderer, None)
    assert left_out == 0 and {kind: len(of) for kind, of in rows.items()} == {
        "colour": 3,
        "size": 2,
    }
    for demo, row in zip(DEMOS, [*rows["colour"], *rows["size"]], strict=True):
        learned = [token for token, own in zip(row.ids, row.mask, strict=True) if own]
        assert learned == [*renderer.encode(demo.reply), *renderer.stop_ids[:1]]
        assert row.ids[: -len(learned)] == renderer.prompt(demo.messages)


def test_demonstrations_longer_than_the_context_are_left_out_and_counted(base: Path) -> None:
    renderer = ChatRenderer.load(base)
    lengths = sorted(
        len(row.ids) for of in rows_of(DEMOS, renderer, None)[0].values() for row in of
    )
    rows, left_out = rows_of(DEMOS, renderer, lengths[1])
    assert left_out == sum(n > lengths[1] for n in lengths) > 0
    assert max(len(row.ids) for of in rows.values() for row in of) == lengths[1]
    with pytest.raises(UsageError, match="no demonstration fits"):
        rows_of(DEMOS, renderer, 3)


@pytest.mark.parametrize("rank", [None, 8])
def test_the_loss_falls_and_only_what_should_change_does(base: Path, rank: int | None) -> None:
    model, losses = learn(base, rank)
    assert sum(losses[-5:]) < (0.7 if rank is None else 0.95) * sum(losses[:5])
    before = dict(load_model(base, CPU).named_parameters())
    for name, weight in model.named_parameters():
        original = before.get(name.replace(".base_layer", ""))
        if original is not None:
            assert torch.equal(weight, original) == (rank is not None), name


def test_the_loss_is_the_mean_over_reply_tokens(base: Path) -> None:
    """By hand, with the model's own labels."""
    _, losses = learn(base, None, FineTune({"size": 1}, rows_per_step=2, steps=1, lr=1e-3))
    rows, _ = rows_of(DEMOS, ChatRenderer.load(base), None)
    model, total, n = load_model(base, CPU), 0.0, 0
    for row in rows["size"]:
        labels = [t if own else -100 for t, own in zip(row.ids, row.mask, strict=True)]
        found = model(torch.tensor([row.ids]), labels=torch.tensor([labels])).loss.item()
        total, n = total + found * row.n_policy, n + row.n_policy
    assert losses[0] == pytest.approx(total / n, rel=1e-5)


def test_kinds_are_drawn_in_the_recipes_proportions() -> None:
    from prover_cli.policies.fine_tune import _draw

    rows = {kind: [TrainingSequence([ord(kind[0]), i]) for i in range(9)] for kind in ("ab", "cd")}
    draws = _draw(rows, FineTune({"ab": 3, "cd": 1, "absent": 4}, rows_per_step=5, steps=1, lr=1.0))
    drawn = [row for _ in range(8) for row in next(draws)]
    assert Counter(row.ids[0] for row in drawn) == {ord("a"): 30, ord("c"): 10}
    first = [row.ids[1] for row in drawn if row.ids[0] == ord("a")][:9]
    assert sorted(first) == list(range(9))


def test_equal_settings_give_equal_weights(base: Path) -> None:
    short = FineTune({"colour": 3, "size": 1}, rows_per_step=3, steps=3, lr=1e-2)
    (one, _), (two, _) = (learn(base, 4, short) for _ in range(2))
    assert all(map(torch.equal, one.parameters(), two.parameters()))


def test_measuring_the_speed_changes_nothing(base: Path) -> None:
    model = load_model(base, CPU)
    before = [weight.detach().clone() for weight in model.parameters()]
    assert seconds_per_step(model, rows_of(DEMOS, ChatRenderer.load(base), None)[0], SETTINGS) > 0
    assert all(map(torch.equal, before, model.parameters()))
    assert all(weight.grad is None for weight in model.parameters())


def test_a_loss_that_is_not_finite_ends_it(base: Path) -> None:
    with pytest.raises(UsageError, match="no policy was written"):
        learn(base, None, FineTune({"size": 1}, rows_per_step=2, steps=40, lr=1e30))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [None, 4])
def test_a_policy_on_a_base_says_how_it_was_made(
    base: Path, tmp_path: Path, rank: int | None
) -> None:
    flags = [] if rank is None else ["--lora-rank", str(rank)]
    arguments = ["policy", "init", "--base", base, "--env", "alfworld", *flags, "--json"]
    made = prover(
        *arguments, "--steps", "2", "--rows-per-step", "3", "--card-tasks", "1", "--out", "one",
        cwd=tmp_path,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    one = tmp_path / "one"
    facts = json.loads(made.stdout)
    assert facts["policy_id"] == policy_id(one) != policy_id(base) == facts["base_policy_id"]
    assert is_adapter(one) == (rank is not None)
    card = (one / "README.md").read_text()
    assert (
        facts["steps"] == 2 and "success_rate" in card and "training steps: 2 of 2" in made.stderr
    )
    command = re.search(r"prover (policy init .*) --out DIR", card)
    assert command is not None
    again = command[1].replace("BASE", str(base)).split()
    repeated = prover(*again, "--card-tasks", "0", "--out", "two", cwd=tmp_path)
    assert repeated.returncode == 0, repeated.stderr
    assert policy_id(tmp_path / "two") == policy_id(one)
    assert "not measured" in (tmp_path / "two" / "README.md").read_text()


def test_a_base_that_thinks_learns_to_act_without(base: Path, tmp_path: Path) -> None:
    thinker = Path(shutil.copytree(base, tmp_path / "thinker"))
    (thinker / "chat_template.jinja").write_text(MODELS["qwen35"].template)
    assert ChatRenderer.load(thinker).opens_thinking
    config = BaseConfig(
        thinker, "searchqa", lora_rank=2, steps=1, rows_per_step=2, card_tasks=0, device="cpu"
    )
    summary = run(config, tmp_path / "out", SilentReporter())
    assert summary.next_command is not None and "--thinking off" in summary.next_command


@pytest.mark.slow
def test_minutes_decide_the_number_of_steps(base: Path, tmp_path: Path) -> None:
    config = BaseConfig(
        base, "alfworld", lora_rank=2, minutes=0.02, rows_per_step=2, card_tasks=0, device="cpu"
    )
    assert run(config, tmp_path / "out", SilentReporter()).facts["steps"] > 1


def test_a_base_is_never_replaced_or_an_adapter(base: Path, tmp_path: Path) -> None:
    for out in (base, base.parent):
        with pytest.raises(UsageError, match="would replace the base"):
            run(BaseConfig(base, "webshop"), out, SilentReporter(), overwrite=True)
    adapter = adapter_of(base, tmp_path / "adapter")
    with pytest.raises(UsageError, match="is an adapter") as refused:
        run(BaseConfig(adapter, "webshop"), tmp_path / "out", SilentReporter())
    assert refused.value.hint == f"--base {base_of(adapter)}"


def test_overwriting_discards_policies_and_nothing_else(base: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not empty"):
        claim(base, overwrite=False)
    claim(base, overwrite=True)
    claim(tmp_path / "new", overwrite=False)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="holds no policy"):
        claim(tmp_path, overwrite=True)


def test_options_of_a_base_need_one(tmp_path: Path) -> None:
    result = prover("policy", "init", "--lora-rank", "8", "--out", tmp_path / "out")
    assert result.returncode == 2 and "--lora-rank needs --base" in result.stderr
    result = prover("policy", "init", "--steps", "1", "--minutes", "1", "--out", tmp_path / "out")
    assert result.returncode == 2 and "exclude each other" in result.stderr
