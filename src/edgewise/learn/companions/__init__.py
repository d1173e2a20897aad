"""Predictors that stand beside a network, and the stack that weighs them."""

from typing import Any

from edgewise.choices import Registry

NETWORK = "network"
"""The name of the network where its companions are listed by name, as in shares and --show-parts."""
FOREST, GAUSSIAN_PROCESS = "forest", "gaussian-process"
STRUCTURE_NETWORK, WORD_COUNTS = "structure-network", "word-counts"
"""What companions are called in settings and files."""
COMPANIONS: "Registry[Any]" = Registry(
    "companion",
    {
        FOREST: "edgewise.learn.tasks.molecules.companions:FOREST_OF_CLASSES",
        GAUSSIAN_PROCESS: "edgewise.learn.tasks.molecules.companions:PROCESS_OF_NUMBERS",
        STRUCTURE_NETWORK: "edgewise.learn.tasks.molecules.structure_network:NETWORK_OF_STRUCTURES",
        WORD_COUNTS: "edgewise.learn.tasks.text_encoder:COUNTS_OF_WORDS",
    },
    "edgewise.learn.tasks.companions:CompanionKind",
)
"""A `CompanionKind` by each name."""
LABELS = {
    GAUSSIAN_PROCESS: "Gaussian process",
    FOREST: "random forest",
    STRUCTURE_NETWORK: "network without descriptors",
    WORD_COUNTS: "word counts",
}
"""What a terminal and a report call companions; without an entry, by their names."""
