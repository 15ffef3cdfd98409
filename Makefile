# Everything a developer or a visitor types. Needs make, Python 3.11+ and Java 17+; the rest goes into .venv.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
MINUTES ?= 10
# Test files at a time, unless JOBS says so: most of them wait, for a JVM to start or for a session to end. The
# long stories and drawn cases take a core each.
SHORT := --numprocesses $(or $(JOBS),3)
LONG := --numprocesses $(or $(JOBS),2)
BY_FILE := --dist loadfile --no-loadscope-reorder
BIN := .venv/bin
# What a program needs, and what tests need besides.
READY := .venv/.installed
DEVELOPING := .venv/.developing
# The lock names every package, so pip has nothing to choose: without --no-deps it takes a newer release of a
# package that another one wants with an extra, and then misses its hash (pip's issue 9644).
INSTALL_LOCKED := install --disable-pip-version-check --no-input --no-compile --use-pep517 --no-deps --require-hashes
# Where it is set, each of many processes would compile pandas, pyspark and all else anew: two seconds each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY) ## Broker, coordinator and a few members on this machine, explained as it runs
	@$(BIN)/group-coordinator demo

.PHONY: run
run: $(READY) ## The coordinator with a broker of its own, until Ctrl-C
	@$(BIN)/group-coordinator run --embedded

# A full disk shows as everything but that: programs that do not start, or say nothing.
.PHONY: room
room:
	@free=$$(df -Pk "$${TMPDIR:-/tmp}" | awk 'NR == 2 {print int($$4 / 1048576)}'); \
	if [ "$$free" -lt 5 ]; then \
		echo "All tests need 5 GB in $${TMPDIR:-/tmp}; $$free GB are free. Make room, or set TMPDIR." >&2; exit 1; \
	fi

# Each test is in one of these runs, and `make verify` has the long ones (tests/test_selection.py). There the
# comparisons with a live Kafka, which go by the clock, have the machine to themselves.
.PHONY: test
test: room lint test-fast ## Lint, and every capability end to end (15 minutes on two cores; 5 GB in /tmp)
	$(BIN)/pytest -m '(drawn or not core) and not verify' $(SHORT) $(BY_FILE)

# Drawn cases take ten times as long where it is noted which branches are taken. The others take all of them.
.PHONY: test-fast
test-fast: $(DEVELOPING) ## The protocol core, of which every branch is taken, and the client (two minutes)
	$(BIN)/pytest -m 'core and not drawn and not verify' $(SHORT) \
		--cov --cov-report=term-missing:skip-covered --cov-fail-under=100

.PHONY: verify
verify: room lint ## The long stories: faults, cluster, monitoring, upgrades, many more cases (80 minutes)
	$(BIN)/pytest -m 'conformance and verify'
	$(BIN)/pytest -m 'not conformance and verify and alone'
	$(BIN)/pytest -m 'not conformance and verify and not alone' $(LONG) $(BY_FILE)
	DEPTH=deep $(BIN)/pytest -m 'drawn' $(LONG)

.PHONY: conformance
conformance: $(DEVELOPING) ## Renew the records of live Kafka brokers, and compare with new requests each time (MINUTES=10)
	@$(BIN)/python -m tests.conformance classic --record --minutes $(MINUTES)
	@$(BIN)/python -m tests.conformance consumer --record --minutes $(MINUTES)

.PHONY: simulate
simulate: $(DEVELOPING) ## Members, network and coordinator with all kinds of faults, with new seeds (MINUTES=10)
	@$(BIN)/python -m tests.simulation --minutes $(MINUTES)

.PHONY: faults
faults: $(DEVELOPING) ## Kill, pause and starve the running coordinator under load, with new seeds (MINUTES=10)
	@$(BIN)/python -m tests.faults --minutes $(MINUTES)

.PHONY: clients
clients: $(DEVELOPING) ## Kafka clients in Go, JavaScript and C at the gateway, those whose toolchain is there (ten minutes)
	@$(BIN)/python -m tests.foreign

# The first takes what a page shows of invented groups, the second plays a story that is in docs/day-two.md.
.PHONY: pictures
pictures: $(DEVELOPING) ## Make the documentation's pictures of the page again, and play its story of a slow consumer (ten minutes)
	$(BIN)/python -m tests.page.screenshots
	$(BIN)/python -m tests.day_two

.PHONY: package
package: $(READY) ## Pack the coordinator for spark-submit into dist/
	@$(BIN)/python -m group_coordinator.deploy.submit

# Python alone, as the images are made where nothing is installed. Build arguments are taken from the environment.
TARGET := coordinator
.PHONY: image
image: ## The container's image, with docker, podman or buildah (TARGET=light: without Spark; kubernetes: for the Spark operator)
	@$(PYTHON) deploy/images.py $(TARGET)

.PHONY: image-test
image-test: $(DEVELOPING) ## Run that image beside a broker, with docker or podman: join, kill, restart (three minutes)
	@$(BIN)/python -m tests.image $(TARGET)

