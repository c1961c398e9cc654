"""Which groups are worth a proposal: those with mixed outcomes and not too many successes."""

from __future__ import annotations

from prover_cli.judges.base import GroupView, ProposalStatus


def eligible(group: GroupView, min_success: int, max_success: int) -> ProposalStatus | None:
    """None when the group is eligible, else the first reason why it is not.

    Only scored trajectories count. At least two of them are needed, with both outcomes among them
    and `min_success` to `max_success` successes.
    """
    n_success, n_failure = len(group.successes), len(group.failures)
    if n_success + n_failure < 2:
        return ProposalStatus.TOO_FEW_SCORED
    if n_success == 0:
        return ProposalStatus.NO_SUCCESS
    if n_failure == 0:
        return ProposalStatus.NO_FAILURE
    if n_success < min_success:
        return ProposalStatus.TOO_FEW_SUCCESSES
    if n_success > max_success:
        return ProposalStatus.TOO_MANY_SUCCESSES
    return None
