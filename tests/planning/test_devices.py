"""The table of devices, and what is said to a name that isn't in it."""

from __future__ import annotations

import pytest

from groupwise.errors import UserError
from groupwise.planning.devices import DEVICES, find


@pytest.mark.parametrize(
    ("name", "memory", "bandwidth", "bfloat16"),
    [
        ("h200", 141e9, 4.8e12, 989e12),
        ("h100", 80e9, 3.35e12, 989e12),
        ("h20", 96e9, 4.0e12, 148e12),
        ("a100-80", 80e9, 2.039e12, 312e12),
        ("a100-40", 40e9, 1.555e12, 312e12),
        ("l40s", 47.6e9, 0.864e12, 362e12),
        ("4090", 24e9, 1.008e12, 165.2e12),
        ("3090", 24e9, 0.936e12, 71e12),
    ],
)
def test_data_sheets(name, memory, bandwidth, bfloat16):
    device = find(name.upper())
    assert (device.name, device.memory, device.bandwidth) == (name, memory, bandwidth)
    assert device.operations[2] == bfloat16 > device.operations[4]


def test_links_are_one_way_and_slower_than_memory():
    assert DEVICES["h100"].link == 450e9 and DEVICES["a100-80"].link == 300e9 and DEVICES["4090"].link == 32e9
    assert all(device.link < device.bandwidth for device in DEVICES.values())


@pytest.mark.parametrize(
    ("asked", "near"),
    [("a100", "a100-"), ("h100-sxm", "h100"), ("rtx 4090", "4090"), ("nvidia h200 nvl", "h200"), ("l40", "l40s")],
)
def test_unknown_names_get_near_ones(asked, near):
    with pytest.raises(UserError) as error:
        find(asked)
    assert (
        repr(asked) in str(error.value) and f"did you mean {near}" in error.value.fix and "\n" not in str(error.value)
    )


def test_names_like_nothing_get_the_list():
    with pytest.raises(UserError) as error:
        find("abacus")
    assert error.value.fix == "there are h200, h100, h20, a100-80, a100-40, l40s, 4090, 3090, cpu"
