"""Sizes that every launch needs. Triton's and torch's own functions for them take as long as a launch."""

MAX_REGISTERS = 255
"""Registers of a thread: as many as it can have."""
CHANNELS = 128
"""Channels that a program over edges holds of each edge: those of one warp, whose threads need not meet in shared
memory. Heads beyond them are for other programs."""
MAX_GROUPS = 65_535
"""Groups of heads over edges, of all members of a batch: a device takes no more on the second axis of a grid."""


def power_of_two(number: int) -> int:
    """The smallest one that is at least so large, and at least 1."""
    return 1 << max(number - 1, 0).bit_length()


def is_padded(dim: int, width: int) -> bool:
    """Whether rows of features stand in tiles that are wider; where there are none, or one number, none are read."""
    return 1 < dim < width


def ceiling(number: int, divisor: int) -> int:
    """How many divisors make at least the number."""
    return -(-number // divisor)
