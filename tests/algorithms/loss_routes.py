"""Vectors of losses, gradients and coefficients, through `groupwise.evaluate`."""

from __future__ import annotations

import math

import pytest
import torch
from algorithm_cases import F1, F1_REWARDS, VECTORS, assert_close, f1_arrays, tensor

import groupwise
from groupwise.core.masks import drop_nonfinite
from groupwise.core.rows import pack_rows, pack_values
from groupwise.errors import NonFiniteLogprobError

SETTING_OF = {
    "eps_low": "clip_low",
    "eps_high": "clip_high",
    "norm_len": "length_constant",
    "log_clip_low": "clip_low",
    "log_clip_high": "clip_high",
    "mu": "nll_coefficient",
}
ARRAY_OF = {
    "logp": "log_probs",
    "old_logp": "old_log_probs",
    "ref_logp": "ref_log_probs",
    "rollout_logp": "sampler_log_probs",
    "mask": "completion_mask",
    "group": "group_ids",
    "advantages": "advantages",
    "rewards": "rewards",
    "correct": "correct",
    "truncated": "truncated",
}
NAME_OF = {"tis_mis": "ppo", "grpo_process": "grpo", "numerics": "grpo", "invariants": "grpo"}


def arrays(inputs):
    return {name: inputs[key] for key, name in ARRAY_OF.items() if key in inputs}


def settings_of(config):
    return {SETTING_OF.get(key, key): value for key, value in config.items()}


def check(result, vector):
    expected, tol = vector["expected"], vector["tol"]
    assert_close(result.loss, expected["loss"], tol)
    assert_close(result.gradient, expected["dloss_dlogp"], tol)
    assert_close(-result.weights * result.coefficient, result.gradient, 1e-12)
    if "gradient_coefficient" in expected:
        assert_close(result.coefficient, expected["gradient_coefficient"], tol)
    if "clipped" in expected and isinstance(expected["clipped"][0], list):
        fraction = result.metrics["clip_fraction_low"] + result.metrics["clip_fraction_high"]
        assert_close(fraction, (tensor(expected["clipped"]).sum() / tensor(F1["mask"]).sum()).item())


def plain(vector, name=None, drop=(), **changes):
    """The vector's own arrays and settings, as they stand."""
    given = {key: value for key, value in arrays(vector["inputs"]).items() if key not in drop}
    name = name or NAME_OF.get(vector["algorithm"], vector["algorithm"])
    result = groupwise.evaluate(name, **{**given, **settings_of(vector["config"]), **changes})
    check(result, vector)
    return result


def no_kl(vector):
    plain(vector, beta=0)


def grpo_from_rewards(vector):
    """With the vector's advantages, and with the rewards that they come from."""
    given = plain(vector)
    result = plain(vector, advantages=None, rewards=F1_REWARDS, std="exact")
    assert torch.equal(given.gradient, result.gradient)
    policy = plain_loss(vector, beta=0)
    assert_close(policy, vector["expected"]["policy_part"], vector["tol"])
    if vector["config"]["beta"]:
        kl = (plain_loss(vector) - policy) / vector["config"]["beta"]
        assert_close(kl, vector["expected"]["kl_mean"], 1e-8)


def plain_loss(vector, **changes):
    name = NAME_OF.get(vector["algorithm"], vector["algorithm"])
    return groupwise.evaluate(name, **{**arrays(vector["inputs"]), **settings_of(vector["config"]), **changes}).loss


def seed_code(vector):
    beta = vector["config"]["beta"]
    check(groupwise.evaluate("grpo", **f1_arrays(), rewards=F1_REWARDS, preset="seed-code", beta=beta), vector)
    check(groupwise.evaluate("grpo", **arrays(vector["inputs"]), preset="seed-code"), vector)


def degenerate(vector):
    plain(vector)
    result = plain(vector, advantages=None, rewards=[0.3] * 4)
    assert result.metrics["frac_degenerate_groups"] == 1


def after_refresh(vector):
    rows = {**f1_arrays(), "old_log_probs": F1["logp"], "ref_log_probs": F1["logp"]}
    result = groupwise.evaluate("grpo", **rows, advantages=F1["advantages"], beta=vector["config"]["beta"])
    without = groupwise.evaluate("grpo", **rows, advantages=F1["advantages"], beta=0)
    assert_close(result.gradient, vector["expected"]["dloss_dlogp"], vector["tol"])
    assert result.metrics["kl_k3"] == vector["expected"]["kl"] and torch.equal(result.gradient, without.gradient)


