"""The parts of `benchmarks/attention.py`: attention on a CPU, ours and everyone else's, measured side by side.

options    what a run was asked to do
machine    what it runs on, and whether something else is using it
limits     what the machine can do at best
graphs     who attends to whom
peers      one formula each, in the words of PyTorch Geometric, plain torch and edgewise
edge_cases, dense_cases    what is computed, and everyone's way of doing it
measure    do they agree? then time them in turn; peak memory in a process of its own
studies    growth with the number of edges, threads, a whole model in training
suite      the list of parts, by name
bars       what must be reached
report     the tables, from the numbers alone
"""
