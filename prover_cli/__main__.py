"""Entry point of the command `prover`."""

from __future__ import annotations

from prover_cli.app import app


def main() -> None:
    app(prog_name="prover")


if __name__ == "__main__":
    main()
