"""Attention as it came in: a recurrent decoder that looks back at the states of a recurrent encoder, word after word.

    Bahdanau et al. 2015   s_t = cell(s_{t−1}, [x_t; c_t])      c_t = attend(s_{t−1}, states)
    Luong et al. 2015      s_t = cell(s_{t−1}, x_t)             c_t = attend(s_t, states)

and in both h_t = tanh(W [c_t; s_t]) goes to the output. The cells are torch's own.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.attend import attend, attention_weights
from edgewise.errors import SettingError
from edgewise.neighborhood import Full, Lengths, Mask, Neighborhood
from edgewise.normalize import Identity
from edgewise.score import Additive, Bilinear, Constant, Dot, Score
from edgewise.trace import Trace, Weights

CellName = Literal["rnn", "gru", "lstm"]
LookName = Literal["bahdanau", "dot", "general", "concat"]
LocalName = Literal["monotonic", "predictive"]
CELLS: dict[str, type[nn.RNNCell] | type[nn.GRUCell] | type[nn.LSTMCell]] = {
    "rnn": nn.RNNCell,
    "gru": nn.GRUCell,
    "lstm": nn.LSTMCell,
}
SEQUENCES: dict[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class RecurrentEncoder(nn.Module):
    """The states of a recurrent network that reads a sequence, forward and (by default) backward.

    Args:
        input_dim: size of what is read at each place.
        model_dim: size of a state, both directions together.
        cell: "rnn" (vanilla, tanh), "gru" or "lstm".
        num_layers: networks one above the other.
        is_bidirectional: whether half of the state has read the sequence from its end.
        dropout: between layers, in training.
    """

    def __init__(
        self,
        input_dim: int,
        model_dim: int,
        *,
        cell: CellName = "lstm",
        num_layers: int = 1,
        is_bidirectional: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        _require("cell", cell, CELLS)
        if is_bidirectional and model_dim % 2 != 0:
            raise SettingError(f"RecurrentEncoder: model_dim ({model_dim}) must be even for two directions.")
        directions = 2 if is_bidirectional else 1
        self.sequence = SEQUENCES[cell](
            input_dim, model_dim // directions, num_layers, batch_first=True, bidirectional=is_bidirectional,
            dropout=dropout if num_layers > 1 else 0.0,
        )  # fmt: skip

    def forward(
        self, nodes: Float[Tensor, " graph node input_dim"], lengths: Int64[Tensor, " graph"] | None = None
    ) -> Float[Tensor, " graph node model_dim"]:
        """The state at every place; zero in the padding, which no state has read."""
        if lengths is None:
            return self.sequence(nodes)[0]
        packed = nn.utils.rnn.pack_padded_sequence(nodes, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = self.sequence(packed)
        return nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=nodes.shape[1])[0]


@dataclass(frozen=True, eq=False)
class RecurrentState:
    """Where a recurrent decoder stands between two words."""

    hidden: Float[Tensor, " graph model_dim"]
    """s_t, the state of the cell."""
    memory: Float[Tensor, " graph model_dim"] | None
    """What an LSTM remembers beside it."""
    attended: Float[Tensor, " graph model_dim"]
    """h_t, what went to the output; zero before the first word."""
    time: int
    """How many words have been read."""


class RecurrentDecoder(nn.Module):
    """A recurrent network that attends to the states of an encoder at every word.

        score   bahdanau v·tanh(W s_{t−1} + U h_j)    dot s_t·h_j    general s_tᵀ W h_j    concat v·tanh(W s_t + U h_j)
        local   monotonic p_t = t    predictive p_t = S · sigmoid(v·tanh(W s_t)), S the length of the source
                only |j − p_t| ≤ window is seen, and weights are multiplied by exp(−(j − p_t)² / (2σ²)), σ = window / 2

    Args:
        input_dim: size of what is read at each word.
        model_dim: size of the state and of the output.
        source_dim: size of the encoder's states; model_dim by default.
        cell: "rnn", "gru" or "lstm".
        look: how well state and source match: "bahdanau", looked up before the cell moves; or Luong's "dot", "general"
            or "concat", after it.
        local: "monotonic" or "predictive" looks at a window of the source only; Luong's.
        window: how far on either side of p_t it reaches.
        is_input_fed: whether h_{t−1} is read together with x_t (Luong's input feeding).

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1; Luong et al. 2015, sections 3.1 to 3.3. Bahdanau's
    maxout before the output is Luong's tanh here.
    Cost: O(words · source · model_dim); the words follow each other.
    """

    def __init__(
        self,
        input_dim: int,
        model_dim: int,
        source_dim: int | None = None,
        *,
        cell: CellName = "lstm",
        look: LookName = "general",
        local: LocalName | None = None,
        window: int = 10,
        is_input_fed: bool = True,
    ):
        super().__init__()
        source_dim = source_dim or model_dim
        _require("cell", cell, CELLS)
        _require("look", look, get_args(LookName))
        if local is not None:
            _require("local", local, get_args(LocalName))
            if look == "bahdanau":
                raise SettingError("RecurrentDecoder: local is Luong's; look must be 'dot', 'general' or 'concat'.")
        if window < 1:
            raise SettingError(f"RecurrentDecoder: window is {window}; expected at least 1.")
        if look == "dot" and source_dim != model_dim:
            raise SettingError(
                f"RecurrentDecoder: look='dot' needs states of one size, but model_dim is {model_dim} and source_dim "
                f"{source_dim}; use 'general'."
            )
        self.model_dim, self.look, self.local, self.window, self.is_input_fed = (
            model_dim, look, local, window, is_input_fed,
        )  # fmt: skip
        fed = model_dim if is_input_fed else 0
        context = source_dim if look == "bahdanau" else 0
        self.cell = CELLS[cell](input_dim + fed + context, model_dim)
        self.begin = nn.Linear(source_dim, model_dim)
        self.output = nn.Linear(source_dim + model_dim, model_dim, bias=False)
        if look == "general":
            self.weight = nn.Parameter(torch.empty(model_dim, source_dim))
            nn.init.xavier_uniform_(self.weight)
        if look in ("bahdanau", "concat"):
            self.query = nn.Linear(model_dim, model_dim, bias=False)
            self.key = nn.Linear(source_dim, model_dim)
            self.vector = nn.Parameter(torch.empty(model_dim).uniform_(-1, 1) * (3 / model_dim) ** 0.5)
        if local == "predictive":
            self.place = nn.Sequential(nn.Linear(model_dim, model_dim, bias=False), nn.Tanh(), nn.Linear(model_dim, 1))

    def forward(
        self,
        nodes: Float[Tensor, " graph word input_dim"],
        source: Float[Tensor, " graph key source_dim"],
        lengths: Int64[Tensor, " graph"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> Float[Tensor, " graph word model_dim"]:
        """h_t of every word, each made from the words up to it and the source.

        Args:
            nodes: what is read, such as the vectors of the words before those to be told.
            source: the encoder's states.
            lengths: how many of them are true; all where None.
            trace: where the weights are recorded, one record a word.
        """
        state, keys, found = self.start(source, lengths), self.keys(source), []
        for node in nodes.unbind(1):
            state = self.step(node, state, source, keys, lengths, trace=trace)
            found.append(state.attended)
        return torch.stack(found, 1)

    def start(self, source: Tensor, lengths: Tensor | None = None) -> RecurrentState:
        """The state before the first word: tanh(W · mean of the encoder's states)."""
        neighborhood = Full() if lengths is None else Lengths(lengths)
        blind = source[..., :1, :1]
        mean = attend(blind, source[..., :1], source, neighborhood, score=Constant(0.0)).squeeze(-2)
        hidden = torch.tanh(self.begin(mean))
        memory = torch.zeros_like(hidden) if isinstance(self.cell, nn.LSTMCell) else None
        return RecurrentState(hidden, memory, torch.zeros_like(hidden), 0)

    def keys(self, source: Tensor) -> Tensor:
        """What states are compared with; the same for all words."""
        return self.key(source) if self.look in ("bahdanau", "concat") else source

    def step(
        self,
        node: Float[Tensor, " graph input_dim"],
        state: RecurrentState,
        source: Float[Tensor, " graph key source_dim"],
        keys: Float[Tensor, " graph key key_dim"],
        lengths: Int64[Tensor, " graph"] | None = None,
        *,
        trace: Trace | None = None,
    ) -> RecurrentState:
        """The state after one more word."""
        if self.is_input_fed:
            node = torch.cat([node, state.attended], -1)
        if self.look == "bahdanau":
            context = self._look(state.hidden, source, keys, lengths, state.time, trace)
            state = self._moved(torch.cat([node, context], -1), state)
        else:
            state = self._moved(node, state)
            context = self._look(state.hidden, source, keys, lengths, state.time - 1, trace)
        return replace(state, attended=torch.tanh(self.output(torch.cat([context, state.hidden], -1))))

    def _moved(self, node: Tensor, state: RecurrentState) -> RecurrentState:
        if isinstance(self.cell, nn.LSTMCell):
            hidden, memory = self.cell(node, (state.hidden, state.memory))
            return replace(state, hidden=hidden, memory=memory, time=state.time + 1)
        return replace(state, hidden=self.cell(node, state.hidden), time=state.time + 1)

    def _look(
        self, hidden: Tensor, source: Tensor, keys: Tensor, lengths: Tensor | None, time: int, trace: Trace | None
    ) -> Tensor:
        """c_t: the source, summed by how well each state matches."""
        query = (self.query(hidden) if self.look in ("bahdanau", "concat") else hidden).unsqueeze(-2)
        neighborhood: Neighborhood = Full() if lengths is None else Lengths(lengths)
        if self.local is not None:
            distance = self._distance(hidden, source, lengths, time)
            near = distance.abs() <= self.window
            seen = neighborhood.to_mask(1, source.shape[-2], source.device)
            neighborhood = Mask(near & seen)
        if trace is None and self.local is None:
            return attend(query, keys, source, neighborhood, score=self._score()).squeeze(-2)
        weights = attention_weights(query, keys, neighborhood, score=self._score())
        table = weights.to_dense()
        if self.local is not None:
            table = table * torch.exp(-2 * (distance / self.window).square())  # σ is half of the window
        if trace is not None:
            values = table[..., weights.receivers, weights.senders]
            trace.record(Weights(weights.senders, weights.receivers, values, source.shape[-2], 1))
        blind = source[..., :1]
        summed = attend(blind[..., :1, :], blind, source, neighborhood, score=Constant(table), normalize=Identity())
        return summed.squeeze(-2)

    def _distance(self, hidden: Tensor, source: Tensor, lengths: Tensor | None, time: int) -> Tensor:
        """How far each source place lies from p_t: `(graph, 1, key)`."""
        places = torch.arange(source.shape[-2], device=source.device, dtype=source.dtype)
        if self.local == "monotonic":
            return (places - time).expand(source.shape[0], 1, -1)
        count = torch.full_like(source[:, 0, 0], source.shape[-2]) if lengths is None else lengths.to(source.dtype)
        place = count * self.place(hidden).squeeze(-1).sigmoid()
        return (places - place.unsqueeze(-1)).unsqueeze(-2)

    def _score(self) -> Score:
        if self.look == "dot":
            return Dot()
        return Bilinear(self.weight) if self.look == "general" else Additive(self.vector)


def _require(name: str, value: str, choices: object) -> None:
    known = list(choices)  # type: ignore[call-overload]
    if value not in known:
        raise SettingError(f"{name} must be one of {', '.join(known)}, not {value!r}.")
