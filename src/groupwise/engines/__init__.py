"""Engines: what samples completions. `ENGINES` holds the settings class of each by the name that run files use."""

from groupwise.engines.replay import ReplayEngineSettings
from groupwise.engines.torch import TorchEngineSettings

ENGINES = {"torch": TorchEngineSettings, "replay": ReplayEngineSettings}

AnyEngine = TorchEngineSettings | ReplayEngineSettings
