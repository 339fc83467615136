"""From rows to prompts, with a tokenizer made on the spot: one token per character, and some special ones."""

import pytest
from pydantic import ValidationError
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from groupwise.errors import DataError
from groupwise.tasks.chat import ChatSettings, end_of_turn
from groupwise.tasks.rendering import demonstration_tokens, first_prompt_preview, render, render_all

SPECIAL = ["<unk>", "<bos>", "<eos>", "<user>", "<assistant>", "<system>", "<end>", "<think>"]
CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]
TEMPLATE = (
    "<bos>{% for message in messages %}<{{ message.role }}>{{ message.content }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}"
)
CHAT = [{"role": "user", "content": "hi"}]


def make_tokenizer(template=TEMPLATE, **special):
    vocabulary = {token: index for index, token in enumerate(SPECIAL + CHARACTERS)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    core.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    special = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"} | special
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, **special)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL[3:]})
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def ids(tokenizer, text):
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_a_plain_prompt_is_tokenised_as_the_tokenizer_does(tokenizer):
    prompt = render({"id": "a", "prompt": "2+2="}, tokenizer)
    assert prompt.token_ids == (1, *ids(tokenizer, "2+2=")) and prompt.text == "2+2="
    assert prompt.messages is None and all(type(token) is int for token in prompt.token_ids)


def test_a_chat_goes_through_the_template_and_gets_no_special_token_twice(tokenizer):
    prompt = render({"id": "a", "messages": CHAT}, tokenizer)
    assert prompt.text == "<bos><user>hi<end>\n<assistant>"
    assert prompt.token_ids == ids(tokenizer, prompt.text) and prompt.token_ids.count(1) == 1
    assert prompt.messages == tuple(CHAT) and all(type(token) is int for token in prompt.token_ids)
    in_one_go = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert list(prompt.token_ids) == in_one_go


def test_R078_every_column_reaches_the_rewards(tokenizer):
    row = {"id": "a", "prompt": "x", "key": 7, "meta": {"deep": [1, 2]}, "completion": "y", "nothing": None}
    columns = render(row, tokenizer).columns
    assert columns == {"key": 7, "meta": {"deep": [1, 2]}, "completion": "y", "nothing": None}


def test_the_system_prompt_is_put_before_chats_that_have_none(tokenizer):
    chat = ChatSettings(system="be brief")
    assert render({"id": "a", "messages": CHAT}, tokenizer, chat).text.startswith("<bos><system>be brief<end>\n<user>")
    own = [{"role": "system", "content": "be long"}, *CHAT]
    assert "brief" not in render({"id": "a", "messages": own}, tokenizer, chat).text


def test_plain_prompts_can_be_wrapped_as_chats(tokenizer):
    prompt = render({"id": "a", "prompt": "hi"}, tokenizer, ChatSettings(wrap_prompts=True))
    assert prompt == render({"id": "a", "messages": CHAT}, tokenizer)


def test_a_template_file_is_used_instead_of_the_tokenizers_own(tokenizer, tmp_path):
    path = tmp_path / "chat.jinja"
    path.write_text("{% for message in messages %}Q: {{ message.content }}\n{% endfor %}A:", encoding="utf-8")
    assert render({"id": "a", "messages": CHAT}, tokenizer, ChatSettings(template=str(path))).text == "Q: hi\nA:"
    with pytest.raises(DataError, match="can't be read"):
        render({"id": "a", "messages": CHAT}, tokenizer, ChatSettings(template=str(path) + "x"))


def test_R104_a_chat_without_a_template_is_refused_with_what_can_be_done():
    with pytest.raises(DataError) as error:
        render_all([{"messages": CHAT}] * 3, make_tokenizer(template=None))
    message = str(error.value)
    assert "no chat template" in message and "\n" not in message
    assert all(option in message for option in ("`template`", "instruct model", "plain `prompt`"))


def test_R104_the_switches_of_a_template_reach_it_and_both_values_differ(tokenizer):
    texts = {
        value: render(
            {"id": "a", "messages": CHAT},
            tokenizer,
            ChatSettings(template_arguments={"enable_thinking": value}),
        ).text
        for value in (True, False)
    }
    assert texts[True] == texts[False] + "<think>"
    prompt = render(
        {"id": "a", "messages": CHAT}, tokenizer, ChatSettings(template_arguments={"enable_thinking": True})
    )
    assert prompt.text in first_prompt_preview([prompt])


def test_R104_a_switch_that_the_template_does_not_read_is_refused(tokenizer):
    chat = ChatSettings(template_arguments={"enable_thinkng": False})
    with pytest.raises(DataError, match="did you mean 'enable_thinking'"):
        render({"id": "a", "messages": CHAT}, tokenizer, chat)
    with pytest.raises(ValidationError, match="which is set for you"):
        ChatSettings(template_arguments={"add_generation_prompt": False})


def test_chat_settings_that_a_plain_prompt_cannot_honour_are_refused(tokenizer):
    with pytest.raises(DataError, match=r"the chat settings \(system\) have no effect"):
        render({"id": "a", "prompt": "hi"}, tokenizer, ChatSettings(system="be brief"))


def test_a_chat_that_ends_with_the_assistant_is_refused(tokenizer):
    with pytest.raises(DataError, match="ends with the assistant's message"):
        render({"id": "a", "messages": [*CHAT, {"role": "assistant", "content": "hello"}]}, tokenizer)


