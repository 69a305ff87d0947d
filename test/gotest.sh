#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# go test, with a second try for a test that fails by chance on a busy machine:
#
#     test/gotest.sh "PACKAGES" [FLAG OF go test]...
#
# A test that failed runs once more, alone, and must pass then. There is no second try after a data race, a panic, a time-out,
# a build that fails, a goroutine or file that a package leaves behind, nor when more than three tests failed: none of that
# is chance. What needed its second try is listed at the end; it is a fault of ours all the same. RERUN=0: no second try.
# EVENTS=FILE keeps what go test -json says. GOOS and GOARCH are the tests', not gotestsum's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packages=$1
shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

gotestsum=$(GOOS='' GOARCH='' "${GO:-go}" tool -n -modfile="$root/tools/go.mod" gotestsum)
rc=0
"$gotestsum" --format standard-quiet --hide-summary skipped \
	--jsonfile "${EVENTS:=$tmp/events}" --rerun-fails="${RERUN:-1}" --rerun-fails-max-failures=3 --rerun-fails-run-root-test \
	--rerun-fails-abort-on-data-race --rerun-fails-report "$tmp/again" \
	--packages "$packages" -- "$@" || rc=$?

# Two failures would be tried again with less than what failed, and pass: a package whose tests passed (its TestMain looks for
# goroutines that were left), which would run no test at all; and a process that ended within a test.
if [ "$rc" = 0 ] && ! awk -F '"' '
	{ action = pkg = test = ""
	  for (i = 2; i < NF; i++) {
		if ($i == "Action" && action == "") action = $(i + 2)
		if ($i == "Package" && pkg == "") pkg = $(i + 2)
		if ($i == "Test" && test == "") test = $(i + 2)
		if ($i == "Output") break
	  } }
	action == "run" { running[pkg]++ }
	test != "" && action ~ /^(pass|fail|skip)$/ { running[pkg]--; if (action == "fail") failed[pkg] = 1 }
	test == "" && action == "fail" && (running[pkg] > 0 || !failed[pkg]) { print "gotest: " pkg " failed outside its tests, or within one that never ended: no second try counts"; bad = 1 }
	test == "" && action ~ /^(pass|fail|skip)$/ { running[pkg] = failed[pkg] = 0 }
	END { exit bad }' "$EVENTS"; then
	exit 1
fi
if [ -s "$tmp/again" ]; then
	echo 'gotest: these needed a second try; find out why:'
	sed 's/^/    /' "$tmp/again"
fi
exit "$rc"
