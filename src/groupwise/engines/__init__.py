"""Engines: what samples completions. `ENGINES` holds the settings class of each by the name that run files use."""

from typing import Annotated

from pydantic import Field

from groupwise.engines.replay import ReplayEngineSettings
from groupwise.engines.torch import TorchEngineSettings

ENGINES = {"torch": TorchEngineSettings, "replay": ReplayEngineSettings}

AnyEngine = Annotated[TorchEngineSettings | ReplayEngineSettings, Field(discriminator="name")]
"""What a run file may name as its engine."""
