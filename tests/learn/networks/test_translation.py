"""A model that reads one text and writes another: masks, caches, beams, sizes."""

import itertools
from dataclasses import fields, replace

import pytest
import torch

from edgewise import SettingError, ShapeError, Trace
from edgewise.layers import Cache
from edgewise.learn.batches.tokens import TranslationBatch
from edgewise.learn.networks.beam import beam_search, translate
from edgewise.learn.networks.text_settings import CONFIGURATIONS, BeamSettings, RecurrentSettings, TransformerSettings
from edgewise.learn.networks.translation import TranslationModel
from edgewise.learn.tasks.translation.settings import MODEL
from edgewise.learn.tasks.translation.task import TranslationEncoder, Translations

SMALL = TransformerSettings(num_layers=2, num_heads=2, model_dim=8, context=32, position="sinusoidal")
RECURRENT = RecurrentSettings(num_layers=2, model_dim=8, dropout=0.0)
TRANSFORMERS = [
    {},
    {"position": "rotary"},
    {"position": "learned"},
    {"norm": "post"},
    {"num_key_heads": 1},
    {"window": 2},
]
LOOKS = [
    *(
        {"attention": look, "input_feeding": fed}
        for look in ("bahdanau", "dot", "general", "concat")
        for fed in (True, False)
    ),
    *({"attention": "general", "local_attention": local, "local_window": 2} for local in ("monotonic", "predictive")),
    {"attention": "dot", "local_attention": "monotonic", "local_window": 1, "input_feeding": False},
]
ALL = [
    *(replace(SMALL, **changes) for changes in TRANSFORMERS),
    *(replace(RECURRENT, cell=cell, **look) for cell in ("lstm", "gru", "rnn") for look in LOOKS),
]
SOME = [
    SMALL,
    RECURRENT,
    replace(RECURRENT, cell="gru", attention="bahdanau"),
    replace(RECURRENT, cell="rnn", **LOOKS[-1]),
]
BEGIN, END = 1, 2


def called(settings):
    """The settings by what differs from the smallest of their kind."""
    usual = SMALL if isinstance(settings, TransformerSettings) else RECURRENT
    changes = {f.name: getattr(settings, f.name) for f in fields(settings)}
    return " ".join(
        [type(settings).__name__[:-8], *(str(v) for n, v in changes.items() if v != getattr(usual, n) or n == "cell")]
    )


every_model = pytest.mark.parametrize("settings", ALL, ids=called)
some_models = pytest.mark.parametrize("settings", SOME, ids=called)


def made(num_tokens, settings):
    encoder = TranslationEncoder(tokenizer=None, num_tokens=num_tokens, settings=settings)
    return encoder.new_network(Translations())


