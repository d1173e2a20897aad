"""The parts of `benchmarks/graphs.py`: models of nodes in training, ours and PyTorch Geometric's.

inputs    the graphs, as both are handed them
models    one model each, in the words of edgewise and of PyTorch Geometric, with the same weights
"""
