"""Options that several commands share, and where their values come from.

A flag beats its environment variable (`PROVER_` and the flag's name), which beats the files given
with `--config`, which beat the default. The flags that only some environments have are set by
variables with the environment's name between (`PROVER_WEBSHOP_DATA`), which come after the files.
A configuration file is TOML: keys are flag names, top-level keys apply to every command that has
the flag, and a table named after a command to that command alone. What a later file says beats what
an earlier one says, key by key.
"""

from __future__ import annotations

import keyword
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from prover_cli import console
from prover_cli.errors import UsageError
from prover_cli.shards.mode import Mode

_OF_ONE_CALL = frozenset({"--from", "--as", "--resume", "--overwrite", "--dry-run"})
"""Flags that mean another thing in every call and therefore have no environment variable."""
_OF_ONE_ENVIRONMENT = frozenset({"--data", "--goals", "--products", "--corpus"})
"""Flags that not every environment has; `PROVER_WEBSHOP_GOALS` is the variable of one of them."""


def option(*flags: str, help: str, **settings: Any) -> Any:
    """A typer option with the environment variable that belongs to its flag."""
    variable = "PROVER_" + flags[0].lstrip("-").replace("-", "_").upper()
    shared = flags[0] not in _OF_ONE_CALL | _OF_ONE_ENVIRONMENT
    return typer.Option(*flags, help=help, **{"envvar": variable if shared else None} | settings)


def load_defaults(context: typer.Context, paths: list[Path] | None) -> list[Path] | None:
    """Make the values of TOML files the defaults of the command; runs before other options.

    Of several files a later one wins, key by key.
    """
    for path in paths or ():
        context.default_map = {**(context.default_map or {}), **_defaults(context, path)}
    return paths


