"""The Molecule Attention Transformer: against plain loops, turned and moved, what it records and what it refuses."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from batch_cases import batch_of, changed
from edgewise.errors import DataError, SettingError
from edgewise.explain.symmetry import FIXED, Reflection, Rotation, Translation, check
from edgewise.graph import Batch, Trace
from edgewise.learn.networks.graph_settings import PropertySettings, PropertySizes
from edgewise.learn.networks.molecule_transformer import MoleculeTransformer
from edgewise.learn.networks.property import PropertyModel
from edgewise.neighborhood import Edges

SETTINGS = PropertySettings(
    model="mat", model_dim=6, num_heads=2, num_layers=2, head_dim=8, num_variants=2, attention_share=0.5
)
SIZES = PropertySizes(5, 4, 3, 1, 0, 1)


def batch(**more) -> Batch:
    """A cycle of four atoms with a tail, two atoms without a bond, a lone one; in float64."""
    torch.manual_seed(0)
    ends = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 0], [3, 4]])
    both = torch.cat([ends, ends.flip(1)]).T
    return changed(
        batch_of(
            torch.randn(8, 5, dtype=torch.float64),
            Edges(both[0], both[1], 8, 8),
            torch.randn(10, 4, dtype=torch.float64),
            graph_features=torch.randn(3, 3, dtype=torch.float64),
            offsets=torch.tensor([0, 5, 7, 8]),
            graph_of_row=torch.tensor([[2], [0], [1], [0]]),
            coordinates=torch.randn(8, 3, dtype=torch.float64),
        ),
        **more,
    )


def encoder(settings: PropertySettings = SETTINGS) -> MoleculeTransformer:
    """Every parameter drawn large enough to matter."""
    torch.manual_seed(1)
    model = MoleculeTransformer(SIZES, settings)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def by_loops(model, whole, kernel):
    """The vector of each molecule, molecule by molecule and pair by pair, the dummy first as in the paper's code."""
    vectors = []
    for graph in range(3):
        atoms = list(range(whole.offsets[graph], whole.offsets[graph + 1]))
        num = len(atoms) + 1
        x = torch.stack([model.dummy, *(model.input(whole.node_features[a]) for a in atoms)])
        adjacency, apart = torch.zeros(num, num).double(), torch.full((num, num), 1e6).double()
        pairs = set(zip(whole.edges.senders.tolist(), whole.edges.receivers.tolist()))
        for i, a in enumerate(atoms, start=1):
            for j, b in enumerate(atoms, start=1):
                adjacency[i, j] = a == b or (a, b) in pairs
                apart[i, j] = math.dist(whole.coordinates[a].tolist(), whole.coordinates[b].tolist())
        apart[0, 0] = 0.0
        adjacency[1:] /= adjacency[1:].sum(1, keepdim=True)
        near = (-apart).softmax(1) if kernel == "softmax" else torch.exp(-apart)
        for layer in model.layers:
            h, a = layer.attention_norm(x), layer.attention
            heads = []
            for part in (slice(0, 3), slice(3, 6)):
                scores = (a.query(h)[:, part] @ a.key(h)[:, part].T) / math.sqrt(3)
                mixed = 0.5 * scores.softmax(1) + 0.33 * near + 0.17 * adjacency
                heads.append(mixed @ a.value(h)[:, part])
            x = x + a.output(torch.cat(heads, 1))
            first, _, _, second = layer.feed_forward
            x = x + second(F.gelu(first(layer.feed_forward_norm(x))))
        vectors.append(model.norm(x).mean(0))
    described = model.describe[1](whole.graph_features)
    return torch.cat([torch.stack(vectors), F.silu(described)], 1)


@pytest.mark.parametrize("kernel", ["softmax", "exponential"])
def test_against_loops_over_molecules(kernel):
    model, whole = encoder(replace(SETTINGS, distance_kernel=kernel)), batch().graph
    torch.testing.assert_close(model(whole), by_loops(model, whole, kernel))


