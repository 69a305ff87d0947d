# SPDX-License-Identifier: Apache-2.0
#
# socket_vmnet2. The variables and the install targets mean what they mean in socket_vmnet's Makefile; docs/install.md has
# tables of them. It is written for GNU make 3.81, which macOS has: makefile_test.go knows what is newer.
#
#   make help    this list
#   make && sudo make install          to /opt/socket_vmnet, and start the service
#   sudo make install.compat           in the place of socket_vmnet, which is kept; sudo make rollback brings it back
#
#   make demo    three real QEMU guests on the daemon: leases, ping, names, HTTP (on Debian as root it installs what it needs)
#   make quick   vet, build for both systems, the core's tests, the pages' links
#   make cover   how much of the data path the tests run
#   make test    every test; what CI runs
#   make soak    every kind of client, good and hostile, for minutes to hours, through restarts and upgrades
#   make mac     on a Mac: all that only a Mac can tell, and an archive of what it told
#   make fuzz    every fuzz target for a while
#   make bench   speed and memory against a floor and against the old design, in one run
#   make recordings  the terminals in README and docs, recorded anew
#   make reconnect   what guests notice of restarts and upgrades, in 12 minutes

PREFIX  ?= /opt/socket_vmnet
DESTDIR ?=
# A version that can be told apart from a release even where there is no git.
VERSION ?= $(shell git describe --match 'v[0-9]*' --dirty='.m' --always --tags 2>/dev/null | sed 's/^\([0-9a-f]\)/v0.0.0-\1/')
GO      ?= go
INSTALL ?= install
# Where the binaries are built.
BIN     ?= bin
# For another machine: arm64 or x86_64, and GOOS=darwin or linux.
ARCH    ?=
GOARCH  ?=
GOOS    ?=
# The interface of a second service in bridged mode, such as en0. macOS only.
BRIDGED ?=
# Anything: keep the symbols for a debugger. (STRIP is not used: the linker leaves them out, and a signed program is not changed.)
DEBUG   ?=

MODULE  := github.com/socket-vmnet2/socket_vmnet2
SETVERSION := -X '$(MODULE)/internal/compat.Version=$(or $(VERSION),v0.0.0-unknown)'
LDFLAGS := -s -w $(SETVERSION)
# Nothing of ours needs cgo, and without it the Linux binary is static.
export CGO_ENABLED := 0

BINARIES := socket_vmnet2 socket_vmnet socket_vmnet_client

# q makes one word of the shell's of any text.
q = '$(subst ','\'',$(1))'

.PHONY: all
all: build

include etc/install.mk

.PHONY: help
help:
	@sed -n 's/^#   //p' Makefile

.PHONY: demo
demo:
	GO='$(GO)' test/e2e/demo.sh

# Tests that need no virtual machine. Some build the programs themselves, which the cache of go test does not see. The tag
# adds the tests on the vmnet simulator and takes none away; what is installed is built without it. The simulator needs a C
# compiler, and so does -race; nothing that is installed does.
UNIT = $(shell $(GO) list ./... | grep -v -e '/test/e2e' -e '/test/lab' -e '/test/reconnect')
TAGS = -tags vmnetsim
# The race detector has nothing to find in tests that do no more than run make, go and the programs, or change files in turn.
PLAIN = $(addprefix $(MODULE),/internal/ops/setup /test/docs /test/formula) $(MODULE)
RACE  = $(filter-out $(PLAIN),$(UNIT))

# What a change of the core breaks first. The downloads of Go's modules come on top.
CORE = frame network/bridge perclient/... compat daemon/handover state gateway/dhcp gateway/dns

.PHONY: quick
quick:
	GOOS=linux $(GO) vet ./cmd/... ./internal/...
	for system in linux darwin; do GOOS=$$system $(GO) build -ldflags '-s -w' -o build/quick/$$system/ ./cmd/socket_vmnet2 || exit 1; done
	$(GO) test -short -p 4 -vet=off $(addprefix ./internal/,$(CORE))
	$(GO) test -count=1 -vet=off -run TestLinks .

# How much of the data path the tests of its packages run: at least 90 % of each, the embedded network being one.
EMBEDDED = ./internal/network/usernet,./internal/gateway/...

.PHONY: cover
cover:
	@mkdir -p build
	@for part in ./internal/frame ./internal/perclient/link ./internal/perclient '$(EMBEDDED)'; do \
		$(GO) test $(TAGS) -short -count=1 -coverpkg=$$part -coverprofile=build/cover.out $$(echo $$part | tr , ' ') && \
		$(GO) tool cover -func=build/cover.out | awk -v part="$$part" '/^total:/ { p = $$3 + 0; print part, $$3 } \
			END { if (p < 90) { print "make cover: less than 90 %"; exit 1 } }' || exit 1; done

