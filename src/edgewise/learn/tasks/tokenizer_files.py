"""The tokenizer of a checkpoint folder, from those of its files that are there, as Hugging Face joins them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tokenizers import AddedToken
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import ByteLevel

from edgewise.errors import DataError, RunFolderError
from edgewise.learn.files import JsonObject
from edgewise.learn.readers.texts.tokenizer import END_OF_GPT2, TRIAL, Tokenizer
from edgewise.learn.training.folder import read_json

OF_ANY_FILE = (None, "PreTrainedTokenizerFast", "TokenizersBackend")
BERT_CLASSES = tuple(f"{name}Tokenizer{fast}" for name in ("Bert", "DistilBert", "Electra") for fast in ("", "Fast"))
GPT2_CLASSES = ("GPT2Tokenizer", "GPT2TokenizerFast")
"""Classes of tokenizers that cut texts as the files of their vocabulary say, and no other program does it for them."""
NORMALIZER_CHOICES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""Names of tokenizer_config.json, and those of the normalizer of BERT."""
SPECIAL_TOKENS = {
    "bert": {"unk_token": "unknown", "cls_token": "begin", "sep_token": "end", "mask_token": "mask"},
    "gpt2": {"eos_token": "end"},
}
"""The special tokens that a model of each type needs: their names, and ours."""
EXTRA_TOKENS = ("additional_special_tokens", "extra_special_tokens")
"""Names of further special tokens, as a list or by their names."""


def read_tokenizer(folder: Path, model_type: str) -> Tokenizer:
    """The tokenizer of a checkpoint.

    What tokenizer_config.json, special_tokens_map.json and added_tokens.json say holds as it does there.

    Raises:
        DataError: a file is missing or damaged, or they describe a tokenizer that ours cannot be.
    """
    config = {**_object(folder / "special_tokens_map.json"), **_object(folder / "tokenizer_config.json")}
    tokenizer = _vocabulary(folder, config.get("tokenizer_class"))
    inner = tokenizer.inner

    # A class that takes everything from tokenizer.json does not read these.
    if config.get("tokenizer_class") not in OF_ANY_FILE[1:]:
        normalizer, pre_tokenizer = inner.normalizer, inner.pre_tokenizer
        if isinstance(normalizer, BertNormalizer):
            for hf_name, name in NORMALIZER_CHOICES.items():
                if hf_name in config:
                    # null strips accents where texts are lowercased.
                    is_open = name == "strip_accents" and config[hf_name] is None
                    setattr(normalizer, name, None if is_open else _choice(folder, config, hf_name))
            inner.normalizer = normalizer
        if isinstance(pre_tokenizer, ByteLevel) and "add_prefix_space" in config:
            pre_tokenizer.add_prefix_space = _choice(folder, config, "add_prefix_space")
            inner.pre_tokenizer = pre_tokenizer

    _add_tokens(folder, tokenizer, config)
    tokenizer = Tokenizer(inner, tokenizer.kind)
    for hf_name, name in SPECIAL_TOKENS[model_type].items():
        content, number = _content(config.get(hf_name)), getattr(tokenizer, name)
        if content is not None and (number is None or inner.token_to_id(content) != number):
            known = "none" if number is None else repr(inner.id_to_token(number))
            raise DataError(f"{folder}: {hf_name} is {content!r}, but by the vocabulary it is {known}.")
    if model_type == "bert" and inner.post_processor is not None:
        trial = inner.encode(TRIAL)
        if trial.ids != tokenizer.with_special_tokens(tokenizer.encode(TRIAL).numbers).tolist():
            tokens = " ".join(trial.tokens)
            raise DataError(f"{folder}: of {TRIAL!r} it makes {tokens}; only [CLS] and [SEP] can stand around a text.")
    return tokenizer


def read_part(path: Path) -> object:
    """A JSON file of a checkpoint; raises DataError where it cannot be read."""
    try:
        return read_json(path)
    except RunFolderError as error:
        raise DataError(str(error)) from error


def _object(path: Path) -> JsonObject:
    """The object of a JSON file; an empty one without a file. Raises DataError where it is something else."""
    content = read_part(path) if path.is_file() else {}
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected an object, {{...}}.")
    return content


