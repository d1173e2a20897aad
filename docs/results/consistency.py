"""Consistency training (Feng et al. 2020, GRAND) on the public splits of Cora and CiteSeer, in plain PyTorch.

    python docs/results/consistency.py planetoid [--seeds 3] [--only 0 1 2]

A step computes several views of the graph. In each, other nodes are dropped: the row of a node is zero with probability
`node_dropout`, the others are scaled up. The loss is the mean cross-entropy of the views on the training nodes, plus
`weight` times the mean over all nodes and views of |p − q|², where p are the probabilities of a view and q those of
all views, averaged, raised to the power 1 / `temperature` and normalized; no gradient passes through q.

Test nodes are never read. An epoch is chosen by the lowest validation loss. As accuracies of few nodes are noisy, and
the epoch is chosen by the same nodes, each row also has two accuracies of validation nodes that did not choose the
epoch: half of them choose it (by loss or by accuracy), the other half is scored, over 20 random halves, both ways.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Attempt:
    """A model and how it is trained."""

    name: str
    data: str
    dropout: float
    hidden_dropout: float
    weight_decay: float
    hidden: int = 64
    hops: int = 10
    spreads_inputs: bool = False
    """Whether features are averaged over the distances before the network (GRAND), not its outputs after it (DAGNN)."""
    views: int = 1
    node_dropout: float = 0.0
    drops_outputs: bool = False
    """Whether the outputs of a node before the spreading are dropped, not its features."""
    weight: float = 0.0
    temperature: float = 0.5


CORA = Attempt("hop attention", "cora", 0.8, 0.8, 0.01)
CITESEER = Attempt("hop attention", "citeseer", 0.5, 0.5, 0.02)
OURS = {"views": 2, "node_dropout": 0.5, "weight": 1.0}
THEIRS = {"weight": 0.7, "temperature": 0.3}
ATTEMPTS = (
    CORA,
    replace(CORA, name="consistency, features dropped", **OURS),
    replace(CORA, name="consistency, outputs dropped", **OURS, drops_outputs=True),
    replace(CORA, name="consistency, dropout alone", **{**OURS, "node_dropout": 0.0}),
    Attempt("GRAND, 8 steps", "cora", 0.5, 0.5, 5e-4, 32, 8, spreads_inputs=True, **OURS),
    Attempt("GRAND, 8 steps, weight 0", "cora", 0.5, 0.5, 5e-4, 32, 8, spreads_inputs=True, **{**OURS, "weight": 0.0}),
    CITESEER,
    replace(CITESEER, name="consistency, features dropped", **{**OURS, **THEIRS}),
    replace(CITESEER, name="consistency, outputs dropped", **{**OURS, **THEIRS}, drops_outputs=True),
    Attempt("GRAND, 2 steps", "citeseer", 0.0, 0.2, 5e-4, 32, 2, spreads_inputs=True, **{**OURS, **THEIRS}),
)


class Graph:
    """A citation graph: words as fractions of each node's sum, and edges with loops, normalized on both sides."""

    def __init__(self, file: Path):
        with np.load(file) as content:
            arrays = dict(content)
        count = len(arrays["y"])
        words = sp.csr_matrix(
            (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]), shape=tuple(arrays["x_shape"])
        )
        words = (sp.diags(1 / np.maximum(np.asarray(words.sum(1)).ravel(), 1e-9)) @ words).tocsr()
        self.num_features = words.shape[1]
        self.words = torch.from_numpy(words.indices.astype(np.int64))
        self.starts = torch.from_numpy(words.indptr[:-1].astype(np.int64))
        self.values = torch.from_numpy(words.data.astype(np.float32))
        senders, receivers = arrays["edge_index"]
        edges = sp.coo_matrix((np.ones(len(senders)), (senders, receivers)), shape=(count, count)).tocsr()
        edges = edges.maximum(edges.T)
        edges.setdiag(1)
        edges.data[:] = 1
        scale = sp.diags(1 / np.sqrt(np.asarray(edges.sum(1)).ravel()))
        edges = (scale @ edges @ scale).tocsr().astype(np.float32)
        indices = torch.from_numpy(edges.indptr.astype(np.int64)), torch.from_numpy(edges.indices.astype(np.int64))
        self.edges = torch.sparse_csr_tensor(*indices, torch.from_numpy(edges.data), (count, count))
        self.labels = torch.from_numpy(arrays["y"].astype(np.int64))
        self.num_classes = int(self.labels.max()) + 1
        self.train, self.val = (torch.from_numpy(np.flatnonzero(arrays[f"{name}_mask"])) for name in ("train", "val"))


class Spread(torch.autograd.Function):
    """One step over the symmetric graph, which is its own transpose."""

    @staticmethod
    def forward(ctx, nodes, edges):
        ctx.edges = edges
        return edges @ nodes

    @staticmethod
    def backward(ctx, gradient):
        return ctx.edges @ gradient.contiguous(), None


