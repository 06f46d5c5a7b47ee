# SPDX-License-Identifier: Apache-2.0
# make bench        pinproxy beside nginx, HAProxy and Squid; BENCH_ARGS="--only 1k --rounds 5" chooses (--help lists)
# make bench-peers  installs them, wrk, h2load, valgrind and strace from Debian
# make instructions  the instructions of a request, by component, nginx beside; BENCH_ARGS="--only 1k --functions 30"
#                   CHECK=1: only whether 1 KB miss, 1 KB hit and a handshake are below their ceilings
# make bench-download  2 GB through a download task, with a restart of the process in the middle
# make bench-programs  builds the programs of the others, so that a change that breaks one is noticed
# make bench-stream 1 GB to a consumer that is slower than the origin; fails unless the memory is flat
# make bench-session the session core beside libcurl alone and URLSession; SESSION_ARGS="--rounds 5"
# make bench-connections  h2load, wrk and a client of our own at 1,000 connections: no error, none starves
# make bench-workers  how two workers share 8, 16 and 32 clients, in 20 runs of each; nginx beside
# make bench-flat   whether a request's cost depends on hosts, pinned domains, clients, rules; BENCH_ARGS="--only hosts"
# make soak         100,000 requests, good ones and faults of both sides; nothing is left of them (SOAK_REQUESTS=10000)
# make fault-load   three times 20,000 requests, a fifth of the exchanges faulty on either side, each time with a new proxy
# make reload-load  200 reloads under a load of every kind, half of them of broken files; no request may notice
# make verify-load  100,000 exchanges of every kind, with reloads and successors: every byte is compared
# make upgrade-load 50 upgrades under the load of verify-load, with the sockets of a service manager; no request fails
# make hostile      peers that mean ill, each against a proxy with other clients on it (HOSTILE=curves for one, SHORT=1 for the
#                   short form, STRICT=1 on an idle machine: the wait of the others counts, too)
# make slowhttptest slow clients of all kinds: others are served meanwhile, and the slow are sent away
# make bench-cache  what the cache costs a request, the sockets aside
# make bench-cache-memory  the memory of a process beside what its cache may have, with mimalloc and without
# make bench-cache-start  from the start to the first answer with 10 GB on the disk (CACHE_BYTES=1073741824), below TMPDIR
# make bench-shared eight proxies with one cache in Redis beside eight with a cache each (BENCH_ARGS="--hosts 4 --seconds 30")
# make soak-shared  an hour of traffic, forward and redirected, through shared caches while servers die, slots move and files
#                   change (SOAK_SECONDS=180); it needs root for nftables
# make bench-pins   the time and the memory that 10,000 pin files take, at the start and with four reloads
# make bench-policy what a security policy costs beyond OpenSSL's verification, and the lookup of a host
#
# Included by the Makefile at the top, and good alone: make -f Benchmarks/bench.mk bench

BENCH_FOLDER := $(dir $(lastword $(MAKEFILE_LIST)))
BENCH_PYTHON ?= python3
BENCH_ARGS ?=
# What makes the binary to be measured. Empty: what is there is measured as it is (or --binary names another).
BENCH_BUILD ?= swift build -c release --product pinproxy

# With the release binary's flags, so that the library is measured as it is shipped.
BENCH_POLICY_FLAGS := -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked
BENCH_SWIFT ?= swift
# TestSupport needs the module Testing, which has no static library.
BENCH_DYNAMIC_FLAGS := -c release -Xswiftc -enforce-exclusivity=unchecked

# The toolchain of Swift has clang, if the system has no compiler.
BENCH_CC ?= $(shell command -v cc || command -v clang)

BENCH_PROGRAMS := policy-benchmark download-benchmark cache-benchmark cache-simulation session-benchmark

SOAK_REQUESTS ?= 100000
SOAK_SECONDS ?= 3600

.PHONY: bench bench-cache bench-cache-memory bench-cache-start bench-connections bench-download bench-pins bench-policy bench-programs bench-session bench-shared bench-stream bench-peers bench-flat bench-workers fault-load hostile instructions reload-load soak soak-shared slowhttptest upgrade-load verify-load

bench:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)bench.py $(BENCH_ARGS)

instructions:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)instructions.py $(if $(CHECK),--check) $(BENCH_ARGS)

bench-connections:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)connections.py $(BENCH_ARGS)

bench-flat:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)flat.py $(BENCH_ARGS)

bench-workers:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)workers.py $(BENCH_ARGS)

bench-pins:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)pins.py $(BENCH_ARGS)

soak:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)soak.py --requests $(SOAK_REQUESTS) $(BENCH_ARGS)

SHARED_PACKAGES := redis-server:redis-server nginx:nginx openssl:openssl

