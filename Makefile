# make demo   installs, and learns ten tasks of drawings twice  make test  installs and tests
# make demo-photos  fetches photographs by npm, and learns ten classes of them
# make check  style, types, import arrows                   make grid   the README's table (hours)
# make test-portable  numbers, by other processors' instructions
# make kernel  compiles kernel.c of the page, with clang
# make bench  speed beside its targets (ARGS=--quick: 3 minutes instead of 14)
PYTHON ?= python3
BIN := .venv/bin
# By the environment, so that it reaches pip's build environments too.
export PIP_CONSTRAINT := constraints.txt
# Two processes; where one dies its test is named at once: another in its place would hang.
PARALLEL := -n 2 --dist loadgroup --max-worker-restart 0
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

# The encoder of `make demo-photos`.
BACKBONE ?= photos

.PHONY: demo demo-photos test test-slow test-portable browser check bench grid kernel clean

demo: .venv/installed
	@rm -rf runs/demo
	$(BIN)/ovor run --no-report --out runs/demo/ovor
	$(BIN)/ovor run --no-report --out runs/demo/analytic --method analytic
	$(BIN)/ovor report runs/demo --out runs/demo/report.html

# Folders of photographs (CIFAR-10, fetched once), and what is done with one's own.
demo-photos: .venv/installed-photos
	@rm -rf runs/demo-photos
	$(BIN)/python -m docs.photos runs/demo-photos/images
	$(BIN)/ovor learn runs/demo-photos/photos.ovor runs/demo-photos/images --backbone $(BACKBONE)
	$(BIN)/ovor predict runs/demo-photos/photos.ovor runs/demo-photos/images/test/cat/030*.png
	$(BIN)/ovor evaluate runs/demo-photos/photos.ovor runs/demo-photos/images --report runs/demo-photos/report.html

test: .venv/installed-dev browser
	$(BIN)/pytest $(PARALLEL)

test-slow: .venv/installed-dev browser
	$(BIN)/pytest $(PARALLEL) -m slow

# What compares numbers, with the instructions of older processors and with two threads.
test-portable: .venv/installed-dev
	$(BIN)/python tests/portable.py $(PARALLEL)

# The tests of the pages drive Debian's Chromium, and npm fetches what exported ones compute with;
# without them they are skipped, which CI refuses.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && \
	  apt-get update -qq && apt-get install -qq --no-install-recommends chromium >/dev/null; } || \
	  echo "No Chromium here: the tests of the pages are skipped. Install it: apt-get install chromium"
	@command -v npm >/dev/null || { [ "$$(id -u)" = 0 ] && \
	  apt-get install -qq --no-install-recommends npm >/dev/null; } || \
	  echo "No npm here: the tests of exported pages are skipped. Install it: apt-get install npm"

check: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed-dev
	$(BIN)/python -m benchmarks $(ARGS)

grid: .venv/installed
	$(BIN)/ovor grid main-table --data quickdraw --seeds 0 1 2 3 4

# The loops of the exported page that take the time. What it makes is in the repository: only who
# changes kernel.c needs a compiler (apt-get install clang lld).
DEVICE := src/ovor/web/static/device
kernel: $(DEVICE)/kernel.wasm
$(DEVICE)/kernel.wasm: $(DEVICE)/kernel.c
	clang --target=wasm32 -msimd128 -mbulk-memory -O3 -ffreestanding -nostdlib -Wall \
	  -Wl,--no-entry,--import-memory,--export=__heap_base,--strip-all -o $@ $<

clean:
	rm -rf .venv build dist

.venv/bin/pip:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/pip pyproject.toml constraints.txt
	@echo "Installing ovor into .venv (torch is large: a few minutes the first time) ..."
	$(PIP) --editable .
	@touch $@

.venv/installed-photos: .venv/installed
	$(PIP) --editable '.[photos]'
	@touch $@

.venv/installed-dev: .venv/installed
	@echo "Installing the test tools into .venv ..."
	$(PIP) --editable '.[dev]'
	@touch $@
