"""The contract of engines, kept by the in-process one."""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace

import pytest
import torch

from groupwise.engines import torch as engine_module
from groupwise.engines.contract import Request, SamplingParams
from groupwise.engines.draws import stream, uniforms
from groupwise.engines.sampling import draw
from groupwise.engines.torch import TorchEngine, TorchEngineSettings
from groupwise.models import linear
from groupwise.models.attention import Scoring
from groupwise.types import DrawKey

PACKED_WEIGHT = linear.packed_weight
PROMPTS = ((3, 4, 5), (6,), (7, 8, 9, 10, 11), (12, 13), (3, 4, 6))


def key(prompt, sample, **changes):
    given = {"seed": 0, "purpose": "train", "stage": 0, "prompt_id": str(prompt), "visit": 0, "sample": sample}
    return DrawKey(**given | changes)


def requests(samples=3, max_tokens=9, temperature=1.0, **changes):
    """`samples` requests for each prompt, ids in order."""
    places = [(prompt, sample) for prompt in range(len(PROMPTS)) for sample in range(samples)]
    sampling = SamplingParams(temperature, max_tokens)
    return [
        Request(id, PROMPTS[prompt], sampling, key(prompt, sample, **changes))
        for id, (prompt, sample) in enumerate(places)
    ]


def run(policy, wanted, max_rows=64, version=0):
    """The completion of each request, by its id."""
    engine = TorchEngine(max_rows=max_rows)
    engine.load(policy, version)
    engine.submit(wanted)
    answers = engine.collect()
    assert sorted(id for id, _ in answers) == sorted(request.id for request in wanted)
    return dict(answers)


def tokens_of(finished):
    return {id: completion.token_ids for id, completion in finished.items()}


def forward_sizes(policy):
    """A list that gets the number of tokens of each forward of the model."""
    sizes = []
    policy.loaded.model.model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    return sizes


def test_a_completion_carries_key_version_and_one_log_prob_per_token(make_policy):
    wanted = requests()
    finished = run(make_policy(), wanted, version=7)
    for completion in finished.values():
        (segment,) = completion.segments
        assert segment.version == 7 and segment.trainable and segment.turn == 0
        assert len(segment.sampler_log_probs) == len(segment.token_ids) > 0
        assert all(log_prob < 0 for log_prob in segment.sampler_log_probs)
    assert [finished[request.id].key for request in wanted] == [request.key for request in wanted]


def test_the_same_seed_gives_the_same_completions_and_another_seed_others(make_policy):
    policy = make_policy()
    first, again, other = (run(policy, requests(seed=seed)) for seed in (0, 0, 1))
    assert first == again and tokens_of(first) != tokens_of(other)


@pytest.mark.parametrize("part", ["seed", "purpose", "stage", "visit", "turn"])
def test_every_part_of_the_key_reaches_the_draw(make_policy, part):
    policy = make_policy()
    changed = {part: "eval" if part == "purpose" else 5}
    assert tokens_of(run(policy, requests())) != tokens_of(run(policy, requests(**changed)))


@pytest.mark.parametrize("max_rows", [1, 2, 4, 7])
def test_draws_depend_neither_on_the_batch_nor_on_its_order(make_policy, max_rows):
    policy, wanted = make_policy(), requests()
    together = tokens_of(run(policy, wanted))
    assert len({len(tokens) for tokens in together.values()}) > 1
    shuffled = random.Random(0).sample(wanted, len(wanted))
    assert tokens_of(run(policy, shuffled, max_rows)) == together


def test_draws_are_the_same_alone(make_policy):
    policy, wanted = make_policy(), requests()
    together = tokens_of(run(policy, wanted))
    for request in wanted:
        assert tokens_of(run(policy, [request])) == {request.id: together[request.id]}


def test_requests_submitted_in_turns_are_collected_together(make_policy):
    policy, wanted = make_policy(), requests()
    engine = TorchEngine()
    engine.load(policy, 0)
    engine.submit(wanted[:4])
    engine.submit(wanted[4:])
    assert tokens_of(dict(engine.collect())) == tokens_of(run(policy, wanted))
    assert engine.collect() == []


