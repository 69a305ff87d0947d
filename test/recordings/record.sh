#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# record.sh: terminal recordings of the programs, in asciinema's format and drawn as SVG, into docs/recordings. This is
# `make recordings`. Nothing in them is made up: the programs run here, on Linux, with the embedded network and QEMU guests between which
# iperf3 runs (test/perf.sh). It needs root, asciinema, npx, iperf3, and what make demo installs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Played: each line of standard input is shown as if it were typed, and run.
if [ "${1:-}" = play ]; then
	while IFS= read -r line; do
		printf '$ '
		for ((i = 0; i < ${#line}; i++)); do
			printf %s "${line:i:1}"
			sleep 0.03
		done
		sleep 0.3
		echo
		eval "$line" </dev/null
		sleep 1.5
	done <"$2"
	exit
fi

cd "$here/../.."
out=$PWD/docs/recordings
work=$(mktemp -d /tmp/socket_vmnet2.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null || :; wait; rm -rf "$work"' EXIT
mkdir -p "$out"
make -s build VERSION=v1.0.0 BIN="$work"
make -s build VERSION=v1.1.0 BIN="$work/new"
export PATH=$work:$PATH GOFLAGS=-buildvcs=false

# record NAME ROWS: the commands on standard input, in a terminal of 80 columns.
record() {
	cat >"$work/$1.txt"
	asciinema rec --quiet --overwrite --cols 80 --rows "$2" --idle-time-limit 1.5 --env TERM \
		--command "$here/record.sh play $work/$1.txt" "$out/$1.cast"
	sed -i "s|$HOME|~|g" "$out/$1.cast"
	npx --yes svg-term-cli@2.1.1 --in "$out/$1.cast" --out "$out/$1.svg" --window --no-optimize
}

record demo 24 <<<'make demo'

"$work/socket_vmnet2" --backend=usernet --vmnet-gateway=192.168.105.1 --allow-uid=0 /tmp/vmnet.sock 2>"$work/log" &
until [ -S /tmp/vmnet.sock ]; do sleep 0.1; done
test/perf.sh create -o "$work/perf"
test/perf.sh run -s /tmp/vmnet.sock -t 40 -o "$work/perf" >"$work/run" 2>&1 &
until [ "$(socket_vmnet2 clients /tmp/vmnet.sock | grep -c ' 192\.168\.105\..*[MG]iB')" = 2 ]; do sleep 1; done
record status 24 <<'END'
socket_vmnet2 status /tmp/vmnet.sock
timeout 6 socket_vmnet2 status --watch /tmp/vmnet.sock
END
record capture 16 <<<'socket_vmnet2 capture --count=10 /tmp/vmnet.sock'
mv "$work/new/socket_vmnet2" "$work"
record upgrade 14 <<'END'
socket_vmnet2 clients /tmp/vmnet.sock
socket_vmnet2 upgrade /tmp/vmnet.sock
socket_vmnet2 clients /tmp/vmnet.sock
END
