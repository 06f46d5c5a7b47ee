# SPDX-License-Identifier: Apache-2.0
# make cache-simulation  the cache beside a model of RFC 9111 (SIMULATION_STEPS=1000000 SIMULATION_SEED=1): eight seeds from
#                        that one on, until both do something else
#
# Included by the Makefile at the top.

SIMULATION_STEPS ?= 1000000
SIMULATION_SEED ?= 1

.PHONY: cache-simulation

cache-simulation: build-packages
	PINPROXY_EXTRA_TARGET=cache-simulation $(SWIFT) build -c release --product cache-simulation
	.build/release/cache-simulation $(SIMULATION_STEPS) $(SIMULATION_SEED)