# mutmut stays out of the lock: nobody else needs it. It works on a copy in mutants/, where it would not try
# again what an earlier run has tried. A mutant that fills the memory gets no more than 2 GiB.
MUTMUT := PYTHONPATH=.venv/mutmut $(BIN)/python -m mutmut

.PHONY: mutants
mutants: $(DEVELOPING) ## Break the core in 3,200 ways, list what no test notices, fail below 90 % (half an hour)
	@test -d .venv/mutmut || $(BIN)/pip install --quiet --disable-pip-version-check --target .venv/mutmut 'mutmut>=3.8,<4'
	@rm -rf mutants
	ulimit -v 2097152; $(MUTMUT) run --max-children $(or $(JOBS),2)
	@$(MUTMUT) results --all true | awk -F ': ' '$$2 ~ /^(killed|timeout)$$/ {noticed++; next} {print} \
		END {printf "%d of %d noticed, %.1f %%\n", noticed, NR, 100 * noticed / NR; exit noticed < 0.9 * NR}'

# Likewise. Strict: a package that could not be looked up is no package without vulnerabilities.
.PHONY: audit
audit: $(DEVELOPING) ## Look the locked Python packages up among known vulnerabilities (asks pypi.org)
	@test -x .venv/audit/bin/pip-audit || { $(BIN)/python -m venv .venv/audit && \
		.venv/audit/bin/pip install --quiet --disable-pip-version-check 'pip-audit>=2.9,<3'; }
	.venv/audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements-dev.lock

.PHONY: lint
lint: $(DEVELOPING) ## Style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(DEVELOPING) ## Rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(DEVELOPING) ## Measure everything beside its neighbours (six hours; one by name: see docs/performance.md)
	$(BIN)/python -m benchmarks

COMPILE := .venv/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command 'make lock' \
	--extra cli --extra delta --extra gateway --extra history --extra measure-lag --extra spark --extra uvloop

# uv and jgo only compute the locks: they live in a venv of their own, and nobody else needs them.
.PHONY: lock
lock: $(DEVELOPING) ## Resolve requirements.lock and deploy/jars.lock anew (UPGRADE=1: newest versions)
	@test -x .venv/lock/bin/jgo || { $(BIN)/python -m venv .venv/lock && \
		.venv/lock/bin/pip install --quiet --disable-pip-version-check uv 'jgo>=3.2,<4'; }
	$(COMPILE) $(if $(UPGRADE),--upgrade) --group dev --output-file requirements-dev.lock pyproject.toml
	$(COMPILE) --upgrade --constraint requirements-dev.lock --output-file requirements.lock pyproject.toml
	PYTHONPATH=src .venv/lock/bin/python -m group_coordinator.deploy.lock_jars

.PHONY: clean
clean: ## Remove .venv and everything generated
	rm -rf .venv mutants .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage build ./*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip would say three lines of each package; errors come on stderr, as they are. Neither pip nor what reads it may
# keep lines back.
define install_locked
PYTHONUNBUFFERED=1 $(BIN)/python -m pip $(INSTALL_LOCKED) -r $(1) | { \
	all="$$(grep -c '^[a-z].*==' $(1))"; n=0; \
	while read -r step package _; do case "$$step" in \
		Collecting) n=$$((n + 1)); printf '\r  %d of about %d: %-50s' "$$n" "$$all" "$$package";; \
		Installing) printf '\r  %-68s' "unpacking them, which takes half a minute";; \
	esac; done; echo; }
endef

$(DEVELOPING): requirements-dev.lock $(READY)
	@echo "Installing what the tests need besides (once)"
	@$(call install_locked,requirements-dev.lock)
	@touch $@

# The checks come before the long download, so that a missing Java shows at once.
$(READY): requirements.lock pyproject.toml setup.py
	@python=; for candidate in $(PYTHON) python3.13 python3.12 python3.11 python3.14; do \
		if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		found=$$($(PYTHON) --version 2>&1) || found="no $(PYTHON)"; \
		echo "Python 3.11 or newer is needed; found $$found. Install one or set PYTHON=/path/to/python3." >&2; exit 1; \
	fi; \
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$$python cannot make virtual environments. Install its venv module (for example Debian's python3-venv)." >&2; exit 1; \
	fi; \
	$$python deploy/java.py; \
	$(BIN)/python -c '' 2>/dev/null || { echo "Creating .venv with $$($$python --version)"; $$python -m venv --clear .venv; }
	@echo "Installing the locked packages (once; PySpark alone is about 450 MB)"
	@$(call install_locked,requirements.lock)
	@echo "Installing group-coordinator itself"
	@$(BIN)/python -m pip install --disable-pip-version-check --no-input --quiet --no-deps -e .
	@echo "Preparing Java's classes, so that each start of Spark takes half the time (once, half a minute)"
	@$(BIN)/python -m group_coordinator.jobs.archive 2>.venv/archive.log || { cat .venv/archive.log; \
		echo "That is only slower: all works without it." >&2; }
	@touch $@