def model_of(settings=SMALL, **changes):
    torch.manual_seed(0)
    model = made(9, replace(settings, **changes)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model


def texts(*shape, seed=1):
    return torch.randint(3, 9, shape, generator=torch.Generator().manual_seed(seed))


@every_model
def test_padding_and_later_tokens_change_nothing(settings):
    model, source, tokens, lengths = model_of(settings), texts(2, 6), texts(2, 5, seed=2), torch.tensor([6, 3])
    scores = model(TranslationBatch(source, lengths, tokens))
    other = source.clone()
    other[1, 3:] = 4
    later = tokens.clone()
    later[:, 3:] = 5
    torch.testing.assert_close(model(TranslationBatch(other, lengths, later))[:, :3], scores[:, :3])
    alone = model(TranslationBatch(source[1:, :3], torch.tensor([3]), tokens[1:]))
    torch.testing.assert_close(alone[0], scores[1])
    other[1, 2] = 3 + (other[1, 2] - 2) % 6
    assert not torch.allclose(model(TranslationBatch(other, lengths, tokens))[1], scores[1])


@pytest.mark.parametrize(("window", "reach"), [(1, (0, 0)), (2, (0, 1)), (3, (1, 1)), (4, (1, 2))])
def test_the_source_is_read_in_a_window_too(window, reach):
    """A token depends on those that two layers reach, whether or not its text is padded."""
    model, source = model_of(window=window), texts(2, 7)
    lengths = torch.tensor([7, 5])
    changed = source.clone()
    changed[:, 3] = 3 + (changed[:, 3] - 2) % 6
    with torch.no_grad():
        differs = (model.read(changed, lengths) - model.read(source, lengths)).abs().amax(-1) > 1e-6
    before, after = reach
    expected = [3 - 2 * after <= place <= 3 + 2 * before for place in range(7)]
    assert differs.tolist() == [expected, [does and place < 5 for place, does in enumerate(expected)]]


@pytest.mark.parametrize("changes", TRANSFORMERS, ids=str)
def test_writing_with_a_cache_equals_one_pass(changes):
    model, source, tokens, lengths = model_of(**changes), texts(3, 6), texts(3, 7, seed=2), torch.tensor([6, 3, 4])
    with torch.no_grad():
        expected, read, cache = model(TranslationBatch(source, lengths, tokens)), model.read(source, lengths), Cache()
        found = [model.write(part, read, lengths, cache=cache) for part in tokens.split([2, 1, 4], 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected)


@pytest.mark.parametrize("changes", TRANSFORMERS, ids=str)
def test_writing_with_a_cache_more_tokens_than_the_source_has(changes):
    model, source, tokens, lengths = model_of(**changes), texts(2, 3), texts(2, 7, seed=2), torch.tensor([3, 2])
    with torch.no_grad():
        expected = model(TranslationBatch(source, lengths, tokens))
        scores = model.write(tokens, model.read(source, lengths), lengths, cache=Cache())
    torch.testing.assert_close(scores, expected)


@every_model
def test_writing_word_by_word_equals_one_pass(settings):
    model, source, tokens, lengths = model_of(settings), texts(3, 6), texts(3, 7, seed=2), torch.tensor([6, 3, 4])
    with torch.no_grad():
        expected, progress = model(TranslationBatch(source, lengths, tokens)), model.begin(source, lengths)
        found = [model.next(column, progress) for column in tokens.unbind(1)]
    torch.testing.assert_close(torch.stack(found, 1), expected)


@some_models
def test_beams_go_on_from_those_that_were_chosen(settings):
    """Two texts of three beams each; after two words the beams go on from others of their text."""
    model, source, lengths = model_of(settings), texts(2, 6), torch.tensor([6, 3])
    tokens, order = texts(6, 4, seed=2), torch.tensor([2, 2, 0, 3, 5, 3])
    with torch.no_grad():
        progress = model.begin(source, lengths, 3)
        for column in tokens[:, :2].unbind(1):
            model.next(column, progress)
        progress.reorder(order)
        found = [model.next(column, progress) for column in tokens[:, 2:].unbind(1)]
        gone = torch.cat([tokens[order, :2], tokens[:, 2:]], 1)
        expected = model(TranslationBatch(source.repeat_interleave(3, 0), lengths.repeat_interleave(3, 0), gone))
    torch.testing.assert_close(torch.stack(found, 1), expected[:, 2:])


def best_by_trying_all(table, settings):
    """The best of all texts of at most so many tokens, where ln p of the next token depends on the one before alone."""
    candidates = []
    for length in range(settings.max_length):
        for text in itertools.product(range(3, 6), repeat=length):
            path = [BEGIN, *text, END]
            total = sum(float(table[a, b]) for a, b in itertools.pairwise(path))
            candidates.append((settings.score(total, length + 1), list(text)))
            if length + 1 == settings.max_length:
                total -= float(table[path[-2], END])
                for last in range(3, 6):
                    cut = total + float(table[path[-2], last])
                    candidates.append((settings.score(cut, length + 1), [*text, last]))
    return max(candidates)[1]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_finds_the_best_text_there_is(seed, length_penalty):
    table = torch.randn(6, 6, generator=torch.Generator().manual_seed(seed))
    table[:, :2] = -torch.inf  # the start token is never generated
    table = table.log_softmax(-1)
    settings = BeamSettings(beam_size=200, length_penalty=length_penalty, max_length=4)
    found = beam_search(lambda tokens, _: table[tokens], 2, BEGIN, END, settings)
    assert found == [best_by_trying_all(table, settings)] * 2


@some_models
def test_one_beam_takes_the_likeliest_token(settings):
    model, source, lengths = model_of(settings), texts(3, 5), torch.tensor([5, 2, 4])
    found = translate(model, source, lengths, BEGIN, END, BeamSettings(beam_size=1, max_length=6))
    for member, text in enumerate(found):
        tokens = [BEGIN]
        while len(tokens) < 7 and tokens[-1] != END:
            batch = TranslationBatch(source[member : member + 1], lengths[member : member + 1], torch.tensor([tokens]))
            tokens.append(int(model(batch)[0, -1].argmax()))
        assert text == [token for token in tokens[1:] if token != END]


@some_models
def test_beams_of_a_batch_do_not_mix(settings):
    model, source, lengths = model_of(settings), texts(4, 5), torch.tensor([5, 2, 4, 5])
    beam = BeamSettings(beam_size=3, max_length=8)
    together = translate(model, source, lengths, BEGIN, END, beam)
    for member in range(4):
        alone = translate(model, source[member : member + 1], lengths[member : member + 1], BEGIN, END, beam)
        assert alone == [together[member]]


def test_the_original_transformer_has_its_size():
    """65 million parameters with the 37,000 byte pairs of English and German, as published."""
    with torch.device("meta"):
        model = TranslationModel(37_000, CONFIGURATIONS["transformer-base"])
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == 37_000 * 512 + 6 * 3_152_384 + 6 * 4_204_032
    assert count == pytest.approx(65e6, rel=0.05)


def test_both_kinds_of_models_have_about_as_many_parameters():
    """With default sizes, so that results can be compared."""
    with torch.device("meta"):
        counts = [
            sum(x.numel() for x in made(8192, settings).parameters()) for settings in (MODEL, RecurrentSettings())
        ]
    assert counts[1] == pytest.approx(counts[0], rel=0.03)


def test_what_a_recurrent_model_looks_at_is_recorded():
    model, source, tokens, lengths = model_of(RECURRENT), texts(2, 6), texts(2, 5, seed=2), torch.tensor([6, 3])
    trace, batch = Trace(), TranslationBatch(source, lengths, tokens)
    torch.testing.assert_close(model(batch, trace=trace), model(batch), rtol=0, atol=0)
    tables = torch.cat([weights.to_dense()[:, 0] for weights in trace.weights], 1)
    assert tables.shape == (2, 5, 6)
    torch.testing.assert_close(tables.sum(-1), torch.ones(2, 5))
    assert (tables[1, :, 3:] == 0).all()


def test_dropout_is_for_training_only():
    model = model_of(RECURRENT, dropout=0.5)
    batch = TranslationBatch(texts(2, 6), torch.tensor([6, 3]), texts(2, 5, seed=2))
    torch.testing.assert_close(model(batch), model(batch), rtol=0, atol=0)
    model.train()
    assert not torch.allclose(model(batch), model(batch))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cell": "transformer"}, "--cell is 'transformer'; expected one of lstm, gru, rnn"),
        ({"attention": "cosine"}, "--attention is 'cosine'; expected one of bahdanau"),
        ({"local_attention": "global"}, "--local-attention is 'global'; expected one of monotonic"),
        (
            {"attention": "bahdanau", "local_attention": "monotonic"},
            "--local-attention goes with --attention dot",
        ),
        ({"local_window": 3}, "--local-window goes with --local-attention"),
        ({"local_attention": "monotonic", "local_window": 0}, "--local-window is 0"),
        ({"num_layers": 0}, "--num-layers is 0"),
        ({"model_dim": 7}, "--model-dim is 7; expected at least 1 and at most 1048576 and even"),
        ({"context": 0}, "--context is 0"),
        ({"dropout": 1.0}, "--dropout is 1.0"),
    ],
    ids=str,
)
def test_recurrent_models_that_cannot_be(settings, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        RecurrentSettings(**settings)


def test_a_source_beyond_what_was_learned():
    model = model_of(position="learned", context=4)
    with pytest.raises(ShapeError, match="5 tokens, but only 4 positions"):
        model.read(texts(1, 5), torch.tensor([5]))


@pytest.mark.parametrize("settings", [{"beam_size": 0}, {"length_penalty": -1}, {"max_length": 0}], ids=str)
def test_beams_that_cannot_be(settings):
    with pytest.raises(SettingError, match="--" + next(iter(settings)).replace("_", "-")):
        BeamSettings(**settings)
