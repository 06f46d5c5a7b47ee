# make bench        pinproxy beside nginx, HAProxy and Squid; BENCH_ARGS="--only 1k --rounds 5" chooses (--help lists)
# make bench-peers  installs them and wrk from Debian
#
# Included by the Makefile at the top, and good alone: make -f Benchmarks/bench.mk bench

BENCH_FOLDER := $(dir $(lastword $(MAKEFILE_LIST)))
BENCH_PYTHON ?= python3
BENCH_ARGS ?=
# What makes the binary to be measured. Empty: what is there is measured as it is (or --binary names another).
BENCH_BUILD ?= swift build -c release --product pinproxy

.PHONY: bench bench-peers

bench:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)bench.py $(BENCH_ARGS)

bench-peers:
	$(BENCH_FOLDER)install-peers.sh
