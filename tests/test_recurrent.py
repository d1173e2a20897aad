"""Attention as it came in: every formula by hand, padding that is never read, weights that are recorded."""

import itertools

import pytest
import torch

from edgewise import SettingError, ShapeError, Trace
from edgewise.layers import RecurrentDecoder, RecurrentEncoder

CELLS, LOOKS = ["rnn", "gru", "lstm"], ["bahdanau", "dot", "general", "concat"]
DIM, WORDS, PLACES = 6, 4, 7


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decoder(**options):
    torch.manual_seed(0)
    return RecurrentDecoder(3, DIM, **options).double()


def by_hand(layer, nodes, source):
    """One sentence, word after word, with nothing but torch's cells and matrices."""
    hidden = torch.tanh(layer.begin(source.mean(0)))
    memory, fed, found, looked = torch.zeros(DIM).double(), torch.zeros(DIM).double(), [], []

    def moved(x, hidden, memory):
        if isinstance(layer.cell, torch.nn.LSTMCell):
            return layer.cell(x, (hidden, memory))
        return layer.cell(x, hidden), memory

    def look(hidden, time):
        match layer.score:
            case "dot":
                scores = source @ hidden
            case "general":
                scores = source @ (layer.weight.T @ hidden)
            case _:
                scores = torch.tanh(layer.query(hidden) + layer.key(source)) @ layer.vector
        places = torch.arange(len(source)).double()
        if layer.local is None:
            weights = scores.softmax(0)
        else:
            center = time if layer.local == "monotonic" else len(source) * layer.place(hidden).sigmoid()
            near = (places - center).abs() <= layer.window
            weights = scores.masked_fill(~near, -torch.inf).softmax(0)
            weights = weights * torch.exp(-((places - center) ** 2) / (2 * (layer.window / 2) ** 2))
        looked.append(weights)
        return weights @ source

    for time, node in enumerate(nodes):
        read = torch.cat([node, fed]) if layer.input_feeding else node
        if layer.score == "bahdanau":
            context = look(hidden, time)
            hidden, memory = moved(torch.cat([read, context]), hidden, memory)
        else:
            hidden, memory = moved(read, hidden, memory)
            context = look(hidden, time)
        fed = torch.tanh(layer.output(torch.cat([context, hidden])))
        found.append(fed)
    return torch.stack(found), torch.stack(looked)


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize(("cell", "look"), list(itertools.product(CELLS, LOOKS)))
def test_every_cell_with_every_look_by_hand(cell, look, input_feeding):
    layer = decoder(cell=cell, score=look, input_feeding=input_feeding)
    nodes, source = draw(2, WORDS, 3), draw(2, PLACES, DIM, seed=1)
    trace = Trace()
    found = layer(nodes, source, trace=trace)
    torch.testing.assert_close(layer(nodes, source), found)
    for member in range(2):
        expected, weights = by_hand(layer, nodes[member], source[member])
        torch.testing.assert_close(found[member], expected)
        recorded = torch.cat([each.to_dense()[member, 0] for each in trace.weights])
        torch.testing.assert_close(recorded, weights)


OPTIONS = [{"score": look} for look in LOOKS] + [
    {"score": look, "local": local} for look in LOOKS[1:] for local in ("monotonic", "predictive")
]


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_no_words_and_an_empty_source(options, input_feeding):
    """As many outputs as words; out of a source of no places comes zero."""
    layer = decoder(input_feeding=input_feeding, **options)
    nodes, source = draw(2, WORDS, 3), draw(2, PLACES, DIM, seed=1)
    none = layer(nodes[:, :0], source)
    assert (none.shape, none.dtype) == ((2, 0, DIM), torch.float64)
    none.sum().backward()
    found = layer(nodes, source[:, :0])
    torch.testing.assert_close(found, layer(nodes, source, torch.zeros(2, dtype=torch.int64)))
    found.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("bidirectional", [True, False])
