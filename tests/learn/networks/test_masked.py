"""The encoder of texts and the model of hidden tokens: packing, windows, segments, the head."""

from dataclasses import replace

import pytest
import torch

from edgewise import ShapeError, Trace, UnsupportedError
from edgewise.choices import POSITIONS
from edgewise.learn.batches.tokens import MaskedBatch, TokenBatch
from edgewise.learn.networks.encoder import MaskedModel, TokenEncoder
from edgewise.learn.networks.text_settings import CONFIGURATIONS, TransformerSettings

SMALL = TransformerSettings(num_layers=2, num_heads=2, model_dim=8, context=16)
LENGTHS = (5, 1, 9)
OFFSETS = torch.tensor([0, 5, 6, 15])


def model_of(kind=MaskedModel, **changes):
    torch.manual_seed(0)
    model = kind(11, replace(SMALL, **changes)).eval()
    for parameter in model.parameters():  # far from the start, where all vectors are nearly alike
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def texts():
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(11, (length,), generator=generator) for length in LENGTHS]


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("window", [None, 3, 4])
@pytest.mark.parametrize("changes", [{}, {"norm": "post", "norm_embeddings": True, "num_segments": 2}], ids=str)
def test_packed_texts_are_texts_apart(position, window, changes):
    encoder = model_of(TokenEncoder, position=position, window=window, **changes)
    packed = encoder(TokenBatch(torch.cat(texts()), offsets=OFFSETS))
    torch.testing.assert_close(packed, torch.cat([encoder(TokenBatch(each)) for each in texts()]))
    for each in texts():  # one text alone is packed, too
        torch.testing.assert_close(
            encoder(TokenBatch(each, offsets=torch.tensor([0, len(each)]))), encoder(TokenBatch(each))
        )


@pytest.mark.parametrize("position", POSITIONS)
def test_every_token_sees_all_of_its_text_and_nothing_else(position):
    encoder, tokens = model_of(TokenEncoder, position=position), torch.cat(texts())
    before = encoder(TokenBatch(tokens, offsets=OFFSETS))
    for place in (0, 14):
        other = tokens.clone()
        other[place] = (other[place] + 1) % 11
        changed = (encoder(TokenBatch(other, offsets=OFFSETS)) - before).abs().amax(-1) > 1e-6
        assert changed.tolist() == [(row < 5) == (place < 5) and row != 5 for row in range(15)]


@pytest.mark.parametrize(("window", "reach"), [(1, (0, 0)), (3, (1, 1)), (4, (1, 2))])
def test_a_window_looks_to_both_sides(window, reach):
    encoder, trace = model_of(TokenEncoder, window=window, num_layers=1), Trace()
    encoder(TokenBatch(texts()[2]), trace)
    before, after = reach
    seen = (trace.weights[0].to_dense() > 0).all(0)
    assert seen.tolist() == [[-before <= key - query <= after for key in range(9)] for query in range(9)]


def test_segments_are_learned_vectors():
    encoder, tokens = model_of(TokenEncoder, num_segments=2), texts()[2]
    first, second = torch.zeros_like(tokens), torch.ones_like(tokens)
    plain = encoder(TokenBatch(tokens))
    torch.testing.assert_close(encoder(TokenBatch(tokens, segments=first)), plain)
    assert not torch.allclose(encoder(TokenBatch(tokens, segments=second)), plain)
    with torch.no_grad():
        encoder.embedding.weight += encoder.segment.weight[1]
        encoder.segment.weight[0] = 0
    torch.testing.assert_close(
        encoder(TokenBatch(tokens)), model_of(TokenEncoder, num_segments=2)(TokenBatch(tokens, segments=second))
    )


def test_masked_positions_alone_are_predicted_the_same():
    model, tokens, places = model_of(), torch.cat(texts()), torch.tensor([0, 5, 7, 14])
    everywhere = model(TokenBatch(tokens, offsets=OFFSETS))
    assert everywhere.shape == (15, 11)
    found = model(MaskedBatch(tokens, OFFSETS, places, tokens[places]))
    torch.testing.assert_close(found, everywhere[places])
    assert model(TokenBatch(torch.stack([texts()[2]] * 3))).shape == (3, 9, 11)


def test_the_head_by_hand():
    model, tokens = model_of(activation="relu"), texts()[2]
    nodes, head = model.encoder(TokenBatch(tokens)), model.head
    with torch.no_grad():
        head.bias += torch.arange(11.0)
    hidden = (nodes @ head.dense.weight.T + head.dense.bias).relu()
    normal = (hidden - hidden.mean(-1, keepdim=True)) / (hidden.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    expected = normal @ model.encoder.embedding.weight.T + torch.arange(11.0)
    torch.testing.assert_close(model(TokenBatch(tokens)), expected)


def test_a_model_without_a_head_cannot_predict():
    torch.manual_seed(0)
    model = MaskedModel(11, SMALL, has_head=False)
    with pytest.raises(UnsupportedError, match="without a head"):
        model(TokenBatch(texts()[2]))
    assert model.encoder(TokenBatch(texts()[2])).shape == (9, 8)


def test_positions_that_were_not_learned():
    encoder = model_of(TokenEncoder, position="learned", context=8)
    with pytest.raises(ShapeError, match="9 tokens, but only 8 positions were learned"):
        encoder(TokenBatch(torch.cat(texts()), offsets=OFFSETS))


def test_the_configuration_of_bert_has_its_size():
    """110 million parameters, as published: 109,482,240 with the pooler, which is no part of the encoder."""
    with torch.device("meta"):
        model = TokenEncoder(30_522, CONFIGURATIONS["bert-base"])
    assert sum(parameter.numel() for parameter in model.parameters()) == 109_482_240 - 768 * 769
