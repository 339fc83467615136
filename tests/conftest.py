"""For all tests. groupwise comes before torch, so that waiting OpenMP threads sleep instead of spinning.

Property tests draw the same examples in each run of `make test`, which so says the same of the same tree; `make
test-all` draws new ones (`--hypothesis-profile=drawn`). No example has a deadline, for machines are shared.
"""

from hypothesis import settings

import groupwise  # noqa: F401 (imported for what it sets)

settings.register_profile("drawn", deadline=None)
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")