class Model(torch.nn.Module):
    """A network of two matrices, spread over the graph before or after it."""

    def __init__(self, graph: Graph, attempt: Attempt):
        super().__init__()
        self.graph, self.attempt = graph, attempt
        self.words = torch.nn.Parameter(torch.empty(graph.num_features, attempt.hidden))
        torch.nn.init.xavier_uniform_(self.words)
        self.bias = torch.nn.Parameter(torch.zeros(attempt.hidden))
        self.output = torch.nn.Linear(attempt.hidden, graph.num_classes)
        self.gate = torch.nn.Linear(graph.num_classes, 1)

    def forward(self, views: int) -> torch.Tensor:
        """Logits, (node, view, class)."""
        found = [self.view() for _ in range(views)]
        nodes = [torch.cat(found, 1)]
        for _ in range(self.attempt.hops):
            nodes.append(Spread.apply(nodes[-1], self.graph.edges))
        spread = torch.stack(nodes, 1).unflatten(2, (views, -1))  # (node, hop, view, feature)
        if not self.attempt.spreads_inputs:
            return (torch.sigmoid(self.gate(spread)) * spread).sum(1)
        return self.after(spread.mean(1))

    def view(self) -> torch.Tensor:
        """The nodes before they are spread: their outputs, or what the first matrix makes of their features.

        The first matrix is linear, so it may come before the spreading, which is cheaper.
        """
        graph, attempt = self.graph, self.attempt
        values = F.dropout(graph.values, attempt.dropout, self.training)
        nodes = F.embedding_bag(graph.words, self.words, graph.starts, mode="sum", per_sample_weights=values)
        if not attempt.drops_outputs:
            nodes = self.drop(nodes)
        if not attempt.spreads_inputs:
            nodes = self.after(nodes)
        return self.drop(nodes) if attempt.drops_outputs else nodes

    def after(self, nodes: torch.Tensor) -> torch.Tensor:
        """The network behind the first matrix."""
        return self.output(F.dropout(torch.relu(nodes + self.bias), self.attempt.hidden_dropout, self.training))

    def drop(self, nodes: torch.Tensor) -> torch.Tensor:
        """Whole nodes are zero, the others scaled up."""
        if not self.training or not self.attempt.node_dropout:
            return nodes
        kept = 1 - self.attempt.node_dropout
        return nodes * (torch.rand(len(nodes), 1) < kept) / kept


def consistency(logs: torch.Tensor, temperature: float) -> torch.Tensor:
    """How far the views of a node are from their sharpened mean; logs is (node, view, class)."""
    probabilities = logs.exp()
    sharpened = probabilities.mean(1, keepdim=True).detach() ** (1 / temperature)
    sharpened = sharpened / sharpened.sum(2, keepdim=True)
    return (probabilities - sharpened).square().sum(2).mean()


def train(graph: Graph, attempt: Attempt, seed: int, patience: int = 100) -> list[float]:
    """Accuracies in percent of validation nodes: at the lowest loss, and the two of halves; the loss and its epoch."""
    torch.manual_seed(seed)
    model = Model(graph, attempt)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=attempt.weight_decay)
    right, losses, best = [], [], 0
    while len(losses) < 1000 and len(losses) - best <= patience:
        model.train()
        logs = F.log_softmax(model(attempt.views), 2)
        of_training = logs[graph.train].flatten(0, 1)
        loss = F.nll_loss(of_training, graph.labels[graph.train].repeat_interleave(attempt.views))
        if attempt.weight:
            loss = loss + attempt.weight * consistency(logs, attempt.temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            found, labels = F.log_softmax(model(1)[graph.val, 0], 1), graph.labels[graph.val]
        losses.append(F.nll_loss(found, labels, reduction="none").numpy())
        right.append((found.argmax(1) == labels).numpy())
        if losses[-1].mean() < losses[best].mean():
            best = len(losses) - 1
    losses, right = np.array(losses), np.array(right)
    by_loss, by_accuracy = [], []
    for number in range(20):
        order = np.random.default_rng(number).permutation(len(graph.val))
        for half in np.array_split(order, 2):
            other = np.setdiff1d(order, half)
            by_loss.append(right[losses[:, half].mean(1).argmin()][other].mean())
            order_of = right[:, half].mean(1) - 1e-4 * losses[:, half].mean(1)  # the loss decides between equals
            by_accuracy.append(right[order_of.argmax()][other].mean())
    shares = 100 * np.array([right[best].mean(), np.mean(by_loss), np.mean(by_accuracy)])
    return [*shares, losses[best].mean(), best]


def main() -> None:
    """Prints a row for each attempt."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", type=int, nargs="*", default=range(len(ATTEMPTS)))
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| data | training | accuracy | by seed | halves, by loss | halves, by accuracy | loss | epoch |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for attempt in (ATTEMPTS[number] for number in given.only):
        graph = Graph(given.folder / f"{attempt.data}.npz")
        found = np.array([train(graph, attempt, seed) for seed in range(given.seeds)])
        mean, by_seed = found.mean(0), ", ".join(f"{value:.1f}" for value in found[:, 0])
        cells = f"{mean[0]:.1f} | {by_seed} | {mean[1]:.1f} | {mean[2]:.1f} | {mean[3]:.3f} | {mean[4]:.0f}"
        print(f"| {attempt.data} | {attempt.name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
