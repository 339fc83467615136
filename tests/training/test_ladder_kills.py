"""A run with a critic, several updates per rollout and a reference that follows, killed with SIGKILL."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from test_kills import REWARD, kill_at
from tiny_runs import Lines, outcome, same

import groupwise

STEPS = 10
RUN = """
model = { name = "builtin:tiny-char", dtype = "float32" }
task = "sums"
prompts = { per_step = 4 }
sampling = { group_size = 4, max_tokens = 6 }
evaluation = { prompts = 0 }
checkpoint = { every = 1, keep = 2 }
rewards = [{ name = "function", file = "reward.py", workers = 1 }]
critic = { learning_rate = 1e-3 }
optimizer = { learning_rate = 5e-4 }

[[stages]]
algorithm = { name = "value_pretraining", explained_variance = 1.0 }
steps = 2

[[stages]]
algorithm = { name = "ppo", beta = 0.1, reference_refresh = { every = 4, mixing = 0.5 } }
steps = 8
updates = { epochs = 2, minibatches = 2 }
"""


def everything(folder: Path) -> dict[str, str]:
    """The digests of all weights and optimisers at the end."""
    paths = sorted((folder / f"checkpoints/step-{STEPS}").iterdir())
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.suffix in (".safetensors", ".pt")
    }


# A rollout of the second stage begins at step 3, and another at 7.
@pytest.mark.slow
@pytest.mark.parametrize(("place", "step"), [("before the update", 3), ("before saving", 7), ("sampling", 2)])
def test_R010_a_killed_run_of_ppo_ends_as_the_unbroken_one(tmp_path: Path, place: str, step: int) -> None:
    (tmp_path / "reward.py").write_text(REWARD)
    run_file = tmp_path / "ppo.toml"
    run_file.write_text(RUN)
    unbroken = groupwise.train(run_file, out=tmp_path / "unbroken", display=Lines()).folder
    broken = tmp_path / "broken"
    kill_at(place, step, run_file, broken)
    lines = Lines()
    assert groupwise.resume(broken, display=lines).finished
    same(outcome(unbroken, STEPS), outcome(broken, STEPS))
    assert len(everything(unbroken)) == 5 and everything(unbroken) == everything(broken)
