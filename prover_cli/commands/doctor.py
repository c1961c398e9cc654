"""`prover doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from prover_cli import console, options
from prover_cli.config import EngineConfig

NAME = "doctor"
NO_ENGINE = 3


def command(
    env: Annotated[
        str, options.option("--env", help="Environment whose starting policy is used.")
    ] = "webshop",
    policy: Annotated[
        Path | None,
        options.option("--policy", help="Checkpoint; default: the environment's starting policy."),
    ] = None,
    engine: options.EngineName = "auto",
    device: options.Device = "auto",
    memory_fraction: options.MemoryFraction = None,
    server: options.Servers = None,
    as_json: options.AsJson = False,
) -> None:
    """Look at this machine: versions, devices, engines, data, disks, and a moment of generation.

    Leaves with 3 when no engine generates.
    """
    from prover_cli.doctor.table import table
    from prover_cli.policies.shipped import shipped_policy
    from prover_cli.stages import doctor as stage

    config = EngineConfig(
        engine, device, memory_fraction=memory_fraction, servers=tuple(server or ())
    )
    facts = stage.run(config, policy or shipped_policy(env))
    if as_json:
        console.data_json(facts)
    else:
        console.stdout_console().print(table(facts))
    for warning in facts["warnings"]:
        console.talk(f"warning: {warning}")
    if not facts["ready"]:
        console.talk("error: no engine generates here")
        raise typer.Exit(NO_ENGINE)
