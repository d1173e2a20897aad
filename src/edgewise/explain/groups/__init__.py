"""Transformations that a function may be tested against, and what they need to know of its inputs.

axes         what the axes of an array mean
leaves       the arrays and edges in whatever a function takes or gives
group, fit   a set of transformations, one transformation, and whether it fits
permutation  motion  grid  map      the sets there are
"""
