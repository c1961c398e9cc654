"""A fictional but coherent world of facts, with pages to search and questions to answer."""

from prover_cli.envs.searchqa.world.build import World, build
from prover_cli.envs.searchqa.world.measure import report

__all__ = ["World", "build", "report"]
