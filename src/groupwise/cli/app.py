"""The application, and what its commands share: run arguments, and errors in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from groupwise.errors import UserError

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


@contextmanager
def user_errors() -> Iterator[None]:
    """One line and exit status 2 for errors that a user can mend."""
    try:
        yield
    except UserError as error:
        Console(stderr=True, highlight=False).print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(2) from error
