"""BERT of the transformers library and ours: the same vectors, scores, attentions and tokens, there and back."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgewise import DataError, Trace, UnsupportedError
from edgewise.interop.attentions import attentions
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.networks.encoder import MaskedModel
from edgewise.learn.networks.text_settings import TransformerSettings, bert
from edgewise.learn.pretrained.bert import checkpoint_of, model_of, settings_of
from edgewise.learn.readers.texts.data import texts_from_arrays
from edgewise.learn.readers.texts.tags import chunks_of
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tasks.convert import from_checkpoint, from_run, to_checkpoint
from edgewise.learn.tasks.masked.task import from_network, load, text_vectors
from edgewise.learn.training.folder import RunFolder

transformers = pytest.importorskip("transformers", reason="pip install transformers, to compare with its BERT")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, "the", "The", "cat", "##s", "sat", "un", "##able", "nai", "##ve"]
WORDS = "The cats sat: [MASK] unable,\n naïve dog"


def config_of(**changes):
    sizes = {
        "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24,
        "max_position_embeddings": 24, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.3, "attn_implementation": "eager",
    }  # fmt: skip
    return transformers.BertConfig(**sizes | changes)


def scattered(model):
    """A model whose norms and biases say something too, so that none can be mistaken for another."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    return model.eval()


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    return scattered(transformers.BertForMaskedLM(config_of()))


@pytest.fixture
def ours(theirs):
    model, left_out = model_of(theirs.config.to_dict(), theirs.state_dict())
    assert left_out == ()
    return model


def tokens(*shape):
    return torch.randint(50, shape, generator=torch.Generator().manual_seed(1))


def segments(*shape):
    return torch.randint(2, shape, generator=torch.Generator().manual_seed(2))


def assert_same(ours, theirs, batch, **given):
    trace = Trace()
    with torch.no_grad():
        expected = theirs(**given, output_attentions=True, output_hidden_states=True)
        torch.testing.assert_close(ours(batch), expected.logits, rtol=1e-4, atol=1e-5)
        nodes = ours.encoder(batch, trace)
        torch.testing.assert_close(nodes, expected.hidden_states[-1], rtol=1e-4, atol=1e-5)
    assert len(expected.attentions) == 3
    for weights, other in zip(attentions(trace), expected.attentions, strict=True):
        torch.testing.assert_close(weights, other, rtol=1e-4, atol=1e-6)


def test_vectors_scores_and_attentions_are_the_same(theirs, ours):
    given = tokens(2, 20)
    assert_same(ours, theirs, TokenBatch(given), input_ids=given)


def test_the_kinds_of_tokens_are_segments(theirs, ours):
    given, kinds = tokens(2, 20), segments(2, 20)
    batch = TokenBatch(given, segments=kinds)
    assert_same(ours, theirs, batch, input_ids=given, token_type_ids=kinds)
    assert not torch.allclose(ours(batch), ours(TokenBatch(given)))


def test_packed_texts_are_their_padded_ones(theirs, ours):
    given, kinds, lengths = tokens(3, 20), segments(3, 20), torch.tensor([20, 1, 13])
    inside = torch.arange(20) < lengths[:, None]
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    with torch.no_grad():
        found = ours(TokenBatch(given[inside], offsets=offsets, segments=kinds[inside]))
        expected = theirs(given, attention_mask=inside.long(), token_type_ids=kinds).logits[inside]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "changes", [{"hidden_act": "relu"}, {"hidden_act": "gelu_new"}, {"layer_norm_eps": 0.1}, {"type_vocab_size": 1}]
)
def test_other_choices(changes):
    torch.manual_seed(0)
    theirs = scattered(transformers.BertForMaskedLM(config_of(**changes)))
    ours, _ = model_of(theirs.config.to_dict(), theirs.state_dict())
    given = tokens(2, 20)
    assert_same(ours, theirs, TokenBatch(given), input_ids=given)