.PHONY: test
test: check test.plain test.race test.asan test.mac test.soak test.gate test.e2e
	@echo 'make test: everything passed'

# Programs that lint and tests call, besides Go's own. Root gets them on Debian; other users are told what is missing.
.PHONY: test.setup
test.setup:
	test/e2e/setup.sh tools

.PHONY: test.unit
test.unit: test.setup
	$(GO) test $(UNIT) $(TAGS) -count=1 -timeout 20m
	for dir in attach tools/release; do $(GO) -C $$dir test ./... -count=1 -timeout 20m || exit 1; done

# Those that test.race has not. Of the others, test.mac has once more, without the race detector, all that macOS changes.
.PHONY: test.plain
test.plain: test.setup
	$(GO) test $(PLAIN) $(TAGS) -count=1 -timeout 20m
	$(GO) -C tools/release test ./... -count=1 -timeout 20m

.PHONY: test.race
test.race: test.setup
	CGO_ENABLED=1 $(GO) test $(RACE) $(TAGS) -race -count=1 -timeout 20m
	cd attach && CGO_ENABLED=1 $(GO) test ./... -race -count=1

# The binding and the network above it on a simulator that checks every access to memory, theirs to its own among them. The
# sanitizer does not know the race detector, nor cgo.
.PHONY: test.asan
test.asan:
	VMNETSIM_SANITIZE=1 $(GO) test $(TAGS) -short -count=1 -exec \
		"env LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0:abort_on_error=1" \
		./internal/network/vmnet/ffi ./internal/network/vmnet ./internal/darwinapi

# The program for macOS, which test/machrun loads: what make mac does, with the programs of the release archive, and the unit tests
# once more as programs for macOS. About 15 minutes, as root.
.PHONY: test.mac
test.mac: test.setup
	test/e2e/setup.sh guest
	$(MAKE) mac
	$(GO) run ./test/asmac -go '$(GO)'

.PHONY: test.e2e
# The tests build the daemon themselves, which go test's cache does not see.
test.e2e: build
	test/e2e/setup.sh all
	$(GO) test ./test/e2e/... ./test/lab/... ./test/reconnect/... -count=1 -timeout 20m -p 1

# What guests notice of restarts and upgrades, at length: about 12 minutes. Writes the table and the figures as JSON.
.PHONY: reconnect
reconnect: build
	test/e2e/setup.sh all
	$(GO) test -v -count=1 -timeout 40m ./test/reconnect -args -long -out '$(CURDIR)/docs/reliability'

# The loader that runs programs for macOS on Linux, as build/machrun/machrun: test/machrun/README.md. It needs gcc.
.PHONY: machrun
machrun:
	$(GO) run ./test/machrun/cmd

# Everything that only a Mac can tell, for a person who has one, and an archive of results to send. On Linux the
# same steps run under machrun.
.PHONY: mac
mac: $(if $(filter Linux,$(shell uname -s)),machrun)
	GO='$(GO)' test/mac/run.sh $(STEPS)

# What needs no running program: formatting, linting, and the macOS build, which must not need cgo.
.PHONY: check
check: lint
	$(GO) vet ./...
	$(GO) vet $(TAGS) ./...
	for dir in attach tools/release; do $(GO) -C $$dir vet ./... || exit 1; done
	for dir in . attach; do for arch in arm64 amd64; do GOOS=darwin GOARCH=$$arch $(GO) -C $$dir build -o /dev/null ./... && \
		GOOS=darwin GOARCH=$$arch $(GO) -C $$dir vet ./... || exit 1; done; done

