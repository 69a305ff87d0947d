#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# launchd.sh: what make asks of launchd, on this machine.
#
#   launchd.sh check PLIST...      could these be started, with $BRIDGED in the place of en0? Changes nothing: make runs it before it
#                                  installs anything
#   launchd.sh load LABEL PLIST    start a job, or start it anew as the file now says
#   launchd.sh unload LABEL        stop a job, if it is there
set -eu

say() { echo "launchd: $*" >&2; }
die() { say "$*"; exit 1; }

loaded() { launchctl print "$1" >/dev/null 2>&1; }

# How long a job may take to end, and the file that is loaded next to be accepted, in seconds.
patience=20

need_launchctl() {
	command -v launchctl >/dev/null 2>&1 || die "there is no launchctl here, so nothing can be started: run" \
		"\"make install.bin install.doc install.launchd.plist\" to install the files alone, or set DESTDIR to prepare another machine's"
}

# first_string PATTERN FILE prints the first <string> of a property list that matches, with the interface that make puts in.
first_string() { sed -n "s@.*<string>\\($1\\)</string>.*@\\1@p" "$2" | sed -n "1s/en0/${BRIDGED:-en0}/p; 1p" | sed -n 1p; }

# conflict TARGET STOP PLIST: says that the job of TARGET would be in the way of PLIST's if it is.
conflict() {
	loaded "$1" || return 0
	job=$(launchctl print "$1" 2>/dev/null)
	for what in "$(first_string '/var/run/.*' "$3")" "$(first_string '--vmnet-gateway=.*' "$3")"; do
		[ -n "$what" ] || continue
		if printf '%s\n' "$job" | sed 's/^[[:space:]]*//; s/[[:space:]]*$//' | grep -qxF -e "$what"; then
			die "the job ${1##*/} is loaded and uses $what, too, so the new one could not start. Nothing was changed. Stop it:" \
				"$2; then do this again. The other way round it is as easy: docs/install.md"
		fi
	done
}

check() {
	need_launchctl
	for plist; do
		own=$(first_string 'io\..*' "$plist")
		user=gui/${SUDO_UID:-$(id -u)}
		for label in io.github.lima-vm.socket_vmnet "io.github.lima-vm.socket_vmnet${own#io.github.socket-vmnet2.socket_vmnet2}"; do
			conflict "system/$label" "sudo launchctl bootout system/$label && sudo launchctl disable system/$label" "$plist"
		done
		for name in socket_vmnet socket_vmnet2; do
			conflict "system/homebrew.mxcl.$name" "sudo brew services stop $name" "$plist"
			conflict "$user/homebrew.mxcl.$name" "brew services stop $name" "$plist"
		done
		conflict system/org.macports.socket_vmnet "sudo port unload socket_vmnet" "$plist"
	done
}

load() {
	need_launchctl
	if loaded "system/$1"; then
		say "$1 is loaded already; it is started anew with the file that was installed"
		launchctl bootout "system/$1" || true
	fi
	n=0
	while loaded "system/$1"; do # it ends what it is doing first
		n=$((n + 1))
		[ "$n" -lt "$patience" ] || die "$1 does not end; see its log, then run: sudo launchctl bootstrap system '$2'"
		sleep 1
	done
	launchctl enable "system/$1"
	n=0
	until launchctl bootstrap system "$2"; do
		n=$((n + 1))
		[ "$n" -lt 3 ] || die "launchd does not take $2; what is wrong with it: plutil -lint '$2'"
		sleep 1
	done
	launchctl kickstart -p "system/$1"
}

unload() {
	if ! command -v launchctl >/dev/null 2>&1; then
		say "there is no launchctl here, so nothing to stop"
	elif loaded "system/$1"; then
		launchctl bootout "system/$1" || say "$1 could not be stopped; see: launchctl print system/$1"
	fi
}

case "${1-}:$#" in
check:*) shift; check "$@" ;;
load:3) load "$2" "$3" ;;
unload:2) unload "$2" ;;
*) echo "usage: $0 check PLIST... | load LABEL PLIST | unload LABEL" >&2; exit 1 ;;
esac