def process_loss(vector):
    ends = [[end - 1 for end in ends] for ends in vector["inputs"]["step_end_index_1based"]]
    steps = {"step_rewards": vector["inputs"]["step_rewards"], "step_ends": ends}
    result = plain(vector, drop=("advantages",), **steps, supervision="process", std="exact")
    assert_close(result.advantages, vector["inputs"]["advantages"], vector["tol"])
    plain(vector, supervision="process")


def dr_grpo(vector):
    plain(vector)
    plain(vector, advantages=None, rewards=F1_REWARDS)


def filtered(vector):
    plain(vector)
    plain(vector, advantages=None, rewards=F1_REWARDS, correct=[True, False, True, False], std="exact")


def sft(vector):
    plain(vector)


def rft_all(vector):
    plain(vector)
    plain(vector, "online_rft")


def rft_filtered(vector):
    kept = plain(vector)
    everything = groupwise.evaluate("rft", **arrays(vector["inputs"]), denominator="all")
    assert_close(kept.loss / everything.loss, vector["expected"]["scale_vs_all"], vector["tol"])


def rft_none(vector):
    for name in ("rft", "online_rft"):
        result = groupwise.evaluate(name, **f1_arrays(), correct=vector["inputs"]["correct"])
        assert result.loss == vector["expected"]["loss"] and (result.gradient == 0).all()


def dpo(vector):
    inputs, expected = vector["inputs"], vector["expected"]
    chosen, rejected = len(inputs["chosen_logp"]), len(inputs["rejected_logp"])
    width = max(chosen, rejected)

    def rows(*names):
        return [inputs[name] + [0.0] * (width - len(inputs[name])) for name in names]

    result = groupwise.evaluate(
        "dpo",
        log_probs=rows("chosen_logp", "rejected_logp"),
        ref_log_probs=rows("chosen_ref", "rejected_ref"),
        completion_mask=[[1] * length + [0] * (width - length) for length in (chosen, rejected)],
        pair_ids=["a", "a"],
        **vector["config"],
    )
    assert_close(result.loss, expected["loss"], vector["tol"])
    assert_close(result.gradient[0, :chosen], expected["dloss_dchosen"], vector["tol"])
    assert_close(result.gradient[1, :rejected], expected["dloss_drejected"], vector["tol"])
    assert_close(result.metrics["margin"], expected["margin"], vector["tol"])
    push = vector["config"]["beta"] * expected["sigma_neg_margin"]
    assert_close(result.coefficient[:, 0], [push, -push], vector["tol"])


def pair(margin, beta):
    """A pair of one token each with this margin."""
    log_probs = [[margin / beta - 1000.0], [-1000.0]]
    return groupwise.evaluate("dpo", log_probs=log_probs, ref_log_probs=[[-1000.0]] * 2, pair_ids=[0, 0], beta=beta)


def dpo_at_init(vector):
    result = pair(0.0, vector["inputs"]["beta"])
    assert_close(result.loss, vector["expected"]["loss"], vector["tol"])
    sides = [vector["expected"]["dloss_dchosen_token"], vector["expected"]["dloss_drejected_token"]]
    assert_close(result.gradient[:, 0], sides, vector["tol"])


def dpo_extreme(vector):
    for margin, loss in zip(vector["inputs"]["margins"], vector["expected"]["loss"], strict=True):
        assert pair(margin, 1.0).loss == pytest.approx(loss, rel=1e-12)


def dual_clip(vector):
    config = settings_of(vector["config"])
    for (log_ratio, advantage), expected in zip(
        vector["inputs"]["cases"], vector["expected"]["loss_and_grad"], strict=True
    ):
        rows = {"log_probs": [[log_ratio - 5]], "old_log_probs": [[-5.0]], "advantages": [advantage]}
        for name in ("ppo", "grpo"):
            result = groupwise.evaluate(name, **rows, **config, beta=0)
            assert_close([result.loss, result.gradient.item()], expected, vector["tol"])
            assert_close(-result.coefficient, result.gradient)


