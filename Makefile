# Every target is listed by `make help`. Python 3.11 or later and make are all that must be there.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo format lint check test campaign kept hierarchy audience explore missed partitions state sessions structured torture every-step anew sink live sweep good-traces large-damages bench bench-pipeline bench-statistics bench-hooks bench-sessions bench-compare docs lock clean

BIN := .venv/bin
STAMP := .venv/stamp

# The first interpreter that is new enough; PYTHON=… on the command line chooses another.
PYTHON ?= $(shell for name in python3.11 python3 python3.12 python3.13 python3.14; do \
	if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$name; break; fi; done)

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with the locked packages and this checkout; a second run reuses it

$(STAMP): pyproject.toml requirements/lock.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or later is needed and none was found: install it, or say make PYTHON=/path/to/python" >&2; \
		exit 1; fi
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

format: $(STAMP) ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .

lint: $(STAMP) ## Check format, lint, types and import rules, without tests
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

check: lint ## Lint, then the tests that are not marked slow
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow"

# Without root the tests that make networks run in namespaces of their own, where the kernel allows it.
NAMESPACE := unshare --user --map-root-user --net --mount tests/network/in_namespace.sh

test: lint ## Lint, then every test: what CI runs
	@if [ "$$(id -u)" = 0 ] || ! $(NAMESPACE) true 2>/dev/null; then \
		echo "$(BIN)/pytest -n 2 --dist loadgroup"; UNISONO_INSTALL_BROWSER=1 $(BIN)/pytest -n 2 --dist loadgroup; \
	else \
		UNISONO_INSTALL_BROWSER=1 $(BIN)/pytest -n 2 --dist loadgroup --ignore tests/network && $(NAMESPACE) $(BIN)/pytest -n 2 tests/network; fi

demo: $(STAMP) ## Run five real processes: one joins late, one is killed, the rest part and meet; audit with Spark, draw the page
	$(BIN)/unisono demo --out runs/demo

SEEDS ?= 0:240
OTHER_SEEDS ?= 0:20

