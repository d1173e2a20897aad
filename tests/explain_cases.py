"""Models that were never trained, with weights large enough to tell inputs apart: what explanations are tried on."""

import numpy as np
import torch

from edgewise.data.edges import EdgeList
from edgewise.data.node_features import NodeFeatures
from edgewise.data.nodes import nodes_from_arrays
from edgewise.data.split import Splits
from edgewise.data.text import Tokenizer
from edgewise.data.texts import texts_from_arrays
from edgewise.estimators.node.job import node_job
from edgewise.estimators.node.trained import untrained_nodes
from edgewise.estimators.text.trained import untrained_texts
from edgewise.models.text_settings import TextSettings
from edgewise.models.transformer_settings import TransformerSettings

WORDS = ["the", "film", "was", "great", "awful", "a", "plot", ".", "!"]


def loud(trained, members, seed=0):
    """Members whose weights are drawn large."""
    torch.manual_seed(seed)
    for _ in range(members):
        member = trained.new_member().eval()
        with torch.no_grad():
            for name, parameter in member.named_parameters():
                if parameter.dim() > 1 and "norm" not in name:
                    parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
        trained.members.append(member)
    return trained


def text_model(*, task="classification", columns=1, members=1, encoder="transformer", readout="attention", context=64):
    """An ensemble over texts of `WORDS`."""
    rows = [[" ".join(WORDS)] * columns, [" ".join(WORDS[:4])] * columns, [" ".join(WORDS[4:])] * columns]
    targets = [0.5, 1.5, 4.0] if task == "regression" else ["bad", "good", "bad" if task == "classification" else "so"]
    texts = np.array(rows, dtype=object)
    table = texts_from_arrays(texts if columns > 1 else texts[:, 0], targets, task_type=task)
    settings = TransformerSettings(2, 2, model_dim=16, hidden_dim=16, context=context, num_segments=max(columns, 1))
    trained = untrained_texts(
        table,
        np.arange(3),
        Tokenizer.learned([" ".join(WORDS)], "words"),
        TextSettings(encoder=encoder, readout=readout),
        settings,
        0.9,
    )
    return loud(trained, members)


def node_model(model="gcn", *, task="multiclass", members=1, num_nodes=40, sparse=False, edge_features=0, **settings):
    """A graph of few edges, and an ensemble over its nodes."""
    random = np.random.default_rng(1)
    senders = random.integers(0, num_nodes, num_nodes)
    receivers = (senders + random.integers(1, num_nodes, num_nodes)) % num_nodes
    dim = 80 if sparse else 5
    features = random.normal(size=(num_nodes, dim)) + 0.1
    features *= random.random((num_nodes, dim)) < (0.1 if sparse else 1)
    features = np.abs(features) if sparse else features
    known = random.normal(size=(2 * num_nodes, edge_features)).astype(np.float32)
    edges = EdgeList(np.r_[senders, receivers], np.r_[receivers, senders], known)
    targets = random.normal(size=num_nodes) if task == "regression" else [str(n % 3) for n in range(num_nodes)]
    table = nodes_from_arrays(NodeFeatures.of(features), edges, targets, task_type=task)
    settings = {"model": model, "model_dim": 8, **settings}
    if model in ("gat", "gatv2", "attention"):
        settings.setdefault("num_heads", 2)
    job = node_job({**settings, "data": ("the nodes",), "task_type": task})
    everything = np.arange(num_nodes)
    trained = untrained_nodes(table, Splits(everything, everything[:0], everything[:0]), job)
    return loud(trained, members), table
