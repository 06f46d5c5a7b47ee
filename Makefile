# pinproxy: `make` alone lists what there is.

PREFIX ?= /usr/local
DESTDIR ?=
SWIFT ?= swift
# What `make run` hands to `pinproxy run`.
CONFIG ?= config.example.json
RUN_ARGS ?= --demo-origin
# What `make test` hands to `swift test`: FILTER="HTTPCoreTests" runs a part.
FILTER ?=
# Test targets to build, where not all of them are wanted: TARGETS="HTTPCoreTests IOCoreTests". With FILTER those that have such
# tests.
TARGETS ?= $(if $(FILTER),$(shell .ci/test-targets '$(FILTER)'))
# What `make debian` builds and tests on: bookworm or trixie.
RELEASE ?=

# The Swift standard library is linked in: the binary needs no Swift on the machine that it runs on. Overlapping accesses
# to a class's properties are looked for at run time in the debug build, which the tests run, and under the sanitizers;
# in the release build the checks would take a fifth of all Swift code's time.
# The table of the addresses of functions is read-only once the program has started.
RELEASE_BUILD := -c release --static-swift-stdlib --product pinproxy -Xswiftc -enforce-exclusivity=unchecked \
    -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now
# mimalloc in the C library's place, for the allocations of OpenSSL and of the Swift runtime. Looked for when it is needed,
# since build-packages may just have installed it; ALLOCATOR= builds without.
ALLOCATOR = $(if $(wildcard /usr/lib/*/libmimalloc.so),-Xlinker --no-as-needed -Xlinker -lmimalloc)
BINARY := .build/release/pinproxy
# What `pinproxy version` names, and the time of every file in packages; empty outside of a clone.
COMMIT = $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
VERSION := $(shell sed -n 's/.*static let current = "\(.*\)"/\1/p' Sources/pinproxy/CommandLine/ProgramVersion.swift)
# Who answers for a package that is made here: unless it is said, the author of the commit.
MAINTAINER ?= $(shell git log -1 --format='%an <%ae>' 2>/dev/null)
PACKAGES := .build/packages

# A word is a Debian package, or COMMAND:PACKAGE; names of different releases of Debian stand in quotes, PACKAGE|PACKAGE.
# libstdc++ is what the static Swift standard library is linked with, gold what Swift links with; make install strips the
# program, which takes strip and Python.
BUILD_PACKAGES := libssl-dev libcurl4-openssl-dev libc-ares-dev libidn2-dev libpsl-dev libnghttp2-dev libhiredis-dev libsqlite3-dev libcrypt-dev zlib1g-dev \
    libmimalloc-dev libpng-dev libjpeg62-turbo-dev libbrotli-dev libzstd-dev pkg-config:pkg-config ca-certificates \
    'libstdc++-14-dev|libstdc++-13-dev|libstdc++-12-dev' 'ld.gold:binutils-gold|binutils' strip:binutils python3:python3
# What the README's requests to the running proxy need.
RUN_PACKAGES := curl:curl python3:python3
TEST_PACKAGES := nginx:nginx openssl:openssl curl:curl python3:python3 git:git ps:procps \
    ip:iproute2 unshare:util-linux nft:nftables nghttp:nghttp2-client nghttpd:nghttp2-server python3-grpcio \
    python3-h2 python3-websockets python3-jsonschema wget:wget script:bsdutils \
    redis-server:redis-server redis-cli:redis-tools
# What packages are made with.
PACKAGE_PACKAGES := dpkg-shlibdeps:dpkg-dev lintian:lintian patchelf:patchelf python3:python3 strip:binutils xz:xz-utils
# The real clients and servers that the proxy is tried with: those that are there are run, .ci/run wants all.
CLIENT_PACKAGES := wget:wget node:nodejs npm:npm node-undici javac:default-jdk-headless dpkg-deb:dpkg python3-requests python3-httpx \
    python3-aiohttp python3-websockets python3-boto3 python3-flask python3-authlib aws:awscli python3-pip php:php-cli php-curl ruby:ruby go:golang-go \
    libwww-perl liblwp-protocol-https-perl chromium:chromium \
    apache2:apache2-bin haproxy:haproxy squid:squid-openssl libjetty9-java promtool:prometheus

# What renders the Helm chart without Helm, reads the result, and runs pods as processes. kubectl of Debian 12 is too old for the
# kustomizations: where there is none, they are not rendered.
CHART_PACKAGES := go:golang-go golang-github-masterminds-sprig-dev golang-gopkg-yaml.v3-dev python3-yaml python3-jsonschema python3-pip \
    curl:curl ip:iproute2 unshare:util-linux nft:nftables
# What makes a web site of the documents.
SITE_PACKAGES := sphinx-build:python3-sphinx python3-myst-parser furo

FILTER_ARGS = $(if $(FILTER),--filter '$(FILTER)')
DOC := $(DESTDIR)$(PREFIX)/share/doc/pinproxy
SHARE := $(DESTDIR)$(PREFIX)/share/pinproxy
# An installed configuration names the schema where it is installed.
SCHEMA_PATH = s|"[^"]*/config.schema.json"|"file://$(PREFIX)/share/pinproxy/schema/config.schema.json"|

.DEFAULT_GOAL := help
.PHONY: owners help run demo build test test-library examples outside docs site chart api lint format sanitize sanitize-short install uninstall clean toolchain \
    build-packages run-packages test-packages client-packages clients debian debian-package walk picture deb dist image release

help:
	@echo 'make run          build, then start the proxy on config.example.json with the demo origin beside it'
	@echo '                  (CONFIG=file.json RUN_ARGS= for a configuration of your own)'
	@echo 'make demo         build, then see one pin hold and one pin fail; works offline'
	@echo 'make test         every test (FILTER=HTTPCoreTests for a part)'
	@echo 'make test-library  the libraries alone: they are built without the proxy, and their tests run'
	@echo 'make clients      every real client and server, and docs/clients.md from what they did'
	@echo 'make debian       RELEASE=bookworm or trixie: make run and make test on a fresh Debian, in systemd-nspawn'
	@echo 'make debian-package  RELEASE=…: make deb on a fresh Debian, then its package on another: install, ask, purge'
	@echo 'make walk         RELEASE=…, after it: the commands of README and docs, pasted into a fresh Debian with systemd'
	@echo 'make build        the release binary: $(BINARY)'
	@echo 'make install      to PREFIX=$(PREFIX), under DESTDIR; make uninstall takes it away'
	@echo 'make deb          a Debian package for this release of Debian, in $(PACKAGES)'
	@echo 'make dist         the same as an archive to unpack; make image: as an OCI image, with its bill of materials (SPDX)'
	@echo 'make release      all of these for both releases of Debian, with bills of materials, checksums and, with KEY=, a signature'
	@echo 'make picture      draws the pictures of README and docs: a terminal, and the live page'
	@echo 'make examples     builds and runs the programs in Examples/; make docs builds the library documentation (DocC)'
	@echo 'make chart        the Helm chart and the manifests for Kubernetes, rendered and checked; no cluster is needed'
	@echo 'make site         the pages as a web site with a search, in .build/site; broken links are errors'
	@echo 'make outside      builds a package that uses the library, outside of this folder, and runs it'
	@echo 'make lint         style and dependencies between folders, warnings are errors; make format mends most of it'
	@echo 'make sanitize     the tests under ThreadSanitizer, then under AddressSanitizer; make sanitize-short: a few of them'
	@echo 'make fuzz         libFuzzer over every reader of outside bytes (FUZZ_TARGET=certificate FUZZ_SECONDS=600)'
	@echo 'make cache-simulation  a million steps of the cache beside a model of RFC 9111 (SIMULATION_SEED=1)'
	@echo 'make bench        pinproxy beside nginx, HAProxy and Squid; make bench-peers installs those'
	@echo 'make instructions  the instructions of a request by component, whatever else runs; CHECK=1: against their ceilings'
	@echo 'make bench-flat   whether a request costs more with many hosts, pinned domains, clients or rules'
	@echo 'make bench-workers  how two workers share the connections of a few clients'
	@echo 'make soak         100,000 requests, good ones and faults of both sides, and what is left of them'
	@echo 'make soak-shared  an hour through caches that machines share, while servers die and files change; root (SOAK_SECONDS=180)'
	@echo 'make fault-load   three times 20,000 requests, a fifth of them faulty on either side'
	@echo 'make reload-load  200 reloads under a load of every kind, half of them of broken files'
	@echo 'make verify-load  100,000 exchanges over HTTP/1.1 and HTTP/2, every byte of both directions compared'
	@echo 'make upgrade-load  50 upgrades under that load, with the sockets of a service manager'
	@echo 'make hostile      peers that mean ill: none may stop, fill or end the proxy (HOSTILE=curves, SHORT=1, STRICT=1)'
	@echo 'make slowhttptest slow clients of all kinds (Debian has the program)'
	@echo 'make bench-connections  h2load and wrk at 1,000 connections: no error, none starves'
	@echo 'make bench-download  2 GB through a download task, with a restart in the middle'
	@echo 'make bench-cache   what the cache costs a request, the sockets aside'
	@echo 'make bench-shared  eight proxies with one cache in Redis beside eight with a cache each'
	@echo 'make bench-cache-start  how soon a cache with 10 GB on the disk answers'
	@echo 'make bench-pins   the time and memory that 10,000 pin files take'
	@echo 'make bench-policy what a security policy costs beyond the verification that OpenSSL makes anyway'
	@echo 'make clean        removes what was built'

# First of all, since a toolchain that does not run makes everything below in vain.
toolchain:
	@.ci/check-toolchain $(SWIFT)

build-packages: toolchain
	@.ci/install-packages $(BUILD_PACKAGES)

run-packages: build-packages
	@.ci/install-packages $(RUN_PACKAGES)

test-packages: toolchain
	@.ci/install-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)

client-packages:
	@.ci/install-packages $(CLIENT_PACKAGES)
	@test -d .build/python/opentelemetry || /usr/bin/python3 -m pip install --quiet --disable-pip-version-check \
	    --root-user-action ignore --target .build/python opentelemetry-proto

# Every real client and server, and docs/clients.md from what they did.
clients: test-packages client-packages
	PINPROXY_TEST_TARGETS='$(TARGETS)' $(SWIFT) build --build-tests
	PINPROXY_REQUIRE_CLIENTS=1 PINPROXY_WRITE_TABLES=1 PINPROXY_TEST_TARGETS='$(TARGETS)' SWIFT='$(SWIFT)' \
	    .ci/test --filter 'MatrixTests|UnusualClientTests|ApacheTests|GRPCTests'

build: build-packages
	PINPROXY_COMMIT='$(COMMIT)' $(SWIFT) build $(RELEASE_BUILD) $(ALLOCATOR)

run: run-packages build
	$(BINARY) run --config $(CONFIG) $(RUN_ARGS)

demo: build
	$(BINARY) demo

# The pictures of README and docs; the page's needs chromium.
picture: build
	.ci/picture docs/images/demo.svg $(BINARY) demo
	.ci/page-picture docs/images/page.png $(BINARY)

# The libraries without the proxy: built and tested alone.
LIBRARY_TESTS := IOCoreTests HTTPCoreTests HTTP2CoreTests WebSocketCoreTests StrictJSONTests ServerTrustTests HTTPCachingTests \
    SessionCoreTests HTTPSessionTests IsolationTests

test-library: test-packages
	PINPROXY_TEST_TARGETS='$(LIBRARY_TESTS)' $(SWIFT) build --build-tests
	PINPROXY_TEST_TARGETS='$(LIBRARY_TESTS)' SWIFT='$(SWIFT)' .ci/test $(FILTER_ARGS)

test: test-packages
	PINPROXY_TEST_TARGETS='$(TARGETS)' $(SWIFT) build --build-tests
	PINPROXY_TEST_TARGETS='$(TARGETS)' SWIFT='$(SWIFT)' .ci/test $(FILTER_ARGS)

# A machine that nobody has prepared: the last commit, built and tested on a fresh Debian (see CONTRIBUTING.md).
debian:
	@SWIFT='$(SWIFT)' FILTER='$(FILTER)' .ci/debian '$(RELEASE)'

# The same for the package: made on a fresh Debian, tried on another.
debian-package:
	@SWIFT='$(SWIFT)' PACKAGE=1 .ci/debian '$(RELEASE)'

# Afterwards: every command of the walked documents, in a fresh system that systemd has booted.
walk:
	@.ci/install-packages systemd-nspawn:systemd-container unshare:util-linux ip:iproute2 python3:python3 openssl:openssl
	@.ci/walk '$(RELEASE)'

# A program that uses the library from outside, built as its users would build it, and run against a server.
EXAMPLES := PinnedConnection PinnedSession Articles APIClient

examples: test-packages
	@set -e; for example in $(EXAMPLES); do \
	    $(SWIFT) build --package-path Examples/$$example; \
	    Examples/$$example/check Examples/$$example/.build/debug/$$example; \
	done

# The reviewers of changes and the contact for vulnerabilities, as .github/owners.conf says.
owners:
	@.ci/owners

# Packages outside of the repository, as a user's own: the chapters of Alamofire's guides, a file each; the library beside types
# with the names of swift-http-types.
outside: test-packages
	@.ci/install-packages python3:python3
	Examples/Chapters/check $(SWIFT) $(CURDIR)/.build/outside
	Examples/OtherTypes/check $(SWIFT) $(CURDIR)/.build/outside-types
	@.ci/chapters

# docc stands beside swift in the toolchain, not always in the path.
DOCC = $(or $(shell command -v docc),$(dir $(realpath $(shell command -v $(SWIFT))))docc)
DOCS := .build/docs

DOCUMENTED := ServerTrust ServerTrustDates HTTPCaching SessionCore HTTPSessionCore HTTPSessionCodable HTTPSessionFoundation HTTPSessionImages HTTPSessionCodings HTTPSessionStubs

# The compiler writes the symbols of a module when it compiles it, and not when there was nothing to do: one file, and another for each
# module whose types it extends.
docs: build-packages
	@.ci/install-packages python3:python3
	@for module in $(DOCUMENTED); do \
	    test -f $(DOCS)/symbols/all/$$module.symbols.json || rm -rf $(DOCS); \
	done
	@mkdir -p $(DOCS)/symbols/all
	@set -e; for module in $(DOCUMENTED); do \
	    $(SWIFT) build --target $$module --scratch-path $(DOCS)/build \
	        -Xswiftc -emit-symbol-graph -Xswiftc -emit-symbol-graph-dir -Xswiftc $(abspath $(DOCS))/symbols/all; \
	    mkdir -p $(DOCS)/symbols/$$module; \
	    find $(DOCS)/symbols/all \( -name $$module.symbols.json -o -name "$$module@*.symbols.json" \) \
	        -exec cp -t $(DOCS)/symbols/$$module {} +; \
	    for graph in $(DOCS)/symbols/$$module/*.json; do .ci/documentation $$graph; done; \
	    $(DOCC) convert Sources/$$module/$$module.docc --additional-symbol-graph-dir $(DOCS)/symbols/$$module \
	        --fallback-display-name $$module --fallback-bundle-identifier pinproxy.$$module --warnings-as-errors \
	        --output-path $(DOCS)/$$module.doccarchive; \
	done

# What Kubernetes gets from deploy/: rendered, and judged by the program itself.
chart: build
	@.ci/install-packages $(CHART_PACKAGES)
	@test -d .build/kubernetes/kubernetes_validate || /usr/bin/python3 -m pip install --quiet --disable-pip-version-check \
	    --root-user-action ignore --target .build/kubernetes kubernetes-validate || true
	@PYTHONPATH=.build/kubernetes .ci/chart/check $(BINARY)

# The pages as a web site with a search, in .build/site; a broken link or anchor is an error. No network is needed.
site:
	@.ci/install-packages $(SITE_PACKAGES)
	@sphinx-build -q -E -W --keep-going -b html -c .ci/site -d .build/site-trees . .build/site
	@echo "The site is in .build/site: open .build/site/index.html"

# The public interface of the libraries, compared with .ci/interfaces; ACCEPT=1 writes it there.
api: build-packages
	@.ci/install-packages python3:python3
	$(SWIFT) build
	@SWIFT='$(SWIFT)' .ci/api $(if $(ACCEPT),--accept)

# Every script of the repository, whatever it is written in.
SCRIPTS = $(shell find .ci Benchmarks deploy Examples Tests -name .build -prune -o -type f -perm -u+x -print)

lint: toolchain
	$(SWIFT) format lint --strict --parallel --recursive Package.swift Sources Tests Benchmarks Examples
	@.ci/install-packages shellcheck:shellcheck python3:python3
	@shellcheck --severity=warning $$(grep -lE '^#!.*/(env bash|bash|sh)$$' $(SCRIPTS))
	@python3 -c 'import sys; [compile(open(name).read(), name, "exec") for name in sys.argv[1:]]' \
	    $$(grep -lE '^#!.*python3$$' $(SCRIPTS))
	@! grep -rnE '\btime\(nil\)' Sources --include='*.swift' || { echo 'Clock.seconds has the seconds that all compare' >&2; exit 1; }
	@.ci/rooms --brief
	@.ci/owners --check
	@.ci/licence
	@.ci/page-errors --check
	@.ci/names
	@.ci/places
	@.ci/titles
	@.ci/links
	@.ci/walk --check
	@.ci/debian --check

format:
	$(SWIFT) format --in-place --parallel --recursive Package.swift Sources Tests Benchmarks Examples

# Each has a folder of its own, so that the ordinary build stays as it is. In the system tests the proxy is a process of
# its own: it ends at the first race, so that its test fails. AddressSanitizer looks for leaks where one process does
# all, and is not asked how much memory a proxy takes: it keeps what was freed. It does not start without /proc. One test
# at a time: side by side they are so slow that limits of time are met.
sanitize: test-packages
	TSAN_OPTIONS=halt_on_error=1 $(SWIFT) test --disable-xctest --no-parallel --sanitize thread --scratch-path .build/thread
	LSAN_OPTIONS=suppressions=$(CURDIR)/Tests/leaks.txt \
	    $(SWIFT) test --disable-xctest --no-parallel --sanitize address --scratch-path .build/address --skip SystemTests
	ASAN_OPTIONS=detect_leaks=0 $(SWIFT) test --disable-xctest --no-parallel --sanitize address --scratch-path .build/address \
	    --skip-build --filter SystemTests --skip 'StreamingTests|unreadResponses|WithoutProcTests'

# The modules that are nearest to memory, for .ci/run: what they need is built in a part of the time.
SHORT_SANITIZED := IOCoreTests HTTPCoreTests HTTP2CoreTests WebSocketCoreTests StrictJSONTests

sanitize-short: test-packages
	PINPROXY_TEST_TARGETS='$(SHORT_SANITIZED)' $(SWIFT) build --build-tests --sanitize address --scratch-path .build/address
	LSAN_OPTIONS=suppressions=$(CURDIR)/Tests/leaks.txt PINPROXY_TEST_TARGETS='$(SHORT_SANITIZED)' SWIFT='$(SWIFT)' \
	    .ci/test --no-parallel --sanitize address --scratch-path .build/address

install:
	@test -x $(BINARY) || { echo 'Nothing is built yet: make build (not as root), then make install.' >&2; exit 1; }
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/pinproxy
	deploy/strip-program $(DESTDIR)$(PREFIX)/bin/pinproxy
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local/|$(PREFIX)/|g' deploy/pinproxy.service \
	    > $(DESTDIR)$(PREFIX)/lib/systemd/system/pinproxy.service
	sed 's|/usr/local/|$(PREFIX)/|g' deploy/pinproxy.socket \
	    > $(DESTDIR)$(PREFIX)/lib/systemd/system/pinproxy.socket
	chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/system/pinproxy.service $(DESTDIR)$(PREFIX)/lib/systemd/system/pinproxy.socket
	install -D -m 644 deploy/pinproxy.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/pinproxy.conf
	$(BINARY) help --json | SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) deploy/manual-pages docs/schema $(DESTDIR)$(PREFIX)/share/man
	$(BINARY) help --json | deploy/completions $(DESTDIR)$(PREFIX)/share
	install -d $(SHARE)/schema $(DOC)/docs/schema $(DOC)/docs/swift $(DOC)/docs/develop $(DOC)/examples/pins
	install -m 644 docs/schema/*.json $(SHARE)/schema
	install -D -m 644 -t $(SHARE)/monitoring deploy/monitoring/*.yml deploy/monitoring/*.json
	sed '$(SCHEMA_PATH)' deploy/config.json > $(SHARE)/config.json
	chmod 644 $(SHARE)/config.json
	install -m 644 README.md CHANGELOG.md LICENSE SECURITY.md $(DOC)
	install -m 644 docs/*.md $(DOC)/docs
	install -m 644 docs/swift/*.md $(DOC)/docs/swift
	install -m 644 docs/develop/*.md $(DOC)/docs/develop
	install -D -m 644 docs/images/demo.svg $(DOC)/docs/images/demo.svg
	install -m 644 docs/images/page.png $(DOC)/docs/images/page.png
	ln -sf ../../../../pinproxy/schema/config.schema.json ../../../../pinproxy/schema/pin-file.schema.json \
	    ../../../../pinproxy/schema/policy.schema.json ../../../../pinproxy/schema/settings.schema.json $(DOC)/docs/schema
	sed '$(SCHEMA_PATH)' config.example.json > $(DOC)/examples/config.example.json
	chmod 644 $(DOC)/examples/config.example.json
	install -m 644 deploy/kubernetes-sidecar.yaml $(DOC)/examples
	install -m 644 pins/*.json $(DOC)/examples/pins

# What people have put into /etc/pinproxy stays.
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/pinproxy $(DESTDIR)$(PREFIX)/lib/systemd/system/pinproxy.service \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system/pinproxy.socket $(DESTDIR)$(PREFIX)/lib/sysusers.d/pinproxy.conf $(DESTDIR)$(PREFIX)/share/man/man1/pinproxy.1 \
	    $(DESTDIR)$(PREFIX)/share/man/man5/pinproxy.json.5 $(DESTDIR)$(PREFIX)/share/man/man5/pinproxy-pins.5 \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pinproxy \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_pinproxy \
	    $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/pinproxy.fish
	rm -rf $(DOC) $(SHARE)

PACKAGE_ENVIRONMENT = SWIFT='$(SWIFT)' SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) COMMIT='$(COMMIT)' MAINTAINER='$(MAINTAINER)'
# What is in a package or an archive, what it loads, and the licences (SPDX), beside it.
BILL = $(PACKAGE_ENVIRONMENT) python3 deploy/bill_of_materials.py
SUMS = cd $(PACKAGES) && sha256sum pinproxy[_-]* > SHA256SUMS

# For the release of Debian that this machine has; the same commit, folder and toolchain give the same package.
deb: build
	@.ci/install-packages $(PACKAGE_PACKAGES)
	@rm -f $(PACKAGES)/pinproxy_*
	@$(PACKAGE_ENVIRONMENT) deploy/make-deb $(VERSION) $(PACKAGES)
	@$(BILL) $$(echo $(PACKAGES)/pinproxy_$(VERSION)-*.deb) $(VERSION) $(BINARY)
	@lintian --fail-on error,warning --info --allow-root $(PACKAGES)/pinproxy_$(VERSION)-*.deb
	@$(SUMS)

# An archive to unpack anywhere, for systems with the libraries of this release of Debian or later.
dist: build
	@.ci/install-packages $(PACKAGE_PACKAGES)
	@$(PACKAGE_ENVIRONMENT) deploy/make-dist $(VERSION) $(PACKAGES)
	@$(BILL) $$(echo $(PACKAGES)/pinproxy-$(VERSION)-linux-*.tar.xz) $(VERSION) $(BINARY)
	@$(SUMS)

# An image for containers, made of the package without Docker or root, and its bill of materials.
image: deb
	@$(PACKAGE_ENVIRONMENT) deploy/make-image $(VERSION) $(PACKAGES)/pinproxy_$(VERSION)-*.deb $(PACKAGES)
	@$(SUMS)

# The releases of Debian that `make release` makes a package for; others than this machine's are made in systemd-nspawn (.ci/debian).
RELEASES ?= bookworm trixie
# The key of GnuPG that signs the checksums; none: no signature.
KEY ?=

# What a release page has, in .build/release-page: packages, archive, image, chart, bills of materials, checksums.
release: image dist
	@SWIFT='$(SWIFT)' KEY='$(KEY)' $(PACKAGE_ENVIRONMENT) deploy/make-release $(VERSION) .build/release-page '$(RELEASES)'

clean:
	@.ci/debian clean
	rm -rf .build Examples/*/.build

BENCH_BUILD ?= $(MAKE) --no-print-directory build
include Benchmarks/bench.mk
include Tests/Fuzzing/fuzz.mk
include Tests/CacheSimulation/simulation.mk
