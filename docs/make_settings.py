"""Write docs/settings.md, the table of every setting, from the settings classes themselves.

python docs/make_settings.py
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from groupwise.algorithms import ALGORITHMS, AlgorithmSettings
from groupwise.algorithms.actor_critic import ActorCritic
from groupwise.algorithms.group_relative import GroupRelative
from groupwise.algorithms.policy_gradient import PolicyGradient
from groupwise.algorithms.token_clip import TokenClip
from groupwise.rewards.base import RewardSettings
from groupwise.rewards.build import REWARDS
from groupwise.rewards.pooled import PooledSettings
from groupwise.run import Run, Stage
from groupwise.settings import Settings
from groupwise.telemetry.trackers import TRACKERS

PAGE = Path(__file__).with_name("settings.md")

HEAD = """# All settings

Made from the settings classes by `docs/make_settings.py`; [run-file.md](run-file.md) says how a run file is written.
Each heading is a table of the run file. Where a heading names a choice, `[algorithm]` with `name = "grpo"` for
instance, the settings below it belong to that choice alone. Algorithms share many settings: these stand once, before
the algorithms, and an algorithm's own heading has what it adds, or has another default for.
[presets.md](presets.md) has the values that other systems give them; `groupwise explain NAME` lists all settings of one
algorithm.

## From the papers' symbols

| symbol | setting | |
|---|---|---|
| G | `sampling.group_size` | completions per prompt |
| ε, ε_low, ε_high | `clip_low`, `clip_high` | half-widths of the range: 0.2 is [0.8, 1.2]. In log space for `gmpo`. |
| c of the dual clip | `dual_clip` | the bound itself; 0 is off |
| 1 + ε_IS_high, 1 - ε_IS_low | `is_cap`, `is_floor` | of `cispo`: the bounds themselves; 0 is off |
| β | `beta` | weight of the KL; of `dpo` the scale of its margin |
| k1, k2, k3 | `kl_estimator` | with `kl_placement` and `kl_gradient` |
| π_ref | `reference_refresh` | how it follows the policy; by default it stays |
| μ of GRPO, inner epochs | `updates.epochs` | passes over one rollout |
| optimiser steps of one pass | `updates.minibatches` | |
| std and its ε | `std` | `kind`, `eps`, `place`: one table, or a name |
| 1/\\|o_i\\|, 1/Σ\\|o\\|, ... | `aggregation` | the weight of a token |
| L, the constant of Dr. GRPO | `length_constant` | |
| L_max, L_cache of DAPO | `soft_overlong.max_length`, `soft_overlong.cache` | |
| γ | `gamma` | discount per token |
| λ, λ_actor | `lam` | the trace of advantages |
| λ_critic | `critic_lam` | the trace of the critic's targets |
| α of VAPO | `length_alpha` | |
| μ of VAPO | `nll_coefficient` | |
| c_v, ε of the value loss | `value_clip` | |
| τ_pos, τ_neg of SAPO | `tau_pos`, `tau_neg` | |
| C, C_min of TIS and masks | `correction.cap`, `correction.floor` | |
| temperature, τ | `sampling.temperature` | |
"""

SHARED = {
    "algorithm": (AlgorithmSettings, PolicyGradient, GroupRelative, TokenClip, ActorCritic),
    "rewards": (RewardSettings, PooledSettings),
    "trackers": (),
}
"""Bases whose settings are written once for all algorithms, or rewards, that derive from them."""

LISTS = ("rewards", "trackers")
"""Tables that a run file may have several of."""

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
    title: str = ""
    """Stands in the place of a heading made from `place`."""

    def names(self) -> list[str]:
        """The dotted names of its settings."""
        return [f"{self.place}.{setting.name}".removeprefix(".") for setting in self.settings]

    def heading(self) -> str:
        """The table as the run file writes it, and the `name` that chooses these settings."""
        if self.title:
            return self.title
        choice = re.search(r"\[(\w+)\]", self.place)
        table = re.sub(r"\[\w+\]", "", self.place)
        brackets = f"[[{table}]]" if table in LISTS else f"[{table}]"
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
            elif name == "algorithm":
                found += choices(name, ALGORITHMS)
            elif name == "rewards":
                found += choices(name, REWARDS)
            elif name == "trackers":
                found += choices(name, TRACKERS)
            elif name != "stages":
                for one in classes:
                    found += tables(f"{name}[{named(one)}]" if len(classes) > 1 else name, one)
    return found


def choices(table: str, classes: Mapping[str, type[Settings]]) -> list[Section]:
    """What the choices for a table share, then what each has of its own, then the tables inside them, once for all."""
    shared, own = [], []
    inner: dict[tuple[str, type[Settings]], list[str]] = {}
    brackets = f"[[{table}]]" if table in LISTS else f"[{table}]"
    for owner in SHARED[table]:
        users = [name for name, cls in classes.items() if issubclass(cls, owner)]
        title = f"`{brackets}`, shared by {'all' if len(users) == len(classes) else ', '.join(users)}"
        shared.append(difference(table, owner.__name__, owner, title))
    for name, cls in classes.items():
        own.append(difference(table, name, cls, ""))
        for key, info in cls.model_fields.items():
            for one in settings_classes(info.annotation):
                inner.setdefault((key, one), []).append(name)
    nested = []
    for (key, one), users in inner.items():
        [section] = tables(f"{table}[{key}]", one)
        section.title, section.about = f"`{brackets[:-1]}.{key}]`", f"{section.about} In {', '.join(users)}."
        nested.append(section)
    return shared + own + nested


def difference(table: str, word: str, owner: type[Settings], title: str) -> Section:
    """The settings that a class doesn't have just so from a shared base."""
    base = next((one for one in owner.__mro__[1:] if one in SHARED[table]), None)
    known = [setting(name, info) for name, info in base.model_fields.items()] if base is not None else []
    added = [setting(name, info) for name, info in owner.model_fields.items() if name != "name"]
    about = " ".join((owner.__doc__ or "").split())
    return Section(f"{table}[{word}]", about, [one for one in added if one not in known], title)


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
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return "table"
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
    if isinstance(value, Settings):
        return f"{{ {', '.join(f'{key} = {shown(item)}' for key, item in value if item is not None)} }}"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def row(one: Setting) -> str:
    """A line of a table, in which a bar within a cell needs a backslash."""
    cells = (f"`{one.name}`", one.default, one.values, one.about)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page() -> str:
    """The text of docs/settings.md."""
    lines = [HEAD]
    for section in sections():
        lines.append(f"## {section.heading()}\n\n{section.about}\n")
        if section.settings:
            lines += ["| setting | default | values | what it is |", "|---|---|---|---|"]
            lines += [row(one) for one in section.settings]
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")