CHAOS := chaos vs-chaos
SCENARIOS := $(basename $(notdir $(wildcard src/unisono/simulation/scenarios/*.toml)))

campaign: $(STAMP) ## Run 240 seeds of chaos and of vs-chaos, and 20 of every other scenario but the large ones; SEEDS= and OTHER_SEEDS= choose others
	@status=0; for name in $(CHAOS) $(filter-out $(CHAOS) hierarchy-% receiver-churn large-audience vs-large-%,$(SCENARIOS)); do \
		seeds=$(OTHER_SEEDS); case $$name in *chaos) seeds=$(SEEDS);; esac; \
		echo "$(BIN)/unisono simulate $$name --seeds $$seeds"; \
		$(BIN)/unisono simulate $$name --seeds $$seeds || status=1; done; exit $$status

KEPT_SEEDS = $(if $(filter file,$(origin SEEDS)),0:50,$(SEEDS))

kept: $(STAMP) ## Run every scenario in which a promise once broke, over 50 seeds; SEEDS= chooses others
	@status=0; for file in tests/simulation/kept/*.toml; do \
		echo "$(BIN)/unisono simulate $$file --seeds $(KEPT_SEEDS)"; \
		$(BIN)/unisono simulate $$file --seeds $(KEPT_SEEDS) || status=1; done; exit $$status

hierarchy: $(STAMP) ## Hold the control hierarchy of 20, 200 and 1,000 sites to its figures, and let a third of its coordinators crash
	$(BIN)/python -m tests.campaigns.hierarchy

structured: $(STAMP) ## Let one client more join a session of 100 and of 1,000, and hold what it costs the others to its bound
	$(BIN)/python -m tests.campaigns.structured

audience: $(STAMP) ## Let a hundred receivers come and go in a second for a minute, and measure 10 to 1,000 that stay
	$(BIN)/python -m tests.campaigns.audience

explore: $(STAMP) ## Try every order of what can happen in a repair, a leave and a change of role of three members, within bounds; some minutes
	$(BIN)/python -m tests.exploration

missed: $(STAMP) ## Plant the bugs that exploring catches, and count the seeds of chaos that catch them; an hour
	$(BIN)/python -m tests.campaigns.missed

RUNS ?= 50

partitions: $(STAMP) ## Split five real processes in namespaces, 50 times by 3 and 2 and 50 times into five, and time the merges
	$(BIN)/python -m tests.campaigns.partitions --runs $(RUNS)

state: $(STAMP) ## Let a member join with 500 MB of state and kill who gives it half way, while 5,000 messages a second go on
	$(BIN)/python -m tests.campaigns.state

sessions: $(STAMP) ## Let ten clients of three membership servers come, go and be killed for a minute, and one server too; audit their traces
	$(BIN)/python -m tests.campaigns.sessions

KIND ?= both

torture: $(STAMP) ## Kill, stop and flood real processes for a minute a seed, judged by their own logs; KIND=groups, sessions or leaves, and SEEDS=
	$(BIN)/python -m tests.campaigns.torture --kind $(KIND) --seeds $(if $(filter file,$(origin SEEDS)),0:20,$(SEEDS))

every-step: $(STAMP) ## Kill the forwarder, the slowest client, the joiner, each server and each controller after every step of a view change
	$(BIN)/python -m tests.campaigns.every_step

anew: $(STAMP) ## Run the tests that draw their examples with draws of their own, three times over; some minutes
	for _ in 1 2 3; do $(BIN)/pytest -n 2 --dist loadgroup --hypothesis-profile anew $$(grep -rl "@given" tests) || exit 1; done

sink: $(STAMP) ## Let Spark send rows into a group, kill the query three times and the gateway once, and count every member's rows
	$(BIN)/python -m tests.campaigns.sink

live: $(STAMP) ## Watch a damaged run live, kill the watching three times, and print how soon each violation was flagged
	$(BIN)/python -m tests.campaigns.live

sweep: $(STAMP) ## Sweep over 2,000 seeds here and on a cluster of two workers: how busy the cores are, and whether the verdicts agree
	$(BIN)/python -m tests.campaigns.sweep

good-traces: $(STAMP) ## Hold 10,000 good traces to every property, by the monitors and by Spark: nobody may raise an alarm
	$(BIN)/python -m tests.campaigns.good_traces

large-damages: $(STAMP) ## Damage a long generated trace in every way there is: Spark must name each
	$(BIN)/python -m tests.campaigns.large_damages

bench: $(STAMP) ## Measure throughput and latency of four members on this machine, view changes of eight and five, 10,000 groups, the engine alone
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/membership.py
	$(BIN)/python benchmarks/groups.py
	$(BIN)/python benchmarks/engine_path.py

bench-pipeline: $(STAMP) ## Audit 10 and 50 million deliveries of 16 receivers for every property: time, memory, growth
	$(BIN)/python benchmarks/pipeline.py

bench-statistics: $(STAMP) ## Measure what tracing costs: statistics off, some, all, to a spool and to a collector, in turns
	$(BIN)/python benchmarks/tracing_cost.py

bench-hooks: $(STAMP) ## Count the instructions that statistics cost the engine while they are off; four minutes, needs valgrind
	$(BIN)/python benchmarks/engine_hooks.py

bench-sessions: $(STAMP) ## Let a client join and leave a session of three, 200 times, as in document 002: each part of a change, and what a message costs
	$(BIN)/python benchmarks/sessions.py

BASE ?= HEAD

bench-compare: $(STAMP) ## Measure the working tree against a commit, in turns: make bench-compare BASE=rev
	$(BIN)/python benchmarks/compare.py $(BASE)

docs: $(STAMP) ## Write docs/settings.md from the table of settings, and draw the pictures
	$(BIN)/python docs/generate_settings.py
	$(BIN)/python docs/draw_timeline.py > /dev/null
	$(BIN)/python docs/draw_views.py
	$(BIN)/python docs/draw_space_time.py

# The direct requirements: this package's own and those of every extra.
DIRECT = import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*project["dependencies"], *sum(project["optional-dependencies"].values(), []), sep="\n")

lock: ## Write requirements/lock.txt anew, with the latest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear .venv-lock
	$(PYTHON) -c '$(DIRECT)' > .venv-lock/direct.txt
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check -r .venv-lock/direct.txt
	mkdir -p requirements
	echo "# Made by make lock: every package of a development environment, at one version." > requirements/lock.txt
	.venv-lock/bin/python -m pip freeze >> requirements/lock.txt
	rm -rf .venv-lock

clean: ## Remove the environment, caches and built files
	rm -rf .venv .venv-lock build dist .import_linter_cache .grimp_cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +
