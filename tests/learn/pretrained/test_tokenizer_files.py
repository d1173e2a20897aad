"""The files of a checkpoint together: what stands beside the vocabulary counts, and shards are one file."""

import json

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file

from edgewise import DataError
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tasks.convert import from_checkpoint
from edgewise.learn.tasks.tokenizer_files import read_tokenizer

transformers = pytest.importorskip("transformers", reason="pip install transformers, to compare with its tokenizers")

TEXTS = ["The Cat sat", "na\u00efve cats", "cat <extra> sat", "\u4e2d\u6587", "the <|endoftext|> cat", "[MASK] cat"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "The", "cat", "Cat", "##s", "sat", "naive", "na\u00efve"]
PIECES += ["\u4e2d", "\u6587", "\u4e2d\u6587", "<", ">", "extra"]
EXTRA = {"content": "<extra>", "special": True, "lstrip": True}


def bert_folder(path, **config):
    path.mkdir()
    (path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **config}))
    return path


def gpt2_folder(path, **config):
    path.mkdir()
    model = json.loads(Tokenizer.fit(["the cat sat " * 20], "bpe", 262).to_json())["model"]
    vocabulary = {token.replace("<end>", "<|endoftext|>"): number for token, number in model["vocab"].items()}
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
    (path / "vocab.json").write_text(json.dumps(vocabulary))
    (path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    (path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", **config}))
    return path


@pytest.mark.parametrize("has_json", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"do_lower_case": False},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
        {"added_tokens_decoder": {str(len(PIECES)): EXTRA}},
        {"additional_special_tokens": ["Cat"]},
        {"extra_special_tokens": {"animal_token": "Cat"}},
        {"bos_token": {"content": "Cat", "lstrip": True, "normalized": False, "__type": "AddedToken"}},
    ],
)
def test_choices_beside_a_vocabulary_of_bert(tmp_path, config, has_json):
    """tokenizer.json said otherwise, and won."""
    folder = bert_folder(tmp_path / "theirs", **config)
    if has_json:
        plain = transformers.AutoTokenizer.from_pretrained(bert_folder(tmp_path / "plain"))
        (folder / "tokenizer.json").write_text(plain.backend_tokenizer.to_str())
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), read_tokenizer(folder, "bert")
    for text in TEXTS:
        assert ours.encode(text).numbers.tolist() == theirs(text, add_special_tokens=False)["input_ids"]
    again = Tokenizer.from_json(ours.to_json())
    assert [again.encode(text).numbers.tolist() for text in TEXTS] == theirs(TEXTS, add_special_tokens=False).input_ids


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"add_prefix_space": True},
        {"added_tokens_decoder": {"262": EXTRA}},
        {"eos_token": "<|endoftext|>"},
        {"bos_token": "e"},
        {"additional_special_tokens": ["e"]},
        {"added_tokens_decoder": {"0": {"content": "<|endoftext|>", "special": True, "lstrip": True}}},
        {"eos_token": {"content": "<|endoftext|>", "special": True, "lstrip": True, "__type": "AddedToken"}},
    ],
)
def test_choices_beside_byte_pairs(tmp_path, config):
    folder = gpt2_folder(tmp_path / "theirs", **config)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), read_tokenizer(folder, "gpt2")
    for text in TEXTS:
        assert ours.encode(text).numbers.tolist() == theirs(text)["input_ids"]


def test_tokens_in_a_file_of_their_own(tmp_path):
    folder = gpt2_folder(tmp_path / "theirs")
    (folder / "added_tokens.json").write_text(json.dumps({"<extra>": 262}))
    assert 262 in read_tokenizer(folder, "gpt2").encode("cat <extra> sat").numbers
    (folder / "added_tokens.json").write_text(json.dumps({"<extra>": 300}))
    with pytest.raises(DataError, match="the added token '<extra>' is number 300, but 262 by the vocabulary"):
        read_tokenizer(folder, "gpt2")