def test_what_a_template_raises_is_told_in_one_line():
    tokenizer = make_tokenizer("{{ raise_exception('no system\nrole') }}")
    with pytest.raises(DataError) as error:
        render({"id": "a", "messages": CHAT}, tokenizer)
    assert "no system" in str(error.value) and "\n" not in str(error.value)


def test_a_prompt_without_a_token_is_refused(tokenizer):
    bare = make_tokenizer()
    bare.backend_tokenizer.post_processor = processors.Sequence([])
    with pytest.raises(DataError, match="row 'a' has no token"):
        render({"id": "a", "prompt": ""}, bare)


ROWS = [{"id": str(n), "prompt": "x" * n} for n in range(1, 11)]


def test_prompts_over_the_limit_are_an_error_with_count_and_examples(tokenizer):
    with pytest.raises(DataError) as error:
        render_all(ROWS, tokenizer, max_prompt_tokens=6, where="'rows.jsonl'")
    message = str(error.value)
    assert "5 of 10 prompts of 'rows.jsonl' are longer than 6 tokens: '6' (7), '7' (8), '8' (9)" in message
    assert "'9'" not in message and 'over_limit = "drop"' in message


def test_prompts_over_the_limit_can_be_dropped_and_are_counted(tokenizer):
    prompts, notes = render_all(ROWS, tokenizer, max_prompt_tokens=6, over_limit="drop")
    assert [prompt.id for prompt in prompts] == ["1", "2", "3", "4", "5"]
    assert len(notes) == 1 and notes[0].startswith("5 of 10 prompts") and notes[0].endswith("dropped")
    with pytest.raises(DataError, match="all would be dropped"):
        render_all(ROWS, tokenizer, max_prompt_tokens=1, over_limit="drop")


def test_prompts_at_the_limit_are_kept(tokenizer):
    prompts, notes = render_all(ROWS, tokenizer, max_prompt_tokens=11)
    assert len(prompts) == 10 and notes == []


def test_ids_are_stable_and_unique(tokenizer):
    rows = [{"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}]
    prompts, _ = render_all(rows, tokenizer)
    again, _ = render_all(rows[1:], tokenizer)
    assert len({prompt.id for prompt in prompts}) == 3
    assert prompts[0].id == again[1].id and prompts[1].id == again[0].id == render(rows[1], tokenizer).id
    with pytest.raises(DataError, match="given to more than one row"):
        render_all([{"id": 1, "prompt": "a"}, {"id": 1, "prompt": "b"}], tokenizer)


def test_no_rows_are_an_error(tokenizer):
    with pytest.raises(DataError, match="no rows"):
        render_all([], tokenizer)


def test_a_demonstration_is_its_own_tokens_and_the_end_of_the_turn(tokenizer):
    plain = demonstration_tokens({"id": "a", "prompt": "2+2=", "completion": "4"}, tokenizer)
    assert plain == (*ids(tokenizer, "4"), tokenizer.eos_token_id)
    chat = demonstration_tokens({"id": "a", "messages": CHAT, "completion": "hello"}, tokenizer)
    assert chat == (*ids(tokenizer, "hello"), SPECIAL.index("<end>"))
    wrapped = demonstration_tokens(
        {"id": "a", "prompt": "hi", "completion": "hello"}, tokenizer, ChatSettings(wrap_prompts=True)
    )
    assert wrapped == chat


def test_a_demonstration_may_be_a_chat_that_ends_with_the_assistants_words(tokenizer):
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    row = {"id": "a", "prompt": "hi"}
    assert demonstration_tokens({**row, "completion": chat}, tokenizer) == demonstration_tokens(
        {**row, "completion": "hello"}, tokenizer
    )


def test_prompt_and_demonstration_are_what_the_template_writes_for_the_whole_chat(tokenizer):
    row = {"id": "a", "messages": CHAT, "completion": "hello"}
    together = render(row, tokenizer).token_ids + demonstration_tokens(row, tokenizer)
    whole = tokenizer.apply_chat_template(
        [*CHAT, {"role": "assistant", "content": "hello"}], tokenize=True, return_dict=False
    )
    assert list(together) == whole[: len(together)]


def test_a_template_that_ends_no_turn_leaves_the_end_of_text_token():
    tokenizer = make_tokenizer("{% for message in messages %}{{ message.content }}\n{% endfor %}")
    assert end_of_turn(tokenizer, ChatSettings()) == tokenizer.eos_token_id


@pytest.mark.parametrize(
    "completion, told",
    [
        ({}, "no `completion`"),
        ({"completion": ["hello"]}, "`completion` that is a list"),
        ({"completion": []}, "`completion` that is a list"),
        ({"completion": {"role": "assistant", "content": "hello"}}, "`completion` that is a dict"),
        ({"completion": [{"role": "assistant"}]}, "no `completion`"),
        ({"completion": [{"role": "assistant", "content": "hello"}, {"role": "user", "content": "hi"}]}, "no `comp"),
    ],
)
def test_a_row_that_demonstrates_nothing_is_refused(tokenizer, completion, told):
    with pytest.raises(DataError, match=told):
        demonstration_tokens({"id": "a", "prompt": "x", **completion}, tokenizer)


def test_a_tokenizer_without_an_end_of_text_token_is_refused():
    with pytest.raises(DataError, match="no end-of-text token"):
        demonstration_tokens({"id": "a", "prompt": "x", "completion": "y"}, make_tokenizer(eos_token=None))


def test_the_first_prompt_is_shown_with_its_size(tokenizer):
    prompts, _ = render_all(ROWS, tokenizer)
    assert first_prompt_preview(prompts) == "first of 10 prompts (1, 2 tokens):\nx"
