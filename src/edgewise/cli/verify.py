"""`edgewise verify`: whether the files of a store are what was written."""

import argparse

DESCRIPTION = (
    "Read every file of a store that `edgewise prepare` made and compare its checksum with the one that was written. A "
    "file that is missing, cut off or changed is named."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("store", metavar="STORE", help="the folder of a store")


def run(arguments: argparse.Namespace) -> int:
    """Reads all files."""
    from edgewise.learn.readers.store.layout import verify

    store = verify(arguments.store)
    size = sum(each.size for each in store.files.values())
    print(f"{arguments.store}: {len(store.files)} files, {size / 1e6:,.1f} MB, as they were written")
    return 0
