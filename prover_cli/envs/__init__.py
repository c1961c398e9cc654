"""Environments: `load(name, **options)` gives one."""

from prover_cli.envs.registry import load, names

__all__ = ["load", "names"]
