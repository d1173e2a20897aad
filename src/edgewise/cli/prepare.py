"""`edgewise prepare`: tables of a graph of any size as a store, which is mapped into memory."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from edgewise.cli.flags import add_settings

DESCRIPTION = (
    "Put a table of nodes and a table of edges into a folder of arrays that are mapped into memory, so that `edgewise "
    "train nodes FOLDER` and `edgewise predict RUN FOLDER` work on graphs larger than memory. A table is a CSV or "
    "Parquet file, a folder of such files, or a pattern in quotes. Run the same command again, without "
    "--overwrite, to resume after an interruption."
)
NODE_ROLES = (
    *("node_column", "target_columns", "descriptors_columns", "category_columns", "weight_column", "splits_column"),
    *("group_column", "node_type_column", "ignore_columns", "missing"),
)
EDGE_ROLES = ("edge_columns", "edge_feature_columns", "edge_category_columns", "edge_type_column", "directed")
"""Settings of a training that are also flags here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    from edgewise.learn.readers.graphs.source import GraphSource
    from edgewise.learn.readers.store.settings import StoreSettings
    from edgewise.learn.tables.columns import Columns

    parser.add_argument("nodes", metavar="NODES", help="the table of nodes")
    parser.add_argument("edges", metavar="EDGES", help="the table of edges")
    parser.add_argument("-o", "--output-dir", required=True, metavar="FOLDER", help="the store")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a store in the folder, also an unfinished one"
    )
    group = parser.add_argument_group("columns of nodes (all others with numbers are features)")
    add_settings(group, Columns, defaults={"node_column": "auto", "missing": "impute"}, only=NODE_ROLES)
    group = parser.add_argument_group("edges")
    add_settings(group, GraphSource, only=EDGE_ROLES)
    add_settings(parser.add_argument_group("store"), StoreSettings)


def run(arguments: argparse.Namespace) -> int:
    """Builds the store, and prints what it holds and the next command."""
    from edgewise.learn.readers.graphs.source import GraphSource
    from edgewise.learn.readers.store.build import Build
    from edgewise.learn.readers.store.layout import again
    from edgewise.learn.readers.store.settings import StoreSettings
    from edgewise.learn.settings import spelled
    from edgewise.learn.tables.columns import AUTO, ROW_ROLES, Columns
    from edgewise.learn.tables.options import TableFormat
    from edgewise.learn.tasks.scores import command
    from edgewise.learn.training import claim

    flags = vars(arguments)

    def settings_from(settings_type: Any, **defaults: Any) -> Any:
        names = {field.name for field in dataclasses.fields(settings_type)} - {"edges", "features"}
        typed = {name: value for name, value in flags.items() if name in names}
        return settings_type(
            **{**defaults, **{name: tuple(v) if isinstance(v, list) else v for name, v in typed.items()}}
        )

    words: list[str] = [arguments.nodes, arguments.edges, "-o", arguments.output_dir]
    settings = (Columns, GraphSource, StoreSettings, TableFormat)
    for field in [field for settings_type in settings for field in dataclasses.fields(settings_type)]:
        value = flags.get(field.name)
        if field.name in ("edges", "features") or value is None or value is False:
            continue
        words += [
            spelled(field.name),
            *(() if value is True else map(str, value if isinstance(value, list) else [value])),
        ]

    folder = Path(arguments.output_dir)
    claim.refuse_file(folder)
    with claim.removing_empty_folders(folder), claim.locked(folder):
        build = Build(
            folder,
            *(arguments.nodes, arguments.edges),
            *(
                settings_from(Columns, node_column=AUTO, missing="impute"),
                settings_from(GraphSource),
                settings_from(StoreSettings),
            ),
            words=words,
            overwrite=arguments.overwrite,
        )
        if build.resumed:
            print(f"{arguments.output_dir}: already done: {', '.join(build.state['stages'])}")
        try:
            store = build.run()
        except KeyboardInterrupt:
            print(f"edgewise: interrupted; continue with: {again(folder, build.state)}", file=sys.stderr)
            return 130
        print("\n".join(build.summary(store)))

    targets = flags.get("target_columns") or ("COLUMN",)
    categories = flags.get("category_columns") or ()
    roles = [spelled("category_columns"), *categories] if categories else []
    roles += [word for role in (*ROW_ROLES, "missing") if flags.get(role) for word in (spelled(role), flags[role])]
    print(f"Next:\n  {command('train', 'nodes', arguments.output_dir, '--target-columns', *targets, *roles)}")
    return 0
