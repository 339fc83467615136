"""`groupwise doctor`: what the alarms say of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupwise.cli.app import app, user_errors


@app.command()
def doctor(
    run_folder: Annotated[Path, typer.Argument(help="A run folder, finished or not.", metavar="RUN_DIR")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what went wrong in a run, as its metrics show it, or that nothing did.

    Each finding says what was seen, since which step, why it matters and which setting to try. Ends with status 1
    where there is one.
    """
    with user_errors():
        import json

        from groupwise.alarms import Watcher
        from groupwise.alarms.showing import lines_of
        from groupwise.telemetry import metrics
        from groupwise.telemetry.run_folder import RunFolder

        rows = metrics.read(RunFolder.existing(run_folder).metrics)
        watcher = Watcher()
        for row in rows:
            watcher.see(row)
        steps = sum("eval" not in row for row in rows)
        if as_json:
            told = [finding.to_json() for finding in watcher.findings]
            print(json.dumps({"steps": steps, "checked": sorted(watcher.checked), "findings": told}, indent=2))
        else:
            for line in lines_of(watcher.findings, watcher.checked, steps):
                print(line)
    if watcher.findings:
        raise typer.Exit(1)
