"""Every completion of an evaluation, in files of the ledger's columns, so that a stopped evaluation goes on.

evaluation.json          what was asked of which model: another evaluation can't be mixed into the same folder
greedy/, samples/        step-000001.parquet, ...: some prompts each, complete or absent
results.json             what it amounts to, written at the end

A prompt is done where its group is recorded; which prompts share a file says nothing, since every draw has its own key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groupwise.errors import DataError, RunFolderError
from groupwise.evaluating.target import Target
from groupwise.models.sources import resolve
from groupwise.telemetry import ledger
from groupwise.telemetry.run_folder import write_atomically
from groupwise.types import Group, Prompt

IDENTITY, RESULTS = "evaluation.json", "results.json"


def identity_of(target: Target, samples: int, temperature: float, max_tokens: int) -> dict[str, Any]:
    """What the recorded completions depend on; not how many prompts there are, nor how they are summed up."""
    stage, model = target.stage, target.run.model
    return {
        "model": model.name,
        "weights": _fingerprint(target, resolve(model.name, lambda line: None)),
        "dtype": model.dtype,
        "task": stage.task.model_dump(mode="json"),
        "rewards": [reward.model_dump(mode="json") for reward in stage.rewards],
        "chat": stage.prompts.chat.model_dump(mode="json"),
        "seed": target.run.seed,
        "samples": samples,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }


def default_folder(label: str, identity: Mapping[str, Any]) -> Path:
    """`evals/NAME-DIGEST`: the same for the same evaluation, so that calling it again goes on."""
    name = re.sub(r"[^\w.+-]+", "-", label).strip("-.")
    return Path("evals") / f"{name}-{_digest(identity)}"


def digest_of(prompt: Prompt) -> str:
    """Of what is asked and what it is judged by."""
    return _digest([prompt.token_ids, json.dumps(dict(prompt.columns), default=str)])


class Records:
    """The folder of one evaluation."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """Make the folder, or go on in it. Raises `RunFolderError` where it holds something else."""
        self.folder, self.results = folder, folder / RESULTS
        file = folder / IDENTITY
        given = json.loads(json.dumps(identity))
        if file.is_file():
            known = json.loads(file.read_text("utf-8"))
            changed = [name for name in given if given[name] != known.get(name)]
            if changed:
                raise RunFolderError(
                    f"{folder} holds another evaluation: {changed[0]} is {_short(known.get(changed[0]))} there and "
                    f"{_short(given[changed[0]])} here",
                    fix="give another --out",
                )
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunFolderError(f"{folder} holds something that is no evaluation", fix="give another --out")
        else:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(file, json.dumps(given, indent=2) + "\n")
            except OSError as error:
                raise RunFolderError(f"can't write to {folder}: {error.strerror}", fix="give another --out") from error

    def done(self, kind: str, prompts: Sequence[Prompt]) -> dict[str, Group]:
        """The recorded groups of these prompts, by prompt id. Raises `DataError` where a prompt has changed since."""
        asked, found = {prompt.id: prompt for prompt in prompts}, {}
        for path in ledger.files(self.folder / kind).values():
            for group in ledger.read_groups(path):
                prompt = asked.get(group.prompt.id)
                if prompt is None:
                    continue
                if digest_of(prompt) != digest_of(group.prompt):
                    raise DataError(
                        f"prompt {prompt.id!r} is not the one that {path} holds an answer to: the data have changed",
                        fix="give another --out",
                    )
                found[prompt.id] = group
        return found

    def add(self, kind: str, step: int, groups: Sequence[Group], texts: Sequence[Sequence[str]]) -> None:
        """Write the groups of some prompts, all or none."""
        folder = self.folder / kind
        folder.mkdir(exist_ok=True)
        number = max(ledger.files(folder), default=0) + 1
        ledger.write(ledger.file_of(folder, number), step, kind, groups, texts, {}, {})


def _fingerprint(target: Target, source: str) -> str:
    """Of the weights' files by name, size and time; a name on the hub stands for itself."""
    folders = [Path(source)] if target.weights is None else [Path(source), target.weights]
    files = [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()) if path.is_file()]
    return _digest([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files])


def _digest(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=6).hexdigest()


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
