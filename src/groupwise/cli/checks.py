"""`groupwise check-task`, `verify` and `audit`: whether rewards can be trusted."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from groupwise.cli.app import RunArgument, SetOption, app, user_errors


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
    with user_errors():
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
    with user_errors():
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
    with user_errors():
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


def _only_with_a_grader(grader: str | None, settings: Any) -> None:
    from groupwise.errors import RewardError

    if settings and grader is None:
        raise RewardError("--set is for the grader that --with names", fix="name one, for instance --with number")
