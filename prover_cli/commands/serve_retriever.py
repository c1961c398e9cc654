"""`prover serve-retriever`.

Serves a corpus to any number of runs, on this machine or others, as Search-R1's and verl-agent's
search servers do (see `prover_cli.envs.searchqa.retrieval.server`). stdout gets one line, the URL,
once searches are answered. SIGINT and SIGTERM let requests in progress end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from prover_cli import console, options

NAME = "serve-retriever"


def command(
    corpus: Annotated[
        Path,
        options.option(
            "--corpus",
            help="Passages: FILE.jsonl, also .xz, .gz or .zst.",
            envvar="PROVER_SEARCHQA_CORPUS",
        ),
    ],
    port: Annotated[
        int, options.option("--port", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8000,
    host: Annotated[
        str, options.option("--host", help="Address to listen on; 0.0.0.0 is open to everybody.")
    ] = "127.0.0.1",
    topk: Annotated[
        int, options.option("--topk", min=1, max=1000, help="Passages where none are asked for.")
    ] = 3,
    retriever: Annotated[str, options.option("--retriever", help="bm25 or dense.")] = "bm25",
    model: Annotated[
        Path | None,
        options.option("--model", help="Folder of the embedding model (dense)."),
    ] = None,
    option: Annotated[
        list[str] | None,
        options.option("--option", help="Any other option of the retriever: KEY=VALUE."),
    ] = None,
) -> None:
    """Answer searches of a corpus over HTTP until stopped."""
    from prover_cli.envs.searchqa.retrieval.open import open_retriever
    from prover_cli.envs.searchqa.retrieval.server import RetrieverServer, run

    chosen: dict[str, Any] = options.key_values(option or [])
    if model is not None:
        chosen["model"] = str(model)
    with console.reporting() as reporter:
        engine = open_retriever(retriever, corpus=str(corpus), progress=reporter, **chosen)
    server = RetrieverServer(engine, host=host, port=port, topk=topk)
    console.talk(f"{engine.name} on corpus {engine.corpus_hash}; Ctrl-C stops it")
    run(server, console.data)
    console.talk("stopped")
