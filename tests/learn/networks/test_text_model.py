"""The model of texts: one text does not see another, the order of rows changes nothing, gradients reach everything."""

import pytest
import torch

from edgewise import SettingError, ShapeError, Trace
from edgewise.learn.batches.tokens import TextRowBatch
from edgewise.learn.networks.encoder import drop_words
from edgewise.learn.networks.text import TextModel
from edgewise.learn.networks.text_settings import TextSettings, TransformerSettings

SIZES = {"num_layers": 2, "num_heads": 2, "model_dim": 8, "hidden_dim": 16}
LENGTHS = (3, 1, 5)
ENCODERS = ("transformer", "lstm", "gru", "rnn")


def model_of(encoder="transformer", readout="attention", **settings):
    torch.manual_seed(0)
    text = TextSettings(encoder=encoder, readout=readout, word_dropout=0.5)
    model = TextModel(20, 0, 3, text, TransformerSettings(**SIZES, **settings)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def batch_of(*texts, segments=None):
    offsets = torch.tensor([0, *(len(text) for text in texts)]).cumsum(0)
    return TextRowBatch(torch.cat(list(texts)), offsets, segments)


def some_texts():
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(1, 20, (length,), generator=generator) for length in LENGTHS]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("readout", ["attention", "mean", "sum", "max"])
def test_each_text_is_read_by_itself(encoder, readout):
    model, texts = model_of(encoder, readout), some_texts()
    together = model(batch_of(*texts))
    assert together.shape == (3, 3)
    alone = torch.cat([model(batch_of(text)) for text in texts])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(model(batch_of(*reversed(texts))), alone.flip(0))


@pytest.mark.parametrize("position", ["rotary", "learned", "sinusoidal", "alibi", "t5", "shaw", "none"])
@pytest.mark.parametrize("window", [None, 3])
def test_positions_begin_anew_in_every_text(position, window):
    model, texts = model_of(position=position, window=window), some_texts()
    alone = torch.cat([model(batch_of(text)) for text in texts])
    torch.testing.assert_close(model(batch_of(*texts)), alone)
    turned = model(batch_of(*(text.roll(1) for text in texts)))
    if position == "none" and window is None:
        torch.testing.assert_close(turned, alone)
    else:
        assert not torch.allclose(turned[2], alone[2])


def test_a_column_of_its_own_changes_a_token():
    model, texts = model_of(num_segments=2), some_texts()
    first, second = (torch.full((sum(LENGTHS),), column) for column in (0, 1))
    torch.testing.assert_close(model(batch_of(*texts, segments=first)), model(batch_of(*texts)))
    assert not torch.allclose(model(batch_of(*texts, segments=second)), model(batch_of(*texts)))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_weight_learns(encoder):
    model = model_of(encoder).train()
    model(batch_of(*some_texts())).square().sum().backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert set(silent) <= {"readout.key.bias"}  # softmax does not see what all scores share


def test_words_are_hidden_in_training_only():
    model, batch = model_of("lstm"), batch_of(*some_texts())
    torch.testing.assert_close(model(batch), model(batch))
    tokens = drop_words(batch.texts, 0, 0.5).tokens
    assert 0 < int((tokens == 0).sum()) < len(tokens)
    assert (tokens[tokens != 0] == batch.tokens[tokens != 0]).all()
    assert not torch.allclose(model.train()(batch), model(batch))


def test_weights_are_recorded_layer_by_layer_and_readout_last():
    trace = Trace()
    model_of()(batch_of(*some_texts()), trace)
    assert len(trace.weights) == 3
    for weights in trace.weights:
        table = weights.to_dense()
        torch.testing.assert_close(table.sum(-1), torch.ones_like(table.sum(-1)))


def test_more_tokens_than_positions_were_learned():
    with pytest.raises(ShapeError, match="5 tokens, but only 4 positions"):
        model_of(position="learned", context=4)(batch_of(*some_texts()))


@pytest.mark.parametrize("settings", [{"encoder": "cnn"}, {"readout": "first"}, {"word_dropout": 1.0}], ids=str)
def test_settings_that_cannot_be(settings, shapes_unchecked):
    with pytest.raises(SettingError, match="--" + next(iter(settings)).replace("_", "-")):
        TextSettings(**settings)