def test_there_and_back(theirs, ours):
    config, found = checkpoint_of(ours)
    again, _ = model_of(config, found)
    assert again.settings == ours.settings
    for name, tensor in ours.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    expected = theirs.state_dict()
    assert expected.keys() - found.keys() == {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name


def write(model, folder):
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")


def test_a_folder_there_and_back(theirs, tmp_path):
    write(theirs, tmp_path / "theirs")
    trained = from_checkpoint(tmp_path / "theirs")
    trained.save(RunFolder(tmp_path / "run"))
    to_checkpoint(from_run(RunFolder.finished(tmp_path / "run")), tmp_path / "again")
    again = transformers.BertForMaskedLM.from_pretrained(tmp_path / "again", attn_implementation="eager").eval()
    given, kinds = tokens(2, 20), segments(2, 20)
    batch = TokenBatch(given, segments=kinds)
    assert_same(trained.model, again, batch, input_ids=given, token_type_ids=kinds)
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_an_encoder_without_a_head(tmp_path):
    torch.manual_seed(0)
    theirs = scattered(transformers.BertModel(config_of()))
    write(theirs, tmp_path / "theirs")
    trained = from_checkpoint(tmp_path / "theirs")
    assert (trained.model.head, trained.output.left_out) == (None, ("the pooler",))
    given = tokens(2, 20)
    with torch.no_grad():
        expected = theirs(given).last_hidden_state
        torch.testing.assert_close(trained.model.encoder(TokenBatch(given)), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(UnsupportedError, match="without a head"):
        trained.model(TokenBatch(given))
    trained.save(RunFolder(tmp_path / "run"))
    kept = load(RunFolder.finished(tmp_path / "run"))
    assert (kept.model.head, kept.output.left_out) == (None, ("the pooler",))
    to_checkpoint(kept, tmp_path / "again")
    assert json.loads((tmp_path / "again/config.json").read_text())["architectures"] == ["BertModel"]
    again = transformers.BertModel.from_pretrained(tmp_path / "again", add_pooling_layer=False).eval()
    for name, tensor in again.state_dict().items():
        assert torch.equal(theirs.state_dict()[name], tensor), name


def test_checkpoints_of_other_heads_and_of_the_first_days():
    """The published ones carry the head for pairs of texts, and call the parts of a norm gamma and beta."""
    torch.manual_seed(0)
    theirs = scattered(transformers.BertForPreTraining(config_of()))
    given, state = tokens(2, 20), theirs.state_dict()
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in state.items()
        if name != "cls.predictions.decoder.bias"
    } | {"bert.embeddings.position_ids": torch.arange(24)[None]}
    for found in (state, old):
        ours, left_out = model_of(theirs.config.to_dict(), found)
        assert left_out == ("the pooler", "the head that predicts whether two texts follow each other")
        with torch.no_grad():
            expected = theirs(given).prediction_logits
            torch.testing.assert_close(ours(TokenBatch(given)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2', expected 'bert'"),
        ({"position_embedding_type": "relative_key"}, "is 'relative_key'; only 'absolute' can be converted"),
        ({"is_decoder": True}, "is_decoder is True; only False can be converted"),
        ({"hidden_act": "silu"}, "hidden_act is 'silu'"),
        ({"hidden_dropout_prob": 0.5}, "differ; ours has one dropout"),
        ({"hidden_size": None}, "hidden_size is None, expected a whole number"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps is 'small', expected a number"),
    ],
)
def test_configurations_that_cannot_be_converted(theirs, changes, message):
    with pytest.raises(DataError, match=message):
        settings_of(theirs.config.to_dict() | changes)


def test_checkpoints_that_do_not_fit(theirs):
    config, state = theirs.config.to_dict(), theirs.state_dict()
    norm = "cls.predictions.transform.LayerNorm.weight"
    with pytest.raises(DataError, match=rf"no tensor '{norm}'"):
        model_of(config, {name: tensor for name, tensor in state.items() if name != norm})
    with pytest.raises(DataError, match=r"no tensor 'encoder\.layer\.3"):
        model_of(config | {"num_hidden_layers": 4}, state)
    with pytest.raises(DataError, match="BERT does not have: extra"):
        model_of(config, state | {"extra": torch.zeros(1)})
    with pytest.raises(DataError, match="does not fit"):
        model_of(config | {"max_position_embeddings": 25}, state)
    for part in ("weight", "bias"):
        name = f"cls.predictions.decoder.{part}"
        with pytest.raises(DataError, match="only tied outputs"):
            model_of(config, state | {name: state[name] + 1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "rotary"}, "position is 'rotary'; BERT has 'learned'"),
        ({"norm": "pre"}, "norm is 'pre'; BERT has 'post'"),
        ({"window": 3}, "window is 3; BERT has None"),
        ({"norm_embeddings": False}, "norm_embeddings is False"),
        ({"num_key_heads": 1}, "num_key_heads is 1; BERT has as many"),
        ({"num_segments": 0}, "num_segments is 0"),
    ],
    ids=str,
)
def test_models_that_cannot_be_written(changes, message):
    settings = replace(bert(1, 2, 8), context=8, **changes)
    with pytest.raises(DataError, match=message):
        checkpoint_of(MaskedModel(11, settings))


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("form", ["vocab.txt", "tokenizer.json"])
def test_their_tokens(tmp_path, lowercase, form):
    numbers = {token: number for number, token in enumerate(PIECES)}
    theirs = transformers.BertTokenizer(vocab=numbers, do_lower_case=lowercase)
    if form == "vocab.txt":
        (tmp_path / form).write_text("\n".join(PIECES) + "\n")
        ours = Tokenizer.from_word_pieces(str(tmp_path / form), lowercase=lowercase)
    else:
        theirs.save_pretrained(tmp_path)
        inner = json.loads((tmp_path / form).read_text())
        inner["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
        ours = Tokenizer.from_json(json.dumps(inner))
    assert ours.kind == "wordpiece"
    found = ours.encode(WORDS)
    assert found.numbers.tolist() == theirs(WORDS, add_special_tokens=False)["input_ids"]
    spans = [WORDS[start:stop] for start, stop in zip(found.starts, found.stops)]
    assert spans[:4] == ["The", "cat", "s", "sat"]
    assert spans[5:8] == ["[MASK]", "un", "able"]
    assert spans[9:] == (["naï", "ve", "dog"] if lowercase else ["naïve", "dog"])
    named = (ours.padding, ours.unknown, ours.begin, ours.end, ours.mask)
    assert named == tuple(range(5))
    assert ours.ordinary.tolist() == list(range(5, len(PIECES)))
    assert ours.unknown_parts(WORDS)[:2] == [":", ","]
    assert ours.decode(found.numbers[:4]) == ("the cats sat" if lowercase else "The cats sat")
    again = Tokenizer.from_json(ours.to_json())
    assert (again.kind, again.encode(WORDS).numbers.tolist()) == ("wordpiece", found.numbers.tolist())


def test_their_library_reads_our_tokens(theirs, tmp_path):
    """A vocabulary with large letters: their own class would write texts small."""
    write(theirs, tmp_path / "theirs")
    (tmp_path / "theirs/tokenizer_config.json").write_text('{"do_lower_case": false}')
    trained = from_checkpoint(tmp_path / "theirs")
    to_checkpoint(trained, tmp_path / "again")
    read = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    found = read(WORDS)["input_ids"]
    assert found == [2, *trained.encoder.tokenizer.encode(WORDS).numbers.tolist(), 3]
    assert PIECES.index("The") in found
    special = (read.unk_token, read.cls_token, read.sep_token, read.mask_token, read.pad_token)
    assert special == ("[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]")
    assert read("the", "cat")["token_type_ids"] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("kind", ["words", "characters", "bpe"])
def test_the_kind_of_a_tokenizer_is_seen(kind):
    tokenizer = Tokenizer.fit([WORDS], kind, 300)
    assert Tokenizer.from_json(tokenizer.to_json()).kind == kind


@pytest.mark.parametrize(
    ("content", "message"),
    [("a\nb\n", r"\[UNK\] is missing"), ("[UNK]\na\na\n", "a token occurs twice")],
)
def test_vocabularies_that_cannot_be_read(tmp_path, content, message):
    (tmp_path / "vocab.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        Tokenizer.from_word_pieces(str(tmp_path / "vocab.txt"))
    with pytest.raises(DataError, match="its model is 'Unigram'"):
        Tokenizer.from_json('{"model": {"type": "Unigram"}}')


def test_a_model_of_ours_is_read_by_their_library(tmp_path):
    """With words for tokens, and no token types given."""
    tokenizer = Tokenizer.fit(["the cat sat on the mat"], "words", special=("<mask>",))
    settings: TransformerSettings = replace(bert(1, 2, 8), context=8)
    trained = from_network(tokenizer, scattered(MaskedModel(len(tokenizer), settings)))
    to_checkpoint(trained, tmp_path / "theirs")
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path / "theirs").eval()
    read = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    given = read("the cat <mask> on the mat", return_tensors="pt")
    assert given["input_ids"][0].tolist() == tokenizer.encode("the cat <mask> on the mat").numbers.tolist()
    assert read.mask_token_id == tokenizer.mask
    with torch.no_grad():
        expected = theirs(**given).logits
        torch.testing.assert_close(trained.model(TokenBatch(given["input_ids"])), expected, rtol=1e-4, atol=1e-5)
    again = from_checkpoint(tmp_path / "theirs")
    assert again.encoder.tokenizer.kind == "words"


def test_vectors_of_texts_and_chunks_of_sentences_have_the_tokens_around_them(theirs, tmp_path):
    theirs.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES, *(f"w{place}" for place in range(50 - len(PIECES)))]))
    trained, read = from_checkpoint(tmp_path), transformers.BertTokenizerFast(str(tmp_path / "vocab.txt"))
    texts = ["the cats sat", "unable"]
    vectors = text_vectors(trained, texts_from_arrays(texts))
    for text, vector in zip(texts, vectors):
        given = read(text, return_tensors="pt")
        with torch.no_grad():
            expected = theirs.bert(**given).last_hidden_state[0].mean(0)
        torch.testing.assert_close(torch.from_numpy(vector), expected, atol=1e-5, rtol=1e-5)

    words = ["the", "cats", "unable", "sat"]
    (chunk,) = chunks_of(words, trained.encoder.tokenizer, 24)
    given = read(words, is_split_into_words=True)
    assert chunk.numbers.tolist() == given["input_ids"]
    assert chunk.firsts.tolist() == [given.word_ids().index(word) for word in range(4)]
    assert (chunk.starts == chunk.stops).nonzero()[0].tolist() == [0, len(chunk.numbers) - 1]
    for piece in chunks_of(words * 5, trained.encoder.tokenizer, 10):
        assert len(piece.numbers) <= 10
        assert [piece.numbers[0], piece.numbers[-1]] == [read.cls_token_id, read.sep_token_id]

    # A text that is longer than the model reads at once is read in pieces, each with the tokens around it.
    ids = read("the cat " * 30, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        pieces = [torch.tensor([[2, *ids[start : start + 22], 3]]) for start in range(0, len(ids), 22)]
        expected = torch.cat([theirs.bert(piece).last_hidden_state[0] for piece in pieces]).mean(0)
    (vector,) = text_vectors(trained, texts_from_arrays(["the cat " * 30]))
    torch.testing.assert_close(torch.from_numpy(vector), expected, atol=1e-5, rtol=1e-5)


def test_texts_without_a_token_have_no_vector(tmp_path):
    """BERT's normalizer drops control characters."""
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    tokenizer = Tokenizer.from_word_pieces(str(tmp_path / "vocab.txt"))
    trained = from_network(tokenizer, MaskedModel(len(tokenizer), bert(1, 2, 8)).eval())
    assert np.isnan(text_vectors(trained, texts_from_arrays(["\x07", "\x07\x07"]))).all()
    some = text_vectors(trained, texts_from_arrays(["\x07", "the cat"]))
    assert np.isnan(some).all(axis=1).tolist() == [True, False]
