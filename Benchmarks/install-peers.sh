#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the benchmark runs, from Debian, without starting or enabling any service: the harness starts each
# server itself, with its own configuration.
set -eu

cd "$(dirname "$0")/.."
# Squid comes in two builds that exclude each other; the one that is there stays.
.ci/install-packages nginx:nginx haproxy:haproxy squid:squid-openssl wrk:wrk openssl:openssl \
    h2load:nghttp2-client valgrind:valgrind strace:strace strip:binutils
echo "bench-peers: all there"
