"""The flags of `edgewise train`, in chemprop's words where chemprop has one."""

import argparse
from typing import Any, get_args

from edgewise.choices import (
    ACTIVATIONS,
    CELLS,
    COMBINES,
    LOCALS,
    LOOKS,
    NORMALIZERS,
    POSITIONS,
    SCORES,
    TOKEN_KINDS,
)
from edgewise.data.molecules.limits import MAX_ATOMS, MAX_SECONDS
from edgewise.models.graph_settings import (
    DECODERS,
    GRAPH_READOUTS,
    KERNELS,
    MODELS,
    NODE_MODELS,
    LinkSettings,
    NodeSettings,
    PropertySettings,
)
from edgewise.models.text_settings import CONFIGURATIONS, ReadoutName, RecurrentSettings, TransformerSettings
from edgewise.models.time_settings import DYNAMICS_MODELS, FORECAST_MODELS, TOLD, WEIGHINGS
from edgewise.tasks.registry import TASK_TYPES
from edgewise.train.settings import DEVICES, KEEPS, LOGGERS, LOSSES, OPTIMIZERS, PRECISIONS, TrainSettings

DROPOUTS = {
    "encoder_dropout": "in the layers over the bonds",
    "molecule_dropout": "on the molecule's vector",
    "descriptor_dropout": "on the molecule's descriptors",
    "head_dropout": "on the row's vector",
}


def add_train_options(parser: argparse.ArgumentParser) -> None:
    """Adds all flags; one that is not typed leaves no trace, so that a configuration file can say it."""
    parser.add_argument(
        "data",
        nargs="*",
        metavar="DATA",
        default=argparse.SUPPRESS,
        help="the table; or two tables (training, test), or three (training, validation, test); or a text (.txt)",
    )
    add_folder_options(parser)
    add_column_options(parser)
    add_split_options(parser)
    add_model_options(parser)
    add_recipe_options(parser)
    add_graph_options(parser)
    add_motion_options(parser)
    add_series_options(parser)
    add_text_options(parser)


def add_flag(group: Any, *names: str, **details: Any) -> None:
    """One flag without a default."""
    if details.get("action") not in (None, "store_true"):
        raise ValueError(details["action"])
    group.add_argument(*names, default=argparse.SUPPRESS, **details)


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    """Where the run goes."""
    group = parser.add_argument_group("run folder")
    add_flag(
        group,
        "-o",
        "--output-dir",
        "--save-dir",
        metavar="FOLDER",
        help="the run folder (default: runs/ and the name of the data file)",
    )
    add_flag(
        group,
        "--config-path",
        metavar="FILE",
        help="a TOML file of flags without their dashes, such as config.toml of an earlier run; typed flags win",
    )
    add_flag(group, "--overwrite", action="store_true", help="replace an earlier run in the folder")
    add_flag(group, "--resume", action="store_true", help="continue an interrupted run in the folder")


def add_column_options(parser: argparse.ArgumentParser) -> None:
    """What each column is."""
    group = parser.add_argument_group("columns")
    many = {"nargs": "+", "metavar": "COLUMN"}
    one = {"metavar": "COLUMN"}
    add_flag(group, "--smiles-columns", **many, help="SMILES; several for a cation and an anion in one row")
    add_flag(group, "--text-columns", **many, help="texts: to classify, to score, to translate, to learn from")
    add_flag(group, "--target-columns", **many, help="what to predict (default: every column without another role)")
    add_flag(
        group,
        "--descriptors-columns",
        "--feature-columns",
        **many,
        help="numbers of the row: temperature, pressure, features of a node (default there: what has no other role)",
    )
    add_flag(group, "--ignore-columns", **many, help="columns without a role")
    add_flag(group, "--weight-column", **one, help="how much each row counts in training")
    add_flag(group, "--splits-column", **one, help="train, val (or valid) or test, for each row (link: each edge)")
    add_flag(group, "--group-column", **one, help="rows of one group stay together")
    add_flag(
        group,
        "--task-type",
        choices=("regression", "classification", "multiclass", "auto", *TASK_TYPES),
        help="numbers, two classes or several, or what the targets look like (default: regression for molecules, else "
        "auto: text and two values are classes, other numbers are numbers); or "
        "the next token of a text, its translation, hidden tokens, the tag of each word, where bodies will be, "
        "what the nodes of a graph will be, or which of them are linked",
    )
    add_flag(group, "--strict", action="store_true", help="stop at the first bad cell instead of listing it")


