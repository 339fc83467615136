"""Prints the folder of the default model, made first if it isn't there yet."""

from __future__ import annotations

import sys

from groupwise.models.settings import ModelSettings
from groupwise.models.sources import resolve

if __name__ == "__main__":
    print(
        resolve(ModelSettings(name="builtin:smollm2-135m-instruct").name, say=lambda line: print(line, file=sys.stderr))
    )