.PHONY: lint
lint: lint.text
	$(GO) tool -modfile=tools/go.mod golangci-lint run --build-tags vmnetsim
	cd attach && $(GO) tool -modfile=../tools/go.mod golangci-lint run
	cd tools/release && $(GO) tool -modfile=../go.mod golangci-lint run
	$(GO) tool -modfile=tools/actionlint/go.mod actionlint -pyflakes= .github/workflows/*.yml $(wildcard docs/integrations/*.yml)

# Scripts and pages: those of the tree, without what was built.
FIND = find . '(' -name .git -o -name build -o -name artifacts -o -name node_modules ')' -prune -o -type f

.PHONY: lint.text
lint.text: test.setup
	$(FIND) '(' -name '*.sh' -o -path ./.ci/run -o -path './test/lab/image/*' ')' -print0 | xargs -0 shellcheck
	$(FIND) -name '*.md' -print0 | xargs -0 mdl
	shellcheck etc/completions/socket_vmnet2.bash
	bash -n etc/completions/socket_vmnet2.bash
	zsh -n etc/completions/_socket_vmnet2
	fish -n etc/completions/socket_vmnet2.fish
	mandoc -T lint -W warning docs/man/*.[18]
	for page in docs/man/*.[18]; do groff -mdoc -ww -z "$$page" 2>&1 | (! grep .) || exit 1; done
	$(GO) test -count=1 -run 'TestManual$$' ./cmd/socket_vmnet2
	$(GO) test -count=1 -run TestLinks .

# Manual pages and completions, from the tables of options and commands.
.PHONY: manual
manual:
	$(GO) test -count=1 -run 'TestManual$$' ./cmd/socket_vmnet2 -args -update

# The terminals in README and docs, recorded anew: root on Debian, with npm.
.PHONY: recordings
recordings:
	GO='$(GO)' test/recordings/record.sh

# The picture of docs/status.md, by Chromium.
.PHONY: screenshot
screenshot:
	$(GO) test -count=1 -run 'TestStatusWeb$$' ./test/docs -args -update

# The figures as JSON, and the page of tables that is made from it.
FIGURES ?= docs/performance/figures
.PHONY: bench
bench: build
	$(GO) run ./test/bench -json '$(FIGURES).json' >/dev/null
	$(GO) run ./test/bench -page '$(FIGURES).json' >'$(FIGURES).md'

# CPU time per frame against C programs in the same run, held against committed ratios, and no garbage: about a minute.
.PHONY: test.gate test.soak
test.soak:
	$(GO) run ./test/soak -duration 60s -seed 133 -clients 14 -anti-spoof

test.gate: build
	$(GO) run ./test/bench -gate

# The daemon under good and hostile clients while it is stopped, killed, upgraded: minutes by default, hours if asked for. A run is
# repeated by its seed. go test runs a short one.
SOAK_DURATION ?= 5m
SOAK_SEED     ?= 0
SOAK_CLIENTS  ?= 32
SOAK_FLAGS    ?=

.PHONY: soak
soak:
	$(GO) run ./test/soak -duration '$(SOAK_DURATION)' -seed '$(SOAK_SEED)' -clients '$(SOAK_CLIENTS)' $(SOAK_FLAGS)

# Every fuzz target in turn, for so long each. What crashed one is where go test puts it, in testdata/fuzz of its package, for
# good: from then on it is a test. FUZZLOG gets a line: the day, for how long, targets, executions, crashes.
FUZZTIME ?= 30s
FUZZLOG ?= docs/reliability/fuzz.tsv

.PHONY: fuzz
fuzz:
	@failed=; targets=0; execs=0; mkdir -p build; \
	for dir in $$(grep -rl '^func Fuzz' --include='*_test.go' attach cmd internal test | xargs -n 1 dirname | sort -u); do \
		listed=$$($(GO) -C $$dir test -list '^Fuzz' .) || { echo "$$listed"; failed="$$failed $$dir"; continue; }; \
		for target in $$(echo "$$listed" | grep '^Fuzz'); do \
			$(GO) -C $$dir test -run '^$$' -fuzz "^$$target\$$" -fuzztime '$(FUZZTIME)' -fuzzminimizetime 200x -parallel 2 . >build/fuzz.log 2>&1 || \
				grep -q 'context deadline exceeded' build/fuzz.log || { failed="$$failed $$dir.$$target"; cat build/fuzz.log; }; \
			n=$$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' build/fuzz.log | tail -n 1); \
			echo "$$dir.$$target $${n:-0}"; targets=$$((targets + 1)); execs=$$((execs + $${n:-0})); \
		done; \
	done; \
	echo "$$execs executions of $$targets targets, $$(echo $$failed | wc -w) failed"; \
	printf '%s\t%s\t%s\t%s\t%s\n' "$$(date -u +%F)" '$(FUZZTIME)' $$targets $$execs $$(echo $$failed | wc -w) >>'$(FUZZLOG)'; \
	test -z "$$failed" || { echo "fuzz: these failed:$$failed"; exit 1; }

# Archives for macOS and Linux, byte for byte the same from any system with the same release of Go: docs/releasing.md.
.PHONY: artifacts
artifacts: check.version
	rm -rf artifacts
	GOOS= GOARCH= $(GO) -C tools/release run . -go '$(GO)' -version '$(or $(VERSION),v0.0.0-unknown)' -ldflags "$(LDFLAGS)" -out artifacts

# Makes them in two places and compares; what is in them is checked as well.
.PHONY: test.repro
test.repro:
	$(GO) -C tools/release test -count=1 -run TestArtifacts .

.PHONY: clean
clean:
	rm -rf '$(BIN)' build artifacts
