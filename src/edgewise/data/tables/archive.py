"""What an .npz file holds, told from its list of contents: nothing is read, and nothing heavy imported."""

import zipfile


def array_names(path: str) -> frozenset[str]:
    """The names of the arrays; none where the file cannot be read, which its reader will say better."""
    try:
        with zipfile.ZipFile(path) as archive:
            return frozenset(name.removesuffix(".npy") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return frozenset()
