"""One frozen dataclass per stage: every setting that a run depends on, and nothing else.

Field names are the flags. A field marked `operational` says how the work is done (concurrency,
device) and may change when a stage is resumed; all others decide results, make up the stage's
identity, and must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

_OPERATIONAL: Mapping[str, Any] = {"operational": True}


@dataclass(frozen=True)
class EnvConfig:
    name: str = "webshop"
    options: Mapping[str, Any] = field(default_factory=dict)
    prompt: str | None = None
    """Prompt style; None takes the environment's default."""
    history: str | None = None
    """`full` for append-only conversations, a number for windowed prompts; None: the style's."""
    max_turns: int | None = None
    """None takes the environment's limit."""
    thinking: str | None = None
    """What becomes of a policy's reasoning: `keep` (also None), `strip` or `off`."""


@dataclass(frozen=True)
class SamplingConfig:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int | None = None
    """Tokens per turn; None takes the prompt style's."""


@dataclass(frozen=True)
class EngineConfig:
    name: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    concurrency: int = 128
    """Episodes in flight."""
    max_model_len: int | None = None
    """Longest context in tokens; None takes the model's own."""
    tensor_parallel: int = 1
    """Devices that share one copy of the model."""
    data_parallel: int = 1
    """Copies of the model."""
    memory_fraction: float | None = None
    """Share of a device's memory for model and key-value cache; None takes the engine's."""
    servers: tuple[str, ...] = ()
    """Addresses of the servers that the engine `openai` speaks to."""


@dataclass(frozen=True)
class RolloutConfig:
    env: EnvConfig
    sampling: SamplingConfig
    policy: str = field(metadata=_OPERATIONAL)
    """Path of the policy; its content hash is the identity."""
    split: str = "train"
    tasks: int | None = None
    """Tasks drawn from the split; None takes the stage's default, or all where there are fewer."""
    group_size: int = 8
    seed: int = 0
    groups_per_shard: int = 8
    grader: str = "rule"
    """Who decides outcomes: `rule`, the environment's own, or `llm`, the model below."""
    grader_model: str | None = field(default=None, metadata=_OPERATIONAL)
    """Path of the grader's checkpoint, or its name on the server at `grader_url`."""
    grader_url: str | None = field(default=None, metadata=_OPERATIONAL)
    """Address of an OpenAI-compatible server that grades."""
    grader_id: str | None = None
    """Content hash of the grader's checkpoint, its identity; filled in when resolved."""
    quarantine: str | None = field(default=None, metadata=_OPERATIONAL)
    """A file of `verify --check-replay` with tasks not to draw."""
    retries: int = field(default=2, metadata=_OPERATIONAL)
    """Repetitions of a trajectory that the infrastructure failed."""
    engine: EngineConfig = field(default_factory=EngineConfig, metadata=_OPERATIONAL)


@dataclass(frozen=True)
class JudgeConfig:
    judge: str | None = None
    """None: `agentic` where a judge model or URL is given, else `contrast`."""
    min_success: int = 1
    max_success: int = 3
    max_segment: int = 4
    seed: int = 0
    trajectory: str = "shortest"
    """The successes that `agentic` chooses in: `shortest`, `random` or `all`."""
    judge_model: str | None = field(default=None, metadata=_OPERATIONAL)
    """Path of a checkpoint, or its name on the server at `judge_url`; None: the policy itself."""
    judge_url: str | None = field(default=None, metadata=_OPERATIONAL)
    judge_model_id: str | None = None
    """Content hash of the checkpoint, or `NAME@HOST`; filled in when resolved."""
    judge_prompt: str | None = field(default=None, metadata=_OPERATIONAL)
    """File with the judge's task; None: our own."""
    prompt_hash: str | None = None
    """Hash of everything that the model is told before data; filled in when resolved."""
    max_tool_calls: int = 8
    max_repairs: int = 3
    judge_temperature: float = 0.0
    judge_max_tokens: int = 1024
    """Tokens of one reply."""
    judge_tokens: int | None = None
    """Tokens read and written by the whole stage at most."""
    judge_cost: float | None = None
    """Dollars of the whole stage at most."""
    judge_price: tuple[float, float] | None = None
    """Dollars for a million tokens read, and written."""
    labels: tuple[str, ...] = ()
    """Kinds of labels that are asked for beside the proposal."""
    judge_cache: str | None = field(default=None, metadata=_OPERATIONAL)
    """Folder of recorded replies."""
    engine: EngineConfig = field(default_factory=EngineConfig, metadata=_OPERATIONAL)


