"""Errors for users: each names what is wrong, the value, and the fix, in one line.

A `UserError` raised before training ends the command with exit status 2 and its message alone; our own
invariants are `assert`s and end in a traceback.
"""


class UserError(ValueError):
    """Something a user can mend. The message reads `WHAT; FIX`."""

    def __init__(self, what: str, *, fix: str) -> None:
        self.what, self.fix = what, fix
        super().__init__(f"{what}; {fix}")


class RunFileError(UserError):
    """A setting that is unknown, of the wrong type, or impossible beside another."""


class DataError(UserError):
    """Rows that are missing, empty, too long, or lack what the task or the reward needs."""


class ModelError(UserError):
    """A model or tokenizer that can't be loaded or can't do what the run asks."""


class RewardError(UserError):
    """A reward that can't be found, loaded or called."""


class RunFolderError(UserError):
    """A run folder or checkpoint that can't be written, resumed or exported."""


class TrainingError(UserError):
    """Training that can't usefully go on: too many bad steps, no gradient anywhere, no learnable prompt."""


class NonFiniteLogprobError(ValueError):
    """A log-prob, value or reward that is NaN or infinite at a position that counts.

    For a sampled token it means that training and sampling disagree, or that the policy has run away. The trainer
    skips the step, counts it, and stops the run when too many come in a row.
    """
