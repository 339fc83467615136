"""Bytes per parameter."""

from __future__ import annotations

import pytest

from groupwise.errors import RunFileError
from groupwise.planning.catalogue import find
from groupwise.planning.recipes import OURS, RECIPES, STORAGES, recipe, storage

PER_PARAMETER = {
    "seed": 10,
    "bf16": 12,
    "mixed": 16,
    "mixed-fp32-grads": 18,
    "fsdp-fp32": 16,
    "adamw-8bit": 10.03125,
    "fp32": 16,
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_trained_network(name):
    parts = recipe(name).network(10**6, 10**6)
    assert sum(parts.values()) == PER_PARAMETER[name] * 10**6
    assert ("master weights" in parts) == (name in ("mixed", "mixed-fp32-grads", "adamw-8bit"))


@pytest.mark.parametrize("name", RECIPES)
def test_a_frozen_network_is_its_weights_alone(name):
    assert recipe(name).network(10**6, 0) == {"weights": (4 if name == "fp32" else 2) * 10**6}


def test_adapters_leave_what_is_beneath_them_frozen():
    assert RECIPES["mixed"].network(1_010_000, 10_000) == {
        "weights": 2 * 1_010_000,
        "gradients": 20_000,
        "master weights": 40_000,
        "optimiser": 80_000,
    }
    assert OURS.network(1_010_000, 10_000)["weights"] == 4 * 1_010_000


def test_four_bits_hold_for_the_layers_matrices_alone():
    """Embeddings, output layer and norms stay in bfloat16: 39.5 GB at 70B, not the 36.4 of 4.127 bits throughout."""
    model = find("llama-3-70b")
    size = storage("nf4").size(model.parameters, model.shape.linear_parameters)
    assert size / 1e9 == pytest.approx(39.5, abs=0.05)
    assert storage("fp8").size(model.parameters, model.shape.linear_parameters) / 1e9 == pytest.approx(72.66, abs=0.01)
    assert STORAGES["bf16"].size(model.parameters) == 2 * model.parameters


def test_unknown_names_are_refused_with_those_that_are_known():
    with pytest.raises(RunFileError, match="'fp16' is unknown; use one of seed, bf16, mixed"):
        recipe("fp16")
    with pytest.raises(RunFileError, match="'int3' is unknown; use one of fp32, bf16, fp8, nf4"):
        storage("int3")