def _defaults(context: typer.Context, path: Path) -> dict[str, Any]:
    """A file's values for the command, by parameter."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from error
    flags = {
        flag.lstrip("-"): parameter.name
        for parameter in context.command.params
        for flag in parameter.opts
        if parameter.name is not None
    }
    shared = {key: value for key, value in raw.items() if not isinstance(value, dict)}
    own = raw.get(context.command.name or "", {})
    unknown = sorted(set(own) - set(flags))
    if unknown:
        raise typer.BadParameter(
            f"{path}: [{context.command.name}] has no option {', '.join(unknown)}; "
            f"see prover {context.command.name} --help"
        )
    chosen = {**{key: value for key, value in shared.items() if key in flags}, **own}
    return {flags[key]: value for key, value in chosen.items()}


RunDir = Annotated[Path, typer.Argument(help="Run directory.", envvar="PROVER_RUN")]
ConfigFile = Annotated[
    list[Path] | None,
    option(
        "--config",
        help="TOML file with defaults for the options; of several, later ones win.",
        callback=load_defaults,
        is_eager=True,
    ),
]
Resume = Annotated[bool, option("--resume", help="Go on with what is there; keep finished shards.")]
Overwrite = Annotated[bool, option("--overwrite", help="Discard what is there.")]
DryRun = Annotated[bool, option("--dry-run", help="Print the resolved configuration and stop.")]
AsJson = Annotated[bool, option("--json", help="Print the summary as JSON on stdout.")]
As = Annotated[str | None, option("--as", help="Name of a variant: writes STAGE@NAME.")]
Shard = Annotated[
    str, option("--shard", help="i/n: do every n-th shard only, beginning with the i-th (from 0).")
]
Seed = Annotated[int, option("--seed", help="Seed of everything that is drawn.")]
EngineName = Annotated[str, option("--engine", help="auto, vllm, openai, torch or scripted.")]
Device = Annotated[str, option("--device", help="auto, cpu, cuda or cuda:N.")]
Dtype = Annotated[str, option("--dtype", help="auto, float32, bfloat16 or float16.")]
Concurrency = Annotated[int, option("--concurrency", min=1, help="Episodes in flight.")]
MaxModelLen = Annotated[
    int | None, option("--max-model-len", min=1, help="Longest context; default: the model's.")
]
TensorParallel = Annotated[
    int, option("--tensor-parallel", min=1, help="GPUs that share one copy of the model (vllm).")
]
DataParallel = Annotated[int, option("--data-parallel", min=1, help="Copies of the model (vllm).")]
MemoryFraction = Annotated[
    float | None,
    option(
        "--memory-fraction",
        min=0.0,
        max=1.0,
        help="Share of the GPU's memory; default: 0.9 (vllm).",
    ),
]
Servers = Annotated[
    list[str] | None,
    option("--server", help="Address of a server, once for each (openai)."),
]
Retries = Annotated[int, option("--retries", min=0, help="Repetitions of a failed episode.")]

PromptName = Annotated[
    str | None, option("--prompt", help="Prompt style; default: the environment's.")
]
History = Annotated[
    str | None,
    option("--history", help="full (append-only) or N past turns in a fresh prompt each turn."),
]
Thinking = Annotated[
    str | None,
    option("--thinking", help="Reasoning: keep (default), strip (from later turns) or off."),
]
MaxTurns = Annotated[int | None, option("--max-turns", min=1, help="Turns per episode.")]
MaxTokens = Annotated[int | None, option("--max-tokens", min=1, help="Tokens per turn.")]
Temperature = Annotated[float, option("--temperature", min=0.0, help="Sampling temperature.")]
TopP = Annotated[float, option("--top-p", min=0.0, max=1.0, help="Nucleus; 1 is off.")]
TopK = Annotated[int, option("--top-k", min=0, help="Most likely tokens kept; 0 is off.")]
EnvData = Annotated[
    Path | None, option("--data", help="Folder with the environment's official data.")
]
Goals = Annotated[
    str | None, option("--goals", help="WebShop's goals: human (default) or synthetic.")
]
Products = Annotated[
    int | None,
    option("--products", min=1, help="WebShop's catalogue: this many products; default: 1000/all."),
]
Corpus = Annotated[
    Path | None, option("--corpus", help="SearchQA's passages: FILE.jsonl, also .xz, .gz or .zst.")
]
GraderName = Annotated[
    str, option("--grader", help="Who decides outcomes: rule (the environment's) or llm.")
]
GraderModel = Annotated[
    str | None,
    option("--grader-model", help="Checkpoint that grades with --grader llm, or its name there:"),
]
GraderUrl = Annotated[
    str | None, option("--grader-url", help="OpenAI-compatible server with the grader's model.")
]
EnvOptions = Annotated[
    list[str] | None, option("--env-option", help="Any other environment option: KEY=VALUE.")
]
From = Annotated[str, option("--from", help="Stage read: judge or judge@NAME.")]


def env_options(
    env: str | None,
    data: Path | None,
    pairs: list[str] | None,
    goals: str | None = None,
    products: int | None = None,
    corpus: Path | None = None,
) -> dict[str, Any]:
    """The options given to the environment, as plain values.

    For a flag that was not given, the variable of the named environment counts.
    """
    passages = None if corpus is None else str(corpus)
    flags = {"data": data and str(data), "goals": goals, "products": products, "corpus": passages}
    found = {
        name: _by_variable(env, name) if value is None else value for name, value in flags.items()
    }
    given = {name: value for name, value in found.items() if value is not None}
    return given | key_values(pairs or [])


def _by_variable(env: str | None, name: str) -> Any:
    """`PROVER_WEBSHOP_DATA` for webshop's data; ALFWorld's own variable is `ALFWORLD_DATA`."""
    if env is None:
        return None
    value = os.environ.get(f"PROVER_{env.upper()}_{name.upper()}")
    if name == "data" and env == "alfworld":
        value = value or os.environ.get("ALFWORLD_DATA")
    return _plain(value) if value and name == "products" else value or None


def starting_policy(env: str) -> Path:
    """The small policy that ships for an environment, said aloud."""
    from prover_cli.envs.registry import check_name
    from prover_cli.policies.shipped import shipped_policy

    check_name(env)
    path = shipped_policy(env)
    console.talk(f"no --policy given: using the small starting policy of {env}, {path}")
    return path


def mode(resume: bool, overwrite: bool) -> Mode:
    """What to do with a stage that exists."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    return Mode.RESUME if resume else Mode.OVERWRITE if overwrite else Mode.REFUSE


def slice_of(value: str) -> str:
    """Check `i/n`."""
    number, _, of = value.partition("/")
    if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
        raise UsageError(f"--shard is i/n with 0 <= i < n, not {value!r}")
    return f"{int(number)}/{int(of)}"


def key_values(pairs: list[str]) -> dict[str, Any]:
    """`key=value` options; values that read as JSON numbers or booleans become such."""
    result: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"expected key=value, not {pair!r}")
        name = key.replace("-", "_")
        result[f"{name}_" if keyword.iskeyword(name) else name] = _plain(value)
    return result


def _plain(value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value
