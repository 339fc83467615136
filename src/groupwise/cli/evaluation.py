"""`groupwise eval`: how good a model is, and whether it is better than another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from groupwise.cli.app import SetOption, app, user_errors


@app.command("eval")
def evaluate(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="A run folder, a run file, a packaged run, or a model (folder, hub name, builtin:NAME). "
            "Several: runs that differ by their seed.",
            metavar="RUN|MODEL",
        ),
    ],
    task: Annotated[
        str | None, typer.Option(help="What to ask: a run file or folder, or a task's name. A MODEL needs it.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Completions per prompt; 0: the greedy one alone.")] = 8,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Of the samples; by default the run's evaluation.temperature.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy/--no-greedy", help="Also answer once at temperature 0.")] = True,
    pass_at: Annotated[
        str | None, typer.Option(metavar="K,...", help="Of pass@k and maj@k; by default powers of two up to --samples.")
    ] = None,
    prompts: Annotated[
        int | None, typer.Option(min=0, help="Test prompts; by default the run's evaluation.prompts; 0: all.")
    ] = None,
    step: Annotated[str, typer.Option(help="Checkpoint of a run folder: a step, `best` or `last`.")] = "last",
    against: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="Compare, prompt by prompt, with another model or an earlier results.json."),
    ] = None,
    against_step: Annotated[str, typer.Option(help="Checkpoint of OTHER, if it is a run folder.")] = "last",
    settings: SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of completions and results; by default evals/NAME-DIGEST.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Evaluate on a run's test prompts: greedy, avg@n, pass@k and maj@k, with intervals.

    The same call again goes on where it was stopped. `--against` tests whether two models differ on the same prompts.
    """
    with user_errors():
        from groupwise.evaluating.command import Command, run_command
        from groupwise.evaluating.running import Wanted
        from groupwise.telemetry.display import ConsoleDisplay

        wanted = Wanted(samples, temperature, greedy, _numbers(pass_at), prompts)
        command = Command(tuple(sources), wanted, task, tuple(settings or ()), step, against, against_step, out)
        with ConsoleDisplay(Console(highlight=False, stderr=as_json)) as display:
            try:
                found = run_command(command, display)
            except KeyboardInterrupt:
                display.say("stopped; the same command goes on from here")
                raise typer.Exit(130) from None
            if as_json:
                import json

                print(json.dumps(found.to_json(), indent=1))
            else:
                found.show(display)


def _numbers(text: str | None) -> tuple[int, ...] | None:
    from groupwise.errors import RunFileError

    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise RunFileError(f"--pass-at {text!r} is not a list of numbers", fix="write for instance --pass-at 1,4,8")
    return None if text is None else tuple(int(part) for part in parts)
