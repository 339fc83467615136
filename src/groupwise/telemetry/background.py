"""Work beside the loop: jobs in a thread of their own, one after the other, none lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Queue

Job = Callable[[], None]


class Background:
    """Runs jobs in order, in one thread that starts with the first.

    At most one job waits while another runs: a loop that is faster than its recording waits for it, so memory stays as
    it is. What a job raises is raised by every later call, and no later job is run.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        """Wall-clock seconds that jobs have taken."""
        self._jobs: Queue[Job | None] = Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def put(self, job: Job) -> None:
        """Hand over a job, which must not be changed by what happens later; waits where one is waiting already."""
        self._raise()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="groupwise-recording", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def flush(self) -> None:
        """Wait until every job is done."""
        self._jobs.join()
        self._raise()

    def close(self) -> None:
        """Wait, end the thread, and raise nothing: flush before, where nothing went wrong elsewhere."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                self._jobs.task_done()
                return
            start = time.perf_counter()
            try:
                if self._error is None:
                    job()
            except BaseException as error:  # whatever it is, the loop must hear of it
                self._error = error
            self.seconds += time.perf_counter() - start
            self._jobs.task_done()
