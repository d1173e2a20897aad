"""Molecules to properties: what a run over them reads, starts from and is compared with."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from edgewise.data.molecules.limits import MoleculeLimits
from edgewise.data.molecules.table import MoleculeTable, join_files
from edgewise.data.scale import ConditionScaler, FeatureScaler, TargetScaler
from edgewise.data.split import Splits
from edgewise.models.graph_settings import PropertySettings, PropertySizes
from edgewise.tasks.molecules.job import PropertyJob
from edgewise.tasks.molecules.trained import Scales, TrainedProperty, molecules_of
from edgewise.tasks.report.leakage import Sides, molecule_sides
from edgewise.tasks.table_run import TableRun
from edgewise.train.baseline import Baseline, finite_features, fit_forest, fit_mean
from edgewise.train.settings import TrainSettings


class PropertyRun(TableRun):
    """A run over a table of molecules."""

    @staticmethod
    def read(job: PropertyJob) -> MoleculeTable:
        """The table of a job."""
        return join_files(
            list(job.data),
            job.columns,
            strict=job.strict,
            with_descriptors=job.molecule_descriptors,
            limits=job.limits,
        )

    @staticmethod
    def resolved(job: PropertyJob, table: MoleculeTable, splits: Splits) -> PropertyJob:
        """The job with nothing left open: what fits the training rows stands where None stood."""
        model, train = resolved(job.model, job.train, table, splits)
        return replace(job, model=model, train=train)

    def notes(self) -> list[str]:
        """How many molecules have no conformer that was found at once, where the model looks at conformers."""
        note = self.table.store.conformer_note if self.job.model.needs_coordinates else ""
        return [f"conformers: {note}"] if note else []

    def untrained(self) -> TrainedProperty:
        """All that is known before the first step."""
        return untrained(self.table, self.splits, self.job.model, self.job.coverage, self.job.limits)

    def baselines(self) -> dict[str, Baseline]:
        """The training mean, and a random forest over RDKit's descriptors and the conditions where there are any."""
        table, rows = self.table, self.splits.train
        targets, weights, classes = table.targets[rows], table.weights[rows], self.num_classes
        fitted = {"mean": fit_mean(targets, weights, classes)}
        if self.every_feature.shape[1]:
            seed = self.job.train.seed
            fitted["forest"] = fit_forest(self.features(rows), targets, weights, classes, seed=seed)
        return fitted

    def features(self, rows: np.ndarray) -> np.ndarray:
        """RDKit's descriptors and the conditions of some rows."""
        return self.every_feature[rows]

    def sides(self) -> Sides:
        """The molecules of each part, the same and nearly so."""
        table = self.table
        contents = self.of_parts(lambda rows: molecules_of(table, rows))
        return molecule_sides(table.row_unit, self.rows_of_parts, contents)

    @cached_property
    def every_feature(self) -> np.ndarray:
        """The same of all rows; what a row that cannot be used has there means nothing."""
        table = self.table
        raw = table.store.global_features.numpy()[table.graph_of_row].reshape(table.num_rows, -1)
        features = np.concatenate([raw, table.conditions], axis=1)
        return finite_features(features, self.splits.train) if features.shape[1] else features


def resolved(
    model: PropertySettings, train: TrainSettings, table: MoleculeTable, splits: Splits
) -> tuple[PropertySettings, TrainSettings]:
    """The settings with nothing left open: what fits the training rows stands where None stood."""
    train = train.resolved(len(splits.train), len(np.unique(table.graph_of_row[splits.train])))
    assert train.batch_size is not None
    return model.resolved(train.batch_size), train


def untrained(
    table: MoleculeTable,
    splits: Splits,
    model: PropertySettings,
    coverage: float,
    limits: MoleculeLimits = MoleculeLimits(),
) -> TrainedProperty:
    """All that is known before the first step: sizes, scales, and which molecules the training rows hold."""
    rows = splits.train
    store = table.store
    graphs = np.unique(table.graph_of_row[rows])
    scales = Scales(
        TargetScaler.fit(table.targets, rows) if table.columns.task_type == "regression" else None,
        FeatureScaler.fit(store.global_features.numpy(), graphs),
        ConditionScaler.fit(table.conditions, rows),
    )
    num_targets = len(table.columns.target_columns)
    multiclass = table.columns.task_type == "multiclass"
    sizes = PropertySizes(
        num_node_features=store.node_features.shape[1],
        num_edge_features=store.edge_features.shape[1],
        num_global_features=store.global_features.shape[1],
        num_components=table.graph_of_row.shape[1],
        num_conditions=scales.condition.num_features,
        num_outputs=sum(len(names) for names in table.classes.values()) if multiclass else num_targets,
        typical_nodes=float(np.diff(store.node_offsets.numpy())[graphs].mean()),
        **bounds(table.targets[rows], scales.target),
    )
    return TrainedProperty(
        columns=table.columns,
        classes={} if scales.target is not None else dict(table.classes),
        sizes=sizes,
        settings=model,
        scales=scales,
        members=[],
        errors=np.zeros((0, num_targets)),
        known_rows=list(dict.fromkeys(molecules_of(table, rows))),
        coverage=coverage,
        limits=limits,
    )


def bounds(targets: np.ndarray, scaler: TargetScaler | None) -> dict[str, tuple[float, ...]]:
    """0 and 1 in model units where every known target is a fraction, so that every prediction is one too."""
    if scaler is None or not ((targets >= 0) & (targets <= 1) | np.isnan(targets)).all():
        return {}
    ends = scaler.transform(np.stack([np.zeros(targets.shape[1]), np.ones(targets.shape[1])]))
    return {"low": tuple(ends[0].tolist()), "high": tuple(ends[1].tolist())}
