"""The numbers here are compared in float64."""

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
