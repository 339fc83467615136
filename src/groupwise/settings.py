"""The base of every settings object.

The object that a run file names is the object that runs: algorithms, tasks, rewards and engines are themselves
frozen, validated tables of settings. Unknown keys are errors.
"""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A frozen table of settings; each field is documented by the string below it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