def add_split_options(parser: argparse.ArgumentParser) -> None:
    """Which rows train."""
    group = parser.add_argument_group("training, validation and test rows")
    add_flag(
        group,
        "--split",
        choices=("random", "scaffold", "group"),
        help="how to part the rows (default: random, or group where there is a group column)",
    )
    add_flag(
        group,
        "--split-sizes",
        nargs="+",
        type=float,
        metavar="PART",
        help="parts of training, validation and test rows; zero is legal (default: 0.8 0.1 0.1; link: 0.85 0.05 0.1)",
    )
    add_flag(group, "--data-seed", type=int, metavar="N", help="seed of the split (default: 0)")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The model."""
    group = parser.add_argument_group("model")
    known = PropertySettings()
    add_flag(
        group,
        "--model",
        choices=tuple(
            dict.fromkeys((*MODELS, *NODE_MODELS, *DYNAMICS_MODELS, *FORECAST_MODELS, *CELLS, *CONFIGURATIONS))
        ),
        help=f"the layer (default: {known.model}; mat: Molecule Attention Transformer); for texts {', '.join(CELLS)}, "
        "or the sizes of a paper's model",
    )
    add_flag(group, "--num-layers", type=int, metavar="N", help=f"layers over the bonds (default: {known.num_layers})")
    add_flag(group, "--num-heads", type=int, metavar="N", help=f"attentions side by side (default: {known.num_heads})")
    add_flag(group, "--model-dim", type=int, metavar="N", help=f"size of an atom's vector (default: {known.model_dim})")
    add_flag(group, "--score", choices=SCORES, help="how well two atoms match (default: what --model says)")
    add_flag(group, "--normalize", choices=NORMALIZERS, help=f"scores to weights (default: {known.normalize})")
    add_flag(
        group, "--temperature", type=float, metavar="T", help="of softmax: 0 hard, 1 soft, inf uniform (default: 1)"
    )
    add_flag(group, "--combine", choices=COMBINES, help=f"how heads are joined (default: {known.combine})")
    add_flag(
        group,
        "--attention-share",
        type=float,
        metavar="PART",
        help=f"with mat: of attention, beside distances and bonds (default: {known.attention_share:g})",
    )
    add_flag(
        group,
        "--distance-share",
        type=float,
        metavar="PART",
        help=f"with mat: of distances; bonds have the rest (default: {known.distance_share:g})",
    )
    add_flag(
        group,
        "--distance-kernel",
        choices=KERNELS,
        help=f"with mat: distances to weights (default: {known.distance_kernel})",
    )
    add_flag(group, "--head-dim", type=int, metavar="N", help=f"size of a row's vector (default: {known.head_dim})")
    add_flag(
        group,
        "--num-head-layers",
        type=int,
        metavar="N",
        help=f"blocks it goes through (default: {known.num_head_layers})",
    )
    add_flag(
        group,
        "--num-variants",
        type=int,
        metavar="N",
        help="variants of the head, averaged (default: by the batch size)",
    )
    for name, what in DROPOUTS.items():
        default = getattr(known, name)
        add_flag(group, "--" + name.replace("_", "-"), type=float, metavar="P", help=f"{what} (default: {default:g})")
    group.add_argument(
        "--no-molecule-descriptors",
        dest="molecule_descriptors",
        action="store_false",
        default=argparse.SUPPRESS,
        help="learn from atoms and bonds alone, without RDKit's descriptors of the whole molecule",
    )
    add_molecule_limits(group)


def add_molecule_limits(
    group: argparse._ActionsContainer, *, default: Any = argparse.SUPPRESS, usual: str = ""
) -> None:
    """How large molecules may be, and how long they may take."""
    group.add_argument(
        "--max-atoms",
        type=int,
        metavar="N",
        default=default,
        help=f"reject molecules of more atoms (default: {usual or MAX_ATOMS})",
    )
    group.add_argument(
        "--molecule-timeout",
        type=float,
        metavar="SECONDS",
        default=default,
        help=f"reject molecules whose features take longer (default: {usual or f'{MAX_SECONDS:g}'})",
    )


def add_graph_options(parser: argparse.ArgumentParser) -> None:
    """What only a graph has."""
    group = parser.add_argument_group("graphs: a row is a node, or, with --graph-column, a graph")
    known = NodeSettings()
    add_flag(group, "--edges", metavar="FILE", help="the table of edges, each row the names of two nodes")
    add_flag(group, "--features", metavar="FILE", help=".npz with features, a row a node: x, or SciPy's CSR parts")
    add_flag(group, "--node-column", metavar="COLUMN", help="names of nodes (default: id, node, node_id, or the row)")
    add_flag(group, "--edge-columns", nargs=2, metavar="COLUMN", help="sender and receiver (default: the first two)")
    add_flag(group, "--edge-feature-columns", nargs="+", metavar="COLUMN", help="numbers of an edge")
    add_flag(group, "--node-type-column", metavar="COLUMN", help="of which kind a node is, where there are several")
    add_flag(
        group, "--edge-type-column", metavar="COLUMN", help="what an edge is called, where there are several kinds"
    )
    add_flag(group, "--num-bases", type=int, metavar="N", help="matrices that relations share, with --model rgcn")
    add_flag(group, "--directed", action="store_true", help="edges are one way (default: the other way is added)")
    add_flag(group, "--feature-scale", choices=("auto", "rows", "standard", "none"), help="(default: auto)")
    add_flag(group, "--num-hops", type=int, metavar="N", help=f"steps over the graph (default: {known.num_hops})")
    add_flag(group, "--attention-dropout", type=float, metavar="P", help="of weights (default: what --model says)")
    add_flag(group, "--expander-degree", type=int, metavar="N", help="more neighbors, drawn at random (default: 0)")
    add_flag(group, "--num-virtual-nodes", type=int, metavar="N", help="nodes that see all others (default: 0)")
    add_flag(group, "--laplacian-positions", type=int, metavar="K", help="eigenvectors of the graph (default: 0)")
    add_flag(group, "--random-walk-positions", type=int, metavar="K", help="steps of random walks (default: 0)")
    add_flag(group, "--graph-column", metavar="COLUMN", help="a row is a graph: which one each node belongs to")
    add_flag(group, "--graphs", metavar="FILE", help="a table of graphs: targets, parts (default: the nodes say them)")
    add_flag(group, "--graph-feature-columns", nargs="+", metavar="COLUMN", help="numbers of a graph as a whole")
    add_flag(group, "--category-columns", nargs="+", metavar="COLUMN", help="words of nodes, such as an element")
    add_flag(group, "--decoder", choices=DECODERS, help=f"two nodes to a link (default: {LinkSettings().decoder})")
    add_flag(group, "--negatives", type=int, metavar="N", help="pairs that are no link for each link (default: 1)")


def add_motion_options(parser: argparse.ArgumentParser) -> None:
    """What only moving bodies have."""
    group = parser.add_argument_group("moving bodies, as edgewise simulate writes them")
    add_flag(group, "--told", choices=TOLD, help="what is told of the bodies (default: positions)")
    add_flag(group, "--ahead", type=int, metavar="N", help="moments later that positions are told (default: 10)")
    add_flag(group, "--start", type=int, metavar="N", help="the only moment that is read (default: all)")
    add_flag(group, "--weighing", choices=WEIGHINGS, help="of messages (default: sum)")


def add_series_options(parser: argparse.ArgumentParser) -> None:
    """What only series on a graph have."""
    group = parser.add_argument_group("series: columns are nodes, rows are times")
    add_flag(group, "--time-column", metavar="COLUMN", help="names the steps, and is no node")
    add_flag(group, "--horizon", type=int, metavar="N", help="steps that are told (default: 12)")
    add_flag(group, "--period", type=int, metavar="N", help="steps after which all comes again, such as a day's")


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """What only a text has."""
    group = parser.add_argument_group("texts")
    known = TransformerSettings()
    add_flag(
        group,
        "--tokens",
        choices=TOKEN_KINDS,
        help="what a text is cut into (default: words; characters for one text, bpe for translations)",
    )
    add_flag(group, "--vocabulary-size", type=int, metavar="N", help="words or byte pairs, at most (default: 8192)")
    readouts = tuple(dict.fromkeys((*get_args(ReadoutName), *GRAPH_READOUTS)))
    add_flag(group, "--readout", choices=readouts, help="of a text's tokens, or a graph's nodes (default: attention)")
    add_flag(group, "--word-dropout", type=float, metavar="P", help="tokens hidden in training (default: 0.2)")
    group.add_argument(
        "--from",
        dest="from_run",
        metavar="RUN",
        default=argparse.SUPPRESS,
        help="start from the vocabulary and the weights of a masked run",
    )
    add_flag(group, "--mask-part", type=float, metavar="P", help="of the tokens, to be hidden (default: 0.15)")
    add_flag(group, "--context", type=int, metavar="N", help=f"tokens that are read at once (default: {known.context})")
    add_flag(group, "--steps", type=int, metavar="N", help="steps, where --epochs is not given (default: 2000)")
    add_flag(group, "--position", choices=POSITIONS, help=f"how order is seen (default: {known.position})")
    add_flag(group, "--window", type=int, metavar="N", help="tokens that a token attends to (default: all before it)")
    add_flag(group, "--num-key-heads", type=int, metavar="N", help="heads of keys and values (default: as of queries)")
    add_flag(group, "--hidden-dim", type=int, metavar="N", help="of the feed-forward networks (default: 4 model-dims)")
    add_flag(group, "--norm", choices=("pre", "post"), help=f"before or after each part (default: {known.norm})")
    add_flag(group, "--activation", choices=ACTIVATIONS, help=f"(default: {known.activation})")
    add_flag(group, "--dropout", type=float, metavar="P", help=f"(default: {known.dropout:g}; 0.3 for translations)")
    recurrent = RecurrentSettings()
    add_flag(group, "--cell", choices=CELLS, help="of recurrent translation, as --model says it, too")
    add_flag(group, "--look", choices=LOOKS, help=f"from its decoder to the source (default: {recurrent.look})")
    add_flag(group, "--local", choices=LOCALS, help="it looks at a window of the source (default: at all of it)")
    add_flag(
        group,
        "--local-window",
        type=int,
        metavar="N",
        help=f"how far on either side (default: {recurrent.local_window})",
    )
    group.add_argument(
        "--no-input-feeding",
        dest="input_feeding",
        action="store_false",
        default=argparse.SUPPRESS,
        help="do not read what was last looked up together with the next word",
    )
    add_flag(group, "--label-smoothing", type=float, metavar="P", help="wanted for all tokens alike (default: 0.1)")
    add_flag(group, "--beam-size", type=int, metavar="N", help="translations that grow side by side (default: 4)")
    add_flag(group, "--length-penalty", type=float, metavar="X", help="0 favors short translations (default: 0.6)")
    add_flag(group, "--max-length", type=int, metavar="N", help="tokens of a translation, at most (default: 128)")


def add_recipe_options(parser: argparse.ArgumentParser) -> None:
    """How to train."""
    group = parser.add_argument_group("training")
    known = TrainSettings()
    add_flag(group, "--ensemble-size", type=int, metavar="N", help="models, averaged (default: 1)")
    add_flag(group, "--epochs", type=int, metavar="N", help="passes over the training rows (default: by their number)")
    add_flag(group, "--batch-size", type=int, metavar="N", help="rows a step (default: by their number)")
    add_flag(group, "--optimizer", choices=OPTIMIZERS, help=f"(default: {known.optimizer}; adam for graphs)")
    add_flag(group, "--learning-rate", type=float, metavar="X", help=f"the largest (default: {known.learning_rate:g})")
    add_flag(group, "--final-learning-rate", type=float, metavar="X", help=f"(default: {known.final_learning_rate:g})")
    add_flag(group, "--warmup", type=float, metavar="PART", help=f"of all steps (default: {known.warmup:g})")
    add_flag(group, "--weight-decay", type=float, metavar="X", help=f"(default: {known.weight_decay:g})")
    add_flag(
        group,
        "--second-moment-decay",
        type=float,
        metavar="X",
        help=f"AdamW's second beta (default: {known.second_moment_decay:g})",
    )
    add_flag(group, "--clip-norm", type=float, metavar="X", help=f"of the gradient (default: {known.clip_norm:g})")
    add_flag(group, "--ema-decay", type=float, metavar="X", help=f"of averaged weights (default: {known.ema_decay:g})")
    add_flag(
        group,
        "--patience",
        type=int,
        metavar="N",
        help="stop after N epochs without a better validation loss (default: never)",
    )
    add_flag(group, "--loss-function", choices=LOSSES, help=f"of numbers (default: {known.loss_function})")
    add_flag(
        group,
        "--huber-width",
        type=float,
        metavar="X",
        help=f"errors below it count squared, in standard deviations (default: {known.huber_width:g})",
    )
    add_flag(group, "--keep", choices=KEEPS, help="weights of which epoch (default: last; best with --patience)")
    add_flag(group, "--seed", type=int, metavar="N", help="seed of weights, row order and dropout (default: 0)")
    add_flag(group, "--coverage", type=float, metavar="P", help="promised by the intervals (default: 0.9)")
    group.add_argument(
        "--no-baselines",
        dest="baselines",
        action="store_false",
        default=argparse.SUPPRESS,
        help="do not score the training mean and a random forest",
    )
    group.add_argument(
        "--no-memory-check",
        dest="check_memory",
        action="store_false",
        default=argparse.SUPPRESS,
        help="train even where the estimate says that the memory cannot hold it",
    )
    add_flag(group, "--device", choices=DEVICES, help=f"(default: {known.device})")
    add_flag(
        group,
        "--threads",
        type=int,
        metavar="N",
        help="on the CPU (default: OMP_NUM_THREADS where it is set, else 1; for texts the cores, up to 8, and up to 2 "
        "for tables of texts)",
    )
    add_flag(group, "--precision", choices=PRECISIONS, help=f"bits of a number (default: {known.precision})")
    add_flag(group, "--compile", action="store_true", help="the training step by torch.compile, which takes minutes")
    add_flag(group, "--logger", choices=LOGGERS, help="besides logs/metrics.csv (default: tensorboard, if installed)")
