"""A model of tags: packed sentences do not mix, words are hidden in training only, every encoder learns."""

from dataclasses import replace

import pytest
import torch

from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.networks.encoder import RecurrentTokenEncoder, TokenEncoder, drop_words, encoder_of
from edgewise.learn.networks.text import TagModel
from edgewise.learn.networks.text_settings import ReaderSettings, TransformerSettings
from edgewise.learn.tasks.tagging.task import TaggingEncoder, Tags
from edgewise.learn.tasks.vocabulary import tokenizer_and_weights
from edgewise.learn.training.loss import TokenLoss

SMALL = TransformerSettings(num_layers=1, num_heads=2, model_dim=8, context=16)
NAMES = ["transformer", "lstm", "gru", "rnn"]


def model_of(name="transformer", unknown=0, **changes):
    torch.manual_seed(0)
    reader = replace(ReaderSettings(encoder=name, word_dropout=0.0, head_dropout=0.0), **changes)
    return TagModel(11, unknown, 3, reader, SMALL).eval()


def packed(*lengths):
    tokens = torch.randint(1, 11, (sum(lengths),), generator=torch.Generator().manual_seed(1))
    return TokenBatch(tokens, offsets=torch.tensor([0, *lengths]).cumsum(0))


@pytest.mark.parametrize("name", NAMES)
def test_sentences_of_a_batch_do_not_mix(name):
    model, batch = model_of(name), packed(4, 1, 6)
    together = model(batch)
    assert together.shape == (11, 3)
    for begin, stop in zip(batch.offsets[:-1], batch.offsets[1:]):
        alone = TokenBatch(batch.tokens[begin:stop], offsets=torch.tensor([0, stop - begin]))
        torch.testing.assert_close(model(alone), together[begin:stop])


@pytest.mark.parametrize("name", NAMES)
def test_a_token_without_a_tag_counts_nothing(name):
    model, batch = model_of(name), packed(3, 2)
    targets = torch.tensor([1, -1, 2, -1, 0])
    total, count = TokenLoss()(model(batch), targets)
    expected = -model(batch).log_softmax(-1)[[0, 2, 4], [1, 2, 0]].sum()
    torch.testing.assert_close(total, expected)
    assert count == 3


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_every_vocabulary_of_a_run_hides_words(kind):
    """Byte pairs have no unknown token: their <mask> hides words."""
    tokenizer, _ = tokenizer_and_weights(None, ["the cat sat on the mat"], kind, 300, False)
    reader = ReaderSettings(word_dropout=0.9, head_dropout=0.0)
    torch.manual_seed(0)
    network = TaggingEncoder(tokenizer, kind, reader, SMALL).new_network(Tags(("A", "B"), "A")).train()
    batch = TokenBatch.pack([tokenizer.encode("the cat sat on the mat").numbers])
    assert not torch.allclose(network(batch), network(batch))


def test_words_are_hidden_in_training_only():
    batch = packed(200)
    torch.manual_seed(0)
    seen = drop_words(batch, 0, 0.25)
    changed = seen.tokens != batch.tokens
    assert (seen.tokens[changed] == 0).all()
    assert 30 < int(changed.sum()) < 70
    assert drop_words(batch, None, 0.25) is batch
    assert drop_words(batch, 0, 0.0) is batch
    model, small = model_of(word_dropout=0.9), packed(9)
    torch.testing.assert_close(model(small), model(small))
    model.train()
    assert not torch.equal(model(small), model(small))


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_what_the_neighbor_says(name):
    """The tag of each token follows from the token before it."""
    model = model_of(name).train()
    tokens = torch.randint(1, 4, (40, 6), generator=torch.Generator().manual_seed(2))
    batch = TokenBatch(tokens.flatten(), offsets=torch.arange(41) * 6)
    targets = torch.cat([torch.full((40, 1), -1), tokens[:, :-1] - 1], 1).flatten()
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    for _ in range(150):
        total, count = TokenLoss()(model(batch), targets)
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    known = targets >= 0
    assert (model.eval()(batch).argmax(-1) == targets)[known].float().mean() > 0.98


def test_what_reads_has_its_name():
    assert isinstance(encoder_of(5, "transformer", SMALL), TokenEncoder)
    assert isinstance(encoder_of(5, "gru", SMALL), RecurrentTokenEncoder)
