"""What the tests of training share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """So small a model is quickest with one; and a resumed run leaves the number that it began with."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rewards made in a test run in process; the warning about that has a test of its own."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:reward .* runs in this process:UserWarning"))
