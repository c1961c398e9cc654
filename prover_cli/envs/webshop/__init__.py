"""WebShop (Yao et al. 2022): find and buy the product that an instruction describes."""

from prover_cli.envs.webshop.environment import WebShopEnvironment

__all__ = ["WebShopEnvironment"]
