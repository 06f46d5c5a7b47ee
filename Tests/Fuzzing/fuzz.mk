# SPDX-License-Identifier: Apache-2.0
# make fuzz          every target in turn, FUZZ_SECONDS each; FUZZ_TARGET=certificate for one. libFuzzer and
#                    AddressSanitizer, both of the toolchain; the first finding ends it, and stands in FUZZ_FOLDER.
# make fuzz-corpus   puts into Tests/Fuzzing/Corpus what was found since and reaches new code
#
# Included by the Makefile at the top.

FUZZ_TARGETS := pin-file configuration credential certificate private-key staple json request-head response-head response chunks http2 http2-client websocket coding trace pool shared-record names session client-hello handshake admin proxy
FUZZ_TARGET ?= $(FUZZ_TARGETS)
FUZZ_SECONDS ?= 60
FUZZ_FOLDER ?= .build/fuzz/work
# An input that takes longer, or more memory in all, is a finding. More of libFuzzer's own: FUZZ_ARGS=-jobs=2
FUZZ_LIMITS := -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=16384
# Leaks are looked for after each input; where OpenSSL keeps memory for its own later use, at the end alone.
FUZZ_LEAKS_AT_END := certificate private-key staple handshake admin proxy
FUZZ_ARGS ?=
# Swift's own account of a crash would come out beside AddressSanitizer's, of the wrong place.
FUZZ_ENVIRONMENT := SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=quarantine_size_mb=64
# In a folder of its own, so that the ordinary build stays as it is. The documents of the admin listener are inside of their module,
# which -enable-testing opens. lld: gold cannot read what the sanitizers write.
FUZZ_BUILD := PINPROXY_EXTRA_TARGET=fuzzer $(SWIFT) build -c release --product fuzzer --scratch-path .build/fuzz \
    -Xswiftc -enable-testing -Xswiftc -sanitize=fuzzer,address -Xswiftc -use-ld=lld
FUZZER := .build/fuzz/release/fuzzer

.PHONY: fuzz fuzz-build fuzz-corpus

fuzz-build: build-packages
	$(FUZZ_BUILD)

# Private keys are made for each run: the repository keeps none, and no input that was made of one.
fuzz: fuzz-build
	@set -e; for target in $(FUZZ_TARGET); do \
	    work=$(FUZZ_FOLDER)/$$target; mkdir -p $$work/corpus $$work/seeds; \
	    FUZZ_TARGET=$$target $(FUZZER) --seeds $$work/seeds; \
	    kept=Tests/Fuzzing/Corpus/$$target; test -d $$kept || kept=; \
	    dict=Tests/Fuzzing/Dictionaries/$$target.dict; test -f $$dict && dict=-dict=$$dict || dict=; \
	    leaks=1; case ' $(FUZZ_LEAKS_AT_END) ' in *" $$target "*) leaks=0;; esac; \
	    echo "== $$target, $(FUZZ_SECONDS) s"; \
	    $(FUZZ_ENVIRONMENT) FUZZ_TARGET=$$target $(FUZZER) $$work/corpus $$kept $$work/seeds $$dict \
	        $(FUZZ_LIMITS) -detect_leaks=$$leaks -max_total_time=$(FUZZ_SECONDS) \
	        -artifact_prefix=$$work/ -print_final_stats=1 $(FUZZ_ARGS); \
	done

fuzz-corpus: fuzz-build
	@set -e; for target in $(filter-out private-key,$(FUZZ_TARGET)); do \
	    $(FUZZ_ENVIRONMENT) FUZZ_TARGET=$$target $(FUZZER) -merge=1 -max_len=2048 \
	        Tests/Fuzzing/Corpus/$$target $(FUZZ_FOLDER)/$$target/corpus; \
	done
