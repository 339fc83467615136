"""Worker processes that call one reward function, each call within hard limits.

    with WorkerPool(Target("/home/me/rewards.py", "reward"), workers=2, limits=Limits(cpu_seconds=10.0)) as pool:
        outcomes = pool.score(records)         # one per record, in order

A call is one record, or all records of a group for a `@group_reward`. A call that outlasts a limit, or that
ends its process, costs the worker (its process group is killed and another one started) and leaves every
other call alone. A worker that ended by itself may be the machine's fault, so that call is tried once more;
where the machine is to blame too often, `score` raises.

At most `workers` calls are in flight however many threads score; `score` may be called from any thread, and
from asyncio through `asyncio.to_thread`. Workers end with the trainer, however it ends. A fork of this process has
workers of its own.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from types import TracebackType
from weakref import WeakSet

from groupwise.errors import RewardError
from groupwise.rewards.contract import Record
from groupwise.rewards.workers.limits import Limits, MachineFaults
from groupwise.rewards.workers.normalise import Fault, Outcome, describe, fault, from_plain
from groupwise.rewards.workers.process import START_LIMIT, Died, TimedOut, WorkerProcess, environment
from groupwise.rewards.workers.target import Target


@dataclass(slots=True)
class Counters:
    """What went wrong so far."""

    timeouts: int = 0
    """Calls that outlasted a time limit."""
    errors: int = 0
    """Records not scored by a fault of the function or the machine, time limits included."""
    restarts: int = 0
    """Workers that had to be replaced."""


@dataclass(frozen=True, slots=True)
class Description:
    """What the loaded function says of itself."""

    group: bool
    columns: tuple[str, ...]


class WorkerPool:
    """See the module's docstring. Workers are started when first needed."""

    def __init__(
        self, target: Target, *, workers: int = 1, limits: Limits | None = None, env: Sequence[str] = ()
    ) -> None:
        self.target, self.limits = target, limits or Limits()
        self.counters = Counters()
        self._machine_faults = MachineFaults()
        self._variables = environment(env, target.shown)
        self._workers = workers
        self._description: Description | None = None
        self._closed = False
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        """Without a worker; in a forked child too, where the parent's threads don't run and its workers aren't ours."""
        self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix=f"reward {self.target.shown}")
        self._lock = threading.Lock()  # guards the workers, the counters and whether it is closed
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def describe(self) -> Description:
        """Start a worker, unless one has run, and ask it. Raises `RewardError` where loading fails."""
        if self._description is None:
            self._give_back(self._take())
        assert self._description is not None
        return self._description

    def score(self, records: Sequence[Record]) -> list[Outcome]:
        """One outcome per record, in order.

        Raises `RewardError` where the function was never loaded, or the machine is to blame too often.
        """
        group = self.describe().group
        calls = list(_groups(records)) if group else [[record] for record in records]
        outcomes = [outcome for call in self._threads.map(self._call, calls) for outcome in call]
        with self._lock:
            self.counters.errors += sum(outcome.fault != "" for outcome in outcomes)
            if not self._closed:  # closing ends calls in flight, which is nobody's fault
                self._machine_faults.see(outcomes)
                self._machine_faults.stop_if_too_many(self.target.shown)
        return outcomes

    def close(self) -> None:
        """Kill all workers; calls in flight end as not scored."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for process in idle:
            process.kill()
        for process in busy:
            process.end()  # the thread that asks it lets go of it
        self._threads.shutdown()

    def _call(self, records: list[Record]) -> list[Outcome]:
        start = time.perf_counter()
        outcomes = self._try_twice(records)
        seconds = time.perf_counter() - start
        return [outcome._replace(wall_seconds=seconds) for outcome in outcomes]

    def _try_twice(self, records: list[Record]) -> list[Outcome]:
        name, count = self.target.shown, len(records)
        try:
            payload = pickle.dumps([replace(record, columns=dict(record.columns)) for record in records])
        except Exception as error:  # a column may be any object, and refuse to be pickled in any way
            return [fault(f"{name} can't be given this row: {describe(error)}")] * count
        outcomes: list[Outcome] = []
        for _ in range(2):
            try:
                process = self._take()
            except RewardError as error:
                return [fault(error.what, "machine")] * count
            try:
                answer = process.ask(payload, count, self.limits)
                outcomes = [from_plain(data, name)._replace(cpu_seconds=answer.cpu_seconds) for data in answer.outcomes]
            except TimedOut as error:
                self._replace(process)
                with self._lock:
                    self.counters.timeouts += 1
                return [fault(f"{name} {error}")._replace(cpu_seconds=self.limits.cpu_seconds)] * count
            except (Died, KeyError, TypeError, ValueError, AttributeError) as error:
                self._replace(process)
                why = str(error) if isinstance(error, Died) else "answered with something else than scores"
                whose: Fault = "machine" if isinstance(error, Died) and error.killed else "reward"
                outcomes = [fault(f"{name} lost its process twice; the last one {why}", whose)] * count
            else:
                self._give_back(process, retire=self._too_large(answer.peak_mb))
                if all(outcome.fault != "machine" for outcome in outcomes):
                    break
        return outcomes

    def _too_large(self, peak_mb: float) -> bool:
        """Whether a worker has held so much (caches of a library, for instance) that a fresh one should follow it."""
        return self.limits.memory_mb is not None and peak_mb > self.limits.memory_mb / 2

    def _take(self) -> WorkerProcess:
        with self._lock:
            if self._closed:
                raise RewardError(f"{self.target.shown} was closed", fix="score before closing it")
            if self._idle:
                process = self._idle.pop()
                self._busy.add(process)
                return process
        return self._start()

    def _start(self) -> WorkerProcess:
        shown = self.target.shown
        try:
            process = WorkerProcess(self.target, self._variables, self.limits.memory_mb)
        except OSError as error:
            raise RewardError(f"{shown}: no worker process can be started: {error}", fix="free memory") from error
        with self._lock:
            self._busy.add(process)
        try:
            answer = process.loaded()
            if "what" in answer:
                raise RewardError(f"reward {shown}: {answer['what']}", fix=str(answer["fix"]))
            description = Description(bool(answer["group"]), tuple(answer["columns"]))
        except TimedOut:
            self._discard(process)
            raise RewardError(f"reward {shown}: not loaded after {START_LIMIT:g} seconds", fix="import less") from None
        except Died as error:
            self._discard(process)
            raise RewardError(f"reward {shown}: its process {error} while loading", fix="mend its imports") from None
        except RewardError:
            self._discard(process)
            raise
        self._description = description
        return process

    def _give_back(self, process: WorkerProcess, *, retire: bool = False) -> None:
        with self._lock:
            self._busy.discard(process)
            if not self._closed and not retire:
                self._idle.append(process)
                return
        process.kill()

    def _discard(self, process: WorkerProcess) -> None:
        with self._lock:
            self._busy.discard(process)
        process.kill()

    def _replace(self, process: WorkerProcess) -> None:
        """Discard it; another one is started by the next call that needs one."""
        self._discard(process)
        with self._lock:
            self.counters.restarts += 1


_pools: WeakSet[WorkerPool] = WeakSet()


def _begin_after_fork() -> None:
    for pool in _pools:
        pool._begin()


os.register_at_fork(after_in_child=_begin_after_fork)


def _groups(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Records of one prompt are contiguous."""
    for _, group in groupby(records, key=lambda record: record.group_id):
        yield list(group)
