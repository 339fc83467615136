"""`python difference.py GRADIENT OTHER` prints the norm of the difference over the norm of OTHER, all parameters."""

from __future__ import annotations

import math
import sys

from safetensors.torch import load_file


def main() -> None:
    one, other = (load_file(path) for path in sys.argv[1:3])
    assert one.keys() == other.keys(), "both sides train the same parameters"
    squares = sum(float((one[name].double() - other[name].double()).square().sum()) for name in other)
    print(math.sqrt(squares / sum(float(value.double().square().sum()) for value in other.values())))


if __name__ == "__main__":
    main()