@dataclass(frozen=True)
class VerifyConfig:
    k: int = 8
    """Continuations per state."""
    proposer: str = "judge"
    """`judge` verifies the proposals; `all-turns`, `every:N`, `entropy:N` and `random:N` value
    turns of every trajectory without a judge."""
    seed: int = 0
    source: str = "judge"
    """The stage (or `judge@variant`) whose proposals are verified."""
    k_before: int | None = None
    """Continuations before a segment; None: `k`."""
    k_after: int | None = None
    """Continuations after it; None: `k`."""
    adaptive: bool = False
    """Sample in rounds of 2, 4, 8, ... and stop where the gain is decided or negligible."""
    until_ci: float | None = None
    """Double the continuations until the 95 % interval of the gain is at most this wide."""
    max_k: int | None = None
    """Most continuations per state in rounds."""
    max_continuations: int | None = None
    """Most continuations of the whole run; groups are taken in seeded random order."""
    token_budget: float | None = None
    """Expected tokens at most, as a share of the rollout's."""
    budget_order: str = "seeded"
    """Which groups a budget takes first: `seeded` draws them, `information` ranks them."""
    measure_null: int = 0
    """Segments without effect that are verified beside the proposals."""
    keep_turns: bool = False
    """Store the turns of continuations, so that they can be trained on."""
    quarantine: str | None = field(default=None, metadata=_OPERATIONAL)
    """A file of `--check-replay`; None: the run's own, where there is one."""
    value_cache: str | None = field(default=None, metadata=_OPERATIONAL)
    """Folder of continuations that runs share."""
    retries: int = field(default=2, metadata=_OPERATIONAL)
    engine: EngineConfig = field(default_factory=EngineConfig, metadata=_OPERATIONAL)


@dataclass(frozen=True)
class AdvantageConfig:
    estimators: tuple[str, ...] = ("prover",)
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the estimators, by name."""
    source: str = "verify"
    """The stage (or `verify@variant`) that the estimates come from."""
    include_continuations: bool = False
    """Credit the continuations that `verify --keep-turns` stored too."""


@dataclass(frozen=True)
class ScoreConfig:
    hindsight: bool = True
    """Also score every turn under a context that shows a successful sibling."""
    values: str | None = field(default=None, metadata=_OPERATIONAL)
    """Parquet file with a critic's values: traj_id, turn, value; its hash is the identity."""
    values_hash: str | None = None
    """Content hash of that file; filled in when resolved."""
    dtype: str = "float32"
    """Precision of the scoring model: it shows in the log-probs."""
    policy: str | None = field(default=None, metadata=_OPERATIONAL)
    """Where the rollout's policy lies now; None: where it lay."""
    microbatch_tokens: int = field(default=8192, metadata=_OPERATIONAL)
    """Ids of one forward pass, padding included."""
    device: str = field(default="auto", metadata=_OPERATIONAL)


@dataclass(frozen=True)
class ExportConfig:
    to: str = "jsonl"
    """The form: jsonl, hf, verl, trl or prime-rl."""
    estimator: str | None = None
    """None takes the only one that the advantages hold."""
    source: str = "advantage"
    """The stage (or `advantage@variant`) that the advantages come from."""
    pad_id: int = 0
    """What fills the rows of forms that are padded; masks hide it."""


@dataclass(frozen=True)
class UpdateConfig:
    lr: float = 1e-6
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    kl_coef: float = 0.0
    epochs: int = 1
    minibatches: int = 1
    seed: int = 0
    estimator: str | None = None
    """None takes the only one that the advantages hold."""
    source: str = "advantage"
    """The stage (or `advantage@variant`) that the advantages come from."""
    tokens_per_microbatch: int = field(default=8192, metadata=_OPERATIONAL)
    device: str = field(default="auto", metadata=_OPERATIONAL)


def as_json(config: Any) -> dict[str, Any]:
    """A configuration as nested plain values, for manifests and `--dry-run`."""
    plain = asdict(config)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


def identity(config: Any) -> dict[str, Any]:
    """The fields that decide results, flattened: `{"sampling.temperature": 1.0, ...}`."""
    flat: dict[str, Any] = {}
    for item in fields(config):
        if item.metadata.get("operational"):
            continue
        value = getattr(config, item.name)
        if is_dataclass(value) and not isinstance(value, type):
            flat |= {f"{item.name}.{key}": inner for key, inner in identity(value).items()}
        elif isinstance(value, Mapping):
            flat |= {f"{item.name}.{key}": inner for key, inner in value.items()}
        else:
            flat[item.name] = list(value) if isinstance(value, tuple) else value
    return flat