def clip_truth_table(vector):
    bounds = {"clip_low": vector["inputs"]["eps_low"], "clip_high": vector["inputs"]["eps_high"]}
    for row in vector["expected"]["rows"]:
        rows = {"log_probs": [[row["log_ratio"] - 1]], "old_log_probs": [[-1.0]], "advantages": [row["A"]]}
        result = groupwise.evaluate("grpo", **rows, **bounds, beta=0)
        assert_close([result.loss, result.gradient.item()], [row["loss"], row["grad"]], vector["tol"])
        clipped = [result.metrics["clip_fraction_low"], result.metrics["clip_fraction_high"]]
        assert clipped == [row["grad"] == 0 and row["A"] < 0, row["grad"] == 0 and row["A"] > 0]


def gspo(vector):
    result = plain(vector)
    assert_close(result.metrics["ratio_max"], max(vector["expected"]["seq_ratio"]), 1e-10)
    clipped = tensor(vector["expected"]["clipped"]) * tensor(F1["mask"]).sum(1)
    fraction = result.metrics["clip_fraction_low"] + result.metrics["clip_fraction_high"]
    assert_close(fraction, (clipped.sum() / tensor(F1["mask"]).sum()).item())


def gspo_token_equal(vector):
    token = plain(vector)
    whole = groupwise.evaluate("gspo", **arrays(vector["inputs"]), **settings_of(vector["config"]))
    assert_close(token.loss, whole.loss)
    assert_close(token.gradient, whole.gradient)


def cispo(vector):
    config = dict(vector["config"])
    low, high = config.pop("eps_is_low"), config.pop("eps_is_high")
    bounds = {"is_cap": 1 + high, "is_floor": None if low is None else 1 - low}
    result = groupwise.evaluate("cispo", **arrays(vector["inputs"]), **config, **bounds)
    check(result, vector)
    weights = result.coefficient / tensor(F1["advantages"])[:, None]
    assert_close(weights, vector["expected"]["weights"], vector["tol"])


def gmpo(vector):
    result = plain(vector)
    assert_close(result.metrics["ratio_max"], max(vector["expected"]["geo_ratio"]), 1e-10)


def sapo(vector):
    result = plain(vector)
    gates = tensor(vector["expected"]["gate_weight"])
    assert_close(result.metrics["gate_weight"], (gates.sum() / tensor(F1["mask"]).sum()).item(), vector["tol"])


def rloo(vector):
    form = "sequence_clip" if "eps_low" in vector["config"] else "reinforce"
    result = plain(vector, drop=("advantages",), surrogate_form=form)
    mask = tensor(F1["mask"])
    assert_close(result.advantages[:, 0], vector["expected"]["advantages"], vector["tol"])
    assert ((result.advantages != 0) == (mask > 0)).all()
    if "kl_seq" in vector["expected"]:
        assert_close(result.metrics["kl_per_completion"], tensor(vector["expected"]["kl_seq"]).mean(), vector["tol"])
    if "seq_ratio" in vector["expected"]:
        assert_close(result.metrics["ratio_max"], max(vector["expected"]["seq_ratio"]), 1e-10)


def reinforce_pp(vector):
    config = vector["config"]
    std = {"kind": config["std"], "eps": config["eps"], "place": config["eps_mode"]}
    rows = {name: value for name, value in arrays(vector["inputs"]).items() if name != "advantages"}
    result = groupwise.evaluate("reinforce_pp", **rows, std=std, beta=config["beta"], gamma=config["gamma"])
    assert_close(result.advantages, vector["expected"]["advantages"], vector["tol"])


def vapo(vector):
    result = plain(vector)
    imitated = tensor(vector["inputs"]["correct"]).bool()
    surrogate = groupwise.evaluate(
        "vapo", **{**arrays(vector["inputs"]), **settings_of(vector["config"]), "nll_coefficient": 0}
    )
    if "ppo_part" in vector["expected"]:
        assert_close(surrogate.loss, vector["expected"]["ppo_part"], vector["tol"])
        nll = (result.loss - surrogate.loss) / vector["config"]["mu"]
        assert_close(nll, vector["expected"]["nll_part"], 1e-9)
    else:
        assert not imitated.any() and result.loss == surrogate.loss


