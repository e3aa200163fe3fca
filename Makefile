# `make` lists the commands. Each installs its needs by scripts/setup and builds in build/<preset>;
# those on a GPU install nothing.
PRESET ?= dev
TEXT ?=
STEPS ?= 24
DEVICE ?= cuda
JOBS ?= $(shell scripts/jobs)

# On a GPU, LibTorch is that of the python3 of the user's own PATH.
gpu = PATH='$(users_path)' scripts/gpu $(1) '$(DEVICE)'
users_path := $(PATH)

# scripts/setup installs CMake in .venv if the system's is too old.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# A build folder keeps the generator that it was configured with.
generator = $(if $(wildcard build/$(1)/CMakeCache.txt),,$(if $(shell command -v ninja),-G Ninja))
libtorch = $(if $(IKEBANA_LIBTORCH),-DIKEBANA_LIBTORCH='$(IKEBANA_LIBTORCH)')
configure = cmake --preset $(1) --log-level=WARNING $(call generator,$(1)) $(libtorch) >/dev/null
# A make started by CMake must not use the job server of this one.
build = env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake --build --preset $(1) -j $(JOBS) --target $(2)

.PHONY: help demo finetune test test-long test-gpu bench bench-gpu docs clean
help:
	@echo 'make demo [TEXT=path]  train a small language model on a file or folder of text'
	@echo 'make finetune          fine-tune SmolLM2-135M on TEXT=path in STEPS=n steps, beside Python'
	@echo 'make test              build and run all tests'
	@echo 'make test-long         run sanitizers, other LibTorch versions and compilers (hours)'
	@echo 'make test-gpu          run the tests on an NVIDIA GPU, without a network (docs/gpu.md)'
	@echo 'make bench             build and run the benchmarks'
	@echo 'make bench-gpu         build and run the benchmarks on a GPU'
	@echo 'make docs              build the site with the reference in build/site'
	@echo 'make clean             remove build/ (LibTorch in .venv stays)'

demo:
	@scripts/setup demo
	@$(call configure,release)
	@$(call build,release,demo)
	@build/release/examples/demo $(if $(TEXT),'$(TEXT)')

# The text is looked for before anything is installed.
finetune:
	@test -e '$(or $(TEXT),docs)' || { echo "finetune: there is no '$(TEXT)': give a file or a folder" \
	  "of text by make finetune TEXT=path" >&2; exit 2; }
	@scripts/setup finetune
	@$(call configure,release)
	@$(call build,release,finetune finetune_program)
	@.finetune/bin/python scripts/finetune/main.py '$(or $(TEXT),docs)' --steps $(STEPS)

test:
	@scripts/setup test
	@$(call configure,$(PRESET))
	@python3 test/slowest.py build build/$(PRESET) $(call build,$(PRESET),all)
	@python3 test/slowest.py tests build/$(PRESET) ctest --preset $(PRESET)

test-long:
	@scripts/long

test-gpu:
	@$(call gpu,test)

bench-gpu:
	@$(call gpu,bench)

bench:
	@scripts/setup bench
	@$(call configure,release)
	@$(call build,release,bench)

docs:
	@scripts/setup docs
	@.site/bin/python docs/site/build.py . build/site

clean:
	rm -rf build
