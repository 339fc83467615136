"""The command line: thin words over the rooms that do the work.

Errors that a user can mend end in one line and exit status 2. Heavy imports wait until a command needs them, so that
`--help` and `--version` answer at once. Each module registers its commands as it is imported, and `--help` lists them
in that order.
"""

from groupwise.cli import runs

# isort: split
from groupwise.cli import plans

# isort: split
from groupwise.cli import seeing

# isort: split
from groupwise.cli import doctor, evaluation

# isort: split
from groupwise.cli import checks
from groupwise.cli.app import app

__all__ = ["app", "checks", "doctor", "evaluation", "plans", "runs", "seeing"]
