# Every target sets up what it needs: a virtual environment in .venv with the tested versions, made once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OLDEST := .venv-oldest
OLDEST_TORCH := 2.11.0
# One a core, at most four: each takes up to 4 GiB. A third one on two cores made the suite slower.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(4, os.cpu_count() or 1))")
# Tests start many processes: each would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE
# What mypy found out of files that did not change since, in this clone or in another one.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/edgewise-tests/mypy

.PHONY: help demo test test-all durations check format docs attack bench bench-distributed bench-fuse bench-intervals bench-large bench-molecules bench-new-graphs bench-readers bench-resume bench-runs bench-sampling bench-soak bench-tables kernels bench-gpu test-oldest clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(READY)  ## train on molecules made on the spot, and say what to type for a table of your own
	$(BIN)/edgewise demo

test: $(READY)  ## the test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --durations=30 -m "not nightly"

test-all: $(READY)  ## the test suite with what `make test` leaves to the night: see CONTRIBUTING.md
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --durations=30

durations: $(READY)  ## the test suite, with the processor seconds of each file in tests/durations.json
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m "not nightly" --cpu-times tests/durations.json

check: $(READY)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## put the code into the common form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## write the lists of tasks, draw the pictures, take those of the pages, run every block of code in the documentation
	$(BIN)/python docs/tasks.py
	$(BIN)/python docs/picture.py
	$(BIN)/python docs/screens.py
	$(BIN)/python -m pytest tests/test_docs.py

attack: $(READY)  ## damaged files and run folders, killed trainings and hostile requests, some minutes each: counts of what came out
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m attack

bench: $(READY)  ## tests first, then the benchmarks
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --durations=30
	$(BIN)/python benchmarks/shared_molecules.py
	$(BIN)/python benchmarks/attention_maps.py
	$(BIN)/python benchmarks/plan_cost.py
	$(BIN)/python benchmarks/plain_calls.py
	$(BIN)/python benchmarks/products.py
	$(BIN)/python benchmarks/words.py
	$(BIN)/python benchmarks/graphs.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/attention.py

bench-intervals: $(READY)  ## coverage and width of intervals on new liquids and new scaffolds of EDGEWISE_DATA: hours, resumable
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/intervals.py

bench-molecules: $(READY)  ## molecules beside chemprop (CHEMPROP=its program) and a forest, whole commands: hours, resumable
	$(BIN)/python benchmarks/molecules.py $(if $(CHEMPROP),--chemprop $(CHEMPROP))

bench-distributed: $(READY)  ## bytes that processes send a step, and rates of one core, into docs/scaling.md with the plans of large runs
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/distributed.py --write
	$(BIN)/python benchmarks/plan.py --write

bench-fuse: $(READY)  ## models of PyTorch Geometric before and after `fuse`: time and memory of a training step
	$(BIN)/python benchmarks/fuse.py

bench-new-graphs: $(READY)  ## the same where each step brings new small graphs, two minutes
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/new_graphs.py

bench-large: $(READY)  ## a graph of 3 million nodes from CSV to predictions, and one larger than its memory limit, into docs/scaling.md
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/large_graph.py --write
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/large_graph.py --num-nodes 700000 --num-edges 3000000 --num-features 512 --limit-mb 1024 \
		--batch-size 256 --write

bench-readers: $(READY)  ## every reader under changed, drawn and (with `pip install atheris`) guided inputs, half an hour
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/readers.py --write

bench-resume: $(READY)  ## trainings killed at random steps and resumed: identical results, into docs/scaling.md
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/resume.py --write

bench-runs: $(READY)  ## from Enter to the result beside peers (CHEMPROP=its program): commands and steps, 100 minutes, resumable
	$(BIN)/python benchmarks/runs.py $(if $(CHEMPROP),--chemprop $(CHEMPROP))

bench-sampling: $(READY)  ## neighbor sampling beside numpy and PyTorch Geometric: edges a second, into docs/scaling.md
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/sampling.py --write

bench-tables: $(READY)  ## tables of 10,000 to a million molecules: rows a second and peak memory, into docs/scaling.md: hours
	$(BIN)/python benchmarks/tables.py --rows 10000 100000 --write
	$(BIN)/python benchmarks/tables.py --no-molecule-descriptors --write

bench-soak: $(READY)  ## `edgewise serve` under 32 clients on loopback for ten minutes, into docs/scaling.md
	$(BIN)/python benchmarks/soak.py --write

kernels: $(READY)  ## compile the kernels for CUDA of calls of every kind, without a device: an hour
	$(BIN)/python tests/triton/sweep.py --out benchmarks/results/kernels.json

# A machine with a GPU may have no network: nothing is set up there. Warnings of versions other than the tested ones are
# shown and let pass. The tests compile over a thousand kernels, side by side; those of memory want the device alone.
bench-gpu:  ## with a CUDA GPU and the packages of PYTHON (nothing is installed): tests of its kernels, then the benchmark
	PYTHONPATH=src:.gpu-deps $(PYTHON) benchmarks/gpu.py --check
	PYTHONPATH=src:.gpu-deps $(PYTHON) -m pytest tests/triton tests/test_packed_device.py -W default -m "not gpu" -n auto
	PYTHONPATH=src:.gpu-deps $(PYTHON) -m pytest tests/triton tests/test_packed_device.py -W default -m gpu
	PYTHONPATH=src:.gpu-deps $(PYTHON) benchmarks/gpu.py

# One step: an interrupted installation leaves no stamp and is taken up again. Python compiles a module when it is first
# imported; most modules of most packages never are. A source distribution is built apart, as pip does from 23.1 on: the
# older way fails for seqeval.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --no-compile -c constraints.txt -e '.[dev]'
	touch $(READY)

test-oldest:  ## the tests on the oldest torch that pyproject.toml accepts (several GB to download)
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	grep -v '^torch==' constraints.txt > $(OLDEST)/constraints.txt
	echo 'torch==$(OLDEST_TORCH)' >> $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --use-pep517 -c $(OLDEST)/constraints.txt -e '.[dev]'
	$(OLDEST)/bin/python -m pytest -n $(WORKERS)

clean:  ## remove the environments and the demo's run
	rm -rf $(VENV) $(OLDEST) runs/demo
