"""Estimators: written by docs/estimators.py from the settings of tasks; change those, and run it again.

A constructor stores its parameters; `fit` checks them. What methods do stands in the functions that they call.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from edgewise.learn.estimators import graph_rows, row_methods, state
from edgewise.learn.estimators.rows import RowAdapter, Supervision
from edgewise.learn.estimators.scikit_learn import ClassifierMixin, RegressorMixin, tags_of
from edgewise.learn.estimators.state import Estimator

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from edgewise.explain.explanation import Explanation
    from edgewise.explain.methods import Choice
    from edgewise.learn.estimators.inputs import EdgesInput, GraphInput, GraphsInput, SeriesInput, Table
    from edgewise.learn.readers.motion.motion import Motion
    from edgewise.learn.tasks.motion.forces import Rollout

# Tasks are imported where they are used first: a model of nodes needs no RDKit.


def _edges() -> RowAdapter:
    from edgewise.learn.estimators.edges import EDGES

    return EDGES


def _graphs() -> RowAdapter:
    from edgewise.learn.estimators.graphs import GRAPHS

    return GRAPHS


def _molecules() -> RowAdapter:
    from edgewise.learn.estimators.molecules import MOLECULES

    return MOLECULES


def _nodes() -> RowAdapter:
    from edgewise.learn.estimators.nodes import NODES

    return NODES


def _texts() -> RowAdapter:
    from edgewise.learn.estimators.texts import TEXTS

    return TEXTS


class EdgeClassifier(ClassifierMixin, Estimator):
    """Predicts classes of the edges of one graph, two or more, and their probabilities.

        EdgeClassifier(model="gin").fit(graph, y).predict(graph)

    All edges carry messages, both ways unless `directed`. Targets stand in the order of the edges.

    Args:
        model: The graph layer: hop_attention, attention over hop distances; attention, blocks of attention with the
            chosen score; edge_attention, attention among edges; or the layer of a paper.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy). For
            regressors alone: any other value is refused.
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly. For regressors alone: any other value is refused.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval. For regressors alone: any other value
            is refused.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ. For regressors alone:
            any other value is refused.
        directed: Whether an edge is one way; else the reverse of each is added where it is missing.
        attention_score: The score of two nodes, with model attention.
        normalize: The normalization of scores, with models attention (softmax by default), hop_attention and
            edge_attention (sigmoid).
        num_layers: Layers over the edges: as many hops as a node can see.
        num_hops: Largest distance that model hop_attention attends to.
        num_heads: Attention heads.
        model_dim: Size of a node's vector, all heads together.
        dropout: Dropout of features, and between layers.
        attention_dropout: Dropout of attention weights, with models gat, gatv2, attention and hgt.
        expander_degree: Random neighbors that each node gets beside its own, with model attention; 0 for none.
        num_virtual_nodes: Nodes that are joined with all others, with model attention.
        laplacian_positions: Eigenvectors of the graph's Laplacian as positions of nodes, with model attention.
        random_walk_positions: Steps of random walks, whose return probabilities are positions of nodes, with model
            attention.
        num_bases: Matrices that the relations of model rgcn share; None gives each its own.
        aggregation: How model sage joins the neighbors of a node.
        feature_scale: Features of nodes: z-scores per node type, also of logarithms of values over decades (standard);
            x / Σ|x| over a node (rows); or as they are (none); auto is rows for bags of words, else standard.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        classes_: (class): the classes in order; of several targets a list with those of each.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    classes_: np.ndarray | list[np.ndarray]

    def __init__(
        self,
        *,
        model: Literal["hop_attention", "attention", "gat", "gatv2", "gcn", "sage", "gin", "edge_attention"]
        | str = "sage",
        epochs: int | None = 200,
        batch_size: int | None = None,
        optimizer: Literal["adamw", "adam"] = "adam",
        learning_rate: float = 0.01,
        final_learning_rate: float = 0.0001,
        warmup: float = 0.0,
        weight_decay: float = 0.0,
        second_moment_decay: float = 0.999,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = 50,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = "best",
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        directed: bool = False,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str = "scaled_dot",
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] | None = None,
        num_layers: int = 2,
        num_hops: int = 10,
        num_heads: int = 8,
        model_dim: int | Literal["auto"] = "auto",
        dropout: float = 0.1,
        attention_dropout: float | Literal["auto"] = "auto",
        expander_degree: int = 0,
        num_virtual_nodes: int = 0,
        laplacian_positions: int = 0,
        random_walk_positions: int = 0,
        num_bases: int | None = None,
        aggregation: Literal["mean", "max", "sum"] = "mean",
        feature_scale: Literal["auto", "rows", "standard", "none"] = "auto",
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.directed = directed
        self.attention_score = attention_score
        self.normalize = normalize
        self.num_layers = num_layers
        self.num_hops = num_hops
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.expander_degree = expander_degree
        self.num_virtual_nodes = num_virtual_nodes
        self.laplacian_positions = laplacian_positions
        self.random_walk_positions = random_walk_positions
        self.num_bases = num_bases
        self.aggregation = aggregation
        self.feature_scale = feature_scale
        self.validation_size = validation_size

    def fit(
        self,
        X: "GraphInput | None",
        y: "Table",
        edges: "EdgesInput | None" = None,
        *,
        edge_features: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        validation: ArrayLike | None = None,
    ) -> Self:
        """Train on edges.

        Args:
            X: A graph: `Graph`, PyTorch Geometric's `Data`, a graph of networkx, `GraphEdges`; or the features of its
                nodes (node, feature), a sparse matrix or a DataFrame, too, with `edges` beside them; None where nothing
                is known of them.
            y: (edge) or (edge, target): class labels; None, NaN or an empty text is none, and −1 among whole numbers
                with two or more other values. Edges without a label only carry messages. A Series or a DataFrame names
                the targets.
            edges: The edges beside features of nodes: `Edges`; whole numbers (2, edge), senders in the first row, as
                PyTorch Geometric's `edge_index`; or a sparse matrix of SciPy or torch, whose entry [i, j] is the weight
                of an edge from j to i, a feature unless all are 1. They are taken as they are: give both ways where
                both are meant.
            edge_features: (edge, feature), beside `edges`.
            sample_weight: (row): how much each row counts.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; by default
                `validation_size` of them, drawn at random.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, None, validation)
        row_methods.fit_classes(
            self,
            _edges(),
            X,
            y,
            {"edges": edges, "edge_features": edge_features},
            supervision,
            graph_rows.label_targets("edges"),
        )
        return self

    def predict(
        self, X: "GraphInput | None", edges: "EdgesInput | None" = None, edge_features: "Table | None" = None
    ) -> np.ndarray:
        """(row), or (row, target): the most probable class; −1 or None, as in `fit`, where nothing is predicted.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
        """
        return graph_rows.predict_classes(self, _edges(), X, {"edges": edges, "edge_features": edge_features})

    def predict_proba(
        self, X: "GraphInput | None", edges: "EdgesInput | None" = None, edge_features: "Table | None" = None
    ) -> np.ndarray | list[np.ndarray]:
        """(row, class): probabilities in the order of `classes_`; of several targets a list with those of each; NaN for
        a row that cannot be predicted.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
        """
        return row_methods.predict_proba(self, _edges(), X, {"edges": edges, "edge_features": edge_features})

    def score(
        self,
        X: "GraphInput | None",
        y: "Table",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        nodes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The share of the rows with a label whose class is predicted right; of several targets, all that are known.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            nodes: (row): True for the rows that are scored; None scores all.
            sample_weight: (row): how much each row counts.
        """
        return graph_rows.score_classes(
            self, _edges(), X, y, {"edges": edges, "edge_features": edge_features}, nodes, sample_weight
        )

    def explain(
        self,
        item: "GraphInput | None",
        *,
        edge: int | None = None,
        target: str | None = None,
        label: object = None,
        hops: int | None = None,
        methods: "Choice" = None,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
    ) -> "Explanation":
        """Explain one edge: what its two nodes attend to, and what changes its prediction.

        Args:
            item: One row of `GraphEdges`; or a graph, with `edge`.
            edge: The number of the edge.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            hops: How far away nodes are shown; by default as far as the model looks.
            methods: Names of methods; see `edgewise.explain.methods`.
            edges: As in `fit`.
            edge_features: As in `fit`.
        """
        from edgewise.learn.estimators.edges import explain

        return explain(
            self,
            item,
            {"edges": edges, "edge_features": edge_features},
            edge=edge,
            target=target,
            label=label,
            hops=hops,
            methods=methods,
        )

    def fingerprint(
        self, X: "GraphInput | None", edges: "EdgesInput | None" = None, edge_features: "Table | None" = None
    ) -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN for a row that cannot be read.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
        """
        return row_methods.fingerprint(self, _edges(), X, {"edges": edges, "edge_features": edge_features})

    def status_of(
        self, X: "GraphInput | None", edges: "EdgesInput | None" = None, edge_features: "Table | None" = None
    ) -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
        """
        return row_methods.status_of(self, _edges(), X, {"edges": edges, "edge_features": edge_features})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_classifier(cls, _edges(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True)


class EdgeRegressor(RegressorMixin, Estimator):
    """Predicts numbers of the edges of one graph, and intervals around them.

        EdgeRegressor(epochs=50).fit(graph, y).predict_interval(graph)

    All edges carry messages, both ways unless `directed`. Targets stand in the order of the edges.

    Args:
        model: The graph layer: hop_attention, attention over hop distances; attention, blocks of attention with the
            chosen score; edge_attention, attention among edges; or the layer of a paper.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows. For classifiers
            alone: any other value is refused.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ.
        directed: Whether an edge is one way; else the reverse of each is added where it is missing.
        attention_score: The score of two nodes, with model attention.
        normalize: The normalization of scores, with models attention (softmax by default), hop_attention and
            edge_attention (sigmoid).
        num_layers: Layers over the edges: as many hops as a node can see.
        num_hops: Largest distance that model hop_attention attends to.
        num_heads: Attention heads.
        model_dim: Size of a node's vector, all heads together.
        dropout: Dropout of features, and between layers.
        attention_dropout: Dropout of attention weights, with models gat, gatv2, attention and hgt.
        expander_degree: Random neighbors that each node gets beside its own, with model attention; 0 for none.
        num_virtual_nodes: Nodes that are joined with all others, with model attention.
        laplacian_positions: Eigenvectors of the graph's Laplacian as positions of nodes, with model attention.
        random_walk_positions: Steps of random walks, whose return probabilities are positions of nodes, with model
            attention.
        num_bases: Matrices that the relations of model rgcn share; None gives each its own.
        aggregation: How model sage joins the neighbors of a node.
        feature_scale: Features of nodes: z-scores per node type, also of logarithms of values over decades (standard);
            x / Σ|x| over a node (rows); or as they are (none); auto is rows for bags of words, else standard.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        one_target_: Whether y had the shape (row), and predictions have it, too.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    one_target_: bool

    def __init__(
        self,
        *,
        model: Literal["hop_attention", "attention", "gat", "gatv2", "gcn", "sage", "gin", "edge_attention"]
        | str = "sage",
        epochs: int | None = 200,
        batch_size: int | None = None,
        optimizer: Literal["adamw", "adam"] = "adam",
        learning_rate: float = 0.01,
        final_learning_rate: float = 0.0001,
        warmup: float = 0.0,
        weight_decay: float = 0.0,
        second_moment_decay: float = 0.999,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = 50,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = "best",
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        directed: bool = False,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str = "scaled_dot",
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] | None = None,
        num_layers: int = 2,
        num_hops: int = 10,
        num_heads: int = 8,
        model_dim: int | Literal["auto"] = "auto",
        dropout: float = 0.1,
        attention_dropout: float | Literal["auto"] = "auto",
        expander_degree: int = 0,
        num_virtual_nodes: int = 0,
        laplacian_positions: int = 0,
        random_walk_positions: int = 0,
        num_bases: int | None = None,
        aggregation: Literal["mean", "max", "sum"] = "mean",
        feature_scale: Literal["auto", "rows", "standard", "none"] = "auto",
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.directed = directed
        self.attention_score = attention_score
        self.normalize = normalize
        self.num_layers = num_layers
        self.num_hops = num_hops
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.expander_degree = expander_degree
        self.num_virtual_nodes = num_virtual_nodes
        self.laplacian_positions = laplacian_positions
        self.random_walk_positions = random_walk_positions
        self.num_bases = num_bases
        self.aggregation = aggregation
        self.feature_scale = feature_scale
        self.validation_size = validation_size

    def fit(
        self,
        X: "GraphInput | None",
        y: "Table",
        edges: "EdgesInput | None" = None,
        *,
        edge_features: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        validation: ArrayLike | None = None,
    ) -> Self:
        """Train on edges.

        Args:
            X: A graph: `Graph`, PyTorch Geometric's `Data`, a graph of networkx, `GraphEdges`; or the features of its
                nodes (node, feature), a sparse matrix or a DataFrame, too, with `edges` beside them; None where nothing
                is known of them.
            y: (edge) or (edge, target): numbers; NaN where there is none. Such edges only carry messages. A Series or a
                DataFrame names the targets.
            edges: The edges beside features of nodes: `Edges`; whole numbers (2, edge), senders in the first row, as
                PyTorch Geometric's `edge_index`; or a sparse matrix of SciPy or torch, whose entry [i, j] is the weight
                of an edge from j to i, a feature unless all are 1. They are taken as they are: give both ways where
                both are meant.
            edge_features: (edge, feature), beside `edges`.
            sample_weight: (row): how much each row counts.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; by default
                `validation_size` of them, drawn at random.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, None, validation)
        row_methods.fit_numbers(self, _edges(), X, y, {"edges": edges, "edge_features": edge_features}, supervision)
        return self

    def predict(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        return_std: bool = False,
    ) -> Any:
        """(row), or (row, target) where y has that shape: numbers; NaN for a row that cannot be predicted.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            return_std: Whether to return the standard deviations of the targets around these as well, as scikit-learn's
                `GaussianProcessRegressor` does; NaN without validation rows.
        """
        return row_methods.predict_numbers(
            self, _edges(), X, {"edges": edges, "edge_features": edge_features}, return_std
        )

    def predict_interval(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        coverage: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            coverage: The promised probability that a value lies in its interval; that of the constructor by default.
        """
        return row_methods.predict_interval(
            self, _edges(), X, {"edges": edges, "edge_features": edge_features}, coverage
        )

    def score(
        self,
        X: "GraphInput | None",
        y: "Table",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        nodes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """R² over the targets that are known, of several the mean.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            nodes: (row): True for the rows that are scored; None scores all.
            sample_weight: (row): how much each row counts.
        """
        return graph_rows.score_numbers(
            self, _edges(), X, y, {"edges": edges, "edge_features": edge_features}, nodes, sample_weight
        )

    def explain(
        self,
        item: "GraphInput | None",
        *,
        edge: int | None = None,
        target: str | None = None,
        label: object = None,
        hops: int | None = None,
        methods: "Choice" = None,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
    ) -> "Explanation":
        """Explain one edge: what its two nodes attend to, and what changes its prediction.

        Args:
            item: One row of `GraphEdges`; or a graph, with `edge`.
            edge: The number of the edge.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            hops: How far away nodes are shown; by default as far as the model looks.
            methods: Names of methods; see `edgewise.explain.methods`.
            edges: As in `fit`.
            edge_features: As in `fit`.
        """
        from edgewise.learn.estimators.edges import explain

        return explain(
            self,
            item,
            {"edges": edges, "edge_features": edge_features},
            edge=edge,
            target=target,
            label=label,
            hops=hops,
            methods=methods,
        )

    def fingerprint(
        self, X: "GraphInput | None", edges: "EdgesInput | None" = None, edge_features: "Table | None" = None
    ) -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN for a row that cannot be read.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
        """
        return row_methods.fingerprint(self, _edges(), X, {"edges": edges, "edge_features": edge_features})

    def status_of(
        self, X: "GraphInput | None", edges: "EdgesInput | None" = None, edge_features: "Table | None" = None
    ) -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
        """
        return row_methods.status_of(self, _edges(), X, {"edges": edges, "edge_features": edge_features})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_regressor(cls, _edges(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True)


class GraphClassifier(ClassifierMixin, Estimator):
    """Predicts classes of graphs, two or more, and their probabilities.

        GraphClassifier(model="gatv2").fit(graphs, y).predict(graphs)

    Args:
        model: The graph layer: hop_attention, attention over hop distances; attention, blocks of attention with the
            chosen score; edge_attention, attention among edges; or the layer of a paper.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy). For
            regressors alone: any other value is refused.
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly. For regressors alone: any other value is refused.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval. For regressors alone: any other value
            is refused.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ. For regressors alone:
            any other value is refused.
        attention_score: The score of two nodes, with model attention.
        normalize: The normalization of scores, with models attention (softmax by default), hop_attention and
            edge_attention (sigmoid).
        num_layers: Layers over the edges: as many hops as a node can see.
        num_hops: Largest distance that model hop_attention attends to.
        num_heads: Attention heads.
        model_dim: Size of a node's vector, all heads together.
        dropout: Dropout of features, and between layers.
        attention_dropout: Dropout of attention weights, with models gat, gatv2, attention and hgt.
        expander_degree: Random neighbors that each node gets beside its own, with model attention; 0 for none.
        num_virtual_nodes: Nodes that are joined with all others, with model attention.
        laplacian_positions: Eigenvectors of the graph's Laplacian as positions of nodes, with model attention.
        random_walk_positions: Steps of random walks, whose return probabilities are positions of nodes, with model
            attention.
        num_bases: Matrices that the relations of model rgcn share; None gives each its own.
        aggregation: How model sage joins the neighbors of a node.
        readout: How node vectors become one vector of the graph: attention and sum side by side, one of attention,
            mean, sum and max, or the vector of a tree's root, which depends on all nodes that lead to it.
        head_dim: Size of a graph's vector, which is combined with numbers of the graph.
        num_head_layers: Blocks of the head.
        num_variants: Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are
            large.
        head_dropout: In the blocks of the head.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        classes_: (class): the classes in order; of several targets a list with those of each.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    classes_: np.ndarray | list[np.ndarray]

    def __init__(
        self,
        *,
        model: Literal["hop_attention", "attention", "gat", "gatv2", "gcn", "sage", "gin", "edge_attention"]
        | str = "attention",
        epochs: int | None = None,
        batch_size: int | None = None,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float = 0.002,
        final_learning_rate: float = 2e-06,
        warmup: float = 0.1,
        weight_decay: float = 0.05,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.995,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = None,
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str = "scaled_dot",
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] | None = None,
        num_layers: int = 3,
        num_hops: int = 10,
        num_heads: int = 4,
        model_dim: int = 64,
        dropout: float = 0.05,
        attention_dropout: float = 0.0,
        expander_degree: int = 0,
        num_virtual_nodes: int = 0,
        laplacian_positions: int = 0,
        random_walk_positions: int = 0,
        num_bases: int | None = None,
        aggregation: Literal["mean", "max", "sum"] = "mean",
        readout: Literal["attention_sum", "attention", "mean", "sum", "max", "root"] = "attention_sum",
        head_dim: int = 128,
        num_head_layers: int = 2,
        num_variants: int | None = None,
        head_dropout: float = 0.05,
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.attention_score = attention_score
        self.normalize = normalize
        self.num_layers = num_layers
        self.num_hops = num_hops
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.expander_degree = expander_degree
        self.num_virtual_nodes = num_virtual_nodes
        self.laplacian_positions = laplacian_positions
        self.random_walk_positions = random_walk_positions
        self.num_bases = num_bases
        self.aggregation = aggregation
        self.readout = readout
        self.head_dim = head_dim
        self.num_head_layers = num_head_layers
        self.num_variants = num_variants
        self.head_dropout = head_dropout
        self.validation_size = validation_size

    def fit(
        self,
        X: "GraphsInput",
        y: "Table | None" = None,
        *,
        graph_features: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        validation: ArrayLike | tuple["GraphsInput", "Table"] | None = None,
    ) -> Self:
        """Train on graphs.

        Args:
            X: A list of graphs, each a `Graph`, PyTorch Geometric's `Data` or another object with `x`, `edge_index` and
                perhaps `edge_attr`, a graph of networkx, a tuple (features, edges) or (features, edges, edge_features);
                or a batch of graphs. Edges are taken as they are: give both ways where both are meant.
            y: (row) or (row, target): class labels; None or NaN where one of several is missing. By default the `y` of
                each graph. A Series or a DataFrame names the targets.
            graph_features: (row, feature): numbers of each graph as a whole.
            sample_weight: (row): how much each row counts.
            groups: (row): rows of one group are all training or all validation rows.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; or (X, y), further rows.
                By default `validation_size` of the rows, drawn at random.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, groups, validation)
        row_methods.fit_classes(self, _graphs(), X, y, {"graph_features": graph_features}, supervision)
        return self

    def predict(self, X: "GraphsInput", graph_features: "Table | None" = None) -> np.ndarray:
        """(row): the most probable class; (row, target) where y has that shape.

        Args:
            X: As in `fit`.
            graph_features: As in `fit`.

        Raises:
            DataError: A row cannot be read: no class could say so.
        """
        return row_methods.predict_classes(self, _graphs(), X, {"graph_features": graph_features})

    def predict_proba(self, X: "GraphsInput", graph_features: "Table | None" = None) -> np.ndarray | list[np.ndarray]:
        """(row, class): probabilities in the order of `classes_`; of several targets a list with those of each; NaN for
        a row that cannot be predicted.

        Args:
            X: As in `fit`.
            graph_features: As in `fit`.
        """
        return row_methods.predict_proba(self, _graphs(), X, {"graph_features": graph_features})

    def score(
        self,
        X: "GraphsInput",
        y: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        *,
        graph_features: "Table | None" = None,
    ) -> float:
        """The share of the rows with a label whose class is predicted right; of several targets, all that are known.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            sample_weight: (row): how much each row counts.
            graph_features: As in `fit`.
        """
        return row_methods.score_classes(self, _graphs(), X, y, {"graph_features": graph_features}, sample_weight)

    def explain(
        self,
        item: "GraphInput",
        *,
        target: str | None = None,
        label: object = None,
        methods: "Choice" = None,
        graph_features: "Table | None" = None,
    ) -> "Explanation":
        """Explain one graph: where the model attends, and what changes its prediction.

        Args:
            item: A graph, as in `fit`.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            methods: Names of methods; see `edgewise.explain.methods`.
            graph_features: (feature): numbers of the graph as a whole.
        """
        from edgewise.learn.estimators.graphs import explain

        return explain(self, item, {"graph_features": graph_features}, target=target, label=label, methods=methods)

    def fingerprint(self, X: "GraphsInput") -> np.ndarray:
        """(row, dim): the learned vector of each graph, without its numbers as a whole; NaN where it cannot be read.

        Args:
            X: As in `fit`.
        """
        from edgewise.learn.estimators.graphs import fingerprint

        return fingerprint(self, X)

    def status_of(self, X: "GraphsInput", graph_features: "Table | None" = None) -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
            graph_features: As in `fit`.
        """
        return row_methods.status_of(self, _graphs(), X, {"graph_features": graph_features})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_classifier(cls, _graphs(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True)


class GraphRegressor(RegressorMixin, Estimator):
    """Predicts numbers of graphs, and intervals around them.

        GraphRegressor(model="gin").fit(graphs, y).predict_interval(graphs)

    Args:
        model: The graph layer: hop_attention, attention over hop distances; attention, blocks of attention with the
            chosen score; edge_attention, attention among edges; or the layer of a paper.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows. For classifiers
            alone: any other value is refused.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ.
        attention_score: The score of two nodes, with model attention.
        normalize: The normalization of scores, with models attention (softmax by default), hop_attention and
            edge_attention (sigmoid).
        num_layers: Layers over the edges: as many hops as a node can see.
        num_hops: Largest distance that model hop_attention attends to.
        num_heads: Attention heads.
        model_dim: Size of a node's vector, all heads together.
        dropout: Dropout of features, and between layers.
        attention_dropout: Dropout of attention weights, with models gat, gatv2, attention and hgt.
        expander_degree: Random neighbors that each node gets beside its own, with model attention; 0 for none.
        num_virtual_nodes: Nodes that are joined with all others, with model attention.
        laplacian_positions: Eigenvectors of the graph's Laplacian as positions of nodes, with model attention.
        random_walk_positions: Steps of random walks, whose return probabilities are positions of nodes, with model
            attention.
        num_bases: Matrices that the relations of model rgcn share; None gives each its own.
        aggregation: How model sage joins the neighbors of a node.
        readout: How node vectors become one vector of the graph: attention and sum side by side, one of attention,
            mean, sum and max, or the vector of a tree's root, which depends on all nodes that lead to it.
        head_dim: Size of a graph's vector, which is combined with numbers of the graph.
        num_head_layers: Blocks of the head.
        num_variants: Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are
            large.
        head_dropout: In the blocks of the head.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        one_target_: Whether y had the shape (row), and predictions have it, too.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    one_target_: bool

    def __init__(
        self,
        *,
        model: Literal["hop_attention", "attention", "gat", "gatv2", "gcn", "sage", "gin", "edge_attention"]
        | str = "attention",
        epochs: int | None = None,
        batch_size: int | None = None,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float = 0.002,
        final_learning_rate: float = 2e-06,
        warmup: float = 0.1,
        weight_decay: float = 0.05,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.995,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = None,
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str = "scaled_dot",
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] | None = None,
        num_layers: int = 3,
        num_hops: int = 10,
        num_heads: int = 4,
        model_dim: int = 64,
        dropout: float = 0.05,
        attention_dropout: float = 0.0,
        expander_degree: int = 0,
        num_virtual_nodes: int = 0,
        laplacian_positions: int = 0,
        random_walk_positions: int = 0,
        num_bases: int | None = None,
        aggregation: Literal["mean", "max", "sum"] = "mean",
        readout: Literal["attention_sum", "attention", "mean", "sum", "max", "root"] = "attention_sum",
        head_dim: int = 128,
        num_head_layers: int = 2,
        num_variants: int | None = None,
        head_dropout: float = 0.05,
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.attention_score = attention_score
        self.normalize = normalize
        self.num_layers = num_layers
        self.num_hops = num_hops
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.expander_degree = expander_degree
        self.num_virtual_nodes = num_virtual_nodes
        self.laplacian_positions = laplacian_positions
        self.random_walk_positions = random_walk_positions
        self.num_bases = num_bases
        self.aggregation = aggregation
        self.readout = readout
        self.head_dim = head_dim
        self.num_head_layers = num_head_layers
        self.num_variants = num_variants
        self.head_dropout = head_dropout
        self.validation_size = validation_size

    def fit(
        self,
        X: "GraphsInput",
        y: "Table | None" = None,
        *,
        graph_features: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        validation: ArrayLike | tuple["GraphsInput", "Table"] | None = None,
    ) -> Self:
        """Train on graphs.

        Args:
            X: A list of graphs, each a `Graph`, PyTorch Geometric's `Data` or another object with `x`, `edge_index` and
                perhaps `edge_attr`, a graph of networkx, a tuple (features, edges) or (features, edges, edge_features);
                or a batch of graphs. Edges are taken as they are: give both ways where both are meant.
            y: (row) or (row, target): numbers; NaN where one is missing. By default the `y` of each graph. A Series or
                a DataFrame names the targets.
            graph_features: (row, feature): numbers of each graph as a whole.
            sample_weight: (row): how much each row counts.
            groups: (row): rows of one group are all training or all validation rows.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; or (X, y), further rows.
                By default `validation_size` of the rows, drawn at random.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, groups, validation)
        row_methods.fit_numbers(self, _graphs(), X, y, {"graph_features": graph_features}, supervision)
        return self

    def predict(self, X: "GraphsInput", graph_features: "Table | None" = None, *, return_std: bool = False) -> Any:
        """(row), or (row, target) where y has that shape: numbers; NaN for a row that cannot be predicted.

        Args:
            X: As in `fit`.
            graph_features: As in `fit`.
            return_std: Whether to return the standard deviations of the targets around these as well, as scikit-learn's
                `GaussianProcessRegressor` does; NaN without validation rows.
        """
        return row_methods.predict_numbers(self, _graphs(), X, {"graph_features": graph_features}, return_std)

    def predict_interval(
        self, X: "GraphsInput", graph_features: "Table | None" = None, *, coverage: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows.

        Args:
            X: As in `fit`.
            graph_features: As in `fit`.
            coverage: The promised probability that a value lies in its interval; that of the constructor by default.
        """
        return row_methods.predict_interval(self, _graphs(), X, {"graph_features": graph_features}, coverage)

    def score(
        self,
        X: "GraphsInput",
        y: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        *,
        graph_features: "Table | None" = None,
    ) -> float:
        """R² over the targets that are known, of several the mean.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            sample_weight: (row): how much each row counts.
            graph_features: As in `fit`.
        """
        return row_methods.score_numbers(self, _graphs(), X, y, {"graph_features": graph_features}, sample_weight)

    def explain(
        self,
        item: "GraphInput",
        *,
        target: str | None = None,
        label: object = None,
        methods: "Choice" = None,
        graph_features: "Table | None" = None,
    ) -> "Explanation":
        """Explain one graph: where the model attends, and what changes its prediction.

        Args:
            item: A graph, as in `fit`.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            methods: Names of methods; see `edgewise.explain.methods`.
            graph_features: (feature): numbers of the graph as a whole.
        """
        from edgewise.learn.estimators.graphs import explain

        return explain(self, item, {"graph_features": graph_features}, target=target, label=label, methods=methods)

    def fingerprint(self, X: "GraphsInput") -> np.ndarray:
        """(row, dim): the learned vector of each graph, without its numbers as a whole; NaN where it cannot be read.

        Args:
            X: As in `fit`.
        """
        from edgewise.learn.estimators.graphs import fingerprint

        return fingerprint(self, X)

    def status_of(self, X: "GraphsInput", graph_features: "Table | None" = None) -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
            graph_features: As in `fit`.
        """
        return row_methods.status_of(self, _graphs(), X, {"graph_features": graph_features})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_regressor(cls, _graphs(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True)


class MoleculeClassifier(ClassifierMixin, Estimator):
    """Predicts classes of molecules, two or more, and their probabilities.

        MoleculeClassifier().fit(smiles, is_toxic).predict_proba(["CCO", "c1ccccc1"])

    Args:
        model: The layer: attention with the chosen score; gat or gatv2, attention with theirs; gcn, sage or gin, a
            convolution; dmpnn, messages along bonds that do not turn back; edge_attention, bonds that attend over the
            bonds before them; mat (Molecule Attention Transformer), attention between all atoms, mixed with distances
            and bonds. None is edge_attention where 1,000 molecules or more are learned from and no setting of attention
            among atoms is given, else attention.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy). For
            regressors alone: any other value is refused.
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly. For regressors alone: any other value is refused.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval. For regressors alone: any other value
            is refused.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ. For regressors alone:
            any other value is refused.
        attention_score: The score of a pair of atoms; None is that of `model`, scaled_dot for attention.
        normalize: The normalization of the scores of a neighborhood.
        temperature: Temperature of softmax: 0 is hard, 1 soft, inf uniform.
        combine: How the heads are joined.
        attention_share: With mat: the share of attention in the weights; bonds get the remainder.
        distance_share: With mat: the share of distances.
        distance_kernel: With mat, from distances to weights: softmax(−D) over the molecule, or exponential, exp(−D).
        aggregation: How sage joins the neighbors of an atom.
        num_layers: Layers over the bonds: as many hops as an atom can see.
        num_heads: Attention heads.
        model_dim: Size of an atom's vector. None is 256 with dmpnn and edge_attention, 64 with the others.
        head_dim: Size of a row's vector, where molecules are combined with descriptors. None is 256 with dmpnn and
            edge_attention, 128 with the others.
        num_head_layers: Blocks of the head.
        num_variants: Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are
            large.
        encoder_dropout: Dropout in the layers over the bonds. None is 0.05, for classes 0.1.
        molecule_dropout: Dropout of the molecule's vector. None is 0.1, for classes 0.3.
        descriptor_dropout: Dropout of the molecule's descriptors before they are mixed; after, twice as much, at most
            0.9. None is 0.1, for classes 0.3.
        head_dropout: Dropout in the blocks of the head. None is 0.05, for classes 0.3.
        molecule_descriptors: Whether RDKit's descriptors of the whole molecule join the learned vectors, and the
            forest's features.
        bounds: The lowest and the highest number that a target can have, such as 0 and 1 for fractions: predictions and
            intervals stay between them. Without them predictions may lie anywhere. For regressors alone: any other
            value is refused.
        companions: What predicts beside the network, with the weight that predicts the validation rows best: gaussian-
            process, for numbers, and forest, a random forest for classes, from descriptors, counts of substructures and
            conditions; structure-network, a second network that reads structures and conditions without descriptors,
            and is trained for fewer steps with more dropout; or none. All are fitted again afterwards, to training and
            validation rows. By default numbers have a Gaussian process where at most 9,216 rows train (4,608 for 8
            targets). Where molecules have many rows each, it learns from so many rows of more, and is left out without
            conditions; if new rows are of new molecules, it is left out, too, and a structure network stands there in
            sets of fewer than 1,000 molecules. Classes have a forest where fewer than 10,000 rows train and no class
            weighs more than another.
        max_atoms: Reject molecules of more atoms; hydrogens count only where they stay atoms of the graph.
        molecule_timeout: Reject molecules whose features take longer on one processor.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        classes_: (class): the classes in order; of several targets a list with those of each.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    classes_: np.ndarray | list[np.ndarray]

    def __init__(
        self,
        *,
        model: Literal["attention", "gat", "gatv2", "gcn", "sage", "gin", "dmpnn", "edge_attention", "mat"]
        | str
        | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float = 0.002,
        final_learning_rate: float = 2e-06,
        warmup: float = 0.1,
        weight_decay: float = 0.05,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.995,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = None,
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str
        | None = None,
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] = "softmax",
        temperature: float = 1.0,
        combine: Literal["concatenate", "weights", "tensor", "mean", "max"] = "concatenate",
        attention_share: float = 0.33,
        distance_share: float = 0.33,
        distance_kernel: Literal["softmax", "exponential"] = "softmax",
        aggregation: Literal["mean", "max", "sum"] = "mean",
        num_layers: int = 3,
        num_heads: int = 4,
        model_dim: int | None = None,
        head_dim: int | None = None,
        num_head_layers: int = 2,
        num_variants: int | None = None,
        encoder_dropout: float | None = None,
        molecule_dropout: float | None = None,
        descriptor_dropout: float | None = None,
        head_dropout: float | None = None,
        molecule_descriptors: bool = True,
        bounds: Sequence[float] = (),
        companions: Sequence[str] | None = None,
        max_atoms: int = 500,
        molecule_timeout: float = 10.0,
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.attention_score = attention_score
        self.normalize = normalize
        self.temperature = temperature
        self.combine = combine
        self.attention_share = attention_share
        self.distance_share = distance_share
        self.distance_kernel = distance_kernel
        self.aggregation = aggregation
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.head_dim = head_dim
        self.num_head_layers = num_head_layers
        self.num_variants = num_variants
        self.encoder_dropout = encoder_dropout
        self.molecule_dropout = molecule_dropout
        self.descriptor_dropout = descriptor_dropout
        self.head_dropout = head_dropout
        self.molecule_descriptors = molecule_descriptors
        self.bounds = bounds
        self.companions = companions
        self.max_atoms = max_atoms
        self.molecule_timeout = molecule_timeout
        self.validation_size = validation_size

    def fit(
        self,
        X: "Table",
        y: "Table",
        *,
        conditions: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        validation: ArrayLike | tuple["Table", "Table"] | None = None,
    ) -> Self:
        """Train on molecules.

        Args:
            X: SMILES (row), or (row, component); or a DataFrame, whose text columns are SMILES and whose numbers are
                conditions.
            y: (row) or (row, target): class labels; None or NaN where one of several is missing. A Series or a
                DataFrame names the targets.
            conditions: (row, condition): numbers such as temperature and pressure.
            sample_weight: (row): how much each row counts.
            groups: (row): rows of one group are all training or all validation rows.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; or (X, y), further rows.
                By default `validation_size` of the rows, drawn at random. The forest and the Gaussian process learn
                from them in the end: score a model on rows that `fit` has not seen.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, groups, validation)
        row_methods.fit_classes(self, _molecules(), X, y, {"conditions": conditions}, supervision)
        return self

    def predict(self, X: "Table", conditions: "Table | None" = None) -> np.ndarray:
        """(row): the most probable class; (row, target) where y has that shape.

        Args:
            X: As in `fit`.
            conditions: As in `fit`.

        Raises:
            DataError: A row cannot be read: no class could say so.
        """
        return row_methods.predict_classes(self, _molecules(), X, {"conditions": conditions})

    def predict_proba(self, X: "Table", conditions: "Table | None" = None) -> np.ndarray | list[np.ndarray]:
        """(row, class): probabilities in the order of `classes_`; of several targets a list with those of each; NaN for
        a row that cannot be predicted.

        Args:
            X: As in `fit`.
            conditions: As in `fit`.
        """
        return row_methods.predict_proba(self, _molecules(), X, {"conditions": conditions})

    def score(
        self, X: "Table", y: "Table", sample_weight: ArrayLike | None = None, *, conditions: "Table | None" = None
    ) -> float:
        """The share of the rows with a label whose class is predicted right; of several targets, all that are known.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            sample_weight: (row): how much each row counts.
            conditions: As in `fit`.
        """
        return row_methods.score_classes(self, _molecules(), X, y, {"conditions": conditions}, sample_weight)

    def explain(
        self,
        item: "Table | Mapping[str, object]",
        *,
        target: str | None = None,
        label: object = None,
        methods: "Choice" = None,
        conditions: "Table | None" = None,
    ) -> "Explanation":
        """Explain one row: which atoms the model attends to, and what changes its prediction.

        Args:
            item: One row as `predict` takes it, or one molecule; a dict or a Series names the values of a row.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            methods: Names of methods; see `edgewise.explain.methods`.
            conditions: (condition): the numbers of the row.
        """
        from edgewise.learn.estimators.molecules import explain

        return explain(self, item, {"conditions": conditions}, target=target, label=label, methods=methods)

    def fingerprint(self, X: "Table", conditions: "Table | None" = None) -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN for a row that cannot be read.

        Args:
            X: As in `fit`.
            conditions: As in `fit`.
        """
        return row_methods.fingerprint(self, _molecules(), X, {"conditions": conditions})

    def status_of(self, X: "Table", conditions: "Table | None" = None) -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
            conditions: As in `fit`.
        """
        return row_methods.status_of(self, _molecules(), X, {"conditions": conditions})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_classifier(cls, _molecules(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True)


class MoleculeRegressor(RegressorMixin, Estimator):
    """Predicts numbers of molecules, and intervals around them.

        MoleculeRegressor(ensemble_size=5).fit(smiles, solubility).predict(["CCO", "c1ccccc1"])

    Args:
        model: The layer: attention with the chosen score; gat or gatv2, attention with theirs; gcn, sage or gin, a
            convolution; dmpnn, messages along bonds that do not turn back; edge_attention, bonds that attend over the
            bonds before them; mat (Molecule Attention Transformer), attention between all atoms, mixed with distances
            and bonds. None is edge_attention where 1,000 molecules or more are learned from and no setting of attention
            among atoms is given, else attention.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows. For classifiers
            alone: any other value is refused.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ.
        attention_score: The score of a pair of atoms; None is that of `model`, scaled_dot for attention.
        normalize: The normalization of the scores of a neighborhood.
        temperature: Temperature of softmax: 0 is hard, 1 soft, inf uniform.
        combine: How the heads are joined.
        attention_share: With mat: the share of attention in the weights; bonds get the remainder.
        distance_share: With mat: the share of distances.
        distance_kernel: With mat, from distances to weights: softmax(−D) over the molecule, or exponential, exp(−D).
        aggregation: How sage joins the neighbors of an atom.
        num_layers: Layers over the bonds: as many hops as an atom can see.
        num_heads: Attention heads.
        model_dim: Size of an atom's vector. None is 256 with dmpnn and edge_attention, 64 with the others.
        head_dim: Size of a row's vector, where molecules are combined with descriptors. None is 256 with dmpnn and
            edge_attention, 128 with the others.
        num_head_layers: Blocks of the head.
        num_variants: Variants of the head that share their matrices and are averaged; None is 8, or 4 where batches are
            large.
        encoder_dropout: Dropout in the layers over the bonds. None is 0.05, for classes 0.1.
        molecule_dropout: Dropout of the molecule's vector. None is 0.1, for classes 0.3.
        descriptor_dropout: Dropout of the molecule's descriptors before they are mixed; after, twice as much, at most
            0.9. None is 0.1, for classes 0.3.
        head_dropout: Dropout in the blocks of the head. None is 0.05, for classes 0.3.
        molecule_descriptors: Whether RDKit's descriptors of the whole molecule join the learned vectors, and the
            forest's features.
        bounds: The lowest and the highest number that a target can have, such as 0 and 1 for fractions: predictions and
            intervals stay between them. Without them predictions may lie anywhere.
        companions: What predicts beside the network, with the weight that predicts the validation rows best: gaussian-
            process, for numbers, and forest, a random forest for classes, from descriptors, counts of substructures and
            conditions; structure-network, a second network that reads structures and conditions without descriptors,
            and is trained for fewer steps with more dropout; or none. All are fitted again afterwards, to training and
            validation rows. By default numbers have a Gaussian process where at most 9,216 rows train (4,608 for 8
            targets). Where molecules have many rows each, it learns from so many rows of more, and is left out without
            conditions; if new rows are of new molecules, it is left out, too, and a structure network stands there in
            sets of fewer than 1,000 molecules. Classes have a forest where fewer than 10,000 rows train and no class
            weighs more than another.
        max_atoms: Reject molecules of more atoms; hydrogens count only where they stay atoms of the graph.
        molecule_timeout: Reject molecules whose features take longer on one processor.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        one_target_: Whether y had the shape (row), and predictions have it, too.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    one_target_: bool

    def __init__(
        self,
        *,
        model: Literal["attention", "gat", "gatv2", "gcn", "sage", "gin", "dmpnn", "edge_attention", "mat"]
        | str
        | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float = 0.002,
        final_learning_rate: float = 2e-06,
        warmup: float = 0.1,
        weight_decay: float = 0.05,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.995,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = None,
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str
        | None = None,
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] = "softmax",
        temperature: float = 1.0,
        combine: Literal["concatenate", "weights", "tensor", "mean", "max"] = "concatenate",
        attention_share: float = 0.33,
        distance_share: float = 0.33,
        distance_kernel: Literal["softmax", "exponential"] = "softmax",
        aggregation: Literal["mean", "max", "sum"] = "mean",
        num_layers: int = 3,
        num_heads: int = 4,
        model_dim: int | None = None,
        head_dim: int | None = None,
        num_head_layers: int = 2,
        num_variants: int | None = None,
        encoder_dropout: float | None = None,
        molecule_dropout: float | None = None,
        descriptor_dropout: float | None = None,
        head_dropout: float | None = None,
        molecule_descriptors: bool = True,
        bounds: Sequence[float] = (),
        companions: Sequence[str] | None = None,
        max_atoms: int = 500,
        molecule_timeout: float = 10.0,
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.attention_score = attention_score
        self.normalize = normalize
        self.temperature = temperature
        self.combine = combine
        self.attention_share = attention_share
        self.distance_share = distance_share
        self.distance_kernel = distance_kernel
        self.aggregation = aggregation
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.head_dim = head_dim
        self.num_head_layers = num_head_layers
        self.num_variants = num_variants
        self.encoder_dropout = encoder_dropout
        self.molecule_dropout = molecule_dropout
        self.descriptor_dropout = descriptor_dropout
        self.head_dropout = head_dropout
        self.molecule_descriptors = molecule_descriptors
        self.bounds = bounds
        self.companions = companions
        self.max_atoms = max_atoms
        self.molecule_timeout = molecule_timeout
        self.validation_size = validation_size

    def fit(
        self,
        X: "Table",
        y: "Table",
        *,
        conditions: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        validation: ArrayLike | tuple["Table", "Table"] | None = None,
    ) -> Self:
        """Train on molecules.

        Args:
            X: SMILES (row), or (row, component); or a DataFrame, whose text columns are SMILES and whose numbers are
                conditions.
            y: (row) or (row, target): numbers; NaN where one is missing. A Series or a DataFrame names the targets.
            conditions: (row, condition): numbers such as temperature and pressure.
            sample_weight: (row): how much each row counts.
            groups: (row): rows of one group are all training or all validation rows.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; or (X, y), further rows.
                By default `validation_size` of the rows, drawn at random. The forest and the Gaussian process learn
                from them in the end: score a model on rows that `fit` has not seen.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, groups, validation)
        row_methods.fit_numbers(self, _molecules(), X, y, {"conditions": conditions}, supervision)
        return self

    def predict(self, X: "Table", conditions: "Table | None" = None, *, return_std: bool = False) -> Any:
        """(row), or (row, target) where y has that shape: numbers; NaN for a row that cannot be predicted.

        Args:
            X: As in `fit`.
            conditions: As in `fit`.
            return_std: Whether to return the standard deviations of the targets around these as well, as scikit-learn's
                `GaussianProcessRegressor` does; NaN without validation rows.
        """
        return row_methods.predict_numbers(self, _molecules(), X, {"conditions": conditions}, return_std)

    def predict_interval(
        self, X: "Table", conditions: "Table | None" = None, *, coverage: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows.

        Args:
            X: As in `fit`.
            conditions: As in `fit`.
            coverage: The promised probability that a value lies in its interval; that of the constructor by default.
        """
        return row_methods.predict_interval(self, _molecules(), X, {"conditions": conditions}, coverage)

    def score(
        self, X: "Table", y: "Table", sample_weight: ArrayLike | None = None, *, conditions: "Table | None" = None
    ) -> float:
        """R² over the targets that are known, of several the mean.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            sample_weight: (row): how much each row counts.
            conditions: As in `fit`.
        """
        return row_methods.score_numbers(self, _molecules(), X, y, {"conditions": conditions}, sample_weight)

    def explain(
        self,
        item: "Table | Mapping[str, object]",
        *,
        target: str | None = None,
        label: object = None,
        methods: "Choice" = None,
        conditions: "Table | None" = None,
    ) -> "Explanation":
        """Explain one row: which atoms the model attends to, and what changes its prediction.

        Args:
            item: One row as `predict` takes it, or one molecule; a dict or a Series names the values of a row.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            methods: Names of methods; see `edgewise.explain.methods`.
            conditions: (condition): the numbers of the row.
        """
        from edgewise.learn.estimators.molecules import explain

        return explain(self, item, {"conditions": conditions}, target=target, label=label, methods=methods)

    def fingerprint(self, X: "Table", conditions: "Table | None" = None) -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN for a row that cannot be read.

        Args:
            X: As in `fit`.
            conditions: As in `fit`.
        """
        return row_methods.fingerprint(self, _molecules(), X, {"conditions": conditions})

    def status_of(self, X: "Table", conditions: "Table | None" = None) -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
            conditions: As in `fit`.
        """
        return row_methods.status_of(self, _molecules(), X, {"conditions": conditions})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_regressor(cls, _molecules(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True)


class NodeClassifier(ClassifierMixin, Estimator):
    """Predicts classes of the nodes of one graph, two or more, and their probabilities.

        NodeClassifier(model="gat").fit(graph, y).predict(graph)

    Without a name the model is the default, or that for types where the graph has them.

    Args:
        model: The graph layer: hop_attention, attention over hop distances; attention, blocks of attention with the
            chosen score; edge_attention, attention among edges; or the layer of a paper.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy). For
            regressors alone: any other value is refused.
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly. For regressors alone: any other value is refused.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval. For regressors alone: any other value
            is refused.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ. For regressors alone:
            any other value is refused.
        attention_score: The score of two nodes, with model attention.
        normalize: The normalization of scores, with models attention (softmax by default), hop_attention and
            edge_attention (sigmoid).
        num_layers: Layers over the edges: as many hops as a node can see.
        num_hops: Largest distance that model hop_attention attends to.
        num_heads: Attention heads.
        model_dim: Size of a node's vector, all heads together.
        dropout: Dropout of features, and between layers.
        attention_dropout: Dropout of attention weights, with models gat, gatv2, attention and hgt.
        expander_degree: Random neighbors that each node gets beside its own, with model attention; 0 for none.
        num_virtual_nodes: Nodes that are joined with all others, with model attention.
        laplacian_positions: Eigenvectors of the graph's Laplacian as positions of nodes, with model attention.
        random_walk_positions: Steps of random walks, whose return probabilities are positions of nodes, with model
            attention.
        num_bases: Matrices that the relations of model rgcn share; None gives each its own.
        aggregation: How model sage joins the neighbors of a node.
        feature_scale: Features of nodes: z-scores per node type, also of logarithms of values over decades (standard);
            x / Σ|x| over a node (rows); or as they are (none); auto is rows for bags of words, else standard.
        fanouts: Edges a node that a step samples in each hop, -1 for all, such as 15 10; a batch is then 1024 nodes, or
            batch_size. Without it a step sees the whole graph, where it fits into memory. Validation and predictions
            always do.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        classes_: (class): the classes in order; of several targets a list with those of each.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    classes_: np.ndarray | list[np.ndarray]

    def __init__(
        self,
        *,
        model: Literal[
            "auto", "hop_attention", "attention", "gat", "gatv2", "gcn", "sage", "gin", "edge_attention", "rgcn", "hgt"
        ]
        | str = "auto",
        epochs: int | Literal["auto"] | None = "auto",
        batch_size: int | None = None,
        optimizer: Literal["auto", "adamw", "adam"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        final_learning_rate: float | Literal["auto"] = "auto",
        warmup: float = 0.0,
        weight_decay: float | Literal["auto"] = "auto",
        second_moment_decay: float = 0.999,
        clip_norm: float = 0.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | Literal["auto"] | None = "auto",
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = "best",
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str = "scaled_dot",
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] | None = None,
        num_layers: int = 2,
        num_hops: int = 10,
        num_heads: int = 8,
        model_dim: int | Literal["auto"] = "auto",
        dropout: float | Literal["auto"] = "auto",
        attention_dropout: float | Literal["auto"] = "auto",
        expander_degree: int = 0,
        num_virtual_nodes: int = 0,
        laplacian_positions: int = 0,
        random_walk_positions: int = 0,
        num_bases: int | None = None,
        aggregation: Literal["mean", "max", "sum"] = "mean",
        feature_scale: Literal["auto", "rows", "standard", "none"] = "auto",
        fanouts: Sequence[int] = (),
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.attention_score = attention_score
        self.normalize = normalize
        self.num_layers = num_layers
        self.num_hops = num_hops
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.expander_degree = expander_degree
        self.num_virtual_nodes = num_virtual_nodes
        self.laplacian_positions = laplacian_positions
        self.random_walk_positions = random_walk_positions
        self.num_bases = num_bases
        self.aggregation = aggregation
        self.feature_scale = feature_scale
        self.fanouts = fanouts
        self.validation_size = validation_size

    def fit(
        self,
        X: "GraphInput | None",
        y: "Table",
        edges: "EdgesInput | None" = None,
        *,
        edge_features: "Table | None" = None,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        validation: ArrayLike | None = None,
    ) -> Self:
        """Train on nodes.

        Args:
            X: A graph: `Graph`, PyTorch Geometric's `Data` or `HeteroData`, a graph of networkx, `GraphNodes`; or the
                features of its nodes (node, feature), a sparse matrix or a DataFrame, too, with `edges` beside them;
                None where nothing is known of them.
            y: (node) or (node, target): class labels. None, NaN or an empty text is a missing label. −1 among whole
                numbers with two or more other values is none either, with a warning; with fewer it is a class, as in −1
                and 1. Nodes without a label are part of the graph. A Series or a DataFrame names the targets.
            edges: The edges beside features of nodes: `Edges`; whole numbers (2, edge), senders in the first row, as
                PyTorch Geometric's `edge_index`; or a sparse matrix of SciPy or torch, whose entry [i, j] is the weight
                of an edge from j to i, a feature unless all are 1. They are taken as they are: give both ways where
                both are meant.
            edge_features: (edge, feature), beside `edges`.
            node_types: (node): words or whole numbers, beside `edges`.
            edge_types: (edge): words or whole numbers, beside `edges`.
            sample_weight: (row): how much each row counts.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; by default
                `validation_size` of them, drawn at random.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, None, validation)
        row_methods.fit_classes(
            self,
            _nodes(),
            X,
            y,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
            supervision,
            graph_rows.label_targets("nodes"),
        )
        return self

    def predict(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
    ) -> np.ndarray:
        """(row), or (row, target): the most probable class; −1 or None, as in `fit`, where nothing is predicted.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
        """
        return graph_rows.predict_classes(
            self,
            _nodes(),
            X,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
        )

    def predict_proba(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
    ) -> np.ndarray | list[np.ndarray]:
        """(row, class): probabilities in the order of `classes_`; of several targets a list with those of each; NaN for
        a row that cannot be predicted.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
        """
        return row_methods.predict_proba(
            self,
            _nodes(),
            X,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
        )

    def score(
        self,
        X: "GraphInput | None",
        y: "Table",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
        nodes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The share of the rows with a label whose class is predicted right; of several targets, all that are known.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
            nodes: (row): True for the rows that are scored; None scores all.
            sample_weight: (row): how much each row counts.
        """
        return graph_rows.score_classes(
            self,
            _nodes(),
            X,
            y,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
            nodes,
            sample_weight,
        )

    def explain(
        self,
        item: "GraphInput | None",
        *,
        node: object = None,
        target: str | None = None,
        label: object = None,
        hops: int | None = None,
        methods: "Choice" = None,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
    ) -> "Explanation":
        """Explain one node: what it attends to, and what changes its prediction.

        Args:
            item: One row of `GraphNodes`; or a graph, with `node`.
            node: The number of the node, or its name in a graph with names.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            hops: How far away nodes are shown; by default as far as the model looks.
            methods: Names of methods; see `edgewise.explain.methods`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
        """
        from edgewise.learn.estimators.nodes import explain

        return explain(
            self,
            item,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
            node=node,
            target=target,
            label=label,
            hops=hops,
            methods=methods,
        )

    def fingerprint(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
    ) -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN for a row that cannot be read.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
        """
        return row_methods.fingerprint(
            self,
            _nodes(),
            X,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
        )

    def status_of(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
    ) -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
        """
        return row_methods.status_of(
            self,
            _nodes(),
            X,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
        )

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_classifier(cls, _nodes(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True, reads_arrays=True)


class NodeRegressor(RegressorMixin, Estimator):
    """Predicts numbers of the nodes of one graph, and intervals around them.

        NodeRegressor(epochs=50).fit(graph, y).predict_interval(graph)

    Without a name the model is the default, or that for types where the graph has them.

    Args:
        model: The graph layer: hop_attention, attention over hop distances; attention, blocks of attention with the
            chosen score; edge_attention, attention among edges; or the layer of a paper.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows. For classifiers
            alone: any other value is refused.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ.
        attention_score: The score of two nodes, with model attention.
        normalize: The normalization of scores, with models attention (softmax by default), hop_attention and
            edge_attention (sigmoid).
        num_layers: Layers over the edges: as many hops as a node can see.
        num_hops: Largest distance that model hop_attention attends to.
        num_heads: Attention heads.
        model_dim: Size of a node's vector, all heads together.
        dropout: Dropout of features, and between layers.
        attention_dropout: Dropout of attention weights, with models gat, gatv2, attention and hgt.
        expander_degree: Random neighbors that each node gets beside its own, with model attention; 0 for none.
        num_virtual_nodes: Nodes that are joined with all others, with model attention.
        laplacian_positions: Eigenvectors of the graph's Laplacian as positions of nodes, with model attention.
        random_walk_positions: Steps of random walks, whose return probabilities are positions of nodes, with model
            attention.
        num_bases: Matrices that the relations of model rgcn share; None gives each its own.
        aggregation: How model sage joins the neighbors of a node.
        feature_scale: Features of nodes: z-scores per node type, also of logarithms of values over decades (standard);
            x / Σ|x| over a node (rows); or as they are (none); auto is rows for bags of words, else standard.
        fanouts: Edges a node that a step samples in each hop, -1 for all, such as 15 10; a batch is then 1024 nodes, or
            batch_size. Without it a step sees the whole graph, where it fits into memory. Validation and predictions
            always do.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        one_target_: Whether y had the shape (row), and predictions have it, too.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    one_target_: bool

    def __init__(
        self,
        *,
        model: Literal[
            "auto", "hop_attention", "attention", "gat", "gatv2", "gcn", "sage", "gin", "edge_attention", "rgcn", "hgt"
        ]
        | str = "auto",
        epochs: int | Literal["auto"] | None = "auto",
        batch_size: int | None = None,
        optimizer: Literal["auto", "adamw", "adam"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        final_learning_rate: float | Literal["auto"] = "auto",
        warmup: float = 0.0,
        weight_decay: float | Literal["auto"] = "auto",
        second_moment_decay: float = 0.999,
        clip_norm: float = 0.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | Literal["auto"] | None = "auto",
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = "best",
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str = "scaled_dot",
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] | None = None,
        num_layers: int = 2,
        num_hops: int = 10,
        num_heads: int = 8,
        model_dim: int | Literal["auto"] = "auto",
        dropout: float | Literal["auto"] = "auto",
        attention_dropout: float | Literal["auto"] = "auto",
        expander_degree: int = 0,
        num_virtual_nodes: int = 0,
        laplacian_positions: int = 0,
        random_walk_positions: int = 0,
        num_bases: int | None = None,
        aggregation: Literal["mean", "max", "sum"] = "mean",
        feature_scale: Literal["auto", "rows", "standard", "none"] = "auto",
        fanouts: Sequence[int] = (),
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.attention_score = attention_score
        self.normalize = normalize
        self.num_layers = num_layers
        self.num_hops = num_hops
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.expander_degree = expander_degree
        self.num_virtual_nodes = num_virtual_nodes
        self.laplacian_positions = laplacian_positions
        self.random_walk_positions = random_walk_positions
        self.num_bases = num_bases
        self.aggregation = aggregation
        self.feature_scale = feature_scale
        self.fanouts = fanouts
        self.validation_size = validation_size

    def fit(
        self,
        X: "GraphInput | None",
        y: "Table",
        edges: "EdgesInput | None" = None,
        *,
        edge_features: "Table | None" = None,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
        sample_weight: ArrayLike | None = None,
        validation: ArrayLike | None = None,
    ) -> Self:
        """Train on nodes.

        Args:
            X: A graph: `Graph`, PyTorch Geometric's `Data` or `HeteroData`, a graph of networkx, `GraphNodes`; or the
                features of its nodes (node, feature), a sparse matrix or a DataFrame, too, with `edges` beside them;
                None where nothing is known of them.
            y: (node) or (node, target): numbers; NaN where there is none. Such nodes are part of the graph. A Series or
                a DataFrame names the targets.
            edges: The edges beside features of nodes: `Edges`; whole numbers (2, edge), senders in the first row, as
                PyTorch Geometric's `edge_index`; or a sparse matrix of SciPy or torch, whose entry [i, j] is the weight
                of an edge from j to i, a feature unless all are 1. They are taken as they are: give both ways where
                both are meant.
            edge_features: (edge, feature), beside `edges`.
            node_types: (node): words or whole numbers, beside `edges`.
            edge_types: (edge): words or whole numbers, beside `edges`.
            sample_weight: (row): how much each row counts.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; by default
                `validation_size` of them, drawn at random.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, None, validation)
        row_methods.fit_numbers(
            self,
            _nodes(),
            X,
            y,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
            supervision,
        )
        return self

    def predict(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
        return_std: bool = False,
    ) -> Any:
        """(row), or (row, target) where y has that shape: numbers; NaN for a row that cannot be predicted.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
            return_std: Whether to return the standard deviations of the targets around these as well, as scikit-learn's
                `GaussianProcessRegressor` does; NaN without validation rows.
        """
        return row_methods.predict_numbers(
            self,
            _nodes(),
            X,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
            return_std,
        )

    def predict_interval(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
        coverage: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
            coverage: The promised probability that a value lies in its interval; that of the constructor by default.
        """
        return row_methods.predict_interval(
            self,
            _nodes(),
            X,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
            coverage,
        )

    def score(
        self,
        X: "GraphInput | None",
        y: "Table",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
        nodes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """R² over the targets that are known, of several the mean.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
            nodes: (row): True for the rows that are scored; None scores all.
            sample_weight: (row): how much each row counts.
        """
        return graph_rows.score_numbers(
            self,
            _nodes(),
            X,
            y,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
            nodes,
            sample_weight,
        )

    def explain(
        self,
        item: "GraphInput | None",
        *,
        node: object = None,
        target: str | None = None,
        label: object = None,
        hops: int | None = None,
        methods: "Choice" = None,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
    ) -> "Explanation":
        """Explain one node: what it attends to, and what changes its prediction.

        Args:
            item: One row of `GraphNodes`; or a graph, with `node`.
            node: The number of the node, or its name in a graph with names.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            hops: How far away nodes are shown; by default as far as the model looks.
            methods: Names of methods; see `edgewise.explain.methods`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
        """
        from edgewise.learn.estimators.nodes import explain

        return explain(
            self,
            item,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
            node=node,
            target=target,
            label=label,
            hops=hops,
            methods=methods,
        )

    def fingerprint(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
    ) -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN for a row that cannot be read.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
        """
        return row_methods.fingerprint(
            self,
            _nodes(),
            X,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
        )

    def status_of(
        self,
        X: "GraphInput | None",
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        *,
        node_types: "Table | None" = None,
        edge_types: "Table | None" = None,
    ) -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
            edges: As in `fit`.
            edge_features: As in `fit`.
            node_types: As in `fit`.
            edge_types: As in `fit`.
        """
        return row_methods.status_of(
            self,
            _nodes(),
            X,
            {"edges": edges, "edge_features": edge_features, "node_types": node_types, "edge_types": edge_types},
        )

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_regressor(cls, _nodes(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True, reads_arrays=True)


class TextClassifier(ClassifierMixin, Estimator):
    """Predicts classes of texts, two or more, and their probabilities.

        TextClassifier(model="lstm").fit(reviews, labels).predict(["a film to remember"])

    Args:
        model: The model by its name, such as lstm, gpt2 or bert.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy). For
            regressors alone: any other value is refused.
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly. For regressors alone: any other value is refused.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval. For regressors alone: any other value
            is refused.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ. For regressors alone:
            any other value is refused.
        encoder: A transformer, or a recurrent network (lstm, gru, rnn) in both directions; `model` names it.
        word_dropout: The fraction of tokens that is replaced by the unknown token or a mask in each training step.
        head_dropout: Dropout of the vectors before the output layer, in training.
        readout: How token vectors become one vector of the text.
        num_layers: Blocks.
        num_heads: Attention heads.
        num_key_heads: Heads of keys and values, each shared by as many query heads; None is as many as query heads.
        model_dim: Size of a token's vector.
        hidden_dim: Width of the feed-forward networks; None is 4 · model_dim.
        context: Tokens that are read at once in training; with learned positions the most that can be read at all.
        position: How positions are encoded.
        window: How many tokens of its own text a token attends to, itself among them: those before it where a text is
            written, else those on both sides; None is all of them.
        norm: Normalization before attention and feed-forward network, or after the residual sum.
        norm_eps: What keeps a normalization from dividing by zero.
        activation: In the feed-forward networks.
        dropout: Dropout of embeddings, of the output of each sublayer, and of attention weights, in training.
        norm_embeddings: Whether the tokens are normalized before the first block, as in BERT.
        num_segments: Types of texts in one input, each with a learned vector (BERT's token types); 0 is none.
        tokens: How a text is split into tokens.
        vocabulary_size: Tokens of the vocabulary, at most.
        lowercase: Whether texts are lowercased.
        pretrained: The folder of a masked language model whose vocabulary and weights training starts from.
        companions: What predicts beside the network, with the weight that predicts the validation rows best: word-
            counts (default), a linear model over tokens, their stems and pairs of adjacent tokens; or none. Afterwards
            it is fitted again, to training and validation rows.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        classes_: (class): the classes in order; of several targets a list with those of each.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    classes_: np.ndarray | list[np.ndarray]

    def __init__(
        self,
        *,
        model: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = 64,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float | Literal["auto"] = "auto",
        final_learning_rate: float = 1e-06,
        warmup: float = 0.1,
        weight_decay: float = 0.2,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = None,
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        encoder: Literal["auto", "transformer", "lstm", "gru", "rnn"] = "auto",
        word_dropout: float = 0.2,
        head_dropout: float = 0.3,
        readout: Literal["attention", "mean", "sum", "max"] = "attention",
        num_layers: int | Literal["auto"] = "auto",
        num_heads: int | Literal["auto"] = "auto",
        num_key_heads: int | None = None,
        model_dim: int | Literal["auto"] = "auto",
        hidden_dim: int | Literal["auto"] | None = "auto",
        context: int | Literal["auto"] = "auto",
        position: Literal["auto", "rotary", "learned", "sinusoidal", "alibi", "t5", "shaw", "none"] = "auto",
        window: int | None = None,
        norm: Literal["auto", "pre", "post"] = "auto",
        norm_eps: float | Literal["auto"] = "auto",
        activation: Literal["auto", "gelu", "gelu_tanh", "relu"] = "auto",
        dropout: float | Literal["auto"] = "auto",
        norm_embeddings: bool | Literal["auto"] = "auto",
        num_segments: int | Literal["auto"] = "auto",
        tokens: Literal["characters", "words", "bpe"] = "words",
        vocabulary_size: int = 32768,
        lowercase: bool = False,
        pretrained: str | None = None,
        companions: Sequence[str] | None = None,
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.encoder = encoder
        self.word_dropout = word_dropout
        self.head_dropout = head_dropout
        self.readout = readout
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.num_key_heads = num_key_heads
        self.model_dim = model_dim
        self.hidden_dim = hidden_dim
        self.context = context
        self.position = position
        self.window = window
        self.norm = norm
        self.norm_eps = norm_eps
        self.activation = activation
        self.dropout = dropout
        self.norm_embeddings = norm_embeddings
        self.num_segments = num_segments
        self.tokens = tokens
        self.vocabulary_size = vocabulary_size
        self.lowercase = lowercase
        self.pretrained = pretrained
        self.companions = companions
        self.validation_size = validation_size

    def fit(
        self,
        X: "Table",
        y: "Table",
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        validation: ArrayLike | tuple["Table", "Table"] | None = None,
    ) -> Self:
        """Train on texts.

        Args:
            X: Texts (row), or (row, column) where several belong together; a list, array or DataFrame.
            y: (row) or (row, target): class labels; None or NaN where one of several is missing. A Series or a
                DataFrame names the targets.
            sample_weight: (row): how much each row counts.
            groups: (row): rows of one group are all training or all validation rows.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; or (X, y), further rows.
                By default `validation_size` of the rows, drawn at random.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, groups, validation)
        row_methods.fit_classes(self, _texts(), X, y, {}, supervision)
        return self

    def predict(self, X: "Table") -> np.ndarray:
        """(row): the most probable class; (row, target) where y has that shape.

        Args:
            X: As in `fit`.

        Raises:
            DataError: A row cannot be read: no class could say so.
        """
        return row_methods.predict_classes(self, _texts(), X, {})

    def predict_proba(self, X: "Table") -> np.ndarray | list[np.ndarray]:
        """(row, class): probabilities in the order of `classes_`; of several targets a list with those of each; NaN for
        a row that cannot be predicted.

        Args:
            X: As in `fit`.
        """
        return row_methods.predict_proba(self, _texts(), X, {})

    def score(self, X: "Table", y: "Table", sample_weight: ArrayLike | None = None) -> float:
        """The share of the rows with a label whose class is predicted right; of several targets, all that are known.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            sample_weight: (row): how much each row counts.
        """
        return row_methods.score_classes(self, _texts(), X, y, {}, sample_weight)

    def explain(
        self,
        item: "Table | Mapping[str, object]",
        *,
        top: int | None = None,
        target: str | None = None,
        label: object = None,
        methods: "Choice" = None,
    ) -> "Explanation":
        """Explain one row: which tokens the model attends to, and what changes its prediction.

        Args:
            item: One text, or one for each column, which a dict, a Series or a DataFrame of one row may name.
            top: How many of the strongest weights of each token are shown.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            methods: Names of methods; see `edgewise.explain.methods`.
        """
        return state.explain_item(self, _texts(), item, top=top, target=target, label=label, methods=methods)

    def fingerprint(self, X: "Table") -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN for a row that cannot be read.

        Args:
            X: As in `fit`.
        """
        return row_methods.fingerprint(self, _texts(), X, {})

    def status_of(self, X: "Table") -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
        """
        return row_methods.status_of(self, _texts(), X, {})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_classifier(cls, _texts(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True)


class TextRegressor(RegressorMixin, Estimator):
    """Predicts numbers of texts, and intervals around them.

        TextRegressor(epochs=10).fit(reviews, stars).predict(["a film to remember"])

    Args:
        model: The model by its name, such as lstm, gpt2 or bert.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        class_weight: balanced weights each class in the loss by 1 / its frequency in the training rows. For classifiers
            alone: any other value is refused.
        ensemble_size: Models that are trained from different seeds and averaged.
        coverage: The promised probability that a value lies within its interval.
        calibration: How new rows will differ from the training rows, and so which rows calibrate the intervals: random
            rows, whole groups (those of the group column, else the molecules or texts of a row), or whole scaffolds. In
            an ensemble each model then leaves out other groups. None is as the test rows differ.
        encoder: A transformer, or a recurrent network (lstm, gru, rnn) in both directions; `model` names it.
        word_dropout: The fraction of tokens that is replaced by the unknown token or a mask in each training step.
        head_dropout: Dropout of the vectors before the output layer, in training.
        readout: How token vectors become one vector of the text.
        num_layers: Blocks.
        num_heads: Attention heads.
        num_key_heads: Heads of keys and values, each shared by as many query heads; None is as many as query heads.
        model_dim: Size of a token's vector.
        hidden_dim: Width of the feed-forward networks; None is 4 · model_dim.
        context: Tokens that are read at once in training; with learned positions the most that can be read at all.
        position: How positions are encoded.
        window: How many tokens of its own text a token attends to, itself among them: those before it where a text is
            written, else those on both sides; None is all of them.
        norm: Normalization before attention and feed-forward network, or after the residual sum.
        norm_eps: What keeps a normalization from dividing by zero.
        activation: In the feed-forward networks.
        dropout: Dropout of embeddings, of the output of each sublayer, and of attention weights, in training.
        norm_embeddings: Whether the tokens are normalized before the first block, as in BERT.
        num_segments: Types of texts in one input, each with a learned vector (BERT's token types); 0 is none.
        tokens: How a text is split into tokens.
        vocabulary_size: Tokens of the vocabulary, at most.
        lowercase: Whether texts are lowercased.
        pretrained: The folder of a masked language model whose vocabulary and weights training starts from.
        companions: What predicts beside the network, with the weight that predicts the validation rows best: word-
            counts (default), a linear model over tokens, their stems and pairs of adjacent tokens; or none. Afterwards
            it is fitted again, to training and validation rows.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        one_target_: Whether y had the shape (row), and predictions have it, too.
        trained_: The trained model.
        metrics_: Its scores on the validation rows; of a run of the command line, those of all splits.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    one_target_: bool

    def __init__(
        self,
        *,
        model: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = 64,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float | Literal["auto"] = "auto",
        final_learning_rate: float = 1e-06,
        warmup: float = 0.1,
        weight_decay: float = 0.2,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = None,
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        class_weight: Literal["balanced"] | None = None,
        ensemble_size: int = 1,
        coverage: float = 0.9,
        calibration: Literal["random", "group", "scaffold"] | None = None,
        encoder: Literal["auto", "transformer", "lstm", "gru", "rnn"] = "auto",
        word_dropout: float = 0.2,
        head_dropout: float = 0.3,
        readout: Literal["attention", "mean", "sum", "max"] = "attention",
        num_layers: int | Literal["auto"] = "auto",
        num_heads: int | Literal["auto"] = "auto",
        num_key_heads: int | None = None,
        model_dim: int | Literal["auto"] = "auto",
        hidden_dim: int | Literal["auto"] | None = "auto",
        context: int | Literal["auto"] = "auto",
        position: Literal["auto", "rotary", "learned", "sinusoidal", "alibi", "t5", "shaw", "none"] = "auto",
        window: int | None = None,
        norm: Literal["auto", "pre", "post"] = "auto",
        norm_eps: float | Literal["auto"] = "auto",
        activation: Literal["auto", "gelu", "gelu_tanh", "relu"] = "auto",
        dropout: float | Literal["auto"] = "auto",
        norm_embeddings: bool | Literal["auto"] = "auto",
        num_segments: int | Literal["auto"] = "auto",
        tokens: Literal["characters", "words", "bpe"] = "words",
        vocabulary_size: int = 32768,
        lowercase: bool = False,
        pretrained: str | None = None,
        companions: Sequence[str] | None = None,
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.class_weight = class_weight
        self.ensemble_size = ensemble_size
        self.coverage = coverage
        self.calibration = calibration
        self.encoder = encoder
        self.word_dropout = word_dropout
        self.head_dropout = head_dropout
        self.readout = readout
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.num_key_heads = num_key_heads
        self.model_dim = model_dim
        self.hidden_dim = hidden_dim
        self.context = context
        self.position = position
        self.window = window
        self.norm = norm
        self.norm_eps = norm_eps
        self.activation = activation
        self.dropout = dropout
        self.norm_embeddings = norm_embeddings
        self.num_segments = num_segments
        self.tokens = tokens
        self.vocabulary_size = vocabulary_size
        self.lowercase = lowercase
        self.pretrained = pretrained
        self.companions = companions
        self.validation_size = validation_size

    def fit(
        self,
        X: "Table",
        y: "Table",
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        validation: ArrayLike | tuple["Table", "Table"] | None = None,
    ) -> Self:
        """Train on texts.

        Args:
            X: Texts (row), or (row, column) where several belong together; a list, array or DataFrame.
            y: (row) or (row, target): numbers; NaN where one is missing. A Series or a DataFrame names the targets.
            sample_weight: (row): how much each row counts.
            groups: (row): rows of one group are all training or all validation rows.
            validation: (row) True for the rows that choose the epoch and calibrate intervals; or (X, y), further rows.
                By default `validation_size` of the rows, drawn at random.

        Raises:
            DataError: A row cannot be used; the message says which and why.
            SettingError: A parameter has a value that it cannot have.
        """
        supervision = Supervision(sample_weight, groups, validation)
        row_methods.fit_numbers(self, _texts(), X, y, {}, supervision)
        return self

    def predict(self, X: "Table", *, return_std: bool = False) -> Any:
        """(row), or (row, target) where y has that shape: numbers; NaN for a row that cannot be predicted.

        Args:
            X: As in `fit`.
            return_std: Whether to return the standard deviations of the targets around these as well, as scikit-learn's
                `GaussianProcessRegressor` does; NaN without validation rows.
        """
        return row_methods.predict_numbers(self, _texts(), X, {}, return_std)

    def predict_interval(self, X: "Table", *, coverage: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of the intervals, each as `predict`; NaN with too few validation rows.

        Args:
            X: As in `fit`.
            coverage: The promised probability that a value lies in its interval; that of the constructor by default.
        """
        return row_methods.predict_interval(self, _texts(), X, {}, coverage)

    def score(self, X: "Table", y: "Table", sample_weight: ArrayLike | None = None) -> float:
        """R² over the targets that are known, of several the mean.

        Args:
            X: As in `fit`.
            y: (row) or (row, target): what is true; missing as in `fit`.
            sample_weight: (row): how much each row counts.
        """
        return row_methods.score_numbers(self, _texts(), X, y, {}, sample_weight)

    def explain(
        self,
        item: "Table | Mapping[str, object]",
        *,
        top: int | None = None,
        target: str | None = None,
        label: object = None,
        methods: "Choice" = None,
    ) -> "Explanation":
        """Explain one row: which tokens the model attends to, and what changes its prediction.

        Args:
            item: One text, or one for each column, which a dict, a Series or a DataFrame of one row may name.
            top: How many of the strongest weights of each token are shown.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            methods: Names of methods; see `edgewise.explain.methods`.
        """
        return state.explain_item(self, _texts(), item, top=top, target=target, label=label, methods=methods)

    def fingerprint(self, X: "Table") -> np.ndarray:
        """(row, dim): the learned vector of each row; NaN for a row that cannot be read.

        Args:
            X: As in `fit`.
        """
        return row_methods.fingerprint(self, _texts(), X, {})

    def status_of(self, X: "Table") -> list[str]:
        """For each row `ok`, what to know of its prediction, or why it has none.

        Args:
            X: As in `fit`.
        """
        return row_methods.status_of(self, _texts(), X, {})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        return row_methods.load_regressor(cls, _texts(), folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__(), is_table=True)


class LinkPredictor(Estimator):
    """Predicts which nodes of a graph are linked.

        LinkPredictor(model="gcn").fit(graph).predict_proba([[0, 5], [2, 7]])

    Args:
        model: The graph layer: hop_attention, attention over hop distances; attention, blocks of attention with the
            chosen score; edge_attention, attention among edges; or the layer of a paper.
        directed: Whether an edge is one way; else the reverse of each is added where it is missing.
        attention_score: The score of two nodes, with model attention.
        normalize: The normalization of scores, with models attention (softmax by default), hop_attention and
            edge_attention (sigmoid).
        num_layers: Layers over the edges: as many hops as a node can see.
        num_hops: Largest distance that model hop_attention attends to.
        num_heads: Attention heads.
        model_dim: Size of a node's vector, all heads together.
        dropout: Dropout of features, and between layers.
        attention_dropout: Dropout of attention weights, with models gat, gatv2, attention and hgt.
        expander_degree: Random neighbors that each node gets beside its own, with model attention; 0 for none.
        num_virtual_nodes: Nodes that are joined with all others, with model attention.
        laplacian_positions: Eigenvectors of the graph's Laplacian as positions of nodes, with model attention.
        random_walk_positions: Steps of random walks, whose return probabilities are positions of nodes, with model
            attention.
        num_bases: Matrices that the relations of model rgcn share; None gives each its own.
        aggregation: How model sage joins the neighbors of a node.
        decoder: dot, their dot product; hadamard_mlp, a network on their elementwise product; bilinear, a learned
            matrix between them.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        split_sizes: Fractions of training, validation and test links.
        data_seed: Seed of the split, and of the negative pairs in validation and test.
        negatives: Negative pairs for each link, in training, validation and test.
        feature_scale: Features of nodes: z-scores per node type, also of logarithms of values over decades (standard);
            x / Σ|x| over a node (rows); or as they are (none); auto is rows for bags of words, else standard.
        baselines: Whether scores that need no learning are computed on the same pairs.

    Attributes:
        trained_: The trained model.
        metrics_: Its scores on the splits that were scored.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    def __init__(
        self,
        *,
        model: Literal["hop_attention", "attention", "gat", "gatv2", "gcn", "sage", "gin", "edge_attention"]
        | str = "gcn",
        directed: bool = False,
        attention_score: Literal[
            "scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"
        ]
        | str = "scaled_dot",
        normalize: Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"] | None = None,
        num_layers: int = 2,
        num_hops: int = 10,
        num_heads: int = 8,
        model_dim: int | Literal["auto"] = "auto",
        dropout: float = 0.5,
        attention_dropout: float | Literal["auto"] = "auto",
        expander_degree: int = 0,
        num_virtual_nodes: int = 0,
        laplacian_positions: int = 0,
        random_walk_positions: int = 0,
        num_bases: int | None = None,
        aggregation: Literal["mean", "max", "sum"] = "mean",
        decoder: Literal["dot", "hadamard_mlp", "bilinear"] = "dot",
        epochs: int | None = 100,
        batch_size: int | None = None,
        optimizer: Literal["adamw", "adam"] = "adam",
        learning_rate: float = 0.01,
        final_learning_rate: float = 0.0001,
        warmup: float = 0.0,
        weight_decay: float = 0.0,
        second_moment_decay: float = 0.999,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = 20,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = "best",
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        split_sizes: Sequence[float] = (0.85, 0.05, 0.1),
        data_seed: int = 0,
        negatives: int = 1,
        feature_scale: Literal["auto", "rows", "standard", "none"] = "auto",
        baselines: bool = True,
    ) -> None:
        self.model = model
        self.directed = directed
        self.attention_score = attention_score
        self.normalize = normalize
        self.num_layers = num_layers
        self.num_hops = num_hops
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.expander_degree = expander_degree
        self.num_virtual_nodes = num_virtual_nodes
        self.laplacian_positions = laplacian_positions
        self.random_walk_positions = random_walk_positions
        self.num_bases = num_bases
        self.aggregation = aggregation
        self.decoder = decoder
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.split_sizes = split_sizes
        self.data_seed = data_seed
        self.negatives = negatives
        self.feature_scale = feature_scale
        self.baselines = baselines

    def fit(
        self,
        X: "GraphInput | None",
        y: "EdgesInput | None" = None,
        *,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
        splits: ArrayLike | None = None,
        sample_weight: None = None,
        validation: ArrayLike | None = None,
    ) -> Self:
        """Learn the links of a graph; `metrics_` has the scores of validation and test links.

        Args:
            X: A graph: `Graph`, PyTorch Geometric's `Data`, a graph of networkx; or the features of its nodes (node,
                feature), None where nothing is known of them: each node then has a vector of its own, which is learned.
            y: The edges, as `edges`, where X holds features of nodes.
            edges: The edges beside features of nodes; the other way of each is added where it is missing, unless
                `directed`.
            edge_features: (edge, feature), beside `edges`.
            splits: (edge): train, val, test, or nothing for edges that carry messages and are not predicted; drawn at
                random by default.
            sample_weight: Refused: all links count the same.
            validation: (edge) True for the links that choose the epoch; the others train.

        Raises:
            DataError: Shapes do not fit, an edge names no node, or there are too few links, or pairs that are none.
            SettingError: A parameter has a value that it cannot have.
        """
        from edgewise.learn.estimators import links

        extra_inputs = {"edges": state.one_of("fit", y=y, edges=edges), "edge_features": edge_features}
        links.fit(self, X, extra_inputs, splits=splits, sample_weight=sample_weight, validation=validation)
        return self

    def predict_proba(
        self,
        X: "Table",
        graph: "GraphInput | None" = None,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
    ) -> np.ndarray:
        """(pair, 2): the probabilities that each pair is not a link and that it is one.

        They hold for a test with as many negative pairs as in training; of all pairs of a graph far fewer are links.

        Args:
            X: (pair, 2) nodes, by their names in a graph with names, else counted from 0.
            graph: Another graph along whose edges messages go, or the features of its nodes, with `edges` beside them.
                By default that of the training, with all its links.
            edges: The edges of another graph, beside features of its nodes.
            edge_features: (edge, feature), beside `edges`.

        Raises:
            DataError: Pairs have another shape, or name no node or one node twice.
        """
        from edgewise.learn.estimators import links

        return links.predict_proba(self, X, graph, {"edges": edges, "edge_features": edge_features})

    def predict(
        self,
        X: "Table",
        graph: "GraphInput | None" = None,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
    ) -> np.ndarray:
        """(pair): whether each pair is more likely a link than not.

        Args:
            X: As in `predict_proba`, as all that follows.
        """
        from edgewise.learn.estimators import links

        return links.predict(self, X, graph, {"edges": edges, "edge_features": edge_features})

    def score(
        self,
        X: "Table",
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: "GraphInput | None" = None,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
    ) -> float:
        """The share of the pairs for which it is predicted right whether they are a link.

        Args:
            X: (pair, 2) nodes, by their names in a graph with names, else counted from 0.
            y: (pair): whether each is a link: True or 1, else False or 0.
            sample_weight: (pair): how much each pair counts.
            graph: As in `predict_proba`.
            edges: As in `predict_proba`.
            edge_features: As in `predict_proba`.
        """
        from edgewise.learn.estimators import links

        return links.score(self, X, y, sample_weight, graph, {"edges": edges, "edge_features": edge_features})

    def explain(
        self,
        item: "tuple[object, object] | ArrayLike",
        *,
        target: str | None = None,
        label: object = None,
        hops: int | None = None,
        methods: "Choice" = None,
        graph: "GraphInput | None" = None,
        edges: "EdgesInput | None" = None,
        edge_features: "Table | None" = None,
    ) -> "Explanation":
        """Explain one pair of nodes: what its ends attend to, and what changes the probability of the link.

        Where the graph has the link, no message goes along it, as in training; `predict_proba` leaves it in.

        Args:
            item: The pair, (sender, receiver), as in `predict_proba`.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            hops: How far away nodes are shown; by default as far as the model looks.
            methods: Names of methods; see `edgewise.explain.methods`.
            graph: As in `predict_proba`.
            edges: As in `predict_proba`.
            edge_features: As in `predict_proba`.

        Raises:
            DataError: Unknown node, or the two are the same.
            SettingError: It is not a pair, or `hops` is below 1.
        """
        from edgewise.learn.estimators import links

        return links.explain(
            self,
            item,
            graph,
            {"edges": edges, "edge_features": edge_features},
            target=target,
            label=label,
            hops=hops,
            methods=methods,
        )

    def fingerprint(
        self, graph: "GraphInput | None" = None, edges: "EdgesInput | None" = None, edge_features: "Table | None" = None
    ) -> np.ndarray:
        """(node, dim): the learned vector of each node of a graph, that of the training by default.

        Args:
            graph: Another graph along whose edges messages go, or the features of its nodes, with `edges` beside them.
                By default that of the training, with all its links.
            edges: The edges of another graph, beside features of its nodes.
            edge_features: (edge, feature), beside `edges`.
        """
        from edgewise.learn.estimators import links

        return links.fingerprint(self, graph, {"edges": edges, "edge_features": edge_features})

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        from edgewise.learn.estimators import links

        return state.load(cls, links.LINKS, folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__())


class Forecaster(Estimator):
    """Predicts the next steps of series on a graph.

        Forecaster(horizon=6).fit(values, edges=edges).predict(values)

    Args:
        model: gaan_gru attends to the neighbors of a node at every step; gru ignores the graph and has the same weights
            for every node.
        directed: Whether an edge is one way; else the reverse of each is added where it is missing.
        num_layers: Stacked recurrent networks.
        num_heads: Attention heads of gaan_gru.
        model_dim: Size of a node's state.
        context: Steps that the model reads.
        horizon: Steps that the model predicts.
        period: Steps of one cycle, such as those of a day; the model then reads the place of each step in the cycle.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        time_column: The column of times (numbers or dates) that rows are sorted by; not a node. None keeps the order of
            the file.
        gaps: What happens to times that are missing or repeated: error refuses them; mask reads missing ones as
            unknown, and interpolate from the rows around them; both take the mean of repeated ones.
        split_sizes: Fractions for training, validation and test, in the order of time.

    Attributes:
        trained_: The trained model.
        metrics_: Its scores on the splits that were scored.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    def __init__(
        self,
        *,
        model: Literal["gaan_gru", "gru"] = "gaan_gru",
        directed: bool = False,
        num_layers: int = 1,
        num_heads: int = 4,
        model_dim: int = 32,
        context: int = 12,
        horizon: int = 12,
        period: int | None = None,
        epochs: int | None = 20,
        batch_size: int | None = 32,
        optimizer: Literal["adamw", "adam"] = "adam",
        learning_rate: float = 0.003,
        final_learning_rate: float = 1e-05,
        warmup: float = 0.05,
        weight_decay: float = 0.0,
        second_moment_decay: float = 0.999,
        clip_norm: float = 5.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "mae",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = "best",
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        time_column: str | None = None,
        gaps: Literal["error", "mask", "interpolate"] = "error",
        split_sizes: Sequence[float] = (0.7, 0.1, 0.2),
    ) -> None:
        self.model = model
        self.directed = directed
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.model_dim = model_dim
        self.context = context
        self.horizon = horizon
        self.period = period
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.time_column = time_column
        self.gaps = gaps
        self.split_sizes = split_sizes

    def fit(
        self,
        X: "SeriesInput",
        y: "EdgesInput | None" = None,
        *,
        edges: "EdgesInput | None" = None,
        sample_weight: None = None,
        validation: None = None,
    ) -> Self:
        """Learn a series.

        Args:
            X: (time, node), with NaN where nothing is known: an array, a tensor, a DataFrame or a `Series`. The columns
                of a DataFrame name the nodes. An index of dates, of periods or of text that reads as dates, or its
                `time_column`, has the times: rows are sorted by them, and `gaps` says what happens to missing and
                repeated ones.
            y: The edges, as `edges`: a series is its own target.
            edges: `Edges`; whole numbers (2, edge), senders in the first row; or a sparse matrix of SciPy, whose entry
                [i, j] is an edge from j to i. The other way of each is added where it is missing, unless `directed`.
                None where nodes are alone, and for a `Series`, which has its own.
            sample_weight: Refused: all steps count the same.
            validation: Refused: validation and test are the last parts of the time, see `split_sizes`.

        Raises:
            DataError: Shapes do not fit, a value is infinite, or an edge names no node.
            SettingError: A parameter has a value that it cannot have, or the series is too short.
        """
        from edgewise.learn.estimators import forecast

        known_edges = state.one_of("fit", y=y, edges=edges)
        forecast.fit(self, X, known_edges, sample_weight=sample_weight, validation=validation)
        return self

    def predict(self, X: "SeriesInput", edges: "EdgesInput | None" = None) -> Any:
        """(horizon, node): what follows the last step of a series.

        It is an array; where a DataFrame has times, a DataFrame whose index has those that follow.

        Args:
            X: As in `fit`; without its column of times, rows are taken as they come. With the edges of `fit`, the nodes
                of a DataFrame are taken by their names, and come in the order of the training.
            edges: As in `fit`, and those by default; a model that was loaded from a folder does not know them.

        Raises:
            DataError: Shapes do not fit, or the edges are not known.
        """
        from edgewise.learn.estimators import forecast

        return forecast.predict(self, X, edges)

    def score(self, X: "SeriesInput", y: "Table", edges: "EdgesInput | None" = None) -> float:
        """R² of the predicted steps, over all nodes and steps that are known.

        Args:
            X: As in `predict`.
            y: (horizon, node), what followed; NaN where nothing is known.
            edges: As in `predict`.
        """
        from edgewise.learn.estimators import forecast

        return forecast.score(self, X, y, edges)

    def explain(self, item: object) -> "Explanation":
        """Raise UnsupportedError: series cannot be explained.

        Args:
            item: An item.
        """
        from edgewise.learn.estimators import forecast

        return state.explain_item(self, forecast.SERIES, item)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        from edgewise.learn.estimators import forecast

        return state.load(cls, forecast.SERIES, folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__())


class DynamicsModel(Estimator):
    """A model of moving bodies: where they will be, or their accelerations.

        DynamicsModel(epochs=100).fit(motion).predict(other)

    Args:
        model: equivariant turns with the bodies; graph_network sees positions and velocities as plain numbers; forces
            learns a force along the line between two bodies as a function of their distance.
        target_quantity: What is predicted: later positions of the bodies, or their accelerations.
        aggregation: How the equivariant layers weight messages: all the same, by a gate each, or by attention over
            bodies.
        num_layers: Rounds of messages; forces has one.
        model_dim: Size of a body's vector, and of a message.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        start: The moment that is read, by its number in the file; None reads all for which a later one is known.
        every_start: Whether every moment of the training trajectories is learned from; `start` is then that of
            validation and test moments alone.
        horizon: How many moments later the predicted positions are; 0 for accelerations.
        split_sizes: Fractions of training, validation and test trajectories; of one trajectory, of its time.
        data_seed: Seed of the split.

    Attributes:
        trained_: The trained model.
        metrics_: Its scores on the splits that were scored.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    def __init__(
        self,
        *,
        model: Literal["auto", "equivariant", "graph_network", "forces"] = "auto",
        target_quantity: Literal["positions", "accelerations"] = "positions",
        aggregation: Literal["sum", "gate", "attention"] = "sum",
        num_layers: int = 4,
        model_dim: int = 64,
        epochs: int | None = 300,
        batch_size: int | None = 100,
        optimizer: Literal["adamw", "adam"] = "adam",
        learning_rate: float | Literal["auto"] = "auto",
        final_learning_rate: float = 1e-06,
        warmup: float = 0.02,
        weight_decay: float = 0.0,
        second_moment_decay: float = 0.999,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "mse",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = "best",
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        start: int | None = None,
        every_start: bool = False,
        horizon: int | Literal["auto"] = "auto",
        split_sizes: Sequence[float] = (0.6, 0.2, 0.2),
        data_seed: int = 0,
    ) -> None:
        self.model = model
        self.target_quantity = target_quantity
        self.aggregation = aggregation
        self.num_layers = num_layers
        self.model_dim = model_dim
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.start = start
        self.every_start = every_start
        self.horizon = horizon
        self.split_sizes = split_sizes
        self.data_seed = data_seed

    def fit(
        self, X: "Motion", y: None = None, *, sample_weight: None = None, validation: "Motion | None" = None
    ) -> Self:
        """Learn trajectories.

        Args:
            X: As `edgewise.learn.readers.motion.motion.read_motion` reads them.
            y: Refused: the targets are later moments, or the accelerations of X.
            sample_weight: Refused: all moments count the same.
            validation: Other trajectories for validation; all of X then trains. By default see `split_sizes`.

        Raises:
            SettingError: A parameter has a value that it cannot have, or there are fewer moments than it needs.
            DataError: Accelerations are to be learned, and cannot be.
        """
        from edgewise.learn.estimators import motion

        motion.fit(self, X, y=y, sample_weight=sample_weight, validation=validation)
        return self

    def predict(self, X: "Motion", moment: int = 0) -> np.ndarray:
        """(trajectory, body, space): where the bodies will be, or their accelerations.

        Args:
            X: The bodies.
            moment: The moment that is read, by its number in the file.
        """
        from edgewise.learn.estimators import motion

        return motion.predict(self, X, moment)

    def score(self, X: "Motion", y: ArrayLike | None = None, moment: int = 0) -> float:
        """R² over all coordinates of one moment.

        Args:
            X: The bodies.
            y: (trajectory, body, space), as `predict`; by default what X has.
            moment: The moment that is read, by its number in the file.
        """
        from edgewise.learn.estimators import motion

        return motion.score(self, X, y, moment)

    def rollout(
        self, X: "Motion", num_moments: int | None = None, *, moment: int = 0, time_step: float | None = None
    ) -> "Rollout":
        """Simulate the bodies with the learned forces, from one moment of a file on.

        Args:
            X: The bodies; of what comes after `moment`, only the times are read.
            num_moments: How many moments, the first included; None is all that the file has from there on.
            moment: Where the simulation starts.
            time_step: Of the integrator; None is that of the file.

        Raises:
            SettingError: Positions were learned, the moments lie outside the file, or the step is not above 0.
        """
        from edgewise.learn.estimators import motion

        return motion.rollout(self, X, num_moments, moment=moment, time_step=time_step)

    def explain(self, item: object) -> "Explanation":
        """Raise UnsupportedError: motion cannot be explained.

        Args:
            item: An item.
        """
        from edgewise.learn.estimators import motion

        return state.explain_item(self, motion.MOTION, item)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        from edgewise.learn.estimators import motion

        return state.load(cls, motion.MOTION, folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__())


class LanguageModel(Estimator):
    """A model of a text, which predicts each token from those before it.

        LanguageModel(steps=2000).fit(text).generate("ROMEO:")

    Args:
        model: The model by its name, such as lstm, gpt2 or bert.
        num_layers: Blocks.
        num_heads: Attention heads.
        num_key_heads: Heads of keys and values, each shared by as many query heads; None is as many as query heads.
        model_dim: Size of a token's vector.
        hidden_dim: Width of the feed-forward networks; None is 4 · model_dim.
        context: Tokens that are read at once in training; with learned positions the most that can be read at all.
        position: How positions are encoded.
        window: How many tokens of its own text a token attends to, itself among them: those before it where a text is
            written, else those on both sides; None is all of them.
        norm: Normalization before attention and feed-forward network, or after the residual sum.
        norm_eps: What keeps a normalization from dividing by zero.
        activation: In the feed-forward networks.
        dropout: Dropout of embeddings, of the output of each sublayer, and of attention weights, in training.
        norm_embeddings: Whether the tokens are normalized before the first block, as in BERT.
        num_segments: Types of texts in one input, each with a learned vector (BERT's token types); 0 is none.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        tokens: How a text is split into tokens.
        vocabulary_size: Tokens of the vocabulary, at most, of words and bpe.
        split_sizes: Fractions of the text, in its order, for training and validation.
        steps: Training steps; ignored where epochs is given.
        pretrained: The folder of a language model, trained or converted, that is trained further. It brings its
            vocabulary and its sizes; only dropout and a shorter context can be chosen.

    Attributes:
        trained_: The trained model.
        metrics_: Its scores on the splits that were scored.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        num_layers: int | Literal["auto"] = "auto",
        num_heads: int | Literal["auto"] = "auto",
        num_key_heads: int | None = None,
        model_dim: int | Literal["auto"] = "auto",
        hidden_dim: int | None = None,
        context: int | Literal["auto"] = "auto",
        position: Literal["auto", "rotary", "learned", "sinusoidal", "alibi", "t5", "shaw", "none"] = "auto",
        window: int | None = None,
        norm: Literal["auto", "pre", "post"] = "auto",
        norm_eps: float | Literal["auto"] = "auto",
        activation: Literal["auto", "gelu", "gelu_tanh", "relu"] = "auto",
        dropout: float | Literal["auto"] = "auto",
        norm_embeddings: bool | Literal["auto"] = "auto",
        num_segments: int | Literal["auto"] = "auto",
        epochs: int | None = None,
        batch_size: int | None = 12,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float = 0.002,
        final_learning_rate: float = 1e-05,
        warmup: float = 0.05,
        weight_decay: float = 0.1,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = None,
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        tokens: Literal["characters", "words", "bpe"] = "characters",
        vocabulary_size: int = 8192,
        split_sizes: Sequence[float] = (0.9, 0.1),
        steps: int = 2000,
        pretrained: str | None = None,
    ) -> None:
        self.model = model
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.num_key_heads = num_key_heads
        self.model_dim = model_dim
        self.hidden_dim = hidden_dim
        self.context = context
        self.position = position
        self.window = window
        self.norm = norm
        self.norm_eps = norm_eps
        self.activation = activation
        self.dropout = dropout
        self.norm_embeddings = norm_embeddings
        self.num_segments = num_segments
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.tokens = tokens
        self.vocabulary_size = vocabulary_size
        self.split_sizes = split_sizes
        self.steps = steps
        self.pretrained = pretrained

    def fit(self, X: str, y: None = None, *, sample_weight: None = None, validation: str | None = None) -> Self:
        """Learn a text.

        Args:
            X: The text.
            y: Refused: a text is its own target.
            sample_weight: Refused: all tokens count the same.
            validation: Another text for validation; by default the last part of X, see `split_sizes`.

        Raises:
            DataError: It is shorter than the context.
            SettingError: A parameter has a value that it cannot have.
        """
        from edgewise.learn.estimators import language

        language.fit(self, X, y=y, sample_weight=sample_weight, validation=validation)
        return self

    def generate(
        self,
        prompt: str,
        *,
        num_tokens: int = 200,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
    ) -> str:
        """The prompt and what follows it.

        Args:
            prompt: The text to continue.
            num_tokens: Tokens to write, at most.
            temperature: Scores are divided by it: 0 takes the likeliest token, 1 samples as the model predicts, inf
                draws all alike.
            top_k: Sample from the k likeliest tokens; None is all.
            top_p: Sample from the likeliest tokens that together have this probability (nucleus sampling).
            repetition_penalty: Above 1, tokens in the text so far become less likely: their scores are divided by this
                where positive, multiplied where negative (Keskar et al. 2019).
            seed: Seed of the sampling.
        """
        from edgewise.learn.estimators import language

        return language.generate(
            self,
            prompt,
            num_tokens=num_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
        )

    def score(self, X: str, y: None = None) -> float:
        """The mean of ln p over the tokens of another text.

        Args:
            X: Another text.
            y: Nothing.
        """
        from edgewise.learn.estimators import language

        return language.score(self, X)

    def explain(
        self,
        item: str,
        *,
        target: str | None = None,
        label: object = None,
        top: int | None = None,
        methods: "Choice" = None,
    ) -> "Explanation":
        """Explain the next token: where the model attends, and what changes its probability.

        Args:
            item: A prompt.
            target: The target that is explained; the first by default.
            label: The class whose probability is explained; the predicted one by default.
            top: How many of the strongest weights of each token are shown.
            methods: Names of methods; see `edgewise.explain.methods`.

        Raises:
            SettingError: Unknown target, label or method.
        """
        from edgewise.learn.estimators import language

        return state.explain_item(self, language.LANGUAGE, item, target=target, label=label, top=top, methods=methods)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        from edgewise.learn.estimators import language

        return state.load(cls, language.LANGUAGE, folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__())


class Tagger(Estimator):
    """Predicts the tag of each word, such as its part of speech, or whether a name begins at it.

        Tagger(model="lstm").fit(sentences, tags).predict([["Mr", "Lund", "came"]])

    Args:
        model: The model by its name, such as lstm, gpt2 or bert.
        encoder: A transformer, or a recurrent network (lstm, gru, rnn) in both directions; `model` names it.
        word_dropout: The fraction of tokens that is replaced by the unknown token or a mask in each training step.
        head_dropout: Dropout of the vectors before the output layer, in training.
        num_layers: Blocks.
        num_heads: Attention heads.
        num_key_heads: Heads of keys and values, each shared by as many query heads; None is as many as query heads.
        model_dim: Size of a token's vector.
        hidden_dim: Width of the feed-forward networks; None is 4 · model_dim.
        context: Tokens that are read at once in training; with learned positions the most that can be read at all.
        position: How positions are encoded.
        window: How many tokens of its own text a token attends to, itself among them: those before it where a text is
            written, else those on both sides; None is all of them.
        norm: Normalization before attention and feed-forward network, or after the residual sum.
        norm_eps: What keeps a normalization from dividing by zero.
        activation: In the feed-forward networks.
        dropout: Dropout of embeddings, of the output of each sublayer, and of attention weights, in training.
        norm_embeddings: Whether the tokens are normalized before the first block, as in BERT.
        num_segments: Types of texts in one input, each with a learned vector (BERT's token types); 0 is none.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        tokens: How a sentence is split into tokens; the first token of a word carries its tag.
        vocabulary_size: Tokens of the vocabulary, at most.
        lowercase: Whether texts are lowercased.
        pretrained: The folder of a masked language model whose vocabulary and weights training starts from.
        validation_size: The fraction of the rows for validation, where `fit` is given no `validation`.

    Attributes:
        trained_: The trained model.
        metrics_: Its scores on the splits that were scored.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        encoder: Literal["auto", "transformer", "lstm", "gru", "rnn"] = "auto",
        word_dropout: float = 0.2,
        head_dropout: float = 0.3,
        num_layers: int | Literal["auto"] = "auto",
        num_heads: int | Literal["auto"] = "auto",
        num_key_heads: int | None = None,
        model_dim: int | Literal["auto"] = "auto",
        hidden_dim: int | Literal["auto"] | None = "auto",
        context: int | Literal["auto"] = "auto",
        position: Literal["auto", "rotary", "learned", "sinusoidal", "alibi", "t5", "shaw", "none"] = "auto",
        window: int | None = None,
        norm: Literal["auto", "pre", "post"] = "auto",
        norm_eps: float | Literal["auto"] = "auto",
        activation: Literal["auto", "gelu", "gelu_tanh", "relu"] = "auto",
        dropout: float | Literal["auto"] = "auto",
        norm_embeddings: bool | Literal["auto"] = "auto",
        num_segments: int | Literal["auto"] = "auto",
        epochs: int | None = None,
        batch_size: int | None = 32,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float = 0.0005,
        final_learning_rate: float = 1e-06,
        warmup: float = 0.1,
        weight_decay: float = 0.2,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = None,
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        tokens: Literal["characters", "words", "bpe"] = "words",
        vocabulary_size: int = 32768,
        lowercase: bool = False,
        pretrained: str | None = None,
        validation_size: float = 0.1,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.word_dropout = word_dropout
        self.head_dropout = head_dropout
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.num_key_heads = num_key_heads
        self.model_dim = model_dim
        self.hidden_dim = hidden_dim
        self.context = context
        self.position = position
        self.window = window
        self.norm = norm
        self.norm_eps = norm_eps
        self.activation = activation
        self.dropout = dropout
        self.norm_embeddings = norm_embeddings
        self.num_segments = num_segments
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.tokens = tokens
        self.vocabulary_size = vocabulary_size
        self.lowercase = lowercase
        self.pretrained = pretrained
        self.validation_size = validation_size

    def fit(
        self,
        X: Sequence[Sequence[str]],
        y: Sequence[Sequence[str]],
        *,
        sample_weight: None = None,
        validation: ArrayLike | tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]] | None = None,
    ) -> Self:
        """Learn the tags of some sentences.

        Args:
            X: The words of each sentence.
            y: The tag of each word.
            sample_weight: Refused: all words count the same.
            validation: (sentence) True for those that choose the epoch; or (sentences, tags), further ones. By default
                `validation_size` of them, drawn at random.

        Raises:
            DataError: A sentence has not as many tags as words; the message names it.
            SettingError: A parameter has a value that it cannot have.
        """
        from edgewise.learn.estimators import tagging

        tagging.fit(self, X, y, sample_weight=sample_weight, validation=validation)
        return self

    def predict(self, X: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tag of each word of some sentences.

        Args:
            X: The words of each sentence.
        """
        from edgewise.learn.estimators import tagging

        return tagging.predict(self, X)

    def score(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> float:
        """The F1 of the spans; where tags mark none, the share of the words whose tag is right.

        Args:
            X: The words of each sentence.
            y: The tag of each word.
        """
        from edgewise.learn.estimators import tagging

        return tagging.score(self, X, y)

    def explain(
        self,
        item: Sequence[str] | str,
        *,
        target: str | int | None = None,
        label: object = None,
        top: int | None = None,
        methods: "Choice" = None,
    ) -> "Explanation":
        """Explain the tag of one word: where the model attends, and what changes its probability.

        Args:
            item: The words of a sentence.
            target: The word that is explained, by its place or itself.
            label: The class whose probability is explained; the predicted one by default.
            top: How many of the strongest weights of each token are shown.
            methods: Names of methods; see `edgewise.explain.methods`.

        Raises:
            SettingError: Unknown target, label or method.
        """
        from edgewise.learn.estimators import tagging

        return state.explain_item(self, tagging.TAGS, item, target=target, label=label, top=top, methods=methods)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        from edgewise.learn.estimators import tagging

        return state.load(cls, tagging.TAGS, folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__())


class Translator(Estimator):
    """Learns to translate from texts and their translations.

        Translator(model="lstm", epochs=20).fit(english, german).predict(["a dog runs"])

    `model` is lstm, gru, rnn or the name of a transformer; without it the model is a transformer.

    Args:
        model: The model by its name, such as lstm, gpt2 or bert.
        num_layers: Blocks.
        num_heads: Attention heads.
        num_key_heads: Heads of keys and values, each shared by as many query heads; None is as many as query heads.
        model_dim: Size of a token's vector.
        hidden_dim: Width of the feed-forward networks; None is 4 · model_dim.
        context: Tokens that are read at once in training; with learned positions the most that can be read at all.
        position: How positions are encoded.
        window: How many tokens of its own text a token attends to, itself among them: those before it where a text is
            written, else those on both sides; None is all of them.
        norm: Normalization before attention and feed-forward network, or after the residual sum.
        norm_eps: What keeps a normalization from dividing by zero.
        activation: In the feed-forward networks.
        dropout: Dropout of embeddings, of the output of each sublayer, and of attention weights, in training.
        norm_embeddings: Whether the tokens are normalized before the first block, as in BERT.
        num_segments: Types of texts in one input, each with a learned vector (BERT's token types); 0 is none.
        epochs: Passes over the training data; None is a number that fits the data, or, for a language model, that of
            `steps`.
        batch_size: Rows per step, at most, which an epoch shares out evenly: tokens for translations and masked
            language models, windows for language models and series, moments for moving bodies. None is a number that
            fits the data, or all rows for the nodes or edges of one graph.
        optimizer: adamw decays the weights themselves; adam adds the decay to the gradient, as a penalty on their
            squares does.
        learning_rate: The largest learning rate, reached at the end of the warm-up.
        final_learning_rate: The learning rate that the cosine decay ends at; that of the last step lies just above it.
            Where `learning_rate` is below it, all rates after the warm-up are `learning_rate`.
        warmup: The fraction of all steps in which the learning rate rises from zero.
        weight_decay: Weight decay of the matrices; vectors (biases, norms) have none.
        second_moment_decay: The decay rate of the running mean of squared gradients (Adam's second beta).
        clip_norm: The gradient is scaled down to this norm where it is larger; 0 switches it off.
        ema_decay: The decay of the exponential moving average of the weights; 0 switches averaging off.
        eval_steps: Validate and write a checkpoint after so many steps; None is after each epoch, and after about 1,000
            steps for a language model. The log, the patience and the choice of the best weights then count validations,
            and the number of steps is rounded up to a whole number of them.
        patience: Stop after this many validations without a better loss; None runs all epochs.
        loss_function: The regression loss on scaled targets: mse, mae or huber (classes always use cross-entropy).
        huber_width: The delta of the Huber loss: errors below it, in standard deviations of the target, count squared,
            larger ones linearly.
        checkpoint: Which weights are the result: `last`, or `best` in validation loss. None is best with patience, else
            last.
        random_state: Seed of the initial weights, the order of rows and the dropout.
        device: auto is cuda where there is one, else the CPU.
        precision: 32, bf16 (mixed), 16 (mixed, GPU only) or 64.
        compile: Whether torch.compile turns the training step into one program. It takes minutes before the first step,
            and dropout draws other numbers; validation, predictions and the saved weights do not change.
        cuda_graph: Whether a training step is recorded as one CUDA graph, whose kernels are started at once: steps of
            small models wait for Python otherwise. Steps must read the same graph or windows of the same shape, as
            those of nodes of one graph and of language models do; dropout may draw other numbers.
        threads: CPU threads; OMP_NUM_THREADS where it is set, else up to 8 for predictions, translations and language
            models, 2 for tables of texts and tagging, and 1 for other trainings: the steps of small models are too
            short to share.
        check_memory: Whether a training is refused when the estimate of its sizes exceeds the memory.
        logger: The logger of a run of the command line; an estimator writes no logs and refuses others than csv.
        beam_size: Candidate texts at each step; 1 always takes the likeliest token.
        length_penalty: α: texts are compared by ln p / ((5 + length) / 6)^α (Wu et al. 2016, eq. 14); 0 favors short
            ones.
        max_length: Tokens of a text, at most; with learned positions never more than the context.
        vocabulary_size: Byte pairs, of both languages together, at most.
        label_smoothing: The share of the target probability that is spread over all tokens.
        cell: The recurrent cell: lstm, gru or rnn (one tanh).
        attention: The score of decoder state and source: bahdanau, before the cell moves; or Luong's dot, general or
            concat, after it.
        local_attention: Attend to a window of the source only, which moves on by one token a step (monotonic) or to
            where a network predicts (predictive); None attends to all of the source.
        local_window: How far the window reaches on either side; used with `local_attention`.
        input_feeding: Whether the last attention output is an input of the next step (Luong et al. 2015, section 3.3).

    Attributes:
        trained_: The trained model.
        metrics_: Its scores on the splits that were scored.
        column_names_: The names of the columns of DataFrames, by argument.
        feature_names_in_: (column): those of X, where it was a DataFrame.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        num_layers: int | Literal["auto"] = "auto",
        num_heads: int | Literal["auto"] = "auto",
        num_key_heads: int | None = None,
        model_dim: int | Literal["auto"] = "auto",
        hidden_dim: int | Literal["auto"] | None = "auto",
        context: int | Literal["auto"] = "auto",
        position: Literal["auto", "rotary", "learned", "sinusoidal", "alibi", "t5", "none"] = "auto",
        window: int | None = None,
        norm: Literal["auto", "pre", "post"] = "auto",
        norm_eps: float | Literal["auto"] = "auto",
        activation: Literal["auto", "gelu", "gelu_tanh", "relu"] = "auto",
        dropout: float | Literal["auto"] = "auto",
        norm_embeddings: bool | Literal["auto"] = "auto",
        num_segments: int | Literal["auto"] = "auto",
        epochs: int | None = 30,
        batch_size: int | None = 2048,
        optimizer: Literal["adamw", "adam"] = "adamw",
        learning_rate: float = 0.002,
        final_learning_rate: float = 1e-05,
        warmup: float = 0.1,
        weight_decay: float = 0.01,
        second_moment_decay: float = 0.99,
        clip_norm: float = 1.0,
        ema_decay: float = 0.0,
        eval_steps: int | None = None,
        patience: int | None = None,
        loss_function: Literal["mse", "mae", "huber"] | str = "huber",
        huber_width: float = 0.25,
        checkpoint: Literal["best", "last"] | None = "best",
        random_state: int = 0,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        precision: Literal["32", "bf16", "16", "64"] = "32",
        compile: bool = False,
        cuda_graph: bool = False,
        threads: int | Literal["auto"] = "auto",
        check_memory: bool = True,
        logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None,
        beam_size: int = 4,
        length_penalty: float = 0.6,
        max_length: int = 128,
        vocabulary_size: int = 8192,
        label_smoothing: float = 0.1,
        cell: Literal["auto", "lstm", "gru", "rnn"] = "auto",
        attention: Literal["bahdanau", "dot", "general", "concat"] = "general",
        local_attention: Literal["monotonic", "predictive"] | None = None,
        local_window: int = 10,
        input_feeding: bool = True,
    ) -> None:
        self.model = model
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.num_key_heads = num_key_heads
        self.model_dim = model_dim
        self.hidden_dim = hidden_dim
        self.context = context
        self.position = position
        self.window = window
        self.norm = norm
        self.norm_eps = norm_eps
        self.activation = activation
        self.dropout = dropout
        self.norm_embeddings = norm_embeddings
        self.num_segments = num_segments
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.final_learning_rate = final_learning_rate
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.second_moment_decay = second_moment_decay
        self.clip_norm = clip_norm
        self.ema_decay = ema_decay
        self.eval_steps = eval_steps
        self.patience = patience
        self.loss_function = loss_function
        self.huber_width = huber_width
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.compile = compile
        self.cuda_graph = cuda_graph
        self.threads = threads
        self.check_memory = check_memory
        self.logger = logger
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.max_length = max_length
        self.vocabulary_size = vocabulary_size
        self.label_smoothing = label_smoothing
        self.cell = cell
        self.attention = attention
        self.local_attention = local_attention
        self.local_window = local_window
        self.input_feeding = input_feeding

    def fit(
        self,
        X: Sequence[str],
        y: Sequence[str],
        *,
        sample_weight: None = None,
        validation: ArrayLike | tuple[Sequence[str], Sequence[str]] | None = None,
    ) -> Self:
        """Learn to translate.

        Args:
            X: The texts that are read.
            y: Their translations.
            sample_weight: Refused: all texts count the same.
            validation: (texts, translations) that choose the epoch, or (text) True for those of X; without them the
                weights of the last epoch are the result.

        Raises:
            DataError: A text is empty, no text at all, or longer than the context; the message names it.
            SettingError: A parameter has a value that it cannot have.
        """
        from edgewise.learn.estimators import translation

        translation.fit(self, X, y, sample_weight=sample_weight, validation=validation)
        return self

    def predict(self, X: Sequence[str]) -> list[str | None]:
        """The translation of each text; None where one is empty or longer than the model reads.

        Args:
            X: The texts that are read.
        """
        from edgewise.learn.estimators import translation

        return translation.predict(self, X)

    def score(self, X: Sequence[str], y: Sequence[str]) -> float:
        """The BLEU of the translations, 0 to 100; what cannot be translated counts as an empty text.

        Args:
            X: The texts that are read.
            y: Their translations.
        """
        from edgewise.learn.estimators import translation

        return translation.score(self, X, y)

    def explain(
        self,
        item: str,
        *,
        target: str | int | None = None,
        label: object = None,
        top: int | None = None,
        methods: "Choice" = None,
    ) -> "Explanation":
        """Explain one word of a translation: where the model attends, and what changes its probability.

        Args:
            item: A text.
            target: The word that is explained, by its place or itself.
            label: The class whose probability is explained; the predicted one by default.
            top: How many of the strongest weights of each token are shown.
            methods: Names of methods; see `edgewise.explain.methods`.

        Raises:
            SettingError: Unknown target, label or method.
        """
        from edgewise.learn.estimators import translation

        return state.explain_item(
            self, translation.TRANSLATIONS, item, target=target, label=label, top=top, methods=methods
        )

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the trained model to a folder, which `load` and the commands of `edgewise` read.

        Args:
            folder: Where.
            overwrite: Whether a run in it is replaced.

        Raises:
            NotFittedError: There is none yet.
            RunFolderError: The folder holds a run, and `overwrite` is False.
        """
        state.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Open a run folder that `save` or `edgewise train` wrote, with the parameters of its training.

        Args:
            folder: The run folder.

        Raises:
            RunFolderError: It is damaged, or holds a model for another task.
        """
        from edgewise.learn.estimators import translation

        return state.load(cls, translation.TRANSLATIONS, folder)

    def __sklearn_tags__(self) -> "Tags":
        """What scikit-learn asks: which data it reads."""
        return tags_of(super().__sklearn_tags__())
