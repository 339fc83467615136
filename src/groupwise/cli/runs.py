"""`groupwise train`, `sample`, `init`, `explain` and `export`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from groupwise.cli.app import RunArgument, SetOption, app, user_errors

if TYPE_CHECKING:
    from groupwise.telemetry.display import ConsoleDisplay
    from groupwise.training.api import Result


@app.command()
def train(
    run: Annotated[
        str | None, typer.Argument(help="A run file, or the name of a packaged run.", metavar="[RUN]")
    ] = None,
    settings: SetOption = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to make; by default runs/NAME-DATE-TIME.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Continue the run in this folder. A RUN given too is compared.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print errors and what changed at the end alone.")
    ] = False,
) -> None:
    """Train. Without arguments: the packaged run `follow_instructions`.

    Ctrl-C finishes the step in hand, saves, and says how to go on. Ends with status 1 where an alarm of `alarms.stop`
    ended it.
    """
    with user_errors():
        from groupwise.telemetry.display import ConsoleDisplay, Silent
        from groupwise.training import api

        with ConsoleDisplay(Console(highlight=False)) as display:
            shown = Silent() if quiet else display
            if resume is None:
                result = api.train(run or "follow_instructions", overrides=settings or [], out=out, display=shown)
            else:
                _only_with_a_new_run(settings, out)
                result = api.resume(resume, run=run, display=shown)
        _show(result, display)
    if not result.finished and result.stopped_by is not None:
        raise typer.Exit(1)
    if not result.finished:
        raise typer.Exit(128 + signal.Signals[result.interrupted_by or "SIGTERM"])


@app.command()
def sample(
    run: RunArgument,
    prompts: Annotated[int, typer.Option(min=1, help="How many prompts to sample groups for.")] = 16,
    settings: SetOption = None,
) -> None:
    """Sample and score groups without training: is there anything to learn from?

    Prints the pass rate, the share of groups with signal beside what that pass rate gives in theory
    (1 - p^G - (1-p)^G), and three examples.
    """
    with user_errors():
        from groupwise.telemetry.display import ConsoleDisplay
        from groupwise.training.preview import preview

        with ConsoleDisplay(Console(highlight=False)) as display:
            preview(run, prompts, settings or [], display)


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The name of a packaged run.")],
    out: Annotated[Path | None, typer.Option(help="The file to write; by default NAME.toml here.")] = None,
) -> None:
    """Copy a packaged run file here, to edit it."""
    with user_errors():
        from groupwise.errors import RunFileError
        from groupwise.run_file import packaged_runs

        runs, path = packaged_runs(), out or Path(f"{name}.toml")
        if name not in runs:
            raise RunFileError(f"there is no packaged run {name!r}", fix=f"use one of {', '.join(runs)}")
        if path.exists():
            raise RunFileError(f"{path} is already there", fix="give another file as --out")
        path.write_text(runs[name], "utf-8")
        print(f"wrote {path}; run it with: groupwise train {path}")


@app.command()
def explain(
    what: Annotated[
        str,
        typer.Argument(
            help="A run file, the name of a packaged run, or that of an algorithm.", metavar="RUN | ALGORITHM"
        ),
    ],
    settings: SetOption = None,
) -> None:
    """Say what a run or an algorithm optimises: the paper's form, the objective with these numbers, how they differ.

    Also where the data come from, which models are in memory and why, and what each setting does. Beside an
    algorithm's name `--set` takes its own settings: `groupwise explain grpo --set preset=trl-1.16`.
    """
    with user_errors():
        from groupwise.training.explaining import explain as lines_of

        for line in lines_of(what, settings or [], min(Console().width, 110)):
            print(line)


@app.command()
def export(
    run_folder: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN_DIR")],
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    step: Annotated[
        str, typer.Option(help="Which checkpoint: a step, `best` (highest evaluation) or `last`.")
    ] = "last",
) -> None:
    """Write a plain Hugging Face model folder from a run: weights (adapters merged), tokenizer, generation config.

    A step of a stage that trains a reward model gives that: a sequence classifier, or of steps a token classifier.

    The folder is read back and compared with the trained model before it is kept.
    """
    with user_errors():
        from groupwise.training.exporting import export_run

        for line in export_run(run_folder, out, step):
            print(line)


def _show(result: Result, display: ConsoleDisplay) -> None:
    """The table at the end."""
    summary = result.summary
    if summary is not None:
        rows = []
        for change in summary.changes:
            low_high = "" if change.interval is None else f"  [{change.interval[0]:+.3f}, {change.interval[1]:+.3f}]"
            difference = "" if change.difference is None else f"{change.difference:+.3f}{low_high}"
            rows.append((change.name, _number(change.before), _number(change.after), difference))
        title = "What changed (training: first and last quarter of the last stage's steps)"
        display.table(title, ("", "before", "after", "difference [95 % interval]"), rows)
        display.say(
            f"{summary.steps} steps, {summary.tokens_sampled} tokens sampled, "
            f"{summary.cpu_seconds:.0f} CPU seconds, {summary.wall_seconds:.0f} seconds in all"
        )
    display.say(f"run folder: {_shown(result.folder)}")
    if not result.finished:
        display.say(f"stopped after step {result.steps}; go on with: groupwise train --resume {_shown(result.folder)}")
    if result.stopped_by is not None and result.step_before_alarm is not None:
        display.say(
            f"checkpoint step-{result.step_before_alarm} is from before {result.stopped_by.alarm}: groupwise export "
            f"{_shown(result.folder)} OUT --step {result.step_before_alarm}"
        )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _shown(path: Path) -> str:
    """Relative to here where that is shorter."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _only_with_a_new_run(settings: Any, out: Any) -> None:
    from groupwise.errors import RunFileError

    if settings or out:
        raise RunFileError(
            "--set and --out don't go with --resume", fix="a resumed run keeps its settings and its folder"
        )
