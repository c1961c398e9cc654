"""Entry point of the command `prover`."""

from __future__ import annotations

from prover_cli.app import app


def main() -> None:
    app()


if __name__ == "__main__":
    main()