def _vocabulary(folder: Path, tokenizer_class: object) -> Tokenizer:
    """The tokenizer that tokenizer.json describes, or else the files of a vocabulary."""
    tokenizer_file, vocabulary, merges, pieces = (
        folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt", "vocab.txt")
    )
    if tokenizer_file.is_file():
        try:
            return Tokenizer.from_json(tokenizer_file.read_text("utf-8"))
        except (DataError, ValueError) as error:
            raise DataError(f"{tokenizer_file} cannot be read: {error}") from error
    if vocabulary.is_file() and merges.is_file():
        _check_class(vocabulary, tokenizer_class, GPT2_CLASSES)
        tokenizer = Tokenizer.from_pairs(str(vocabulary), str(merges))
        if tokenizer.inner.token_to_id(END_OF_GPT2) is not None:
            tokenizer.inner.add_special_tokens([END_OF_GPT2])
        return tokenizer
    if pieces.is_file():
        _check_class(pieces, tokenizer_class, BERT_CLASSES)
        return Tokenizer.from_word_pieces(str(pieces))
    raise DataError(f"{folder}: no tokenizer.json, and no vocab.json with merges.txt, and no vocab.txt.")


def _check_class(vocabulary: Path, tokenizer_class: object, classes: Iterable[str]) -> None:
    """Raise DataError where another program divides texts before this vocabulary does, as for Japanese."""
    if tokenizer_class not in (*OF_ANY_FILE, *classes):
        raise DataError(
            f"{vocabulary.parent}: tokenizer_config.json: tokenizer_class is {tokenizer_class!r}, which does more than "
            f"{vocabulary.name} says; save the tokenizer as tokenizer.json."
        )


def _add_tokens(folder: Path, tokenizer: Tokenizer, config: JsonObject) -> None:
    """Adds the tokens that files beside the vocabulary name: what they write is one token wherever it stands."""
    inner = tokenizer.inner
    added: dict[int, Mapping[str, object]] = {}
    for content, number in _object(folder / "added_tokens.json").items():
        added[_token_number(folder / "added_tokens.json", number)] = {"content": content}
    for number, details in _details(config.get("added_tokens_decoder")).items():
        added[_token_number(folder / "tokenizer_config.json", number)] = _details(details)
    named = dict(_named_tokens(config))

    for number, details in sorted(added.items()):
        content = str(details.get("content"))
        inner.add_tokens([_added_token(content, details, is_special=bool(details.get("special", content in named)))])
        if (actual := inner.token_to_id(content)) != number:
            raise DataError(
                f"{folder}: the added token {content!r} is number {number}, but {actual} by the vocabulary."
            )

    # Our vocabularies of characters read the names of special tokens letter by letter.
    if tokenizer.kind == "characters":
        return
    has_file = (folder / "tokenizer.json").is_file()
    known = {token.content for token in inner.get_added_tokens_decoder().values()} if has_file else set[str]()
    known |= {str(details.get("content")) for details in added.values()}
    for content, details in named.items():
        if content not in known and inner.token_to_id(content) is not None:
            inner.add_tokens([_added_token(content, details, is_special=True)])


def _added_token(content: str, details: Mapping[str, object], *, is_special: bool) -> AddedToken:
    """A token with its choices; the library takes the last of several with one content."""
    choices = {name: bool(details[name]) for name in ("lstrip", "rstrip", "single_word") if name in details}
    normalized = bool(details.get("normalized", not is_special))
    return AddedToken(content, special=is_special, normalized=normalized, **choices)


def _named_tokens(config: JsonObject) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The special tokens that a configuration names, each with its choices."""
    tokens = [value for name, value in config.items() if name.endswith("_token")]
    for name in EXTRA_TOKENS:
        extra = config.get(name)
        tokens += extra.values() if isinstance(extra, dict) else extra if isinstance(extra, list) else []
    for token in tokens:
        if content := _content(token):
            yield content, _details(token)


def _token_number(path: Path, value: object) -> int:
    """The number of a token, as JSON has it or as a key; raises DataError where it is something else."""
    if isinstance(value, bool) or not re.fullmatch(r"\d+", str(value)):
        raise DataError(f"{path}: the number of an added token is {value!r}, expected a whole number.")
    return int(str(value))


def _choice(folder: Path, config: JsonObject, name: str) -> bool:
    """True or false of tokenizer_config.json; raises DataError where it is something else."""
    value = config[name]
    if not isinstance(value, bool):
        raise DataError(f"{folder}: tokenizer_config.json: {name} is {value!r}, expected true or false.")
    return value


def _details(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _content(token: object) -> str | None:
    """A special token as it is written, alone or with its choices."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
