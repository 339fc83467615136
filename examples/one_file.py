"""GRPO in one file, to be read from top to bottom (Shao et al. 2024, DeepSeekMath, arXiv:2402.03300).

    python examples/one_file.py                    # a model of 0.8 million parameters learns one-digit sums
    python examples/one_file.py path/or/hub-name   # an instruct model learns to answer in at most 12 words

Sample G completions per prompt, reward each, compare it with its own group, push up the log-probs of what was better:

    J   = 1/N sum_i 1/|o_i| sum_t [ min(rho A_i, clip(rho, 1 - eps_low, 1 + eps_high) A_i) - beta k3 ]
    rho = pi/pi_old      A_i = (r_i - mean r) / sqrt(var r + 1e-8)      k3 = pi_ref/pi - log(pi_ref/pi) - 1

Plain padded batches: slower than the library, and with the same losses and gradients, which a test compares.
"""

import argparse
import copy
import random

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    set_seed,
)

TOPICS = ("the sea", "the moon", "a cat", "a forest", "a river", "a library", "a train", "a garden", "a teacher")


def tiny_model():
    """An untrained Llama over single characters, and its tokenizer."""
    names = ["<pad>", "<eos>", *"0123456789+="]
    backend = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>")
    size = dict(hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4)
    ids = dict(vocab_size=len(names), pad_token_id=0, eos_token_id=1, bos_token_id=None, tie_word_embeddings=True)
    return LlamaForCausalLM(LlamaConfig(initializer_range=0.06, **size, **ids)), tokenizer


def sums_task(tokenizer):
    """(prompt ids, right answer) pairs, and the reward: the whole completion must be the answer."""
    pairs = [(f"{a}+{b}=", str(a + b)) for a in range(10) for b in range(10)]
    rows = [(tokenizer(prompt)["input_ids"], answer) for prompt, answer in pairs]
    return rows, lambda text, answer, stopped: float(stopped and text == answer)


def short_answer_task(tokenizer):
    """(prompt ids, nothing) pairs, and the reward: three to twelve words, finished in time."""
    asked = [[{"role": "user", "content": f"Describe {topic} in at most 12 words."}] for topic in TOPICS]
    texts = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False) for chat in asked]
    rows = [(tokenizer(text, add_special_tokens=False)["input_ids"], None) for text in texts]
    return rows, lambda text, answer, stopped: float(stopped and 3 <= len(text.split()) <= 12)


@torch.no_grad()
def sample(model, prompts, temperature, max_tokens, stop_ids, pad_id):
    """One completion for each prompt (lists of ids, stop token included), and the log-prob of each token drawn."""
    width = max(map(len, prompts))
    ids = torch.tensor([[pad_id] * (width - len(prompt)) + prompt for prompt in prompts])
    attention = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    how = GenerationConfig(
        do_sample=True, temperature=temperature, top_k=0, top_p=1.0, repetition_penalty=1.0,
        max_new_tokens=max_tokens, eos_token_id=stop_ids, pad_token_id=pad_id,
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    output = model.generate(input_ids=ids, attention_mask=attention, generation_config=how)
    tokens = output.sequences[:, width:]
    scores = torch.stack(output.scores, 1).float().log_softmax(-1)  # of logits / temperature
    log_probs = scores.gather(2, tokens[:, :, None])[:, :, 0]
    stops = torch.isin(tokens, torch.tensor(stop_ids))
    lengths = (stops.cumsum(1) - stops.int() == 0).sum(1).tolist()  # up to and with the first stop token
    rows = range(len(prompts))
    return [tokens[i, : lengths[i]].tolist() for i in rows], [log_probs[i, : lengths[i]].tolist() for i in rows]


def pad(prompts, completions, pad_id):
    """Rows [pad | prompt | completion | pad]: ids and attention [N, P + C], completion mask [N, C]."""
    left, right = max(map(len, prompts)), max(map(len, completions))
    ids, attention, mask = [], [], []
    for prompt, completion in zip(prompts, completions, strict=True):
        before, after = left - len(prompt), right - len(completion)
        ids.append([pad_id] * before + prompt + completion + [pad_id] * after)
        attention.append([0] * before + [1] * (len(prompt) + len(completion)) + [0] * after)
        mask.append([1] * len(completion) + [0] * after)
    return torch.tensor(ids), torch.tensor(attention), torch.tensor(mask, dtype=torch.bool)


def completion_log_probs(model, ids, attention, length, temperature):
    """Log-probs [N, C] of the last `length` tokens of each row, under the distribution that sampling draws from."""
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=attention, position_ids=positions, use_cache=False).logits
    scores = (logits[:, -length - 1 : -1].float() / temperature).log_softmax(-1)  # position t predicts token t + 1
    return scores.gather(2, ids[:, -length:, None])[:, :, 0]


