"""Write docs/settings.md, the table of every setting, from the settings classes themselves.

python docs/make_settings.py
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from groupwise.run import Run, Stage
from groupwise.settings import Settings

PAGE = Path(__file__).with_name("settings.md")

HEAD = """# All settings

Made from the settings classes by `docs/make_settings.py`; [run-file.md](run-file.md) says how a run file is written.
Each heading is a table of the run file. Where a heading names a choice, `[algorithm]` with `name = "grpo"` for
instance, the settings below it belong to that choice alone.
"""

WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "length at least"}


@dataclass(frozen=True)
class Setting:
    """One line of the reference."""

    name: str
    default: str
    values: str
    about: str


@dataclass
class Section:
    """One table of the run file, or one choice for it."""

    place: str
    """Its dotted name, each choice in brackets after its table: `algorithm[grpo].std`; empty for the top level."""
    about: str
    settings: list[Setting] = field(default_factory=list)

    def names(self) -> list[str]:
        """The dotted names of its settings."""
        return [f"{self.place}.{setting.name}".removeprefix(".") for setting in self.settings]

    def heading(self) -> str:
        """The table as the run file writes it, and the `name` that chooses these settings."""
        choice = re.search(r"\[(\w+)\]", self.place)
        table = re.sub(r"\[\w+\]", "", self.place)
        brackets = f"[[{table}]]" if table == "rewards" else f"[{table}]"
        if not table:
            return "Top level"
        return f"`{brackets}`" + (f' with `name = "{choice[1]}"`' if choice else "")


def sections() -> list[Section]:
    """Every section, in the order of the classes. A stage's settings stand at the top: one stage needs no `stages`."""
    top = Section("", "At the top of the file, or of one of its `[[stages]]`.")
    found = [top]
    for owner in (Run, Stage):
        for name, info in owner.model_fields.items():
            classes = list(settings_classes(info.annotation))
            if not classes:
                top.settings.append(setting(name, info))
            elif name != "stages":
                for one in classes:
                    found += tables(f"{name}[{named(one)}]" if len(classes) > 1 else name, one)
    return found


def tables(place: str, owner: type[Settings]) -> list[Section]:
    """The section of one settings class, and those of the tables inside it."""
    own, inner = Section(place, " ".join((owner.__doc__ or "").split())), []
    for name, info in owner.model_fields.items():
        nested = list(settings_classes(info.annotation))
        if not nested and not (name == "name" and place.endswith("]")):
            own.settings.append(setting(name, info))
        for one in nested:
            inner += tables(f"{place}.{name}", one)
            if info.default is None:
                inner[-1].about += f" {info.description} Not used unless the table is there."
            elif info.metadata:  # it may be written in other ways than as a table
                inner[-1].about += f" {' '.join((info.description or '').split())}"
    return [own, *inner]


def named(owner: type[Settings]) -> str:
    """The word that chooses this class."""
    return str(owner.model_fields["name"].default)


def settings_classes(annotation: Any) -> Iterator[type[Settings]]:
    """Every settings class in a type."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, Settings):
            yield annotation
        return
    for part in typing.get_args(annotation):
        yield from settings_classes(part)


def setting(name: str, info: FieldInfo) -> Setting:
    """What the reference says of one field."""
    values = bounded(described(info.annotation), info.metadata)
    return Setting(name, default_of(info), values, " ".join((info.description or "").split()))


def bounded(words: str, metadata: Iterable[Any]) -> str:
    """A type in words with the limits that its annotation sets."""
    limits = [
        f"{limit} {shown(value)}"
        for item in metadata
        for key, limit in BOUNDS.items()
        if (value := getattr(item, key, None)) is not None
    ]
    return ", ".join([words, *limits])


def described(annotation: Any) -> str:
    """A type in words."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in WORDS:
        return WORDS[annotation]
    if origin is Literal:
        return ", ".join(f"`{shown(part)}`" for part in parts)
    if origin is typing.Annotated:
        return bounded(described(parts[0]), parts[1:])
    if origin is tuple:
        return f"list of {described(parts[0])}" if Ellipsis in parts else f"list of {len(parts)} numbers"
    if origin is dict:
        return "table"
    if set(parts) == {int, float, type(None)}:
        return WORDS[float]
    return " or ".join(described(part) for part in parts if part is not type(None))


def default_of(info: FieldInfo) -> str:
    """The default as a run file would write it."""
    if info.default_factory is not None:
        return "`{}`"
    if info.default is PydanticUndefined:
        return "required"
    return "not set" if info.default is None else f"`{shown(info.default)}`"


def shown(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(shown(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def page() -> str:
    """The text of docs/settings.md."""
    lines = [HEAD]
    for section in sections():
        lines.append(f"## {section.heading()}\n\n{section.about}\n")
        if section.settings:
            lines += ["| setting | default | values | what it is |", "|---|---|---|---|"]
            lines += [f"| `{one.name}` | {one.default} | {one.values} | {one.about} |" for one in section.settings]
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")