def test_characters_read_the_names_of_special_tokens_letter_by_letter(tmp_path):
    """As before they were written and read again, though a configuration names the special tokens."""
    ours = Tokenizer.fit(["the cat <unk>"], "characters")
    (tmp_path / "tokenizer.json").write_text(ours.to_json())
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "<end>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    again = read_tokenizer(tmp_path, "gpt2")
    assert again.encode("cat <unk>").numbers.tolist() == ours.encode("cat <unk>").numbers.tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer_config.json", {"do_lower_case": "yes"}, "do_lower_case is 'yes', expected true or false"),
        ("tokenizer_config.json", {"tokenize_chinese_chars": None}, "chars is None, expected true or false"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": EXTRA}}, "an added token is 'x', expected a whole"),
        ("tokenizer_config.json", [1], "tokenizer_config.json: expected an object"),
        ("added_tokens.json", {"<extra>": None}, "the number of an added token is None, expected a whole number"),
        ("added_tokens.json", {"<extra>": 19.0}, "the number of an added token is 19.0, expected a whole number"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, message):
    """The error of the library came through, without the file."""
    folder = bert_folder(tmp_path / "theirs")
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        read_tokenizer(folder, "bert")


@pytest.mark.parametrize(
    ("name", "content"), [("vocab.json", '{"a": 0}'), ("vocab.json", "[]"), ("merges.txt", "a b c")]
)
def test_damaged_byte_pairs_are_named(tmp_path, name, content):
    folder = gpt2_folder(tmp_path / "theirs")
    (folder / name).write_text(content)
    with pytest.raises(DataError, match=r"vocab.json, .*merges.txt: the tokenizer cannot be read"):
        read_tokenizer(folder, "gpt2")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "does more than vocab.txt says; save the tokenizer as"),
        ({"mask_token": "cat"}, r"mask_token is 'cat', but by the vocabulary it is '\[MASK\]'"),
        ({"cls_token": {"content": "<s>"}}, r"cls_token is '<s>', but by the vocabulary it is '\[CLS\]'"),
    ],
)
def test_tokenizers_that_cannot_be_ours(tmp_path, config, message):
    with pytest.raises(DataError, match=message):
        read_tokenizer(bert_folder(tmp_path / "theirs", **config), "bert")


def test_the_end_of_a_text_is_that_of_the_configuration(tmp_path):
    """With any other name than that of GPT-2 a text never ended."""
    with pytest.raises(DataError, match="eos_token is 'cat', but by the vocabulary it is"):
        read_tokenizer(gpt2_folder(tmp_path / "cat", eos_token="cat"), "gpt2")
    folder = gpt2_folder(tmp_path / "theirs", eos_token="</s>")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    vocabulary["</s>"] = vocabulary.pop("<|endoftext|>")
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    ours = read_tokenizer(folder, "gpt2")
    assert ours.end == vocabulary["</s>"]


@pytest.mark.parametrize(
    ("number", "is_refused"),
    [(0, False), ([0], False), (None, False), (50256, False), (5, True), ([0, 5], True), ("x", True)],
)
def test_the_end_of_a_text_is_the_token_of_the_model(tmp_path, number, is_refused):
    """Texts ended with the token of the vocabulary, where transformers ends them with that of config.json."""
    folder = gpt2_folder(tmp_path / "theirs")
    sizes = {"vocab_size": 262, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | {"eos_token_id": number}
    (folder / "config.json").write_text(json.dumps(config))
    if is_refused:
        with pytest.raises(DataError, match=r"eos_token_id is .*, but the end of a text is 0 by the vocabulary"):
            from_checkpoint(folder)
    else:
        assert from_checkpoint(folder).output.has_end == (number is not None)


def test_other_tokens_around_a_text_are_refused(tmp_path):
    folder = bert_folder(tmp_path / "theirs")
    inner = read_tokenizer(folder, "bert").inner
    inner.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[MASK]", 4))
    (folder / "tokenizer.json").write_text(inner.to_str())
    with pytest.raises(DataError, match=r"only \[CLS\] and \[SEP\] can stand around a text"):
        read_tokenizer(folder, "bert")


def test_weights_in_several_files(tmp_path):
    folder = gpt2_folder(tmp_path / "theirs")
    sizes = {"vocab_size": 262, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(folder)
    whole = from_checkpoint(folder).model.state_dict()
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    weight_map = {name: f"model-0000{number % 2 + 1}-of-00002.safetensors" for number, name in enumerate(tensors)}
    for file in set(weight_map.values()):
        part = {name: tensor for name, tensor in tensors.items() if weight_map[name] == file}
        save_file(part, folder / file, metadata={"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    for name, tensor in from_checkpoint(folder).model.state_dict().items():
        assert torch.equal(tensor, whole[name])
    (folder / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(DataError, match=r"no model-00001-of-00002\.safetensors"):
        from_checkpoint(folder)
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(DataError, match="weight_map is missing"):
        from_checkpoint(folder)
