"""For all tests. groupwise comes before torch, so that waiting OpenMP threads sleep instead of spinning."""

import groupwise  # noqa: F401 (imported for what it sets)
