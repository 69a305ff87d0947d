#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# perf.sh: TCP between virtual machines and the host through a daemon, with the verbs, options and results of socket_vmnet's
# script of this name, and what the daemon needs for it. perf/README.md has the details; `test/perf.sh --help` the options.
#
#    host --- iperf3 ---.
#                       |
#    perf1   perf2 ...  |      host-to-vm   host  -> perf1
#      |       |        |      vm-to-host   perf1 -> host
#      +-------+--- daemon     vm-to-vm     perf2 -> perf1
#
# This builds the program in test/perf and gives its place to it.
# Environment: GO is the go command (default go).
set -eu

go=${GO:-go}
root=$(cd "$(dirname "$0")/.." && pwd)
fail() {
	echo "perf: $*" >&2
	exit 1
}

command -v "$go" >/dev/null 2>&1 || fail "Go is missing, version 1.26 or newer: https://go.dev/dl/, or name it with GO=/path/to/go"
mkdir -p "$root/build/perf" || fail "cannot write to $root/build: give it to your user"
CGO_ENABLED=0 "$go" build -C "$root" -buildvcs=false -o "$root/build/perf/perf" ./test/perf || fail "test/perf does not build; the errors are above"
PERF_ROOT=$root
export PERF_ROOT
exec "$root/build/perf/perf" "$@"