bench-shared:
	$(BENCH_BUILD)
	@.ci/install-packages $(SHARED_PACKAGES)
	$(BENCH_PYTHON) $(BENCH_FOLDER)shared_cache.py $(if $(SHORT),--short) $(BENCH_ARGS)

soak-shared:
	$(BENCH_BUILD)
	@.ci/install-packages $(SHARED_PACKAGES) nft:nftables ip:iproute2 setpriv:util-linux
	$(BENCH_PYTHON) $(BENCH_FOLDER)shared_soak.py --seconds $(SOAK_SECONDS) $(BENCH_ARGS)

fault-load:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)soak.py --requests 20000 --rounds 3 --faults 0.2 $(BENCH_ARGS)

reload-load:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)reload_load.py $(BENCH_ARGS)

# Debian's own Python has python3-h2.
VERIFY_PACKAGES := nginx:nginx openssl:openssl nghttpd:nghttp2-server python3-h2

verify-load:
	$(BENCH_BUILD)
	@.ci/install-packages $(VERIFY_PACKAGES)
	/usr/bin/python3 $(BENCH_FOLDER)verify_load.py $(BENCH_ARGS)

upgrade-load:
	$(BENCH_BUILD)
	@.ci/install-packages $(VERIFY_PACKAGES)
	/usr/bin/python3 $(BENCH_FOLDER)upgrade_load.py $(BENCH_ARGS)

hostile:
	$(BENCH_BUILD)
	@.ci/install-packages nginx:nginx openssl:openssl prlimit:util-linux ip:iproute2
	$(BENCH_PYTHON) $(BENCH_FOLDER)Hostile/run.py $(if $(HOSTILE),--only $(HOSTILE)) $(if $(SHORT),--short) \
	    $(if $(STRICT),--strict) $(BENCH_ARGS)

slowhttptest:
	$(BENCH_BUILD)
	$(BENCH_PYTHON) $(BENCH_FOLDER)slow.py $(BENCH_ARGS)

bench-policy:
	PINPROXY_EXTRA_TARGET=policy-benchmark $(BENCH_SWIFT) build $(BENCH_POLICY_FLAGS) --product policy-benchmark
	.build/release/policy-benchmark

bench-cache:
	PINPROXY_EXTRA_TARGET=cache-benchmark $(BENCH_SWIFT) build $(BENCH_POLICY_FLAGS) --product cache-benchmark
	.build/release/cache-benchmark

CACHE_MEMORY ?= 67108864

bench-cache-memory:
	$(BENCH_SWIFT) build $(BENCH_POLICY_FLAGS) --product CacheWriter
	for library in '' $(wildcard /usr/lib/*/libmimalloc.so); do for part in 8 1024 16384; do \
	    echo "$${library:-the C library}, bodies up to 1/$$part:"; \
	    LD_PRELOAD=$$library .build/release/CacheWriter --memory $(CACHE_MEMORY) $$(($(CACHE_MEMORY) / part)) || exit 1; \
	    done; done

CACHE_BYTES ?= 10737418240

bench-cache-start:
	PINPROXY_EXTRA_TARGET=cache-benchmark $(BENCH_SWIFT) build $(BENCH_POLICY_FLAGS) --product cache-benchmark
	folder=$$(mktemp -d) && .build/release/cache-benchmark --start $$folder/cache $(CACHE_BYTES); \
	    status=$$?; rm -rf $$folder; exit $$status

bench-download:
	PINPROXY_EXTRA_TARGET=download-benchmark $(BENCH_SWIFT) build $(BENCH_DYNAMIC_FLAGS) --product download-benchmark
	.build/release/download-benchmark $(BENCH_ARGS)

bench-programs:
	for program in $(BENCH_PROGRAMS); do \
	    PINPROXY_EXTRA_TARGET=$$program $(BENCH_SWIFT) build --product $$program || exit 1; done
	for source in $(BENCH_FOLDER)*/*.c; do $(BENCH_CC) -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fsyntax-only $$source || exit 1; done

bench-stream:
	PINPROXY_EXTRA_TARGET=download-benchmark $(BENCH_SWIFT) build $(BENCH_DYNAMIC_FLAGS) --product download-benchmark
	.build/release/download-benchmark stream

bench-session:
	PINPROXY_EXTRA_TARGET=session-benchmark $(BENCH_SWIFT) build -c release --product session-benchmark \
	    -Xswiftc -enforce-exclusivity=unchecked
	$(BENCH_CC) -O2 -Wall -Wextra -Werror -o .build/release/multi $(BENCH_FOLDER)Session/multi.c -lcurl
	$(BENCH_PYTHON) $(BENCH_FOLDER)session.py --multi .build/release/multi \
	    --session .build/release/session-benchmark $(SESSION_ARGS)

bench-peers:
	$(BENCH_FOLDER)install-peers.sh
