"""SearchQA: questions to be answered by searching a corpus of passages (Search-R1's setting)."""

from prover_cli.envs.searchqa.environment import SearchQAEnvironment

__all__ = ["SearchQAEnvironment"]