def test_the_token_at_a_position_is_drawn_with_the_number_of_key_and_position(make_policy):
    policy, wanted = make_policy(stop_ids=()), requests(samples=2, temperature=1.3)
    plain = copy.deepcopy(policy.loaded.model)
    plain.set_attn_implementation("eager")
    for id, completion in run(policy, wanted).items():
        request, tokens = wanted[id], completion.token_ids
        row = torch.tensor([*request.prefix, *tokens])
        with torch.no_grad():
            logits = plain(input_ids=row[None], use_cache=False).logits[0, len(request.prefix) - 1 : -1]
        numbers = torch.from_numpy(uniforms([stream(request.key)] * len(tokens), range(len(tokens))))
        expected, log_probs = draw(logits, torch.full((len(tokens),), 1.3), numbers)
        assert expected.tolist() == list(tokens)
        assert completion.segments[0].sampler_log_probs == pytest.approx(log_probs.tolist(), abs=1e-5)


def test_R057_samples_of_a_group_differ_and_do_not_depend_on_the_number_of_processes(make_policy):
    policy = make_policy(stop_ids=(), initializer_range=0.02)
    sampling = SamplingParams(1.0, 24)
    group = [Request(sample, PROMPTS[0], sampling, key(0, sample)) for sample in range(4)]
    whole = tokens_of(run(policy, group))
    assert len(set(whole.values())) == 4 and all(len(tokens) == 24 for tokens in whole.values())
    assert tokens_of(run(policy, group)) == whole
    assert tokens_of(run(policy, group[:2])) | tokens_of(run(make_policy((), 0, 0.02), group[2:])) == whole


def test_temperature_is_that_of_each_request_and_zero_is_greedy(make_policy):
    policy = make_policy(stop_ids=())
    temperatures = [0.0, 0.5, 1.0, 1.3, 0.0]
    wanted = [Request(n, PROMPTS[0], SamplingParams(t, 8), key(0, n)) for n, t in enumerate(temperatures)]
    together = run(policy, wanted)
    for request in wanted:
        (alone,) = run(policy, [request]).values()
        completion = together[request.id]
        assert completion.token_ids == alone.token_ids
        assert completion.segments[0].sampler_log_probs == pytest.approx(alone.segments[0].sampler_log_probs, abs=2e-5)
    assert together[0].token_ids == together[4].token_ids
    assert together[0].segments[0].sampler_log_probs == (0.0,) * 8


def test_each_row_has_its_own_limit(make_policy):
    policy = make_policy(stop_ids=())
    limits = [1, 6, 2, 5]
    wanted = [Request(n, PROMPTS[n], SamplingParams(1.0, limit), key(n, 0)) for n, limit in enumerate(limits)]
    finished = run(policy, wanted, max_rows=2)
    assert [len(finished[n].token_ids) for n in range(4)] == limits
    assert {completion.finish_reason for completion in finished.values()} == {"length"}


def scripted(script, stop_ids):
    """A policy whose most likely token at the t-th place after a prompt of two tokens is script[t]."""

    class Scripted:
        packed_weights = linear.PackedWeights(torch.nn.Module())
        head = SimpleNamespace(logits=lambda hidden: torch.eye(20)[torch.tensor(script)[hidden[:, 0].long()]])

        def hidden(self, token_ids, positions, layout):
            state = torch.zeros(1, 1, len(token_ids), 2)
            layout(0, state, state, state, Scoring(None, None, None))
            return (positions - 1).clamp(0)[:, None]

    return SimpleNamespace(forward=Scripted(), device=torch.device("cpu"), stop_ids=stop_ids)


@pytest.mark.parametrize(
    "script, reason, length",
    [
        ([3, 4, 7, 5, 5], "stop", 3),
        ([5, 6, 3, 7, 5], "stop", 4),
        ([5, 6, 3, 4, 7], "length", 4),
        ([5, 9, 7, 3, 3], "stop", 2),
        ([9, 5, 5, 5, 5], "stop", 1),
    ],
)
def test_R048_any_stop_id_ends_a_completion_and_is_its_last_token(script, reason, length):
    (completion,) = run(scripted(script, (7, 9)), [Request(0, (1, 1), SamplingParams(0.0, 4), key(0, 0))]).values()
    assert list(completion.token_ids) == script[:length] and completion.finish_reason == reason


def test_R005_a_stop_id_in_the_prompt_or_one_that_also_pads_changes_nothing():
    (completion,) = run(
        scripted([5, 6, 2, 2, 2], (2,)), [Request(0, (2, 2), SamplingParams(0.0, 5), key(0, 0))]
    ).values()
    assert completion.token_ids == (5, 6, 2) and completion.finish_reason == "stop"