def corrected(vector):
    config = {key: value for key, value in vector["config"].items() if key not in ("correction", "C")}
    correction = {"kind": vector["config"]["correction"], "cap": vector["config"]["C"]}
    for name in ("ppo", "grpo"):
        plain({**vector, "config": config}, name, correction=correction, beta=0)


def on_policy(vector):
    for name in ("grpo", "gspo", "gspo_token", "gmpo", "sapo"):
        for old in (F1["logp"], None):
            rows = {**f1_arrays(), "old_log_probs": old, "advantages": F1["advantages"]}
            result = groupwise.evaluate(name, **rows, beta=0)
            assert_close(result.gradient, vector["expected"]["dloss_dlogp"], vector["tol"])


def unclipped(vector):
    for name in ("gmpo", "gspo"):
        plain(vector, name, clip_low=1e3, clip_high=1e3)


def length_bias(vector):
    lengths, constant = vector["inputs"]["lengths"], vector["inputs"]["L"]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    for name, settings in (("grpo", {"beta": 0}), ("dapo", {}), ("dr_grpo", {"length_constant": constant})):
        result = groupwise.evaluate(name, completion_mask=mask, advantages=[-1.0, -1.0], **settings)
        assert_close((result.weights * result.coefficient)[:, 0], vector["expected"][name], vector["tol"])


def masked_nan(vector):
    base = VECTORS[vector["inputs"]["base"]]
    padding = tensor(F1["mask"]) == 0
    wide = torch.cat([tensor(F1["mask"]), torch.zeros(4, 1), torch.ones(4, 1)], 1)  # a masked token inside

    def widened(name, poison):
        rows = tensor(F1[name]).masked_fill(padding, poison)
        return torch.cat([rows, torch.full((4, 1), poison), torch.full((4, 1), -1.0)], 1)

    for poison in map(float, vector["inputs"]["poison"]):
        rows = {ARRAY_OF[name]: widened(name, poison) for name in ("logp", "old_logp", "ref_logp")}
        result = plain(base, **{name: value[:, :4] for name, value in rows.items()})
        assert (result.gradient[padding] == 0).all()
        rest = {"completion_mask": wide, "advantages": F1["advantages"], **settings_of(base["config"])}
        poisoned = groupwise.evaluate("grpo", **rows, **rest)
        clean = {name: value.nan_to_num(0, 0, 0) for name, value in rows.items()}
        expected = groupwise.evaluate("grpo", **clean, **rest)
        assert poisoned.loss == expected.loss and torch.equal(poisoned.gradient, expected.gradient)
        assert (poisoned.gradient[wide == 0] == 0).all()


def unmasked_neginf(vector):
    rows = {"log_probs": [[float(value) for value in vector["inputs"]["logp"]]], "advantages": [1.0]}
    rows["completion_mask"] = [vector["inputs"]["mask"]]
    with pytest.raises(NonFiniteLogprobError, match="log_probs is -inf at token 1 of completion 0"):
        groupwise.evaluate("grpo", **rows, beta=0)
    result = groupwise.evaluate("grpo", **rows, beta=0, on_nonfinite="drop")
    assert result.loss == -0.5 and result.gradient.tolist() == [[-0.5, 0.0]]
    assert result.metrics["nonfinite_fraction"] == vector["expected"]["dropped"] / 2
    batch = pack_rows(rows["completion_mask"])
    kept, dropped = drop_nonfinite(batch, pack_values(rows["log_probs"], rows["completion_mask"]))
    assert kept.loss_mask.tolist() == vector["expected"]["drop_mask"] and dropped == vector["expected"]["dropped"]


def all_masked(vector):
    rows = {"log_probs": [[-1.0, -1.0]] * 2, "ref_log_probs": [[-2.0, -2.0]] * 2, "rewards": [1.0, 0.0]}
    for name, settings in (
        ("grpo", {}),
        ("grpo", {"aggregation": "token-mean", "denominator": "nonempty"}),
        ("sft", {}),
    ):
        result = groupwise.evaluate(name, **rows, completion_mask=vector["inputs"]["mask"], **settings)
        assert result.loss == vector["expected"]["loss"] and result.gradient.tolist() == vector["expected"]["grad"]


def empty_completion(vector):
    for denominator, expected in vector["expected"].items():
        plain({**vector, "expected": expected}, beta=0, denominator=denominator)


