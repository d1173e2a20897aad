"""Ray leaves files open that Python closes some time later; here they are closed before other tests run."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left_open():
    """Unclosed files of Ray are found in the last test of a file, whose warnings are not errors."""
    yield
    gc.collect()
