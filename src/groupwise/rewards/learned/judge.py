"""The reward `judge`: a language model behind a chat server with OpenAI's interface scores each completion.

    [[rewards]]
    name = "judge"
    url = "http://localhost:8000/v1"
    model = "Qwen/Qwen3-32B"
    template = '''
    Question: {prompt}
    Reference: {answer}
    {completion}
    How well does the answer agree with the reference? End with a line "Score: n", n from 0 to 10.'''

`{prompt}` and `{completion}` are the record's, any other field is a column of the data row. The completion is fenced
(`judging`), the reply is read by a small grammar (`verdict`), and requests are bounded and tried again
(`chat_endpoint`). What the judge doesn't answer so that it can be read is not scored. A judge can be talked into a
high score, and a policy that is trained against it will find out how: train on it with a metric beside it that it
doesn't give.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from groupwise.errors import RewardError
from groupwise.rewards.contract import Record
from groupwise.rewards.learned import judging
from groupwise.rewards.learned.verdict import Form
from groupwise.rewards.pooled import PooledReward, PooledSettings
from groupwise.rewards.workers.pool import WorkerPool
from groupwise.rewards.workers.target import Target

PATIENCE = 0.9
"""Share of `wall_seconds` after which a worker gives up by itself and says what it waited for."""


class Judge(PooledSettings):
    """The score that a language model gives, moved to 0 to 1."""

    name: Literal["judge"] = "judge"
    url: str
    """The server's address up to the version: `http://localhost:8000/v1`."""
    model: str = Field(min_length=1)
    """Which of its models is asked."""
    template: str
    """What the judge is asked: text with `{prompt}`, `{completion}` and columns of the row such as `{answer}`. Other
    braces are written twice."""
    system: str | None = None
    """A system message before it."""
    key_env: str | None = None
    """The environment variable that holds the server's key."""
    verdict: Form = "line"
    """How the reply is read: `line`, its last line is `Score: n`; `json`, it is an object with a `score`."""
    low: float = 0.0
    """The worst score that the template asks for: the value 0."""
    high: float = 10.0
    """The best one: the value 1."""
    correct_above: float | None = None
    """A completion with a higher score, on the judge's own scale, is correct, any other is not; by default there is no
    verdict."""
    max_tokens: int = Field(default=1024, ge=1)
    """Of the reply. One that is cut is not scored."""
    timeout: float = Field(default=30.0, gt=0)
    """Seconds that one try may take; `wall_seconds` bounds all of them and the pauses between them."""
    tries: int = Field(default=4, ge=1)
    """How often a request is sent before the server counts as unavailable."""
    workers: int = Field(default=8, ge=1)
    """The most requests at once."""

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url = {url!r} is no address; write http://host:port/v1 or https://host/v1")
        return url

    @field_validator("template")
    @classmethod
    def _shows_the_completion(cls, template: str) -> str:
        if judging.COMPLETION not in judging.fields_of(template):
            raise ValueError("the template never shows {completion}; put it in")
        return template

    @model_validator(mode="after")
    def _range(self) -> Judge:
        if not self.low < self.high:
            raise ValueError(f"low = {self.low:g} must be below high = {self.high:g}")
        if self.correct_above is not None and not self.low <= self.correct_above < self.high:
            raise ValueError(f"correct_above = {self.correct_above:g} must lie from low to below high")
        return self

    def build(self, base: Path) -> Judged:
        """The reward, with no process started yet. Raises `RewardError` where the key isn't set."""
        own = {"url", "model", "template", "system", "key_env", "verdict", "low", "high", "correct_above"}
        settings = self.model_dump(include=own | {"max_tokens", "timeout", "tries"})
        settings["patience"] = PATIENCE * self.wall_seconds
        target = Target(judging.__name__, judging.make.__name__, json.dumps(settings), self.shown)
        env = () if self.key_env is None else (self.key_env,)
        return Judged(self.shown, WorkerPool(target, workers=self.workers, limits=self.limits, env=env))


class Judged(PooledReward):
    """A `PooledReward` that asks its judge once before training."""

    def __init__(self, name: str, pool: WorkerPool) -> None:
        super().__init__(name, pool)
        self._notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know before the run starts: that the reply to the last `check` had no verdict."""
        return self._notes

    def check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Compare the template's columns with the rows, and send one request: it shows a wrong address, key or model
        before a model is loaded. A reply without a verdict is noted, and stops nothing: what was judged is empty.
        Raises `DataError`, `RewardError`.
        """
        super().check(rows)
        if not rows:
            return
        asked = str(rows[0].get("prompt") or rows[0].get("messages"))
        record = Record("check", "check", asked, None, rows[0], "", "", (), "stop")
        [outcome] = self.pool.score([record])
        if outcome.fault:
            told = f"reward {self.name!r} can't be had: {outcome.score.reason}"
            raise RewardError(told, fix="start the server, or mend `url`, `model` and `key_env`")
        unread = f"reward {self.name!r}: no verdict was read when the judge was asked before training"
        self._notes = (f"{unread} ({outcome.score.reason})",) if outcome.score.value is None else ()
