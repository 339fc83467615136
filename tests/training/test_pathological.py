"""Training survives whatever a policy may say: recorded rollouts full of pathological completions are replayed, and
each of them is scored or said not to be, within its limits, while honest answers beside them are judged as ever."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import transformers as hf
from tiny_runs import metric_rows, rollouts
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import groupwise
from groupwise.models.loading import load_tokenizer
from groupwise.models.settings import ModelSettings
from groupwise.telemetry import ledger
from groupwise.telemetry.display import Silent
from groupwise.types import Completion, DrawKey, Group, Prompt, Score, Segment

DATA = Path(__file__).parents[1] / "data"
LONGEST = 700
"""Characters of a completion: each is a token here."""
BAD_PER_GROUP = 8


def cases(*names: str) -> Iterator[dict[str, Any]]:
    for name in names:
        with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama over bytes, so that completions can hold any text."""
    folder = tmp_path_factory.mktemp("bytes")
    vocabulary = ["<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(models.BPE({token: number for number, token in enumerate(vocabulary)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<eos>"])
    hf.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<eos>").save_pretrained(folder)
    config = hf.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=4096, bos_token_id=None, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    hf.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def record(folder: Path, model: Path, rows: Sequence[dict[str, Any]], texts: Sequence[Sequence[str]]) -> None:
    """Write one step's rollout: these completions for these rows."""
    tokenizer = load_tokenizer(ModelSettings(name=str(model)), say=lambda line: None)
    groups = []
    for row, completions in zip(rows, texts, strict=True):
        prompt = Prompt(row["id"], tuple(tokenizer(row["prompt"])["input_ids"]), row["prompt"])
        ids = [(*tokenizer(text)["input_ids"], tokenizer.eos_token_id) for text in completions]
        recorded = tuple(
            Completion((Segment(own, (-1.0,) * len(own)),), "stop", DrawKey(0, "train", 0, prompt.id, 0, sample))
            for sample, own in enumerate(ids)
        )
        groups.append(Group(f"{prompt.id}#0", prompt, recorded, (Score(0.0),) * len(recorded)))
    (folder / "rollouts").mkdir()
    ledger.write(ledger.file_of(folder / "rollouts", 1), 1, "0-grpo", groups, texts, {}, {})


def replayed(tmp_path: Path, model: Path, rows: list[dict[str, Any]], texts: list[list[str]], reward: Any) -> Path:
    """The folder of a run of one step on these completions."""
    record(tmp_path, model, rows, texts)
    run = {
        "steps": 1,
        "model": {"name": str(model), "dtype": "float32"},
        "engine": {"name": "replay", "path": str(tmp_path)},
        "algorithm": {"name": "grpo", "beta": 0.0},
        "prompts": {"per_step": len(rows), "max_tokens": 4096},
        "sampling": {"group_size": len(texts[0]), "max_tokens": 4096},
        "evaluation": {"prompts": 0},
        "rewards": [reward],
    }
    return groupwise.train(run, prompts=rows, out=tmp_path / "run", display=Silent()).folder


def check(folder: Path, bad: int) -> Counter[str]:
    """The step was taken, every completion stands in the ledger, and honest answers were told apart. The verdicts of
    the pathological ones."""
    (row,) = metric_rows(folder)
    assert row["status"] == "updated"
    recorded = rollouts(folder)
    groups = Counter(entry["prompt_id"] for entry in recorded)
    assert len(recorded) == bad + 2 * len(groups)
    verdicts: Counter[str] = Counter()
    for entry in recorded:
        verdict = "not scored" if entry["reward"] is None else "right" if entry["correct"] else "wrong"
        if entry["sample"] < 2:
            assert verdict == ("right", "wrong")[entry["sample"]], entry["reason"]
        else:
            assert entry["reason"]
            verdicts[verdict] += 1
    return verdicts


def in_groups(bad: Sequence[str], honest: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Groups of two honest completions, a right one and a wrong one, and eight bad ones."""
    assert len(bad) == BAD_PER_GROUP * len(honest)
    return [[*pair, *bad[BAD_PER_GROUP * number : BAD_PER_GROUP * (number + 1)]] for number, pair in enumerate(honest)]


def test_R062_a_step_on_200_pathological_answers_to_word_problems(tmp_path: Path, model: Path) -> None:
    hostile = [
        case["prediction"]
        for case in cases("math/verifier_cases.jsonl.gz", "math_cases_own.jsonl.gz")
        if case["kind"] == "adversarial" and not case["expected"] and len(case["prediction"]) <= LONGEST
    ]
    known = list(dict.fromkeys([*hostile, '\\boxed{__import__("os").system("touch /tmp/groupwise-was-here")}']))
    bad = (known * 200)[:200]
    golds = [case["gold"].rpartition("#### ")[2] for case in cases("math/gsm8k_solutions.jsonl.gz")]
    rows = [
        {"id": f"q{number}", "prompt": f"Problem {number}. How many?\n", "answer": gold}
        for number, gold in enumerate([gold for gold in golds if len(gold) == 3][:25])
    ]
    honest = [(f"So it is \\boxed{{{row['answer']}}}.", f"So it is \\boxed{{{row['answer']}1}}.") for row in rows]
    folder = replayed(tmp_path, model, rows, in_groups(bad, honest), {"name": "math", "workers": 2})
    verdicts = check(folder, len(bad))
    assert len(known) >= 40 and verdicts["right"] == 0, verdicts
    assert not Path("/tmp/groupwise-was-here").exists()


def programs(count: int) -> list[str]:
    """Programs that loop, bomb, flood, leak, forge or break; the shortest-lived first."""
    kinds = {"correct", "slow_correct", "unicode", "bignum", "float", "stdin"}
    found = [
        case["program"]
        for case in cases("code/sandbox_cases.jsonl.gz")
        if case["kind"] not in kinds and 0 < len(case["program"]) <= LONGEST
    ]
    return (found * count)[:count]


@pytest.mark.parametrize("count", [16, pytest.param(200, marks=pytest.mark.slow)])
def test_R004_a_step_on_pathological_programs(tmp_path: Path, model: Path, count: int) -> None:
    tasks = [case for case in cases("code/mbpp.jsonl.gz") if len(case["code"]) <= 300][: count // BAD_PER_GROUP]
    rows = [
        {"id": f"t{case['task_id']}", "prompt": case["text"] + "\n", "tests": case["test_list"],
         "setup": case["test_setup_code"]}
        for case in tasks
    ]  # fmt: skip
    fenced = "```python\n{}\n```".format
    honest = [(fenced(case["code"]), fenced(case["code"].replace("return ", "return not "))) for case in tasks]
    bad = [fenced(program) for program in programs(count)]
    reward = {"name": "code", "setup_column": "setup", "timeout_s": 1.0, "workers": 2}
    verdicts = check(replayed(tmp_path, model, rows, in_groups(bad, honest), reward), count)
    assert verdicts["right"] == 0 and verdicts["not scored"] == 0, verdicts
