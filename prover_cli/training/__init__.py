"""Training: one clipped policy-gradient update of a causal language model on credited tokens."""

from prover_cli.training.metrics import StepMetrics
from prover_cli.training.settings import TrainConfig
from prover_cli.training.trainer import Trainer

__all__ = ["StepMetrics", "TrainConfig", "Trainer"]
