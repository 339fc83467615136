"""What sandboxes of one process share: what they are made from, and user ids that no two of them have at once."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from groupwise.rewards.code import box, setup

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def test_threads_that_start_together_make_one_setup() -> None:
    setup.Setup._made.cache_clear()
    together = threading.Barrier(8)

    def make(_: int) -> setup.Setup:
        together.wait()
        return setup.Setup.make(("numpy",))

    before = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(make, range(8)))
    assert len({id(one) for one in made}) == 1
    assert len(os.listdir("/proc/self/fd")) == before + 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses user ids")
def test_no_two_sandboxes_have_one_user_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "USERS", 3)
    monkeypatch.setattr(box, "_taken", set())
    made = setup.Setup.make()
    held = box.Box(made, "program")
    for _ in range(5):
        other = box.Box(made, "program")
        assert other._user != held._user
        other.end()
    more = [box.Box(made, "program") for _ in range(2)]
    assert len({one._user for one in [held, *more]}) == 3
    before = os.listdir("/proc/self/fd")
    with pytest.raises(box.BoxError, match="3 sandboxes"):
        box.Box(made, "program")
    assert os.listdir("/proc/self/fd") == before
    held.end()
    again = box.Box(made, "program")
    assert again._user == held._user
    for one in [again, *more]:
        one.end()
    assert box._taken == set()
