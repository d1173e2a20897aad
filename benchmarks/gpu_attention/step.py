"""Training steps of three models, ours and peers': the loss, both passes, the optimizer, on one and the same batch.

- the default molecule model on 64 made-up molecules, beside a directed message passing network as chemprop has it; with
  bonds as in the rest of the benchmark, and features of the sizes that the library's own have;
- GAT on the Facebook pages, beside PyTorch Geometric's; where the file is not there, on a graph of their size;
- the language model of characters at nanoGPT's settings for CPUs, beside nanoGPT's in plain torch, on random tokens.

Each is timed as it is called, compiled, and both captured as CUDA graphs. Ours is compiled as by
`edgewise train --compile`: the loss, for any sizes. What a peer compiles is its loss, as torch.compile does by default.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import plain_language
import torch
import torch.nn.functional as F
from cpu_attention.graphs import MissingDataError
from graph_epochs.inputs import PAGES, TINY, WORKLOADS, Inputs, batch_of, made_up, read_plainly
from torch import Tensor, nn

from edgewise.graph import Batch, Graph, Supervision
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.networks.graph_settings import NodeSizes, PropertySettings, PropertySizes
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.node import NodeModel
from edgewise.learn.networks.property import PropertyModel, planned
from edgewise.learn.networks.text_settings import TransformerSettings
from edgewise.learn.training.loss import TargetLoss, TokenLoss, loss_of
from edgewise.neighborhood import Edges
from gpu_attention.case import OURS
from gpu_attention.graphs import ATOMS, bonds
from gpu_attention.plain_molecules import DirectedMessagePassing, Molecules

NODE_FEATURES, EDGE_FEATURES, DESCRIPTORS = 63, 11, 183
"""Of an atom, a bond and a molecule, as the library computes them."""
ROWS, TINY_ROWS = 64, 4
"""Of a batch of molecules."""
VOCABULARY = 65
"""Characters of Shakespeare's."""
CALLED, COMPILED = "as it is called", "compiled"
CAPTURED, BOTH = "captured as a CUDA graph", "compiled and captured"
WAYS = (CALLED, COMPILED, CAPTURED, BOTH)
CHEMPROP, NANOGPT = "chemprop-like plain torch", "nanoGPT-like plain torch"
DENSE, SPARSE = (f"PyTorch Geometric, {features} features" for features in ("dense", "sparse"))
GRAPH = "facebook_pages"
HUBER = TargetLoss("regression", "huber", 0.25)


@dataclass(frozen=True)
class Training:
    """A fresh model, and the batch that it learns in every step."""

    model: nn.Module
    """On its device."""
    loss: Callable[..., Any]
    """Gives the mean loss, or its sum and its weight: the part of a step that is compiled."""
    given: tuple[Any, ...]
    """What the loss is called with."""
    optimizer: Callable[..., torch.optim.Optimizer]
    """Makes one for the parameters."""
    clip_norm: float = 1.0
    """Gradients are scaled down to it; 0 leaves them as they are."""
    is_dynamic: bool | None = None
    """Whether it is compiled for any sizes; None leaves that to torch.compile."""

    def compiled(self) -> "Training":
        """The same model, whose loss is one program."""
        return replace(self, loss=torch.compile(self.loss, dynamic=self.is_dynamic))

    def step(self, *, capturable: bool = False) -> Callable[[], Tensor]:
        """A function that trains for one step and returns the loss before it."""
        parameters = list(self.model.train().parameters())
        optimizer = self.optimizer(parameters, fused=True, capturable=capturable)

        def step() -> Tensor:
            optimizer.zero_grad()
            found = self.loss(*self.given)
            mean = found[0] / found[1] if isinstance(found, tuple) else found
            mean.backward()
            if self.clip_norm:
                nn.utils.clip_grad_norm_(parameters, self.clip_norm)
            optimizer.step()
            return mean.detach()

        return step


Make = Callable[[str, bool], Training]
"""Makes a training on a device, of a tiny batch where it is to be quick."""


def molecules(rows: int) -> Batch:
    """A batch of molecules and targets, on the CPU, where batches are put together."""
    graph = bonds(rows, "cpu")
    random = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random)

    union = Graph(
        numbers(graph.num_nodes, NODE_FEATURES),
        Edges(graph.senders, graph.receivers, graph.num_nodes, graph.num_nodes),
        numbers(graph.num_edges, EDGE_FEATURES),
        numbers(rows, DESCRIPTORS),
        offsets=ATOMS * torch.arange(rows + 1),
    )
    labels = {"targets": numbers(rows, 1), "weights": torch.ones(rows)}
    return Batch(union, Supervision(graph_of_row=torch.arange(rows)[:, None], **labels))


def our_molecules(device: str, quick: bool) -> Training:
    """The default model of molecules."""
    sizes = PropertySizes(NODE_FEATURES, EDGE_FEATURES, DESCRIPTORS, 1, 0, 1)
    settings = replace(PropertySettings(), num_variants=8)
    batch = planned(molecules(TINY_ROWS if quick else ROWS), settings).to(device)
    model = PropertyModel(sizes, settings).to(device)
    return Training(model, loss_of, (model, HUBER, batch), partial(torch.optim.AdamW, lr=2e-3), is_dynamic=True)


