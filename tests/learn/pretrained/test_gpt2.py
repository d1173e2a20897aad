"""GPT-2 of the transformers library and ours: the same scores, hidden states, attentions and texts, there and back."""

import pytest
import torch

from edgewise import DataError, Trace
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.networks.generate import generate
from edgewise.learn.networks.text_settings import SamplingSettings
from edgewise.learn.pretrained.gpt2 import checkpoint_of, model_of, settings_of

transformers = pytest.importorskip("transformers", reason="pip install transformers, to compare with its GPT-2")


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=24, n_embd=16, n_layer=3, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=None, eos_token_id=None, initializer_range=0.3, attn_implementation="eager",
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config).eval()


@pytest.fixture
def ours(theirs):
    return model_of(theirs.config.to_dict(), theirs.state_dict())


def tokens(*shape):
    return torch.randint(50, shape, generator=torch.Generator().manual_seed(1))


def test_scores_and_attentions_are_the_same(theirs, ours):
    given, trace = tokens(2, 20), Trace()
    expected = theirs(given, output_attentions=True, output_hidden_states=True)
    with torch.no_grad():
        torch.testing.assert_close(ours(TokenBatch(given), trace), expected.logits, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ours.nodes(given), expected.hidden_states[-1], rtol=1e-4, atol=1e-5)
    for weights, other in zip(trace.weights, expected.attentions, strict=True):
        torch.testing.assert_close(weights.to_dense(), other, rtol=1e-4, atol=1e-6)


def test_the_same_text_is_written(theirs, ours):
    prompt = tokens(5)
    expected = theirs.generate(prompt[None], max_new_tokens=12, do_sample=False, pad_token_id=0)[0, 5:]
    assert list(generate(ours, prompt, SamplingSettings(12, temperature=0))) == expected.tolist()


def test_there_and_back(theirs, ours):
    config, tensors = checkpoint_of(ours)
    again = transformers.GPT2LMHeadModel(transformers.GPT2Config(**config)).eval()
    missing, unexpected = again.load_state_dict(tensors, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    again.tie_weights()
    given = tokens(2, 20)
    torch.testing.assert_close(again(given).logits, theirs(given).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert', expected 'gpt2'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "only False can be converted"),
        ({"activation_function": "silu"}, "activation_function is 'silu'"),
        ({"attn_pdrop": 0.5}, "ours has one dropout"),
    ],
)
def test_configurations_that_cannot_be_converted(theirs, changes, message):
    with pytest.raises(DataError, match=message):
        settings_of(theirs.config.to_dict() | changes)


def test_checkpoints_that_do_not_fit(theirs):
    config, state = theirs.config.to_dict(), theirs.state_dict()
    with pytest.raises(DataError, match=r"no tensor 'h\.3"):
        model_of(config | {"n_layer": 4}, state)
    with pytest.raises(DataError, match="does not have: extra"):
        model_of(config, state | {"extra": torch.zeros(1)})
    with pytest.raises(DataError, match="does not fit"):
        model_of(config | {"n_positions": 25}, state)


def test_weights_that_are_no_weights(theirs):
    """An output of its own was dropped, whole numbers were read as weights, NaN was converted."""
    config, state = theirs.config.to_dict(), theirs.state_dict()
    with pytest.raises(DataError, match=r"lm_head\.weight differs from wte\.weight; only tied outputs"):
        model_of(config, state | {"lm_head.weight": torch.ones(50, 16)})
    name = "transformer.h.0.mlp.c_fc.weight"
    with pytest.raises(DataError, match=r"h\.0\.mlp\.c_fc\.weight is int8, expected float; quantized"):
        model_of(config, state | {name: state[name].to(torch.int8)})
    with pytest.raises(DataError, match=r"h\.0\.mlp\.c_fc\.weight holds NaN or infinity"):
        model_of(config, state | {name: state[name] * torch.nan})


def test_a_file_that_keeps_the_output_of_two_tied_tensors(theirs, ours):
    state = dict(theirs.state_dict())
    del state["transformer.wte.weight"]
    assert torch.equal(model_of(theirs.config.to_dict(), state).embedding.weight, ours.embedding.weight)
