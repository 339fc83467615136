"""Every numeric vector by its id: one table says by which route each is checked."""

from __future__ import annotations

import pytest
from advantage_routes import ADVANTAGES, f1_rewards_give_f1_advantages
from algorithm_cases import VECTORS
from core_routes import CORE
from loss_routes import LOSSES

ROUTES = {**LOSSES, **ADVANTAGES, **CORE}

MEMORY = {id for id in VECTORS if id.startswith("mem_") or id == "models_in_memory"}
"""Memory belongs to planning, not to algorithms."""


@pytest.mark.parametrize("id", ROUTES)
def test_vector(id):
    ROUTES[id](VECTORS[id])


def test_every_vector_has_one_route():
    assert len(MEMORY) == 9
    assert set(ROUTES) == set(VECTORS) - MEMORY
    assert len(ROUTES) == len(LOSSES) + len(ADVANTAGES) + len(CORE)


def test_f1_rewards_give_f1_advantages():
    f1_rewards_give_f1_advantages()
