"""The command line: thin words over `groupwise.training`.

Errors that a user can mend end in one line and exit status 2. Heavy imports wait until a command needs them, so that
`--help` and `--version` answer at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from groupwise.errors import UserError

if TYPE_CHECKING:
    from groupwise.telemetry.display import ConsoleDisplay
    from groupwise.training.api import Result

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Reinforcement-learning post-training of language models, with GRPO at its centre.

    `groupwise train` alone trains the built-in model on short verifiable instructions. To make a run of your own:
    `groupwise init follow_instructions`, edit the file, `groupwise sample` it to see whether there is any signal to
    learn from, then `groupwise train` it.
    """,
)


RunArgument = Annotated[str, typer.Argument(help="A run file, or the name of a packaged run.", metavar="RUN")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting, e.g. `optimizer.learning_rate=1e-5` or `stages.1.steps=6`.",
    ),
]


@app.callback(invoke_without_command=True)
def main(show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """What stands before a command."""
    if show_version:
        print(f"groupwise {version('groupwise')}")
        raise typer.Exit


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
) -> None:
    """Train. Without arguments: the packaged run `follow_instructions`.

    Ctrl-C finishes the step in hand, saves, and says how to go on.
    """
    with _user_errors():
        from groupwise.telemetry.display import ConsoleDisplay
        from groupwise.training import api

        with ConsoleDisplay(Console(highlight=False)) as display:
            if resume is None:
                result = api.train(run or "follow_instructions", overrides=settings or [], out=out, display=display)
            else:
                _only_with_a_new_run(settings, out)
                result = api.resume(resume, run=run, display=display)
        _show(result, display)
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
    with _user_errors():
        from groupwise.telemetry.display import ConsoleDisplay
        from groupwise.training.preview import preview

        with ConsoleDisplay(Console(highlight=False)) as display:
            preview(run, prompts, settings or [], display)


@app.command()
def check_task(
    run: RunArgument,
    settings: SetOption = None,
    rows: Annotated[int, typer.Option(min=1, help="How many rows' answers the rewards are tried on.")] = 50,
    prompts: Annotated[int, typer.Option(min=1, help="How many prompts to sample groups for.")] = 16,
    model: Annotated[bool, typer.Option("--model/--no-model", help="Whether to sample from the model.")] = True,
) -> None:
    """Check a run's rewards and prompts before any training.

    Lists the golds that can't be used, tries each reward on gold, empty, cut and spoilt answers, and measures how much
    signal the model's own completions give. Ends with status 1 where training would learn from wrong verdicts.
    """
    with _user_errors():
        from groupwise.checking.showing import show_reports
        from groupwise.checking.task import check_task as reports_of
        from groupwise.telemetry.display import ConsoleDisplay

        with ConsoleDisplay(Console(highlight=False)) as display:
            reports = reports_of(run, settings or [], rows=rows, prompts=prompts, model=model, display=display)
            show_reports(reports, display)
    if any(report.serious for report in reports):
        raise typer.Exit(1)


@app.command()
def verify(
    verifier: Annotated[str, typer.Argument(help="Which verifier.", metavar="math|code")],
    cases: Annotated[str, typer.Argument(help="A file of JSON lines; - reads standard input.", metavar="CASES.jsonl")],
    workers: Annotated[int | None, typer.Option(min=1, help="Cases at once; by default one for each core.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of the verifier, e.g. `percent=strict`."),
    ] = None,
) -> None:
    """Run a verifier on cases: JSON lines in, one JSON line out per case, in order.

    Cases for `math` are `{id, gold, prediction}`, for `code` `{id, program, tests, io_tests, limits}`. Each line that
    comes out has `id`, `verdict`, `reason`, `seconds` (CPU time of the case) and `wall_seconds`.
    """
    with _user_errors():
        from difflib import get_close_matches

        from groupwise.checking.judges import JUDGES, read_lines, write_verdicts
        from groupwise.errors import RewardError

        if verifier not in JUDGES:
            near = get_close_matches(verifier, JUDGES, 1)
            fix = f"did you mean {near[0]}?" if near else f"use one of {', '.join(JUDGES)}"
            raise RewardError(f"there is no verifier {verifier!r}", fix=fix)
        many = workers or len(os.sched_getaffinity(0))
        with closing(JUDGES[verifier](settings or [], many)) as judge, read_lines(cases) as lines:
            write_verdicts(lines, judge, many, sys.stdout)


@app.command()
def audit(
    run_folder: Annotated[Path, typer.Argument(help="A run folder, finished or not.", metavar="RUN_DIR")],
    grader: Annotated[
        str | None, typer.Option("--with", metavar="REWARD", help="Judge the completions again, e.g. with `math`.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of that grader, e.g. `column=gold`."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="The most completions to judge again, spread over the run.")] = 2000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Look through a run's recorded completions for rewards that were gamed, or can't be trusted.

    Says how many could not be scored and why, which part of the reward explains the gain, how length and repetition
    moved, and which ten completions to read first.
    """
    with _user_errors():
        import json

        from groupwise.checking.audit import audit as audits_of
        from groupwise.checking.audit import to_json
        from groupwise.checking.audit_showing import show_audits
        from groupwise.checking.regrade import opinion_json, second_opinion
        from groupwise.telemetry.display import ConsoleDisplay
        from groupwise.telemetry.run_folder import RunFolder

        _only_with_a_grader(grader, settings)
        folder = RunFolder.existing(run_folder)
        audits = audits_of(folder)
        opinion = None if grader is None else second_opinion(folder, grader, settings or [], most)
        if as_json:
            print(json.dumps({"stages": to_json(audits), "second_opinion": opinion_json(opinion)}, indent=2))
        else:
            with ConsoleDisplay(Console(highlight=False)) as display:
                show_audits(audits, opinion, display)


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The name of a packaged run.")],
    out: Annotated[Path | None, typer.Option(help="The file to write; by default NAME.toml here.")] = None,
) -> None:
    """Copy a packaged run file here, to edit it."""
    with _user_errors():
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
    with _user_errors():
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
    with _user_errors():
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
        title = "What changed (training: from the first to the last quarter of its steps)"
        display.table(title, ("", "before", "after", "difference [95 % interval]"), rows)
        display.say(
            f"{summary.steps} steps, {summary.tokens_sampled} tokens sampled, "
            f"{summary.cpu_seconds:.0f} CPU seconds, {summary.wall_seconds:.0f} seconds in all"
        )
    display.say(f"run folder: {_shown(result.folder)}")
    if not result.finished:
        display.say(f"stopped after step {result.steps}; go on with: groupwise train --resume {_shown(result.folder)}")


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


def _only_with_a_grader(grader: str | None, settings: Any) -> None:
    from groupwise.errors import RewardError

    if settings and grader is None:
        raise RewardError("--set is for the grader that --with names", fix="name one, for instance --with number")


@contextmanager
def _user_errors() -> Iterator[None]:
    """One line and exit status 2 for errors that a user can mend."""
    try:
        yield
    except UserError as error:
        Console(stderr=True, highlight=False).print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(2) from error