def test_a_molecule_that_is_turned_mirrored_or_moved_is_the_same():
    model, whole = encoder(), batch().graph

    def vectors(places):
        return model(replace(whole, coordinates=places))

    group = Rotation() | Reflection() | Translation()
    assert check(vectors, whole.coordinates, group, output_as=FIXED).kind == "invariant"
    # And it does look at them.
    assert not torch.allclose(vectors(whole.coordinates), vectors(1.5 * whole.coordinates))


def test_renumbering_atoms_changes_nothing():
    model, whole = encoder(), batch().graph
    order = torch.tensor([3, 0, 4, 2, 1, 6, 5, 7])
    place = order.argsort()
    renumbered = replace(
        whole,
        node_features=whole.node_features[order],
        coordinates=whole.coordinates[order],
        edges=Edges(place[whole.edges.senders].flip(0), place[whole.edges.receivers].flip(0), 8, 8),
    )
    torch.testing.assert_close(model(renumbered), model(whole))


def test_a_trace_numbers_each_dummy_behind_its_atoms():
    model, whole, trace = encoder(), batch().graph, Trace()
    torch.testing.assert_close(model(whole, trace), model(whole))
    assert len(trace.weights) == 2
    members = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    for weights in trace.weights:
        table = weights.to_dense()
        assert table.shape == (2, 11, 11)
        assert ((table > 0) == (members[:, None] == members)).all()
        torch.testing.assert_close(table.sum(-1), torch.ones(2, 11, dtype=torch.float64))


def test_what_no_atom_looks_at_alone_changes_nothing():
    """With shares of attention and distance only, bonds do nothing; with distance alone, the dummy does nothing."""
    whole = batch().graph
    nowhere = Edges(*[torch.zeros(0, dtype=torch.int64)] * 2, 8, 8)
    unbonded = replace(whole, edges=nowhere, edge_features=None)
    model = encoder(replace(SETTINGS, attention_share=0.5, distance_share=0.5))
    torch.testing.assert_close(model(unbonded), model(whole))
    blind = encoder(replace(SETTINGS, attention_share=1.0, distance_share=0.0))
    torch.testing.assert_close(blind(replace(whole, coordinates=-2 * whole.coordinates)), blind(whole))


def test_a_batch_without_places_is_refused():
    with pytest.raises(DataError, match=r"lacks coordinates, which --model mat needs: use store\.with_coordinates\(\)"):
        PropertyModel(SIZES, SETTINGS).double()(batch(coordinates=None))


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"normalize": "sparsemax"}, "--normalize does nothing with --model mat; leave it out."),
        ({"temperature": 2.0}, "--temperature does nothing with --model mat; leave it out."),
        ({"combine": "mean"}, "--combine does nothing with --model mat; leave it out."),
        ({"score": "dot"}, "--score goes with --model attention; --model mat has its own."),
        ({"distance_kernel": "gaussian"}, "--distance-kernel is 'gaussian'; expected one of softmax, exponential."),
        (
            {"attention_share": 0.8},
            "--attention-share is 0.8 and --distance-share 0.33; expected at least 0, at most 1 together.",
        ),
        (
            {"attention_share": -0.1},
            "--attention-share is -0.1 and --distance-share 0.33; expected at least 0, at most 1 together.",
        ),
        (
            {"distance_share": math.nan},
            "--attention-share is 0.33 and --distance-share nan; expected at least 0, at most 1 together.",
        ),
        ({"model": "attention", "attention_share": 0.5}, "--attention-share does nothing with --model attention; "),
        ({"model": "gat", "distance_share": 0.5}, "--distance-share does nothing with --model gat; leave it out."),
        ({"model": "gcn", "distance_kernel": "exponential"}, "--distance-kernel does nothing with --model gcn; "),
        ({"model": "gcn", "normalize": "mean"}, "--normalize does nothing with --model gcn; leave it out."),
    ],
)
def test_settings_say_what_they_expect(given, message):
    with pytest.raises(SettingError) as caught:
        PropertySettings(**{"model": "mat"} | given)
    assert str(caught.value).startswith(message)