def microbatch(vector):
    whole = groupwise.evaluate("grpo", **arrays(vector["inputs"]), beta=0, aggregation="token-mean")
    assert_close(whole.loss, vector["expected"]["correct"], vector["tol"])
    parts = []
    for part in (slice(0, 2), slice(2, 4)):
        rows = {name: value[part] for name, value in arrays(vector["inputs"]).items()}
        parts.append(groupwise.evaluate("grpo", **rows, beta=0, aggregation="token-mean").loss)
    assert_close(sum(parts) / 2, vector["expected"]["wrong_mean_of_means"], vector["tol"])  # each on its own


def gc_table(vector):
    one = {"log_probs": [[-1.6]], "ref_log_probs": [[-1.0]]}
    expected = vector["expected"]
    assert groupwise.evaluate("sft", **one).coefficient.item() == expected["sft"]
    for name, key in (("rft", "rft"), ("online_rft", "onrft")):
        for correct, suffix in ((True, "correct"), (False, "incorrect")):
            result = groupwise.evaluate(name, **one, correct=[correct])
            assert result.coefficient.item() == expected[f"{key}_{suffix}"]
    assert_close(groupwise.evaluate("ppo", **one, advantages=[0.7]).coefficient.item(), expected["ppo_A"])
    for beta, key in ((0.04, "grpo"), (0, "grpo_beta0")):
        result = groupwise.evaluate("grpo", **one, advantages=[-1.0], beta=beta)
        assert_close(result.coefficient.item(), expected[key], vector["tol"])
    assert_close(pair(0.08, 0.1).coefficient[0, 0], expected["dpo_sum"], 1e-11)
    assert math.isclose(pair(0.08, 0.1).metrics["margin"], 0.08, rel_tol=1e-9)


LOSSES = {
    **dict.fromkeys(("sft_seq", "sft_token"), sft),
    "rft_indicator_all": rft_all,
    "rft_filtered": rft_filtered,
    "rft_none_correct": rft_none,
    **dict.fromkeys(("dpo_basic_sum", "dpo_basic_mean", "dpo_wrong_order_sum", "dpo_wrong_order_mean"), dpo),
    "dpo_at_init": dpo_at_init,
    "dpo_extreme": dpo_extreme,
    **dict.fromkeys(("ppo_clip_token", "ppo_clip_seq", "ppo_clip_token_adv"), no_kl),
    "ppo_dual_clip": dual_clip,
    "clip_truth_table": clip_truth_table,
    **dict.fromkeys(("grpo_outcome_beta0.0", "grpo_outcome_beta0.04"), grpo_from_rewards),
    "grpo_on_policy_gc": plain,
    "grpo_seed_code": seed_code,
    "grpo_degenerate_group_keeps_kl": degenerate,
    "grpo_after_ref_refresh": after_refresh,
    "grpo_iw_k3": plain,
    "grpo_process_loss": process_loss,
    "dr_grpo": dr_grpo,
    "dapo": plain,
    "dapo_overlong_filter": filtered,
    "dapo_group_token_mean": plain,
    **dict.fromkeys(("gspo_f1", "gspo_small"), gspo),
    "gspo_token_equals_gspo": gspo_token_equal,
    "gspo_token_adv": plain,
    **dict.fromkeys(("cispo_paper_one_sided", "cispo_two_sided_verl"), cispo),
    **dict.fromkeys(("gmpo_0.34", "gmpo_0.45"), gmpo),
    "sapo": sapo,
    **dict.fromkeys(("rloo_reinforce", "rloo_clipped_sequence"), rloo),
    **dict.fromkeys(("rfpp_population", "rfpp_sample"), reinforce_pp),
    **dict.fromkeys(("vapo_loss", "vapo_no_positive"), vapo),
    **dict.fromkeys(("corr_grpo_tis_token", "corr_grpo_mis_seq"), corrected),
    "inv_on_policy_gradient": on_policy,
    "inv_gmpo_unclipped_is_gspo_unclipped": unclipped,
    "inv_length_bias": length_bias,
    "num_masked_nan": masked_nan,
    "num_unmasked_neginf": unmasked_neginf,
    "num_all_masked": all_masked,
    "num_empty_completion": empty_completion,
    "num_microbatch_invariance": microbatch,
    "gc_table": gc_table,
}
"""Vectors whose route is the loss, gradient or coefficient of `groupwise.evaluate`."""
