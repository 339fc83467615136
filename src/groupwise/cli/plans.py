"""`groupwise plan`: what a run takes, before anything is paid for."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from groupwise.cli.app import SetOption, app, user_errors

if TYPE_CHECKING:
    from groupwise.planning.plan import Plan


@app.command()
def plan(
    run: Annotated[
        str | None, typer.Argument(help="A run file or the name of a packaged run.", metavar="[RUN]")
    ] = None,
    settings: SetOption = None,
    model: Annotated[
        str | None, typer.Option(help="Without a run: a model such as qwen2.5-7b, a folder, or a config.json.")
    ] = None,
    algorithm: Annotated[str | None, typer.Option(help="Without a run: the algorithm; grpo if none is given.")] = None,
    accounting: Annotated[
        str | None, typer.Option(help="What a parameter takes: seed, mixed, bf16, adamw-8bit, fsdp-fp32, fp32 ...")
    ] = None,
    parameters: Annotated[
        float | None, typer.Option(min=1, help="Parameters in place of the model's own, e.g. 70e9.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="h200, h100, a100-80, 4090 ...; cpu: this machine.")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="How many train, and sample in turn.")] = 1,
    engine_gpus: Annotated[int, typer.Option(min=0, help="How many more sample, apart from those.")] = 0,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="How many hold one copy while training.")] = 1,
    reward_models: Annotated[
        int | None, typer.Option(min=0, help="Learned ones; without a run 1 for ppo, else 0.")
    ] = None,
    lora: Annotated[int | None, typer.Option(min=1, help="Rank of adapters, all else frozen.")] = None,
    base: Annotated[str | None, typer.Option(help="How weights beneath adapters are stored: bf16, fp8, nf4.")] = None,
    prompts: Annotated[int | None, typer.Option(min=1, help="Prompts of a step.")] = None,
    group_size: Annotated[int | None, typer.Option(help="Completions per prompt.")] = None,
    prompt_tokens: Annotated[int | None, typer.Option(help="Tokens of a prompt.")] = None,
    tokens: Annotated[float | None, typer.Option(help="Tokens of a completion on average.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens of a completion at most.")] = None,
    micro_batch_tokens: Annotated[int | None, typer.Option(help="Tokens of a micro-batch.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of the run.")] = None,
    pass_rate: Annotated[
        str | None, typer.Option(metavar="P|FILE", help="0 to 1, or JSON lines {right, sampled}, one per prompt.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write what is printed as an SVG, too.")] = None,
) -> None:
    """Say what a run takes: memory by phase, seconds of a step, signal to learn from, and what would be better.

    With a run file it reads data and tokenizer, no weights. With `--model` alone everything else is assumed, and said.
    `--accounting seed` is the table that compares PPO with GRPO at 70 billion parameters.
    """
    with user_errors():
        import json

        from groupwise.planning.plan import plan as plan_of
        from groupwise.planning.plan import to_json
        from groupwise.planning.showing import show
        from groupwise.telemetry.display import ConsoleDisplay
        from groupwise.training.wishes import Wishes, pass_rates, planned

        _check_plot(plot)
        wishes = Wishes(
            run=run, overrides=settings or [], model=model, algorithm=algorithm, accounting=accounting,
            parameters=parameters, gpu=gpu, gpus=gpus, engine_gpus=engine_gpus, tensor_parallel=tensor_parallel,
            reward_models=reward_models, lora=lora, base=base, prompts=prompts, group_size=group_size,
            prompt_tokens=prompt_tokens, tokens=tokens, max_tokens=max_tokens, micro_batch_tokens=micro_batch_tokens,
            steps=steps,
        )  # fmt: skip
        with ConsoleDisplay(Console(highlight=False, stderr=as_json)) as display:
            found = planned(wishes, display.say)
            signal = pass_rates(pass_rate)
            speed = found.rates(display.say)
            plans = [plan_of(job, others=found.others, rates=speed, pass_rates=signal) for job in found.jobs]
            for one in () if as_json else plans:
                show(one, display)
        if plot is not None:
            _draw(plans, plot)
        if as_json:
            print(json.dumps([to_json(one) for one in plans] if len(plans) > 1 else to_json(plans[0]), indent=2))


def _check_plot(plot: Path | None) -> None:
    from groupwise.errors import RunFileError

    if plot is not None and (plot.is_dir() or not plot.parent.is_dir()):
        raise RunFileError(f"--plot {plot} can't be written", fix="give a file in a folder that exists")


def _draw(plans: Sequence[Plan], plot: Path) -> None:
    """The same tables as a picture, whatever was printed."""
    from groupwise.planning.showing import show
    from groupwise.telemetry.display import ConsoleDisplay

    picture = Console(highlight=False, record=True, file=io.StringIO(), width=100)
    with ConsoleDisplay(picture) as display:
        for one in plans:
            show(one, display)
    picture.save_svg(str(plot), title="groupwise plan")
