"""Attention as it came in: a recurrent decoder attends to the states of a recurrent encoder at every word.

    Bahdanau et al. 2015   s_t = cell(s_{t−1}, [x_t; c_t])      c_t = attend(s_{t−1}, states)
    Luong et al. 2015      s_t = cell(s_{t−1}, x_t)             c_t = attend(s_t, states)

and in both h_t = tanh(W [c_t; s_t]) goes to the output. The cells, and their weights, are torch's own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.attend import attend, attention_weights
from edgewise.choices import LOCALS, LOOKS, CellName, LocalName, LookName
from edgewise.errors import SettingError, ShapeError
from edgewise.graph import Trace
from edgewise.layers.given import require_lengths, require_sequences, size_of, weight_of
from edgewise.layers.heads import with_one_head_axis
from edgewise.layers.linear import Linear, is_plain
from edgewise.neighborhood import Full, Lengths, Mask, Neighborhood
from edgewise.neighborhood.checks import require_rate, require_sizes
from edgewise.score import Additive, Constant, Dot, Score

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
        bidirectional: whether half of the state has read the sequence from its end.
        dropout: between layers, in training.
    """

    def __init__(
        self,
        input_dim: int,
        model_dim: int,
        *,
        cell: CellName = "lstm",
        num_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        _require("cell", cell, CELLS)
        require_sizes("RecurrentEncoder", input_dim=input_dim, model_dim=model_dim, num_layers=num_layers)
        require_rate("RecurrentEncoder", dropout=dropout)
        if bidirectional and model_dim % 2 != 0:
            raise SettingError(f"RecurrentEncoder: model_dim ({model_dim}) must be even for two directions.")

        directions = 2 if bidirectional else 1
        self.sequence = SEQUENCES[cell](
            input_dim, model_dim // directions, num_layers, batch_first=True, bidirectional=bidirectional,
            dropout=dropout if num_layers > 1 else 0.0,
        )  # fmt: skip

    def forward(
        self, nodes: Float[Tensor, " graph node input_dim"], lengths: Int64[Tensor, " graph"] | None = None
    ) -> Float[Tensor, " graph node model_dim"]:
        """The state at every place; zero in the padding, which no state has read."""
        require_sequences("RecurrentEncoder", nodes, self.sequence.input_size, weight_of(self.sequence))
        if lengths is not None:
            require_lengths("RecurrentEncoder", lengths, nodes, least=1)
        if nodes.shape[1] == 0:  # torch refuses it
            return nodes.new_zeros(*nodes.shape[:2], self.sequence.hidden_size * (1 + self.sequence.bidirectional))
        if lengths is None or nodes.shape[0] == 0:
            return self.sequence(nodes)[0]
        packed = nn.utils.rnn.pack_padded_sequence(nodes, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = self.sequence(packed)
        return nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=nodes.shape[1])[0]


@dataclass(frozen=True, eq=False)
class RecurrentSource:
    """What a recurrent decoder reads of the source at every word: computed once."""

    states: Float[Tensor, " graph key source_dim"]
    """The states of the encoder; zero in the padding, whatever it held."""
    keys: Float[Tensor, " graph key key_dim"]
    """What the decoder's state is compared with."""
    counts: Int64[Tensor, " graph"] | None
    """How many of the states are true; all where None."""
    neighborhood: Neighborhood
    """The same for `attend`."""
    looked_weight: Float[Tensor, " gate looked_dim"] | None
    """What the cell makes of that part of its input which is looked up, not read; None where it is called itself."""


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

    def reordered(self, members: Int64[Tensor, " member"]) -> "RecurrentState":
        """These members of the batch, in this order, such as the best beams."""
        memory = None if self.memory is None else self.memory.index_select(0, members)
        hidden, attended = self.hidden.index_select(0, members), self.attended.index_select(0, members)
        return RecurrentState(hidden, memory, attended, self.time)


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
        score: how well state and source match: "bahdanau", looked up before the cell moves; or Luong's "dot", "general"
            or "concat", after it.
        local: "monotonic" or "predictive" attends to a window of the source only; Luong's.
        window: how far on either side of p_t it reaches.
        input_feeding: whether h_{t−1} is read together with x_t (Luong's input feeding).

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1; Luong et al. 2015, sections 3.1 to 3.3. Bahdanau's
    maxout before the output is Luong's tanh here.
    Empty: a source without words counts as zero.
    Cost: O(words · source · model_dim); the words follow each other.
    """

    def __init__(
        self,
        input_dim: int,
        model_dim: int,
        source_dim: int | None = None,
        *,
        cell: CellName = "lstm",
        score: LookName = "general",
        local: LocalName | None = None,
        window: int = 10,
        input_feeding: bool = True,
    ):
        super().__init__()
        source_dim = model_dim if source_dim is None else source_dim
        require_sizes("RecurrentDecoder", model_dim=model_dim, source_dim=source_dim, window=window)
        require_sizes("RecurrentDecoder", 0, input_dim=input_dim)
        _require("cell", cell, CELLS)
        _require("score", score, LOOKS)
        if local is not None:
            _require("local", local, LOCALS)
            if score == "bahdanau":
                raise SettingError("RecurrentDecoder: local is Luong's; score must be 'dot', 'general' or 'concat'.")
        if score == "dot" and source_dim != model_dim:
            raise SettingError(
                f"RecurrentDecoder: score='dot' needs states of one size, but model_dim is {model_dim} and source_dim "
                f"{source_dim}; use 'general'."
            )

        self.input_dim, self.score, self.local, self.window, self.input_feeding = (
            input_dim, score, local, window, input_feeding,
        )  # fmt: skip
        fed = model_dim if input_feeding else 0
        context = source_dim if score == "bahdanau" else 0
        self.cell = CELLS[cell](input_dim + fed + context, model_dim)
        self.has_memory = cell == "lstm"
        self.begin = Linear(source_dim, model_dim)
        self.output = Linear(source_dim + model_dim, model_dim, bias=False)
        if score == "general":
            self.weight = nn.Parameter(torch.empty(model_dim, source_dim))
            nn.init.xavier_uniform_(self.weight)
        if score in ("bahdanau", "concat"):
            self.query = Linear(model_dim, model_dim, bias=False)
            self.key = Linear(source_dim, model_dim)
            self.vector = nn.Parameter(torch.empty(model_dim).uniform_(-1, 1) * (3 / model_dim) ** 0.5)
        if local == "predictive":
            self.place = nn.Sequential(Linear(model_dim, model_dim, bias=False), nn.Tanh(), Linear(model_dim, 1))

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
            nodes: what is read, such as the vectors of the words before those to be predicted.
            source: the encoder's states.
            lengths: how many of them are true; all where None.
            trace: where the weights are recorded: one record a word, or one of all words where the cell reads nothing
                that was looked up.
        """
        require_sequences("RecurrentDecoder", nodes, self.input_dim, weight_of(self.cell))
        read = self.source(source, lengths)
        if nodes.shape[0] != source.shape[0]:
            raise ShapeError(
                f"RecurrentDecoder: axis 'graph' is {nodes.shape[0]} in nodes but {source.shape[0]} in source; each "
                "text has a source of its own."
            )
        state, words, outputs = self.start(read), self.words(nodes).unbind(1), []
        if not words:
            return state.hidden.unsqueeze(1)[:, :0]
        if not self.input_feeding and self.score != "bahdanau" and self.local is None:
            # The cell reads nothing that was looked up: one look serves all words.
            for word in words:
                state = self._moved(word, state)
                outputs.append(state.hidden)
            hidden = torch.stack(outputs, 1)
            return self._joined(self._look(hidden, read, 0, trace), hidden)

        for word in words:
            state = self.step(word, state, read, trace=trace)
            outputs.append(state.attended)

        return torch.stack(outputs, 1)

    def source(
        self, states: Float[Tensor, " graph key source_dim"], lengths: Int64[Tensor, " graph"] | None = None
    ) -> RecurrentSource:
        """The encoded source that every word attends to."""
        require_sequences("RecurrentDecoder", states, size_of(self.begin), weight_of(self.begin), "source")
        neighborhood: Neighborhood = Full()
        if lengths is not None:
            require_lengths("RecurrentDecoder", lengths, states)
            neighborhood = Lengths(lengths)
            is_true = neighborhood.to_mask(1, states.shape[-2], states.device).transpose(-2, -1)
            states = torch.where(is_true, states, 0.0)

        keys = states
        if self.score == "general":  # sᵀ (W h), where h is the same at every word
            keys = nn.functional.linear(states, self.weight)
        elif self.score != "dot":
            keys = self.key(states)

        looked_weight = self.cell.weight_ih[:, self.input_dim :] if self._splits_cell else None
        return RecurrentSource(states, keys.to(states.dtype), lengths, neighborhood, looked_weight)

    def words(self, nodes: Float[Tensor, " *word input_dim"]) -> Float[Tensor, " *word prepared"]:
        """What the cell makes of words, before it knows where it stands: W x + b, of all words at once; or the words
        themselves, where a user changed the cell and it must be called."""
        if not self._splits_cell:
            return nodes
        return nn.functional.linear(nodes, self.cell.weight_ih[:, : self.input_dim], self.cell.bias_ih)

    def start(self, source: RecurrentSource) -> RecurrentState:
        """The state before the first word: tanh(W · mean of the encoder's states)."""
        blind = source.states[..., :1]
        query = blind.new_zeros(*blind.shape[:-2], 1, 1)
        mean = attend(query, blind, source.states, source.neighborhood, score=Constant(0.0)).squeeze(-2)
        hidden = torch.tanh(self.begin(mean))
        memory = torch.zeros_like(hidden) if self.has_memory else None
        return RecurrentState(hidden, memory, torch.zeros_like(hidden), 0)

    def step(
        self,
        word: Float[Tensor, " graph prepared"],
        state: RecurrentState,
        source: RecurrentSource,
        *,
        trace: Trace | None = None,
    ) -> RecurrentState:
        """The state after one more word, which `words` has prepared."""
        looked = [state.attended] if self.input_feeding else []
        if self.score == "bahdanau":
            context = self._look(state.hidden.unsqueeze(-2), source, state.time, trace)
            looked.append(context.squeeze(-2))
        if source.looked_weight is None:
            word = torch.cat([word, *looked], -1)
        elif looked:
            word = word + nn.functional.linear(torch.cat(looked, -1), source.looked_weight)

        moved = self._moved(word, state)
        hidden = moved.hidden.unsqueeze(-2)
        if self.score != "bahdanau":
            context = self._look(hidden, source, state.time, trace)

        return replace(moved, attended=self._joined(context, hidden).squeeze(-2))

    @property
    def _splits_cell(self) -> bool:
        """Whether W x + b of all words is computed at once, beside the cell."""
        return is_plain(self.cell, *CELLS.values()) and getattr(self.cell, "nonlinearity", "tanh") == "tanh"

    def _moved(self, read: Tensor, state: RecurrentState) -> RecurrentState:
        """The state after one step of the cell: torch's, but for W x + b of its input, which comes as `read`."""
        if not self._splits_cell:
            moved = self.cell(read, state.hidden if state.memory is None else (state.hidden, state.memory))
            hidden, memory = moved if isinstance(moved, tuple) else (moved, None)
            return replace(state, hidden=hidden, memory=memory, time=state.time + 1)

        recurrent = nn.functional.linear(state.hidden, self.cell.weight_hh, self.cell.bias_hh)
        if isinstance(self.cell, nn.LSTMCell):
            assert state.memory is not None
            enter, stay, new, leave = (read + recurrent).chunk(4, -1)
            memory = stay.sigmoid() * state.memory + enter.sigmoid() * new.tanh()
            return replace(state, hidden=leave.sigmoid() * memory.tanh(), memory=memory, time=state.time + 1)

        if isinstance(self.cell, nn.GRUCell):
            (reset, stay, new), (recurrent_reset, recurrent_stay, recurrent_new) = (
                read.chunk(3, -1),
                recurrent.chunk(3, -1),
            )
            new = (new + (reset + recurrent_reset).sigmoid() * recurrent_new).tanh()
            hidden = torch.lerp(new, state.hidden, (stay + recurrent_stay).sigmoid())
        else:
            hidden = (read + recurrent).tanh()

        return replace(state, hidden=hidden, time=state.time + 1)

    def _joined(self, context: Tensor, hidden: Tensor) -> Tensor:
        """h_t = tanh(W [c_t; s_t])."""
        return self.output(torch.cat([context, hidden], -1)).tanh()

    def _look(self, hidden: Tensor, source: RecurrentSource, time: int, trace: Trace | None) -> Tensor:
        """c_t: the source, summed by how well each state matches. Local attention is that of one word."""
        query = self.query(hidden) if self.score in ("bahdanau", "concat") else hidden
        query, score = query.to(source.keys.dtype), self._score()
        neighborhood, values, nearness = source.neighborhood, source.states, None

        if self.local is not None:
            distance = self._distance(hidden, source, time)
            seen = neighborhood.to_mask(1, values.shape[-2], values.device)
            neighborhood = Mask((distance.abs() <= self.window) & seen)
            nearness = torch.exp(-2 * (distance / self.window).square()).to(values.dtype)  # σ is half of the window
            values = values * nearness.transpose(-2, -1)
        if trace is not None:
            weights = attention_weights(query, source.keys, neighborhood, score=score)
            if nearness is not None:
                near = nearness[..., weights.receivers, weights.senders]
                weights = replace(weights, values=weights.values * near)
            trace.record(with_one_head_axis(weights, 0))

        return attend(query, source.keys, values, neighborhood, score=score)

    def _distance(self, hidden: Tensor, source: RecurrentSource, time: int) -> Tensor:
        """How far each source place lies from p_t: `(graph, 1, key)`, in float32 or better, where places are exact."""
        states, counts = source.states, source.counts
        dtype = torch.promote_types(states.dtype, torch.float32)
        positions = torch.arange(states.shape[-2], device=states.device, dtype=dtype)
        if self.local == "monotonic":
            return (positions - time).expand(states.shape[0], 1, -1)
        count = states.shape[-2] if counts is None else counts.to(dtype)[:, None, None]
        return positions - count * self.place(hidden).to(dtype).sigmoid()

    def _score(self) -> Score:
        """How well a query and a key match: both are projected where the score has matrices."""
        return Dot() if self.score in ("dot", "general") else Additive(self.vector)


def _require(name: str, value: str, choices: Iterable[str]) -> None:
    names = list(choices)
    if value not in names:
        raise SettingError(f"{name} must be one of {', '.join(names)}, not {value!r}.")
