#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make mac: everything that only a Mac can tell, in one command for a person who has one.
#
#     test/mac/run.sh [STEP]...
#
# It builds the programs, runs the unit tests, the self test as root and as a user, and three virtual machines, and packs what all
# of them printed into one archive. It asks for a password once (sudo), installs nothing, uses a subnet of its own, and leaves
# nothing that runs. Without QEMU (brew install qemu) there are no virtual machines. With the guests' files of test/e2e in
# E2E_CACHE two machines with Linux are booted as well.
#
# On Linux the same steps run the same program for macOS under test/machrun, on the simulator of vmnet.framework: needs root.
# This is how CI knows that the command works. It is written for bash 3.2, which macOS has.
# shellcheck disable=SC2317 # the steps are called by name
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

steps=(about build signature unit selftest-root selftest-network selftest-user guests linux-guests)
out=build/mac
bin=$PWD/$out/opt/socket_vmnet/bin
gateway=192.168.239.1

on_mac() { [ "$(uname -s)" = Darwin ]; }
have() { command -v "$1" >/dev/null 2>&1; }
skip() { echo "$*"; return 77; }

# --- how programs for macOS run here -----------------------------------------------------------------------------------

# mac PROGRAM [ARG]... runs one as the caller, as_root as root, as_user as an ordinary user.
if on_mac; then
	prefix=()
	as_root() { sudo "$@"; }
	as_user() { "$@"; }
	major=$(sw_vers -productVersion | cut -d. -f1)
else
	prefix=("$PWD/build/machrun/machrun")
	as_root() { "$@"; }
	as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent MACHRUN_VMNET_DIR="$sim/user" "$@"; }
	major=26
	export GOOS=darwin GOARCH=amd64
	sim=$(mktemp -d /tmp/mac.XXXXXX)
	chmod 0755 "$sim"
	install -d -o 65534 "$sim/user"
	trap 'rm -rf "$sim"' EXIT
	export MACHRUN_VMNET=$PWD/build/machrun/libvmnetsim.so MACHRUN_VMNET_DIR=$sim
fi
export CGO_ENABLED=0 TMPDIR=/tmp # paths of unix sockets have 104 bytes

# --- the steps: 0 is passed, 77 is left out, all else has failed -------------------------------------------------------

step_about() {
	git describe --always --dirty
	env -u GOOS -u GOARCH "${GO:-go}" version
	uname -a
	on_mac || return 0
	sw_vers
	sysctl -n hw.model machdep.cpu.brand_string
	ifconfig
	sudo launchctl list | grep -i -e vmnet -e lima -e colima
	return 0
}

# The programs of the archives that are released, byte for byte.
step_build() {
	make artifacts || return
	tar -xzf artifacts/socket_vmnet-*[!x]-"$(uname -m)".tar.gz -C "$out"
}

step_signature() {
	on_mac || skip 'codesign is macOS' || return
	local p
	for p in socket_vmnet2 socket_vmnet socket_vmnet_client; do
		codesign --verify --strict --verbose=4 "$bin/$p" || return
	done
	codesign --display --verbose=4 --entitlements - "$bin/socket_vmnet2"
}

step_unit() {
	on_mac || skip 'make test.mac runs the unit tests here' || return
	"${GO:-go}" test -count=1 -timeout 40m ./internal/... ./cmd/...
}

selftest() { # HOW [FLAG]...
	local how=$1
	shift
	"$how" ${prefix[@]+"${prefix[@]}"} "$bin/socket_vmnet2" selftest --json "$@"
}

step_selftest-root() { selftest as_root; }

step_selftest-network() {
	[ "$major" -ge 26 ] || skip 'network objects are new in macOS 26' || return
	selftest as_root --vmnet-api=network
}

step_selftest-user() {
	[ "$major" -ge 26 ] || skip 'without root vmnet needs macOS 26' || return
	selftest as_user
}

# start_daemon leaves its process in $daemon and its socket in $socket.
start_daemon() {
	dir=$(mktemp -d /tmp/mac.XXXXXX)
	socket=$dir/s
	as_root ${prefix[@]+"${prefix[@]}"} "$bin/socket_vmnet2" --pidfile="$dir/pid" --state-dir="$dir" --socket-group="$(id -gn)" --allow-uid="$(id -u)" \
		--vmnet-gateway="$gateway" "$socket" 2>&1 &
	for _ in $(seq 150); do
		[ -S "$socket" ] && return
		sleep 0.2
	done
	echo "the daemon has not made $socket within 30 s"
	return 1
}

