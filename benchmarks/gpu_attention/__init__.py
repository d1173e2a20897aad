"""The parts of `benchmarks/gpu.py`: attention on a CUDA GPU, ours and everyone else's, measured side by side.

options    what a run was asked to do
device     the GPU: time, peak memory, captured graphs, numbers of launches
limits     what the machine can do at best: copy, and gather of rows (gather_kernel)
graphs     who attends to whom, made on the GPU from a seed
case       one computation, and everyone's way of doing it
edge_cases, dense_cases    the workloads; pyg: PyTorch Geometric's way
exact      what is right, in float64, for a part of a graph that is small enough
floors     the bytes that must move
step       a training step of the default molecule model
suite      the list of parts, by name
measure    one case: is it right? then time everyone in turn; run: part after part, within the time that is given
targets    what must be shown
report     the tables, from the numbers alone, or from none
"""
