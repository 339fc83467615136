"""The base of every settings object.

The object that a run file names is the object that runs: algorithms, tasks, rewards and engines are themselves
frozen, validated tables of settings. Unknown keys are errors.
"""

import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Settings(BaseModel):
    """A frozen table of settings; each field is documented by the string below it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, table: Any) -> Any:
        """pydantic alone would read `true` as 1."""
        for key, field in cls.model_fields.items():
            if isinstance(table, Mapping) and isinstance(table.get(key), bool):
                kinds = _kinds(field.annotation)
                if kinds & {int, float} and bool not in kinds:
                    raise ValueError(f"{key} = {str(table[key]).lower()} is no number; give a number")
        return table


def _kinds(annotation: Any) -> set[Any]:
    """The plain types in an annotation such as `int | None`."""
    inner = [_kinds(part) for part in typing.get_args(annotation)]
    return set().union(*inner) if inner else {annotation}