def plain_molecules(device: str, quick: bool) -> Training:
    """A directed message passing network on the same molecules, with the same loss."""
    batch = molecules(TINY_ROWS if quick else ROWS)
    model = DirectedMessagePassing(NODE_FEATURES, EDGE_FEATURES, DESCRIPTORS).to(device)
    assert batch.targets is not None
    targets = batch.targets.to(device), batch.weights.to(device)

    def loss(model: nn.Module, batch: Molecules, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        return HUBER(model(batch), targets, weights)

    given = model, Molecules.of(batch).to(device), *targets
    return Training(model, loss, given, partial(torch.optim.AdamW, lr=2e-3))


@lru_cache(maxsize=1)
def pages(quick: bool) -> tuple[Inputs, str]:
    """The Facebook pages, or a graph of their size, and which of the two."""
    if quick:
        return made_up(TINY), "made up, tiny"
    try:
        return read_plainly(GRAPH), f"read from {WORKLOADS[GRAPH].file}"
    except MissingDataError as error:
        return made_up(PAGES), f"made up with the numbers of nodes, edges, features and classes of the file: {error}"


def our_pages(device: str, quick: bool) -> Training:
    """GAT on all training nodes."""
    inputs, recipe = pages(quick)[0], WORKLOADS[GRAPH].recipes["GAT"]
    targets = inputs.labels[inputs.train, None].float()
    batch = batch_of(inputs, recipe.settings).with_targets(targets, None).to(device)
    model = NodeModel(NodeSizes(inputs.features.shape[1], 0, inputs.num_classes), recipe.settings).to(device)
    loss = TargetLoss("multiclass", "mse", num_classes=(inputs.num_classes,))
    adam = partial(torch.optim.Adam, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    return Training(model, loss_of, (model, loss, batch), adam, clip_norm=0.0, is_dynamic=True)


def their_pages(features: str, device: str, quick: bool) -> Training:
    """PyTorch Geometric's GAT on all training nodes."""
    from graph_epochs.models import learner_of

    inputs, recipe = pages(quick)[0].to(device), WORKLOADS[GRAPH].recipes["GAT"]
    learner = learner_of(f"PyG, {features} features, edge_index", "GAT", inputs, recipe)

    def loss(model: nn.Module, rows: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(model()[rows], labels)

    given = learner.model, inputs.train, inputs.labels[inputs.train]
    adam = partial(torch.optim.Adam, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    return Training(learner.model, loss, given, adam, clip_norm=0.0)


def tokens(device: str, quick: bool) -> tuple[Tensor, Tensor]:
    """Windows of random characters, and the same a character later."""
    shape = (2, 16) if quick else (plain_language.BATCH, plain_language.CONTEXT)
    found = torch.randint(VOCABULARY, (shape[0], shape[1] + 1), generator=torch.Generator().manual_seed(0)).to(device)
    return found[:, :-1].contiguous(), found[:, 1:].contiguous()


def our_language(device: str, quick: bool) -> Training:
    """The language model, as `edgewise train language` makes it of these sizes."""
    plain = plain_language
    settings = TransformerSettings(plain.LAYERS, plain.HEADS, model_dim=plain.WIDTH, context=plain.CONTEXT)
    model = NextTokenModel(VOCABULARY, settings).to(device)
    given = model, TokenLoss(), TokenBatch(*tokens(device, quick))
    return Training(model, loss_of, given, _language_adam(), is_dynamic=True)


def their_language(device: str, quick: bool) -> Training:
    """nanoGPT's model, which returns the loss."""
    model = plain_language.Model(VOCABULARY).to(device)
    return Training(model, model, tokens(device, quick), _language_adam())


def _language_adam() -> Callable[..., torch.optim.Optimizer]:
    return partial(torch.optim.AdamW, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)


MODELS: dict[str, dict[str, Make]] = {
    "the default molecule model": {OURS: our_molecules, CHEMPROP: plain_molecules},
    "GAT on the Facebook pages": {
        OURS: our_pages,
        DENSE: partial(their_pages, "dense"),
        SPARSE: partial(their_pages, "sparse"),
    },
    "the language model of Shakespeare's characters": {OURS: our_language, NANOGPT: their_language},
}
"""Who trains what, ours first."""


def training_of(model: str, peer: str, device: str, quick: bool) -> Training:
    """A fresh model from a fixed seed."""
    torch.manual_seed(0)
    return MODELS[model][peer](device, quick)


def facts(quick: bool) -> dict[str, dict[str, Any]]:
    """The sizes of the batches, for the record."""
    inputs, origin = pages(quick)
    rows, (windows, context) = TINY_ROWS if quick else ROWS, tokens("cpu", quick)[0].shape
    graph = molecules(rows).graph
    sizes = {"molecules": rows, "atoms": graph.num_nodes, "bonds": graph.num_edges}
    found = sizes, inputs.facts() | {"origin": origin}, {"windows": windows, "context": context}
    return dict(zip(MODELS, found, strict=True))
