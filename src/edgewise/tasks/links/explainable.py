"""The links of one graph, as an `Explainer` asks about them."""

from collections.abc import Sequence
from typing import Any, Self

from edgewise.errors import DataError
from edgewise.explanation import Explanation, Told
from edgewise.tasks.explainable import Subject
from edgewise.tasks.links.explain import TARGET, check_ends, explain_link, tell_links, told_link
from edgewise.tasks.links.trained import TrainedLinks
from edgewise.tasks.lookup import SHOWN
from edgewise.train.folder import RunFolder


class LinkSubject(Subject):
    """Pairs of nodes of the graph that a model was trained on, which the model keeps."""

    kind = "graph"
    over = "the links of a graph"

    def __init__(self, trained: TrainedLinks):
        self.trained = trained
        self._place = {name: row for row, name in enumerate(trained.graph.names)}

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """The model of a run folder."""
        return cls(TrainedLinks.load(folder))

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The names of both ends, called as the test pairs of a run call them; where edges go both ways, their order
        says nothing."""
        return [("sender", "node"), ("receiver", "node")]

    @property
    def facts(self) -> dict[str, Any]:
        """What the model is."""
        return {
            "task": "link",
            "targets": [TARGET],
            "classes": {},
            "model": self.trained.settings.model,
            "members": 1,
            "parameters": sum(parameter.numel() for parameter in self.trained.model.parameters()),
            "coverage": None,
        }

    def predict(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Told, ...]]:
        """How probable each link is, no message going along itself."""
        pairs = [self._ends(row) for row in rows]
        told = tell_links(self.trained, [sender for sender, _ in pairs], [receiver for _, receiver in pairs])
        return [(told_link(value),) for value in told.tolist()]

    def explain(self, row: tuple[Any, ...], *, target: str | None, label: Any, top: int | None) -> Explanation:
        """One pair; all weights are kept, as only those near it are looked at."""
        return explain_link(self.trained, *self._ends(row), target=target, label=label)

    def _ends(self, row: tuple[Any, ...]) -> tuple[int, int]:
        """The places of two nodes, by their names."""
        sender, receiver = (self._row_of(field, name) for (field, _), name in zip(self.fields, row, strict=True))
        check_ends(self.trained.graph, sender, receiver)
        return sender, receiver

    def _row_of(self, field: str, name: str) -> int:
        found, names = self._place.get(name.strip()), self.trained.graph.names
        if found is None:
            known = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
            raise DataError(f"{field}: there is no node {name[:60]!r}; the {len(names):,} nodes are {known}.")
        return found
