"""`groupwise report` and `watch`: a run as a page, in one file or live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupwise.cli.app import app, user_errors

RunFolders = Annotated[
    list[Path], typer.Argument(help="One run folder, or several to lay over each other.", metavar="RUN_DIR...")
]


@app.command()
def report(
    run_folders: RunFolders,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; by default report.html in the run folder, or here.")
    ] = None,
) -> None:
    """Write a page on which a run explains itself: one file, for any browser, without a network.

    What is maximised, curves, groups of completions token by token, pass rates by prompt, what the alarms said.
    """
    with user_errors():
        from groupwise.report.page import write_report

        print(f"wrote {write_report(run_folders, out)}")


@app.command()
def watch(
    run_folders: RunFolders,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free port.")] = 8765,
) -> None:
    """Serve the same page on this machine while the run goes on, with every group of the ledger. Ctrl-C ends it."""
    with user_errors():
        from groupwise.report.watching import server_of

        with server_of(run_folders, port) as server:
            print(f"http://127.0.0.1:{server.server_port}/   (Ctrl-C ends it)", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print()