def group_advantages(rewards):
    """[K, G] -> [K, G]. Tied rewards give exactly 0: rounding over a tiny deviation must not become a push."""
    rewards = rewards.double()
    spread = rewards - rewards.mean(1, keepdim=True)
    advantages = spread / (spread.square().mean(1, keepdim=True) + 1e-8).sqrt()
    low, high = rewards.amin(1, keepdim=True), rewards.amax(1, keepdim=True)
    tied = high - low <= 1e-6 * torch.maximum(low.abs(), high.abs())
    return torch.where(tied, 0.0, advantages).float()


def grpo_loss(log_probs, old, reference, advantages, mask, total, beta, clip_low=0.2, clip_high=0.28):
    """-J of some rows: log-probs and mask [n, C], advantages [n].

    `total` counts the completions of the whole step, so that the parts of a step add up to the loss of all of it.
    """
    log_probs, old = log_probs.masked_fill(~mask, 0.0), old.masked_fill(~mask, 0.0)
    ratio = (log_probs - old).clamp(-20, 20).exp()
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    objective = torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    if beta > 0:
        log_ratio = (reference.masked_fill(~mask, 0.0) - log_probs).clamp(-20, 20)
        objective = objective - beta * (log_ratio.expm1() - log_ratio)
    weights = mask / (mask.sum(1, keepdim=True).clamp(min=1) * total)
    return -(weights * objective).sum()


def warm_up(model, optimizer, tokenizer, rows, steps):
    """A little supervised learning of right answers: from 0 % there is no reward to learn from."""
    for _ in range(steps):
        prompts, answers = zip(*random.sample(rows, 64), strict=True)
        completions = [[*tokenizer(answer)["input_ids"], tokenizer.eos_token_id] for answer in answers]
        ids, attention, mask = pad(prompts, completions, tokenizer.pad_token_id)
        log_probs = completion_log_probs(model, ids, attention, mask.shape[1], 1.0)
        (-log_probs[mask].mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


def improve(model, reference, optimizer, rollout, args):
    """The optimiser steps of one rollout. Returns the largest difference of sampled from trained log-probs."""
    ids, attention, mask, advantages, sampled = rollout
    parts = torch.arange(len(ids)).split(64)  # cut to fit memory; the gradient is the same however it is cut
    old, gap = [None] * len(parts), 0.0
    for _ in range(args.updates):
        for number, part in enumerate(parts):
            inputs = ids[part], attention[part], mask.shape[1], args.temperature
            log_probs = completion_log_probs(model, *inputs)
            with torch.no_grad():
                ref = None if reference is None else completion_log_probs(reference, *inputs)
            if old[number] is None:  # the weights are still those that sampled
                old[number] = log_probs.detach()
                gap = max(gap, float((old[number] - sampled[part])[mask[part]].abs().max()))
            grpo_loss(log_probs, old[number], ref, advantages[part], mask[part], len(ids), args.beta).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return gap


def main(arguments=None):
    parser = argparse.ArgumentParser(description="GRPO in one file.")
    parser.add_argument("model", nargs="?", help="a folder or hub name; without it a tiny model learns sums")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--updates", type=int, default=1, help="optimiser steps per rollout; from the 2nd on it clips")
    parser.add_argument("--beta", type=float, default=0.0, help="weight of the KL to the model as it was")
    parser.add_argument("--temperature", type=float, default=1.0)
    args = parser.parse_args(arguments)
    set_seed(0)
    if args.model is None:
        model, tokenizer = tiny_model()
        rows, reward = sums_task(tokenizer)
        per_step, group_size, max_tokens, rate = 32, 8, 4, 2e-4
        warm_up(model, torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95)), tokenizer, rows, 8)
    else:
        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        rows, reward = short_answer_task(tokenizer)
        per_step, group_size, max_tokens, rate = 6, 8, 32, 1e-5
    model.eval()  # no dropout: sampling and training must see the same distribution
    stop, pad_id = model.generation_config.eos_token_id, tokenizer.pad_token_id or 0
    stop_ids = stop if isinstance(stop, list) else [stop]
    reference = copy.deepcopy(model) if args.beta > 0 else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(1, args.steps + 1):
        chosen = [row for row in random.sample(rows, per_step) for _ in range(group_size)]
        prompts, answers = [prompt for prompt, _ in chosen], [answer for _, answer in chosen]
        completions, drawn = sample(model, prompts, args.temperature, max_tokens, stop_ids, pad_id)
        texts = [tokenizer.decode(completion, skip_special_tokens=True) for completion in completions]
        stopped = [completion[-1] in stop_ids for completion in completions]
        rewards = torch.tensor([reward(*row) for row in zip(texts, answers, stopped, strict=True)])
        advantages = group_advantages(rewards.view(per_step, group_size)).flatten()
        ids, attention, mask = pad(prompts, completions, pad_id)
        sampled = torch.tensor([row + [0.0] * (mask.shape[1] - len(row)) for row in drawn])
        gap = improve(model, reference, optimizer, (ids, attention, mask, advantages, sampled), args)
        print(f"step {step:3d}  reward {rewards.mean():.3f}  largest sampler gap {gap:.1e}")


if __name__ == "__main__":
    main()
