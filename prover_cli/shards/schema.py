"""Every table, declared once.

A table is a list of columns, each with an Arrow type and a sentence. Writers build their rows from
this declaration and nothing is ever inferred; readers cast to it. Three rules hold in all tables:
null means "unknown or void" and never zero, NaN is rejected when it is written, and a shard holds
whole groups, so the result of a stage never depends on how rows are spread over files. Free-form
payloads are canonical JSON strings; texts that can grow long are `large_string`, whose offsets are
64-bit. `SCHEMA_VERSION` is stored in every file and manifest and changes with any change here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 4

ID = pa.string()
TEXT = pa.large_string()
INT = pa.int32()
REAL = pa.float64()
FLAG = pa.bool_()
IDS = pa.list_(pa.int32())
REALS = pa.list_(pa.float32())
KEYS = pa.list_(pa.string())


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: pa.DataType
    doc: str
    required: bool = True
    """False when null is a legal value."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.required)

    def arrow(self) -> pa.Schema:
        """The Arrow schema; required columns are not nullable."""
        return pa.schema([pa.field(c.name, c.type, nullable=not c.required) for c in self.columns])


def _opt(name: str, dtype: pa.DataType, doc: str) -> Column:
    return Column(name, dtype, doc, required=False)


TASKS = Table(
    "tasks",
    ("task_id",),
    (
        Column("task_id", ID, "Hash of the task's content."),
        Column("env", ID, "Environment name."),
        Column("split", ID, "train, valid, test or all."),
        Column("index", INT, "Position in the environment's own order."),
        Column("instruction", TEXT, "What the agent is asked to do."),
        Column("payload_json", TEXT, "What the environment needs to set the task up."),
        Column("env_fingerprint", ID, "Hash of the environment that offered the task."),
    ),
)

TRAJECTORIES = Table(
    "trajectories",
    ("traj_id",),
    (
        Column("traj_id", ID, "group_id and sample, joined by a dot."),
        Column("group_id", ID, "The group of trajectories sampled for one task by one policy."),
        Column("task_id", ID, "The task of the episode."),
        Column("sample", INT, "0-based number within the group."),
        Column("policy_id", ID, "Content hash of the policy that acted."),
        Column("env_seed", pa.int64(), "Seed of the environment's randomness."),
        Column("sampler_seed", pa.int64(), "Seed from which the seeds of all turns derive."),
        Column("n_turns", INT, "Number of turns recorded."),
        _opt("reward", REAL, "Sum of step rewards; null when the trajectory is void."),
        _opt("success", FLAG, "Whether the task was solved; null when void."),
        Column("stop_reason", ID, "done, max_turns, context_overflow or void."),
        _opt("error_type", ID, "Kind of infrastructure failure; null when none."),
        _opt("error_message", TEXT, "Its message; null when none."),
        Column("n_prompt_tokens", INT, "Tokens added to the context by prompts, all turns."),
        Column("n_action_tokens", INT, "Tokens sampled, all turns."),
        Column("seconds", REAL, "Wall time from the first observation to the end."),
        _opt(
            "parent_traj_id",
            ID,
            "The trajectory that this one branched from, in the same group; null for a root.",
        ),
        _opt("parent_turn", INT, "It branched before this turn of its parent; null for a root."),
    ),
)

TURNS = Table(
    "turns",
    ("traj_id", "turn"),
    (
        Column("traj_id", ID, "The trajectory."),
        Column("turn", INT, "0-based."),
        Column("group_id", ID, "The group."),
        Column("observation", TEXT, "What the agent saw before acting."),
        Column(
            "observation_hash", ID, "Hash of `observation`, checked when a state is re-entered."
        ),
        Column("state_key", ID, "Hash of the environment's whole state before the action."),
        Column("context_reset", FLAG, "True when `prompt_ids` is the whole prompt."),
        Column("prompt_ids", IDS, "Tokens added to the context before the action."),
        Column("action_ids", IDS, "Tokens sampled, the stop id included where it was sampled."),
        Column("logprobs", REALS, "Log-probs of `action_ids` under the sampled distribution."),
        Column("action_text", TEXT, "Decoded reply."),
        Column(
            "action", TEXT, "The action given to the environment; empty where the reply had none."
        ),
        Column("action_valid", FLAG, "False when parsing or the environment rejected it."),
        Column("reward", REAL, "Step reward."),
        Column("done", FLAG, "True when the environment ended the episode with this turn."),
        Column("finish_reason", ID, "stop or length."),
        Column("info_json", TEXT, "What else the environment reported, and why a parse failed."),
    ),
)