stop_daemon() {
	[ ! -e "$dir/pid" ] || as_root kill "$(cat "$dir/pid")"
	for _ in $(seq 50); do
		[ -e "$dir/pid" ] || break
		sleep 0.1
	done
	[ ! -e "$dir/pid" ] || { echo 'the daemon has not ended within 5 s of SIGTERM'; return 1; }
	wait
	as_root rm -rf "$dir"
}

# guest NAME MAC COMMAND... boots the iPXE of QEMU's own network card and waits for its lease.
guest() {
	local name=$1 mac=$2 log=$out/$1.log
	shift 2
	"$@" -accel tcg -m 128 -nographic -no-reboot -boot n -device "virtio-net-pci,netdev=n,mac=$mac" </dev/null >"$log" 2>&1 &
	local qemu=$!
	for _ in $(seq 120); do
		grep -aq "net0: .* gw $gateway" "$log" && break
		kill -0 "$qemu" 2>/dev/null || break
		sleep 0.5
	done
	kill "$qemu" 2>/dev/null
	wait "$qemu" 2>/dev/null
	grep -a "net0: .* gw $gateway" "$log" || { echo "$name has no lease after 60 s; its console is $log"; return 1; }
}

step_guests() {
	have qemu-system-x86_64 || ! on_mac || skip 'no qemu-system-x86_64: brew install qemu' || return
	start_daemon || return
	local rc=0
	guest guest-stream 52:54:00:00:00:11 qemu-system-x86_64 -netdev "stream,id=n,server=off,addr.type=unix,addr.path=$socket" || rc=1
	guest guest-fd3 52:54:00:00:00:12 ${prefix[@]+"${prefix[@]}"} "$bin/socket_vmnet_client" "$socket" qemu-system-x86_64 -netdev socket,id=n,fd=3 || rc=1
	guest guest-dgram 52:54:00:00:00:13 qemu-system-x86_64 \
		-netdev "dgram,id=n,local.type=unix,local.path=$dir/q,remote.type=unix,remote.path=$socket.d/dgram/sock" || rc=1
	stop_daemon || rc=1
	return "$rc"
}

step_linux-guests() {
	on_mac || skip 'make test.e2e boots them here' || return
	[ -r "${E2E_CACHE:-}/guest-1/vmlinuz" ] || skip "no guests' files in E2E_CACHE" || return
	start_daemon || return
	local rc=0
	"${GO:-go}" run ./test/e2e/demo -socket "$socket" -bin "$bin" || rc=1
	stop_daemon || rc=1
	return "$rc"
}

# --- main --------------------------------------------------------------------------------------------------------------

[ $# = 0 ] || steps=("$@")
if on_mac; then
	sudo -v || exit 1
	while sleep 60; do sudo -n true; done 2>/dev/null & # the unit tests take longer than sudo remembers
	trap 'kill %1 2>/dev/null' EXIT
elif [ "$(id -u)" != 0 ]; then
	echo 'make mac: nothing ran: on Linux it needs root, for the rights that sockets of macOS need here: sudo make mac'
	[ -z "${CI:-}" ]
	exit
fi

rm -rf "$out"
mkdir -p "$out"
failed=0
for step in "${steps[@]}"; do
	begin=$SECONDS
	"step_$step" >"$out/$step.txt" 2>&1
	case $? in
	0) result=passed ;;
	77) result="left out: $(tail -1 "$out/$step.txt")" ;;
	*) result="FAILED, see $out/$step.txt" failed=1 ;;
	esac
	printf '%-17s %4d s  %s\n' "$step" $((SECONDS - begin)) "$result" | tee -a "$out/summary.txt"
done
archive=build/mac-$(uname -m)-$(date +%Y%m%d-%H%M%S).tar.gz
tar -czf "$archive" -C "$out" --exclude=opt .
echo "make mac: the results are in $archive; please attach it to an issue, also when all has passed"
exit $failed
