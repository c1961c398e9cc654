"""`verify`: continuations before and after each proposed segment, and what they say about it.

For every proposal the states before its first turn and after its last are re-entered and
continuations are sampled from each with the policy that made the group, at its temperature and
with the turns that were left. The recorded suffix is never one of them. How many there are is
decided by a rule fixed beforehand: K on both sides, or rounds. Values come from observed outcomes
alone; a continuation that the infrastructure failed has none and is not counted.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prover_cli.config import VerifyConfig, as_json, identity
from prover_cli.errors import ConfigMismatchError, UsageError
from prover_cli.shards.manifest import Manifest
from prover_cli.shards.mode import Mode
from prover_cli.shards.run import Run, Stage
from prover_cli.shards.writer import StagePlan, open_stage
from prover_cli.stages.report import Reporter, Summary
from prover_cli.stages.verify_cache import keep
from prover_cli.stages.verify_plan import Plan, make_plan
from prover_cli.stages.verify_proposers import parse_proposer
from prover_cli.stages.verify_quarantine import read_quarantine
from prover_cli.stages.verify_rule import rule_of
from prover_cli.stages.verify_summary import summarise
from prover_cli.stages.verify_work import Work
from prover_cli.stages.world import reopen

KEPT = "value-cache"
"""Folder of a run in which `--top-up` keeps what was sampled before."""
_SIZES = frozenset({"k", "k_before", "k_after", "until_ci", "max_k", "adaptive", "rule"})
"""Settings that say how many continuations there are and not which."""


def run(
    config: VerifyConfig,
    path: Path,
    mode: Mode,
    reporter: Reporter,
    variant: str | None = None,
    slice_: str = "0/1",
    top_up: bool = False,
) -> Summary:
    """Verify the proposals of `config.source` and write `continuations`, `values`, `estimates`.

    `top_up` replaces a finished verification by one of another size that keeps its continuations.
    The summary's exit code is 4 when there was no segment to verify.
    """
    began = time.perf_counter()
    if top_up and config.keep_turns:
        raise UsageError("--keep-turns and --top-up exclude each other: earlier turns were lost")
    run_ = Run(path)
    rollout = run_.stage("rollout").require_fresh()
    settings, world, policy = reopen(rollout)
    stage = Stage(path, "verify" if variant is None else f"verify@{variant}")
    left_out = read_quarantine(run_, config.quarantine)
    plan = make_plan(config, run_, settings, world, policy, left_out)
    stage_plan = StagePlan(
        stage=stage,
        config=as_json(config),
        identity=_identity(config, left_out),
        n_shards=rollout.n_shards,
        inputs=_inputs(config, run_, rollout),
        policy=policy,
        environment=rollout.environment,
        facts={"rule": plan.rule.describe()},
        slice_=slice_,
    )
    kept = path / KEPT
    if top_up:
        mode = _prepare_top_up(stage_plan, mode, Path(config.value_cache or kept), config.seed)
    cache = config.value_cache or (str(kept) if top_up else None)
    did_nothing = _write(stage_plan, mode, plan, cache, reporter, began)
    if top_up and config.value_cache is None:
        shutil.rmtree(kept, ignore_errors=True)
    return summarise(stage, did_nothing)


def _write(
    stage_plan: StagePlan,
    mode: Mode,
    plan: Plan,
    cache: str | None,
    reporter: Reporter,
    began: float,
) -> bool:
    """Write the shards that are owed; whether there was nothing to do."""
    try:
        with open_stage(stage_plan, mode) as writer:
            for note in writer.notes:
                reporter.note(note)
            did_nothing = writer.already_complete
            if writer.owed:
                asyncio.run(Work(plan, cache, reporter, began).sample(writer))
            if not did_nothing:
                writer.complete()
    except ConfigMismatchError as error:
        raise _with_top_up(error, stage_plan) from None
    return did_nothing


def _inputs(config: VerifyConfig, run: Run, rollout: Manifest) -> dict[str, str]:
    inputs = {"rollout": rollout.output_digest}
    if parse_proposer(config.proposer).reads_judge:
        inputs[config.source] = run.stage(config.source).require_fresh().output_digest
    return inputs


def _identity(config: VerifyConfig, left_out: frozenset[str]) -> dict[str, Any]:
    """The settings that decide results; an adaptive rule's thresholds and what is left out too."""
    found = identity(config)
    if config.adaptive:
        found["rule"] = rule_of(config).describe()
    return found | ({"quarantined": sorted(left_out)} if left_out else {})


def _prepare_top_up(plan: StagePlan, mode: Mode, cache: Path, seed: int) -> Mode:
    """Put what a stage sampled into `cache`; how the stage is then to be written.

    Raises `UsageError` where there is nothing to top up, or it differs in more than its size.
    """
    if plan.slice_ != "0/1" or mode is not Mode.REFUSE:
        raise UsageError("--top-up writes a whole stage: leave out --shard, --resume, --overwrite")
    if not plan.stage.exists():
        if cache.is_dir():
            return Mode.REFUSE
        raise UsageError(f"{plan.stage.folder} was not run", hint=plan.stage.command)
    recorded = plan.stage.manifest().facts.get("identity", {})
    different = _differences(recorded, plan.full_identity())
    if not different:
        return Mode.RESUME
    if different - _SIZES:
        raise UsageError(
            f"--top-up changes the number of continuations only, and {plan.stage.folder} differs "
            f"in {', '.join(sorted(different - _SIZES - {'rule'}))}",
            hint=f"verify it beside the first: {plan.stage.command} --as NAME",
        )
    keep(plan.stage, cache, seed)
    return Mode.OVERWRITE


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    return {key for key in {*one, *other} if one.get(key) != other.get(key)}


def _with_top_up(error: ConfigMismatchError, plan: StagePlan) -> ConfigMismatchError:
    """The same refusal; where only sizes differ it says how to sample what is missing."""
    recorded = plan.stage.manifest().facts.get("identity", {})
    if _differences(recorded, plan.full_identity()) - _SIZES:
        return error
    hint = f"{error.hint}; or keep its continuations and sample those that are missing: --top-up"
    return ConfigMismatchError(error.message, hint=hint)
