"""What a person sees while a run goes on: a table of the last steps on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

SHOWN = 12
"""Steps in the table."""


@dataclass(frozen=True)
class Column:
    """One number of a step."""

    title: str
    key: str
    form: str
    """As `format` takes it."""
    silent: str = ""
    """What a value looks like that alone is not worth a column."""

    def of(self, row: Mapping[str, Any]) -> str:
        """The number as it is shown; nothing where the row has none."""
        value = sum(row["seconds"].values()) if self.key == "seconds" else row.get(self.key)
        return "" if value is None else format(value, self.form)


COLUMNS = (
    Column("step", "step", "d"),
    Column("reward", "reward_mean", ".3f"),
    Column("loss", "loss", ".3f"),
    Column("length", "completion_length_mean", ".1f"),
    Column("entropy", "entropy", ".3f"),
    Column("grad norm", "grad_norm", ".2g"),
    Column("tied", "frac_degenerate_groups", ".0%"),
    Column("cut off", "frac_truncated", ".0%", silent="0%"),
    Column("not scored", "frac_not_scored", ".0%", silent="0%"),
    Column("pairs right", "pair_accuracy", ".2f"),
    Column("steps right", "step_accuracy", ".2f"),
    Column("seconds", "seconds", ".1f"),
)
"""What the table may show, in order; together they fit 80 columns, as no stage has them all."""


class Display(Protocol):
    """What the trainer tells."""

    def say(self, line: str) -> None:
        """One thing worth knowing."""

    def step(self, row: Mapping[str, Any], total: int) -> None:
        """A row of metrics was written; `total` steps in the run."""

    def evaluation(self, row: Mapping[str, Any]) -> None:
        """An evaluation's row was written."""


class Silent:
    """Shows nothing."""

    def say(self, line: str) -> None: ...

    def step(self, row: Mapping[str, Any], total: int) -> None: ...

    def evaluation(self, row: Mapping[str, Any]) -> None: ...


class ConsoleDisplay:
    """A live table of the last steps on a terminal; one line per step where output is not a terminal.

    Use it as a context manager: the table stays as it is when it ends.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.live: Live | None = None
        self.rows: deque[Mapping[str, Any]] = deque(maxlen=SHOWN)
        self.began = time.monotonic()
        self.first_step = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_table()

    def banner(self, title: str, lines: Sequence[str]) -> None:
        """What is about to run."""
        self.console.print(Panel(Text("\n".join(lines)), title=title, title_align="left", expand=False))

    def say(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def step(self, row: Mapping[str, Any], total: int) -> None:
        if not self.console.is_terminal:
            self.say(f"step {row['step']}/{total}  {_numbers(row)}")
            return
        if self.rows and self.rows[-1]["stage"] != row["stage"]:
            self._end_table()
        if self.live is None:
            self.live = Live(console=self.console, auto_refresh=False, vertical_overflow="crop")
            self.live.start()
            self.first_step, self.began = row["step"], time.monotonic()
        self.rows.append(row)
        if row["status"] != "updated":
            self.say(f"step {row['step']}: {row['status']}")
        self.live.update(self._table(total), refresh=True)

    def _end_table(self) -> None:
        """Leave the table as it is; the next step begins another."""
        if self.live is not None:
            self.live.stop()
            self.live = None
        self.rows.clear()

    def _table(self, total: int) -> Group:
        """The last steps of the stage, with the columns that have anything to say of one of them."""
        row = self.rows[-1]
        title = f"{row['stage']}   step {row['step']} of {total}   {_speed(row)}{self._left(row['step'], total)}"
        table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1), collapse_padding=True, pad_edge=False)
        columns = [column for column in COLUMNS if any(column.of(row) not in ("", column.silent) for row in self.rows)]
        if any(column.key == "reward_mean" for column in columns):  # a surrogate's value says nothing beside it
            columns = [column for column in columns if column.key != "loss"]
        for column in columns:
            table.add_column(column.title, justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(*(column.of(row) for column in columns))
        return Group(Text(title, style="bold", no_wrap=True, overflow="ellipsis"), table)

    def _left(self, done: int, total: int) -> str:
        """How long it will take at the speed so far, evaluations included; nothing before two steps are done."""
        steps = done - self.first_step
        if steps == 0 or done == total:
            return ""
        return f"   about {_duration((time.monotonic() - self.began) / steps * (total - done))} left"

    def evaluation(self, row: Mapping[str, Any]) -> None:
        result = row["eval"]
        told = []
        if result["prompts"]:
            between = _between(result["reward_interval"])
            told.append(f"reward {_number(result['reward'])}{between} on {result['prompts']} test prompts")
        if held_out := result.get("held_out"):
            names = [name for name in held_out if name == "loss" or name.endswith("accuracy")]
            parts = [
                f"{name} {_number(held_out[name])}{_between(result['held_out_interval'].get(name))}" for name in names
            ]
            told.append(f"held out: {', '.join(parts)} on {result['held_out_groups']} groups")
        self.say(f"evaluation at step {row['step']}: {'; '.join(told)}")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A small table, printed as it is."""
        table = Table(title=title, title_justify="left", title_style="bold", show_header=any(columns))
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)


def _numbers(row: Mapping[str, Any]) -> str:
    """The few numbers of a step that a person follows."""
    reward = f"reward {row['reward_mean']:.2f}" if row["reward_mean"] is not None else f"loss {_number(row['loss'])}"
    if row.get("pair_accuracy") is not None:
        reward += f"  pairs in order {row['pair_accuracy']:.2f}"
    if row.get("step_accuracy") is not None:
        reward += f"  steps judged right {row['step_accuracy']:.2f}"
    unscored = f"  {row['frac_not_scored']:.0%} not scored" if row.get("frac_not_scored") else ""
    flag = "" if row["status"] == "updated" else f"  {row['status']}"
    return f"{row['stage']}  {reward}  {_speed(row)}{unscored}{flag}"


def _speed(row: Mapping[str, Any]) -> str:
    """Tokens sampled per second of the whole step; where none were, tokens trained on."""
    seconds = sum(row["seconds"].values())
    tokens = (row["tokens_sampled"] or row["tokens_trained"]) / seconds if seconds else 0.0
    return f"{tokens:.0f} tokens/s"


def _duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _between(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f" [{ends[0]:.3f}, {ends[1]:.3f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
