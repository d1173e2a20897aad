"""A training step of the default molecule model on a device, played on one that holds no numbers.

A tensor on torch's device "meta" has a shape and nothing in it: whatever reads a number back from there fails, as does
whatever makes a size of numbers. On a GPU it would wait for the device, and forbid that the step is captured.
"""

from collections import Counter
from dataclasses import replace

import pytest
import torch

import edgewise.backends.triton as backend
from batch_cases import batch_of
from edgewise import Edges
from edgewise.backends.triton.edges import operators, work
from edgewise.graph import Batch
from edgewise.learn.networks.graph_settings import PropertySettings, PropertySizes
from edgewise.learn.networks.property import PropertyModel, planned
from edgewise.learn.training.loss import TargetLoss
from edgewise.neighborhood import plan as plans
from edgewise.neighborhood.index import sent_together

SETTINGS = replace(PropertySettings(), num_variants=8)
SIZES = PropertySizes(5, 4, 6, 1, 0, 1, low=(0.0,), high=(1.0,))


@pytest.fixture
def launched(monkeypatch):
    """How often each kernel is started; nothing runs."""
    counts = Counter()
    monkeypatch.setattr(backend, "DEVICES", ("meta",))
    for name in ("launch", "launch_tiles"):
        monkeypatch.setattr(operators, name, lambda kernel, programs, *_, **__: counts.update([programs > 0]))
    return counts


def batch(num_graphs: int) -> Batch:
    """Chains of seven atoms, and a star of ten."""
    offsets = torch.cat([7 * torch.arange(num_graphs + 1), torch.tensor([7 * num_graphs + 10])])
    atoms = torch.arange(offsets[-2])
    chain = torch.stack([atoms[:-1], atoms[1:]])[:, atoms[1:] % 7 > 0]
    star = offsets[-2] + torch.stack([torch.zeros(9, dtype=torch.int64), torch.arange(1, 10)])
    ends = torch.cat([chain, star, chain.flip(0), star.flip(0)], 1)
    rows, count = num_graphs + 1, int(offsets[-1])
    return batch_of(
        torch.randn(count, 5),
        Edges(ends[0], ends[1], count, count),
        torch.randn(ends.shape[1], 4),
        graph_features=torch.randn(rows, 6),
        offsets=offsets,
        graph_of_row=torch.arange(rows)[:, None],
        targets=torch.randn(rows, 1),
        weights=torch.ones(rows),
    )


def test_a_step_on_new_molecules_reads_nothing_back(launched):
    model = PropertyModel(SIZES, SETTINGS).to("meta").train()
    optimizer, loss = torch.optim.AdamW(model.parameters(), foreach=True), TargetLoss("regression", "huber")
    for num_graphs in (5, 8):
        there = planned(batch(num_graphs), SETTINGS).to("meta")
        optimizer.zero_grad()
        total, weight = loss(model(there), there.targets, there.weights)
        (total / weight.where(weight > 0, 1.0)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    # Five attentions forward, by receiver, where anything is asked, and by sender.
    assert launched[True] == 2 * (5 + 4 + 5)


def test_rows_of_a_plan_from_the_cpu_are_dealt_out_there():
    edges = planned(batch(3), SETTINGS).graph.looped
    found = work.work_of(edges.to("meta").plan.receiver_offsets, (4,))
    expected = work.deal(edges.plan.receiver_offsets, (4,), work.CHUNK)
    assert {x.device.type for x in found.chunks} == {"meta"}
    assert [len(x) for x in found.chunks] == [len(x) for x in expected.chunks]
    assert found.levels == expected.levels == {0: range(1), 1: range(1, 31)}


def test_tensors_sent_together_are_what_they_were():
    parts = [torch.arange(count) for count in (5, 0, 4, 1, 9)]
    for dtype in (torch.int32, torch.int64):
        given = [part.to(dtype) for part in parts]
        found = sent_together(given, "cpu")
        assert all(map(torch.equal, found, given))
        assert all(x.storage_offset() * x.element_size() % 16 == 0 for x in found)
        assert len({x.untyped_storage().data_ptr() for x in found}) == 1


def test_a_plan_remembers_where_it_came_from():
    edges = planned(batch(2), SETTINGS).graph.looped
    there = edges.to("meta").plan
    assert plans.at_home(there.sender_offsets) is edges.plan.sender_offsets
    assert plans.at_home(edges.plan.senders) is edges.plan.senders
