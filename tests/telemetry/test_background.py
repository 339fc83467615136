"""Jobs beside the loop: in order, none lost, a bounded number waiting, errors heard."""

from __future__ import annotations

import threading

import pytest

from groupwise.telemetry.background import Background


def test_jobs_run_in_order_and_are_done_after_a_flush() -> None:
    background, done = Background(), []
    for number in range(20):
        background.put(lambda number=number: done.append(number))
    background.flush()
    assert done == list(range(20))
    assert background.seconds > 0
    background.close()
    background.put(lambda: done.append(20))
    background.close()
    assert done[-1] == 20


def test_who_is_faster_than_the_jobs_waits() -> None:
    background, gate, handed_over = Background(), threading.Event(), []

    def hand_over() -> None:
        for number in range(3):
            background.put(gate.wait)
            handed_over.append(number)

    loop = threading.Thread(target=hand_over)
    loop.start()
    loop.join(0.3)
    assert loop.is_alive() and handed_over == [0, 1], "one runs, one waits, the third has no place"
    gate.set()
    loop.join(10)
    background.close()
    assert handed_over == [0, 1, 2]


def test_an_error_is_raised_by_every_later_call_and_ends_the_work() -> None:
    background, done = Background(), []

    def fail() -> None:
        raise OSError("the disk is full")

    background.put(fail)
    with pytest.raises(OSError, match="the disk is full"):
        background.flush()
    with pytest.raises(OSError, match="the disk is full"):
        background.put(lambda: done.append(1))
    background.close()
    assert done == []


def test_nothing_to_do_needs_no_thread() -> None:
    before = threading.active_count()
    background = Background()
    background.flush()
    background.close()
    assert threading.active_count() == before