PROPOSALS = Table(
    "proposals",
    ("proposal_id",),
    (
        Column("proposal_id", ID, "Hash of group, judge and number."),
        Column("group_id", ID, "The group judged."),
        _opt("traj_id", ID, "The trajectory of the segment; null when there is none."),
        _opt("start_turn", INT, "First turn of the segment."),
        _opt("end_turn", INT, "One past its last turn."),
        Column("status", ID, "ok, or why there is no segment."),
        _opt("failure_mode", TEXT, "What the failed trajectories have in common."),
        _opt("rationale", TEXT, "Why this segment."),
        Column("contrast_traj_ids", pa.list_(pa.string()), "Failed trajectories compared with."),
        Column("judge", ID, "Judge name."),
        _opt("judge_model", ID, "Model behind it; null when none."),
        _opt("prompt_hash", ID, "Hash of its prompts; null when none."),
        Column("attempts", INT, "Replies asked for, repairs included."),
        Column("tool_calls", INT, "Tool calls made."),
        _opt("raw_text", TEXT, "The raw replies; null when no model was asked."),
        Column("labels_json", TEXT, "Per-turn labels and other judge output."),
        Column("n_prompt_tokens", INT, "Judge tokens read."),
        Column("n_output_tokens", INT, "Judge tokens written."),
        Column("seconds", REAL, "Wall time of the proposal."),
    ),
)

CONTINUATIONS = Table(
    "continuations",
    ("state_id", "k"),
    (
        Column("state_id", ID, "The state continued from."),
        Column("k", INT, "0-based number of the continuation."),
        Column("group_id", ID, "The group."),
        Column("traj_id", ID, "The trajectory the state was recorded on."),
        Column("turn", INT, "The state is the one before this turn."),
        Column("policy_id", ID, "The policy that continued."),
        Column("env_seed", pa.int64(), "Seed of the environment from the state on."),
        Column("sampler_seed", pa.int64(), "Seed from which the seeds of all turns derive."),
        Column("replay_ok", FLAG, "True when every replayed observation matched the recording."),
        _opt("diverged_turn", INT, "First turn whose observation differed; null when none."),
        _opt("reward", REAL, "Return of the whole episode, prefix included; null when void."),
        _opt("success", FLAG, "Whether the task was solved; null when void."),
        Column("stop_reason", ID, "As in trajectories, or diverged."),
        _opt("error_type", ID, "Kind of infrastructure failure; null when none."),
        Column("n_turns", INT, "Turns taken after the state."),
        Column("n_prompt_tokens", INT, "Tokens added by prompts after the state."),
        Column("n_action_tokens", INT, "Tokens sampled."),
        Column("turns_left", INT, "Turns that were left at the state."),
        Column("state_keys", KEYS, "Hashes of the environment's state before each turn taken."),
        Column("seconds", REAL, "Wall time."),
        Column("cached", FLAG, "True when it was taken from the value cache, at no cost."),
    ),
)

VALUES = Table(
    "values",
    ("traj_id", "turn"),
    (
        Column("traj_id", ID, "The trajectory."),
        Column("turn", INT, "The state is the one before this turn."),
        Column("state_id", ID, "The state; turns that share it share its continuations."),
        Column("group_id", ID, "The group."),
        Column(
            "source",
            ID,
            "sampled, or cached: another turn met the state first, or the value cache knew it.",
        ),
        Column("n_requested", INT, "Continuations asked for."),
        Column("n_scored", INT, "Continuations with an outcome."),
        Column("n_success", INT, "Successes among them."),
        _opt("mean", REAL, "n_success / n_scored; null when none was scored."),
        _opt("std_error", REAL, "Standard error of `mean`; null when none was scored."),
    ),
)