def test_finished_rows_leave_the_batch_at_once(make_policy):
    policy = make_policy(stop_ids=())
    sizes = forward_sizes(policy)
    wanted = [Request(n, PROMPTS[0], SamplingParams(1.0, n + 1), key(0, n)) for n in range(6)]
    run(policy, wanted)
    assert sizes == [len(PROMPTS[0]), 5, 4, 3, 2, 1]  # the prompt's pass gives every first token


def test_waiting_groups_take_the_place_of_finished_rows(make_policy):
    policy = make_policy(stop_ids=())
    sizes = forward_sizes(policy)
    limits = [2, 4, 4, 3]
    wanted = [Request(n, PROMPTS[n], SamplingParams(1.0, limit), key(n, 0)) for n, limit in enumerate(limits)]
    run(policy, wanted, max_rows=2)
    prefill = [len(prompt) for prompt in PROMPTS]
    assert sizes == [prefill[0] + prefill[1], 2, prefill[2], 2, 2, prefill[3], 2, 1]


def test_the_prompt_of_a_group_is_computed_once(make_policy):
    policy = make_policy(stop_ids=())
    sizes = forward_sizes(policy)
    run(policy, [Request(n, PROMPTS[2], SamplingParams(1.0, 2), key(2, n)) for n in range(8)])
    assert sizes == [len(PROMPTS[2]), 8]


def test_a_group_larger_than_the_batch_is_sampled_in_parts(make_policy):
    policy = make_policy(stop_ids=())
    sizes = forward_sizes(policy)
    wanted = [Request(n, PROMPTS[1], SamplingParams(1.0, 3), key(1, n)) for n in range(5)]
    finished = run(policy, wanted, max_rows=2)
    assert max(sizes) == 2 and tokens_of(finished) == tokens_of(run(policy, wanted))


def test_load_changes_the_weights_that_are_seen(make_policy):
    one, two = make_policy(seed=0), make_policy(seed=1)
    engine, wanted = TorchEngine(), requests()
    results = []
    for policy, version in ((one, 1), (two, 2), (one, 3)):
        engine.load(policy, version)
        engine.submit(wanted)
        results.append(dict(engine.collect()))
    first, second, third = (tokens_of(result) for result in results)
    assert first == third != second
    versions = [{segment.version for c in result.values() for segment in c.segments} for result in results]
    assert versions == [{1}, {2}, {3}]


def test_a_change_of_the_weights_in_place_is_seen_at_once(make_policy):
    policy, other = make_policy(seed=0), make_policy(seed=1)
    policy.loaded.model.load_state_dict(other.loaded.model.state_dict())
    assert tokens_of(run(policy, requests())) == tokens_of(run(other, requests()))


def test_ids_in_flight_are_unique(make_policy):
    engine = TorchEngine()
    engine.load(make_policy(), 0)
    request = requests()[0]
    engine.submit([request])
    with pytest.raises(AssertionError, match="submitted twice"):
        engine.submit([request])
    engine.collect()
    with pytest.raises(AssertionError, match="submitted twice"):
        engine.submit([request, request])
    engine.submit([request])
    assert [id for id, _ in engine.collect()] == [request.id]


def test_sampling_records_no_gradient_and_leaves_none(make_policy):
    policy = make_policy()
    run(policy, requests())
    assert all(parameter.grad is None for parameter in policy.loaded.model.parameters())


def test_settings_build_the_engine():
    assert TorchEngineSettings(max_rows=5).build().max_rows == 5


@pytest.mark.parametrize("pack_at", [1, 3])
def test_packed_weights_change_nothing_but_rounding(make_policy, monkeypatch, pack_at):
    """The rollout is the same to the token as one that never packs, and nothing stays packed."""
    policy = make_policy()
    monkeypatch.setattr(linear, "SMALLEST", 1)
    monkeypatch.setattr(engine_module, "PACK_AT", 10**9)
    expected = run(policy, requests())
    monkeypatch.setattr(engine_module, "PACK_AT", pack_at)
    packed = []
    monkeypatch.setattr(linear, "packed_weight", lambda *of: packed.append(0) or PACKED_WEIGHT(*of))
    actual = run(policy, requests())
    assert len(packed) == len(policy.forward.packed_weights._layers) > 0
    assert tokens_of(actual) == tokens_of(expected)
    for id, completion in actual.items():
        ours, theirs = (torch.tensor(one.segments[0].sampler_log_probs) for one in (completion, expected[id]))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert policy.forward.head.packed is None
