"""What other systems and papers mean by an algorithm's name, as values for its settings.

`preset = "trl-1.16"` lays that system's values under the keys that are given: they set the standard deviation and the
place of its epsilon, the KL, the clip range and the aggregation. A key beside it wins. Values that a preset doesn't
name are this library's own, and so is the rule that tied rewards give advantages of exactly 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

PresetName = Literal[
    "seed-formula",
    "seed-code",
    "deepseekmath",
    "trl-1.16",
    "verl",
    "openrlhf",
    "nemo-rl",
    "oat",
    "deepseek-r1",
    "dr-grpo-paper",
    "dapo-paper",
]

_K3 = {"kl_estimator": "k3", "kl_placement": "loss"}
_PRINTED = {**_K3, "beta": 0.04, "kl_gradient": "as_is", "clip_low": 0.2, "clip_high": 0.2}
_SEQ_MEAN = {"scale": "group", "aggregation": "seq-mean-token-mean", "denominator": "all"}
_TOKEN_MEAN = {"scale": "group", "aggregation": "token-mean", "clip_low": 0.2, "clip_high": 0.2}
_NO_KL = {"beta": 0.0, "clip_low": 0.2, "clip_high": 0.2}

PRESETS: dict[PresetName, dict[str, dict[str, Any]]] = {
    # Eq. 3 with sqrt(population variance + 1e-8).
    "seed-formula": {"grpo": {**_PRINTED, **_SEQ_MEAN, "std": "seed-formula"}},
    # The same with torch.std(...) + 1e-8 and no bound on log-ratios.
    "seed-code": {"grpo": {**_PRINTED, **_SEQ_MEAN, "std": "seed-code", "ratio_clamp": 0.0}},
    # The paper says "std"; exactly that.
    "deepseekmath": {"grpo": {**_PRINTED, **_SEQ_MEAN, "std": "exact"}},
    # GRPOTrainer's own defaults: one mean over all tokens of the step, no KL; k3 times the ratio where beta is set.
    "trl-1.16": {
        "grpo": {**_TOKEN_MEAN, **_K3, "std": "trl", "beta": 0.0, "kl_gradient": "unbiased", "ratio_clamp": 0.0},
        "dr_grpo": {**_NO_KL},
        "rloo": {"surrogate_form": "sequence_clip", "beta": 0.05, "clip_low": 0.2, "clip_high": 0.2},
    },
    # Dual clip is always on there.
    "verl": {
        "grpo": {**_TOKEN_MEAN, "std": "verl", "beta": 0.0, "dual_clip": 3.0},
        "dapo": {"std": "verl", "clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0, "aggregation": "token-mean"},
        "ppo": {
            **_NO_KL,
            "dual_clip": 3.0,
            "aggregation": "token-mean",
            "lam": 1.0,
            "value_clip": 0.5,
            "whiten_std": {"kind": "sample", "eps": 1e-8, "place": "inside"},
        },
        "cispo": {"std": "verl", "is_cap": 1.2, "is_floor": 0.8, "aggregation": "token-mean"},
    },
    # group_norm with the KL as a loss; PPO with k1 in the reward.
    "openrlhf": {
        "grpo": {**_TOKEN_MEAN, **_K3, "std": "openrlhf", "beta": 0.01, "kl_gradient": "as_is"},
        "ppo": {
            "beta": 0.01,
            "kl_estimator": "k1",
            "kl_placement": "reward",
            "clip_low": 0.2,
            "clip_high": 0.2,
            "aggregation": "token-mean",
            "lam": 1.0,
            "value_clip": 0.5,
        },
    },
    # Mean and standard deviation of the other completions; tied others divide by nothing.
    "nemo-rl": {
        "grpo": {
            **_TOKEN_MEAN,
            **_K3,
            "std": "nemo-rl",
            "baseline": "leave-one-out",
            "beta": 0.01,
            "kl_gradient": "as_is",
        }
    },
    "oat": {
        "grpo": {**_NO_KL, **_SEQ_MEAN, "std": "oat"},
        "dr_grpo": {**_NO_KL, "length_constant": 3000},
    },
    # DeepSeek-R1 (arXiv:2501.12948): ratios from below 0, which is no bound, up to 11.
    "deepseek-r1": {
        "grpo": {
            **_PRINTED,
            **_SEQ_MEAN,
            "std": "exact",
            "beta": 0.001,
            "clip_low": 10.0,
            "clip_high": 10.0,
            "reference_refresh": {"every": 400},
        }
    },
    "dr-grpo-paper": {"dr_grpo": {**_NO_KL, "length_constant": 3000}},
    "dapo-paper": {
        "dapo": {
            "std": "exact",
            "clip_low": 0.2,
            "clip_high": 0.28,
            "aggregation": "token-mean",
            "soft_overlong": {"max_length": 20480, "cache": 4096},
        }
    },
}


def with_preset(data: Mapping[str, Any], algorithm: str, optional: Collection[str] = ()) -> dict[str, Any]:
    """`data` with the values of the preset it names laid under its own keys.

    None for an `optional` key that the preset sets is refused: a run file has no None, so the effective run file
    would bring the preset's value back.
    """
    preset = data.get("preset")
    if preset is None or preset not in get_args(PresetName):
        return dict(data)
    values = PRESETS[preset].get(algorithm)
    if values is None:
        fitting = [name for name, table in PRESETS.items() if algorithm in table]
        fix = f"use one of {', '.join(fitting)}" if fitting else "leave preset out"
        raise ValueError(f"preset {preset!r} says nothing of {algorithm}; {fix}")
    for key in values:
        if key in optional and key in data and data[key] is None:
            raise ValueError(
                f"{key} = None beside preset {preset!r}, which sets it, can't be written to a run file; "
                "leave preset out and give the values you want"
            )
    return {**values, **data}
