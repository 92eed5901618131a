# make test    set up .venv on the first run, then every check that CI runs
# make format  rewrite the code as the checks want it
# make bench   the benchmarks, each against a peer in the same run
# make clean   remove .venv and all caches

PYTHON ?= python3
READY := .venv/.ready

.PHONY: test format bench clean

test: $(READY)
	scripts/check

format: $(READY)
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: .venv/.ready-benchmark
	.venv/bin/python benchmarks/fit_time.py
	.venv/bin/python benchmarks/small_budgets.py
	.venv/bin/python benchmarks/coverage.py
	.venv/bin/python benchmarks/shapley_time.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

.venv/.ready-benchmark: $(READY)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[benchmark]'
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