def test_an_encoder_of_nothing(bidirectional):
    layer = RecurrentEncoder(3, DIM, bidirectional=bidirectional).double()
    assert layer(draw(2, 0, 3)).shape == (2, 0, DIM)
    assert layer(draw(0, PLACES, 3), torch.zeros(0, dtype=torch.int64)).shape == (0, PLACES, DIM)


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("look", ["dot", "general", "concat"])
@pytest.mark.parametrize("local", ["monotonic", "predictive"])
def test_local_attention_by_hand(local, look, input_feeding):
    layer = decoder(score=look, local=local, window=2, input_feeding=input_feeding)
    nodes, source = draw(1, WORDS, 3), draw(1, PLACES, DIM, seed=1)
    trace = Trace()
    expected, weights = by_hand(layer, nodes[0], source[0])
    torch.testing.assert_close(layer(nodes, source, trace=trace)[0], expected)
    torch.testing.assert_close(torch.cat([each.to_dense()[0, 0] for each in trace.weights]), weights)
    layer(nodes, source).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in layer.parameters())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"score": "dot", "input_feeding": False},
        {"score": "concat"},
        {"score": "bahdanau"},
        {"local": "monotonic"},
        {"local": "predictive"},
    ],
    ids=str,
)
def test_padding_is_never_read(options):
    layer, nodes, lengths = decoder(**options), draw(3, WORDS, 3), torch.tensor([7, 4, 5])
    source = draw(3, PLACES, DIM, seed=1)
    for member, length in enumerate(lengths):
        source[member, length:] = torch.nan
    found = layer(nodes, source.requires_grad_(), lengths)
    for member, length in enumerate(lengths):
        alone = layer(nodes[member : member + 1], source[member : member + 1, :length])
        torch.testing.assert_close(found[member : member + 1], alone)
    found.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    for member, length in enumerate(lengths):
        assert (source.grad[member, length:] == 0).all()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_the_encoder_reads_each_sentence_alone(cell, bidirectional):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(3, DIM, cell=cell, num_layers=2, bidirectional=bidirectional).double()
    nodes, lengths = draw(3, PLACES, 3), torch.tensor([4, 7, 1])
    found = encoder(nodes, lengths)
    for member, length in enumerate(lengths):
        torch.testing.assert_close(found[member, :length], encoder(nodes[member : member + 1, :length])[0])
        assert (found[member, length:] == 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "transformer"}, "cell must be one of rnn, gru, lstm"),
        ({"score": "cosine"}, "score must be one of bahdanau"),
        ({"local": "global"}, "local must be one of monotonic"),
        ({"score": "bahdanau", "local": "monotonic"}, "local is Luong's"),
        ({"score": "dot", "source_dim": 4}, "use 'general'"),
        ({"window": 0}, "window must be a whole number of at least 1, not 0"),
    ],
    ids=str,
)
def test_decoders_that_cannot_be(options, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        RecurrentDecoder(3, DIM, **options)
    with pytest.raises(SettingError, match="must be even"):
        RecurrentEncoder(3, 5)


@pytest.mark.parametrize("local", ["monotonic", "predictive"])
def test_places_in_half_precision(local):
    """Beyond 256 bfloat16 skips places: a window would see neighbors of another word."""
    torch.manual_seed(0)
    decoder = RecurrentDecoder(4, 8, local=local, window=3).bfloat16()
    exact = RecurrentDecoder(4, 8, local=local, window=3)
    exact.load_state_dict(decoder.state_dict())
    states, hidden = torch.randn(1, 700, 8).bfloat16(), torch.randn(1, 1, 8).bfloat16()
    distance = decoder._distance(hidden, decoder.source(states), 601)
    expected = exact._distance(hidden.float(), exact.source(states.float()), 601)
    torch.testing.assert_close(distance.float(), expected, atol=0.0 if local == "monotonic" else 1.5, rtol=0)
    assert decoder(torch.randn(1, 2, 4).bfloat16(), states).isfinite().all()


@pytest.mark.parametrize(
    ("nodes", "source", "message"),
    [
        (draw(2, 3, 5), draw(2, 4, DIM), "axis 'feature' is 5 in nodes, but the layer was made for 3"),
        (draw(2, 3, 3), draw(2, 4, 5), "axis 'feature' is 5 in source, but the layer was made for 6"),
        (draw(2, 3, 3), draw(1, 4, DIM), "axis 'graph' is 2 in nodes but 1 in source"),
        (draw(1, 3, 3), draw(2, 4, DIM), "axis 'graph' is 1 in nodes but 2 in source"),
        (draw(3, 3), draw(1, 4, DIM), r"nodes must have the axes \(graph, node, feature\), not shape \(3, 3\)"),
        (draw(2, 3, 3), draw(4, DIM), r"source must have the axes \(graph, node, feature\), not shape \(4, 6\)"),
        (draw(2, 3, 3).float(), draw(2, 4, DIM), r"nodes are torch.float32, but the layer's weights torch.float64"),
        (draw(2, 3, 3), draw(2, 4, DIM).long(), r"source must be floating point"),
        (draw(2, 3, 3), None, r"source must be a tensor"),
    ],
)
@pytest.mark.parametrize("score", ["bahdanau", "general"])
def test_words_and_sources_that_do_not_fit(nodes, source, message, score, shapes_unchecked):
    with pytest.raises(ShapeError, match=f"RecurrentDecoder: {message}"):
        decoder(score=score)(nodes, source)


def test_sequences_have_three_axes(shapes_unchecked):
    for nodes in (draw(4, 3).float(), draw(1, 2, 4, 3).float()):
        with pytest.raises(ShapeError, match=r"RecurrentEncoder: nodes must have the axes \(graph, node, feature\)"):
            RecurrentEncoder(3, 4)(nodes)
