"""`edgewise verify`: checks the files of a store against their checksums."""

import argparse

from edgewise.errors import plural

DESCRIPTION = (
    "Read every file of a store that `edgewise prepare` made and compare its checksum with the one that was written. A "
    "file that is missing, cut off or changed is named."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("store", metavar="STORE", help="the folder of a store")


def run(arguments: argparse.Namespace) -> int:
    """Reads all files, and prints their number and size."""
    from edgewise.learn.readers.store.layout import verify

    store = verify(arguments.store)
    size = sum(file.size for file in store.files.values())
    print(f"{arguments.store}: {plural(len(store.files), 'file')}, {size / 1e6:,.1f} MB, checksums are correct")
    return 0