ESTIMATES = Table(
    "estimates",
    ("proposal_id",),
    (
        Column("proposal_id", ID, "The proposal verified."),
        Column("group_id", ID, "The group."),
        _opt("traj_id", ID, "The trajectory of the segment."),
        _opt("start_turn", INT, "First turn of the segment."),
        _opt("end_turn", INT, "One past its last turn."),
        _opt("state_before", ID, "State before the segment."),
        _opt("state_after", ID, "State after the segment."),
        _opt("value_before", REAL, "Success rate from the state before."),
        _opt("value_after", REAL, "Success rate from the state after."),
        Column("n_before", INT, "Scored continuations before."),
        Column("n_after", INT, "Scored continuations after."),
        _opt("success_before", INT, "Successes before."),
        _opt("success_after", INT, "Successes after."),
        _opt("gain", REAL, "value_after - value_before."),
        _opt(
            "gain_unbiased",
            REAL,
            "The gain without the bias of stopping early; null where it cannot be had.",
        ),
        _opt("std_error", REAL, "Standard error of the gain."),
        _opt("ci_low", REAL, "Newcombe 95 % interval of the gain, low end."),
        _opt("ci_high", REAL, "Its high end."),
        _opt("p_positive", REAL, "Posterior probability that the gain is positive, Beta(1,1)."),
        Column("status", ID, "ok, or why there is no estimate."),
    ),
)

SCORES = Table(
    "scores",
    ("traj_id", "turn"),
    (
        Column("traj_id", ID, "The trajectory."),
        Column("turn", INT, "0-based."),
        Column("group_id", ID, "The group."),
        Column("n_action_tokens", INT, "Action ids scored: the length of the lists."),
        Column("token_logprobs", REALS, "The policy's log-prob of each action id, teacher-forced."),
        Column("token_entropies", REALS, "Entropy in nats of the distribution of each action id."),
        _opt(
            "hindsight_logprobs",
            REALS,
            "The same log-probs under a context that shows a successful sibling; null when there "
            "is none to show, or no room.",
        ),
        _opt("hindsight_traj_id", ID, "The sibling shown; null when none was."),
        _opt("entropy", REAL, "Mean of token_entropies; null for a turn without action ids."),
        _opt("value", REAL, "A critic's value of the state before the turn, given by the user."),
    ),
)

ADVANTAGES = Table(
    "advantages",
    ("estimator", "traj_id", "turn"),
    (
        Column("estimator", ID, "Name of the credit method."),
        Column("traj_id", ID, "The trajectory."),
        Column("turn", INT, "0-based."),
        Column("group_id", ID, "The group."),
        _opt("base", REAL, "Trajectory-level part; null when the trajectory has none."),
        _opt("local", REAL, "Turn-level part added to it; null when none was assigned."),
        _opt(
            "advantage", REAL, "What multiplies the gradient of the turn's tokens; null = unused."
        ),
        _opt("token_advantages", REALS, "One per action id when the method differs by token."),
        Column("reason", ID, "Why the value is what it is."),
    ),
)

CONTINUATION_TURNS = Table(
    "continuation_turns",
    ("state_id", "k", "turn"),
    (
        Column("state_id", ID, "The state continued from."),
        Column("k", INT, "0-based number of the continuation."),
        *TURNS.columns[:1],
        Column("turn", INT, "0-based in the whole episode; the first is that of the state."),
        *TURNS.columns[2:],
    ),
)

CONTINUATION_ADVANTAGES = Table(
    "continuation_advantages",
    ("state_id", "k"),
    (
        Column("state_id", ID, "The state continued from."),
        Column("k", INT, "0-based number of the continuation."),
        Column("group_id", ID, "The group."),
        Column("traj_id", ID, "The trajectory the state was recorded on."),
        Column("turn", INT, "The state is the one before this turn."),
        _opt("advantage", REAL, "Reward less the mean of the state's continuations; null = void."),
    ),
)

TABLES = {
    table.name: table
    for table in (
        TASKS,
        TRAJECTORIES,
        TURNS,
        PROPOSALS,
        CONTINUATIONS,
        VALUES,
        ESTIMATES,
        SCORES,
        ADVANTAGES,
        CONTINUATION_TURNS,
        CONTINUATION_ADVANTAGES,
    )
}

STAGE_TABLES: dict[str, tuple[str, ...]] = {
    "rollout": ("tasks", "trajectories", "turns"),
    "evaluate": ("tasks", "trajectories", "turns"),
    "judge": ("proposals",),
    "verify": ("continuations", "values", "estimates"),
    "score": ("scores",),
    "advantage": ("advantages",),
    "update": (),
}
"""The tables each stage writes, one file per shard and table."""
OPTIONAL_TABLES: dict[str, tuple[str, ...]] = {
    "verify": ("continuation_turns",),
    "advantage": ("continuation_advantages",),
}
"""Further tables of a stage that is asked for them; then every shard has them."""


def stages_with(table: str) -> list[str]:
    """The stages that write a table, or can be asked to."""
    return [
        stage
        for stage, names in STAGE_TABLES.items()
        if table in (*names, *OPTIONAL_TABLES.get(stage, ()))
    ]
