"""`attend(query, key, value)` takes the place of `F.scaled_dot_product_attention` on the same tensors."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given
from hypothesis import strategies as st

from cases import all_backends
from edgewise import Causal, Mask, ScaledDot, Softmax, attend

LOOSE = {torch.float64: (1e-10, 1e-10), torch.float32: (1e-4, 1e-5), torch.bfloat16: (3e-2, 3e-2)}


def assert_same(ours, theirs, leaves, dtype):
    relative, absolute = LOOSE[dtype]
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype == dtype
    torch.testing.assert_close(ours, theirs, rtol=relative, atol=absolute)
    probe = torch.randn(ours.shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    pairs = zip(
        torch.autograd.grad((ours * probe).sum(), leaves, materialize_grads=True),
        torch.autograd.grad((theirs * probe).sum(), leaves, materialize_grads=True),
    )
    for one, other in pairs:
        scale = 1 + float(other.abs().max()) if other.numel() else 1.0
        torch.testing.assert_close(one, other, rtol=relative, atol=absolute * scale)


@st.composite
def shapes(draw):
    size = st.integers(1, 9)
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=4)))
    return batch, draw(size), draw(size), draw(size), draw(size), draw(st.integers(0, 10**6))


@pytest.mark.parametrize("dtype", LOOSE, ids=str)
@pytest.mark.parametrize("backend", [*all_backends, "auto"])
@given(shapes(), st.sampled_from(["full", "causal", "mask", "bias", "scale"]))
def test_random_shapes_masks_and_causal_settings(backend, dtype, shape, kind):
    batch, num_queries, num_keys, key_dim, value_dim, seed = shape
    generator = torch.Generator().manual_seed(seed)

    def draw(*sizes):
        return torch.randn(*sizes, generator=generator).to(dtype).requires_grad_()

    query, key, value = (
        draw(*batch, num_queries, key_dim),
        draw(*batch, num_keys, key_dim),
        draw(*batch, num_keys, value_dim),
    )
    leaves = [query, key, value]
    ours, theirs = {}, {}
    if kind == "causal":
        ours, theirs = {"neighborhood": Causal("start")}, {"is_causal": True}
    elif kind == "mask":
        assume(backend != "numba")  # which refuses it
        whole = (*batch, num_queries, num_keys)
        serves_all = (torch.rand(len(whole), generator=generator) < 0.4).tolist()
        sizes = [1 if serves else size for serves, size in zip(serves_all, whole)]
        missing = int(torch.randint(len(batch) + 1, (1,), generator=generator))
        mask = torch.rand(sizes[missing:], generator=generator) < 0.6
        mask[..., 0] = True  # torch does not say what a row without a key is
        ours, theirs = {"neighborhood": Mask(mask)}, {"attn_mask": mask}
    elif kind == "bias":
        bias = draw(num_queries, num_keys)
        ours, theirs = {"bias": bias}, {"attn_mask": bias}
        leaves.append(bias)
    elif kind == "scale":
        ours, theirs = {"score": ScaledDot(0.3)}, {"scale": 0.3}
    out = attend(query, key, value, backend=backend, **ours)
    assert_same(out, F.scaled_dot_product_attention(query, key, value, **theirs), leaves, dtype)


def test_a_mask_reaches_torchs_kernel_as_small_as_it_is_held(monkeypatch):
    given, kernel = [], F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *x, **y: given.append(y["attn_mask"]) or kernel(*x, **y)
    )
    x, padding = torch.randn(2, 3, 4, 9, 8), Mask(torch.rand(2, 1, 1, 1, 9) < 0.7)
    attend(x[0], x[0], x[0], Mask(padding.mask[0]))
    attend(x[0], x[0], x[0], Mask(padding.mask[0]) & Mask(padding.mask[1]))
    attend(x, x, x, padding)
    attend(x, x, x, Mask(torch.rand(2, 1, 1, 9, 1) < 0.7))
    assert [None if mask is None else mask.numel() for mask in given] == [9, 9, 2 * 3 * 9, None]


def test_auto_gives_the_same_bits_as_torch_itself():
    for dtype in (torch.float32, torch.bfloat16):
        query, key, value = (torch.randn(2, 3, 65, 16, dtype=dtype) for _ in range(3))
        assert torch.equal(attend(query, key, value), F.scaled_dot_product_attention(query, key, value))
        causal = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        assert torch.equal(attend(query, key, value, Causal()), causal)


@pytest.mark.parametrize("backend", [*all_backends, "auto"])
def test_grouped_queries(backend):
    query, key, value = (torch.randn(2, heads, 7, 4, requires_grad=True) for heads in (6, 2, 2))
    theirs = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    split = query.unflatten(1, (2, 3))
    ours = attend(split, key.unsqueeze(2), value.unsqueeze(2), backend=backend).flatten(1, 2)
    assert_same(ours, theirs, [query, key, value], torch.float32)


@pytest.mark.parametrize("backend", [*all_backends, "auto"])
def test_decoding_aligns_at_the_end(backend):
    """One query after many keys, as with a cache: the last row of the whole."""
    query, key, value = (torch.randn(2, 9, 4) for _ in range(3))
    whole = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    for step in range(1, 10):
        out = attend(query[:, step - 1 : step], key[:, :step], value[:, :step], Causal(), backend=backend)
        torch.testing.assert_close(out, whole[:, step - 1 : step])


@pytest.mark.parametrize("backend", [*all_backends, "auto"])
def test_temperature_divides_scores_and_bias_alike(backend):
    query, key, value = (torch.randn(2, 5, 4) for _ in range(3))
    bias = torch.randn(5, 5)
    ours = attend(query, key, value, bias=bias, normalize=Softmax(2.5), backend=backend)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=bias / 2.5, scale=1 / math.sqrt(4) / 2.5)
    torch.testing.assert_close(ours, theirs)


def test_multi_head_attention_of_torch_with_the_same_weights():
    from edgewise.layers import MultiHeadAttention

    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True)
    ours = MultiHeadAttention(12, 3)
    with torch.no_grad():
        for n, linear in enumerate((ours.query, ours.key, ours.value)):
            linear.weight.copy_(theirs.in_proj_weight[12 * n : 12 * n + 12])
            linear.bias.copy_(theirs.in_proj_bias[12 * n : 12 * n + 12].normal_())
        ours.output.weight.copy_(theirs.out_proj.weight)
        ours.output.bias.copy_(theirs.out_proj.bias.normal_())
    query, key, value = torch.randn(2, 5, 12), torch.randn(2, 7, 12), torch.randn(2, 7, 12)
    torch.testing.assert_close(ours(query, key, value), theirs(query, key, value, need_weights=False)[0])
