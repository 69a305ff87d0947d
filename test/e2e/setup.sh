#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# setup.sh: get what the demo and the tests need besides Go.
#
#   setup.sh tools   what `make check` and the tests without virtual machines need: linters, shells, the checkers of what is installed, a browser
#   setup.sh guest   what `make demo` needs: QEMU, a guest kernel with its virtio modules, busybox
#   setup.sh all     all that and what else the tests need: an iPXE image, QEMU 9.2 or newer, User Mode Linux and DHCP clients
#
# As root on Debian the missing packages are installed with apt. As an ordinary user nothing is installed: packages that are
# missing are named and the exit code is 1. The guest kernel, User Mode Linux with its DHCP clients, and QEMU 9.2 or newer
# where the distribution's own is older, are downloaded and unpacked into the cache directory, never installed; that needs no root.
#
# Environment:
#   E2E_CACHE      cache directory (default ${XDG_CACHE_HOME:-$HOME/.cache}/socket_vmnet2/e2e)
#   DEBIAN_MIRROR  Debian archive to download from (default: the one in the machine's own apt sources)
#   E2E_KERNEL     a guest kernel of your own, used instead of the download; E2E_MODULES is the directory with its virtio
#                  modules (may be unset when they are built in)
#   E2E_QEMU       a qemu-system-x86_64 of your own
#   E2E_QEMU_NEW   a qemu-system-x86_64 of your own, 9.2 or newer
set -euo pipefail
export LC_ALL=C # the output of apt is read below

# Loaded in this order; what the kernel has built in is left out.
modules="virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net"
# The number after the name changes whenever the contents do, so that an old cache is not taken for a current one.
guest_dir=guest-1 qemu_dir=qemu-1 uml_dir=uml-2

say() { echo "set-up: $*" >&2; }
die() { echo "set-up: FAILED: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

what=${1:-all}
case $what in
tools | guest | all) ;;
*) echo "usage: $0 [tools|guest|all]" >&2; exit 1 ;;
esac

if [ "$what" != tools ]; then
	[ "$(uname -s)" = Linux ] || die "the virtual machines of the demo and the tests run on Linux only"
	[ "$(uname -m)" = x86_64 ] || die "the guests are x86-64 and so far only x86-64 hosts are supported, this is $(uname -m)"
fi

os_id='' os_codename=''
if [ -r /etc/os-release ]; then
	# shellcheck source=/dev/null
	os_id=$(. /etc/os-release && echo "${ID:-}")
	# shellcheck source=/dev/null
	os_codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
fi
cache=${E2E_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME is not set, say where to keep the files with E2E_CACHE}/.cache}/socket_vmnet2/e2e}

# --- packages of the distribution ------------------------------------------------------------------------------------

# missing_tools prints the Debian packages of missing programs that read, check or run what is written here.
missing_tools() {
	have shellcheck || echo shellcheck
	have mdl || echo ruby-mdl
	have ruby || echo ruby
	have mandoc || echo mandoc
	have groff || echo groff-base
	have zsh || echo zsh
	have fish || echo fish
	have tcpdump || [ -x /usr/sbin/tcpdump ] || echo tcpdump
	[ -r /usr/share/bash-completion/bash_completion ] || echo bash-completion
	[ "$(uname -s)" = Linux ] || return 0
	have visudo || [ -x /usr/sbin/visudo ] || echo sudo
	have systemd-analyze || echo systemd
	have ip || echo iproute2
	have chromium || echo chromium
}

# missing_packages prints the Debian packages that are needed and not there.
missing_packages() {
	if [ "$what" = tools ]; then missing_tools; return; fi
	[ -n "${E2E_QEMU:-}" ] || have qemu-system-x86_64 || echo qemu-system-x86
	# Only the static busybox runs in a guest that has no libraries.
	find_busybox >/dev/null || echo busybox-static
	[ "$what" = guest ] && return
	have tshark || echo tshark
	have curl || echo curl
	have gcc || echo gcc
	[ -r /usr/include/stdio.h ] || echo libc6-dev
	have ip || echo iproute2
	have iperf3 || echo iperf3
	[ -r /usr/lib/ipxe/ipxe.lkrn ] || echo ipxe
}

# find_busybox prints the path of a statically linked busybox.
find_busybox() {
	local b
	for b in $(type -aP busybox || true); do
		if ! ldd "$b" >/dev/null 2>&1; then echo "$b"; return; fi
	done
	return 1
}

# try runs a command up to three times: mirrors and networks have bad moments.
try() {
	local n
	for n in 1 2 3; do
		"$@" && return
		[ "$n" = 3 ] || { say "try $n of 3 failed: $1 ${2:-}; trying again in $((n * 3)) s"; sleep $((n * 3)); }
	done
	return 1
}

apt_opts=(-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)

# apt_install PACKAGE... installs packages and shows how far it is.
apt_install() {
	apt-get -q "${apt_opts[@]}" -y --no-install-recommends install "$@" 2>&1 </dev/null | tee "$work/apt.log" | awk '
		function show(what) { print "set-up: " what; fflush() }
		/newly installed/ { show($0) }
		/^Get:/ && ++got % 20 == 0 { show(got " packages downloaded") }
		/^Setting up/ && ++done % 20 == 0 { show(done " packages set up") }' >&2
}

install_missing() {
	local missing
	missing=$(missing_packages | tr '\n' ' ')
	[ -n "${missing% }" ] || return 0
	if [ "$os_id" != debian ] || ! have apt-get; then
		die "these programs are missing, install them (names of the Debian packages): $missing"
	fi
	if [ "$(id -u)" != 0 ]; then
		die "packages are missing. Install them, then try again:
    sudo apt-get install --no-install-recommends $missing"
	fi
	say "installing $missing"
	export DEBIAN_FRONTEND=noninteractive
	try apt-get -qq "${apt_opts[@]}" update >&2 || die "apt-get update"
	# shellcheck disable=SC2086
	try apt_install $missing || {
		tail -20 "$work/apt.log" >&2
		die "apt-get install $missing"
	}
	missing=$(missing_packages | tr '\n' ' ')
	[ -z "${missing% }" ] || die "still missing after apt-get install: $missing"
}

# --- packages that are only unpacked ---------------------------------------------------------------------------------

# mirror prints the Debian archive this machine takes its own packages from.
mirror() {
	if [ -n "${DEBIAN_MIRROR:-}" ]; then echo "$DEBIAN_MIRROR"; return; fi
	# shellcheck disable=SC2016 # apt's variables
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
		awk -v r="$os_codename" '$2 == r && $3 == "main" {print $1; exit}'
}

# private_apt SUITE DIR prepares an apt of its own in DIR that knows SUITE and takes no notice of what is installed.
private_apt() {
	local suite=$1 dir=$2 uri key
	uri=$(mirror)
	[ -n "$uri" ] || die "no Debian archive for $os_codename in the apt sources, name one with DEBIAN_MIRROR"
	for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
		[ -r "$key" ] && break
	done
	[ -r "$key" ] || die "no Debian archive key, install the package debian-archive-keyring"
	mkdir -p "$dir"/{lists,cache/archives}/partial "$dir/etc" "$dir/deb"
	: >"$dir/status"
	echo "deb [arch=amd64 signed-by=$key] $uri $suite main" >"$dir/etc/sources.list"
	cat >"$dir/apt.conf" <<-CONF
		Dir::Etc::sourcelist "$dir/etc/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::State "$dir";
		Dir::State::lists "$dir/lists";
		Dir::State::status "$dir/status";
		Dir::Cache "$dir/cache";
		APT::Architecture "amd64";
		APT::Sandbox::User "";
		Acquire::Retries "3";
		Acquire::Languages "none";
		Debug::NoLocking "true";
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear DPkg::Post-Invoke;
	CONF
	apt_conf=$dir/apt.conf
	try apt-get -c "$apt_conf" -qq update >&2 || die "apt-get update for $suite from $uri"
}

# done_or_start DIR returns 0 when DIR is complete, otherwise 1 with a fresh $stage to fill.
done_or_start() {
	[ -e "$cache/$1/versions" ] && return
	stage=$work/$1
	mkdir -p "$stage"
	return 1
}

# finish DIR puts the filled $stage in its place. The move is atomic, so a directory that exists is complete.
finish() {
	rm -rf "${cache:?}/$1"
	mv "$stage" "$cache/$1"
	say "$1: $(tr '\n' ' ' <"$cache/$1/versions")"
}

guest_files() {
	# A kernel of one's own is copied every time: it costs nothing and may have changed.
	if [ -n "${E2E_KERNEL:-}" ] || grep -qs '^kernel=' "$cache/$guest_dir/versions"; then
		rm -rf "${cache:?}/$guest_dir"
	fi
	done_or_start "$guest_dir" && return
	cp "$(find_busybox)" "$stage/busybox"
	mkdir "$stage/modules"
	local root=$work/kernel pkg
	if [ -n "${E2E_KERNEL:-}" ]; then
		cp "$E2E_KERNEL" "$stage/vmlinuz"
		pkg="kernel=$E2E_KERNEL"
		root=${E2E_MODULES:-}
	else
		[ "$os_id" = debian ] || die "no guest kernel for ${os_id:-this system}: name one with E2E_KERNEL and E2E_MODULES"
		say "downloading a guest kernel ($os_codename, about 30 MB)"
		private_apt "$os_codename" "$work/apt-kernel"
		pkg=$(apt-cache -c "$apt_conf" depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
		[ -n "$pkg" ] || die "linux-image-cloud-amd64 is not in $os_codename"
		(cd "$work/apt-kernel/deb" && try apt-get -c "$apt_conf" -qq download "$pkg" >&2) || die "download $pkg"
		mkdir -p "$root"
		dpkg-deb -x "$work"/apt-kernel/deb/*.deb "$root"
		cp "$root"/boot/vmlinuz-* "$stage/vmlinuz"
	fi
	chmod 0644 "$stage/vmlinuz"
	unpack_modules "$root"
	printf '%s\n' "$pkg" "$("$stage/busybox" 2>&1 | awk 'NR == 1 {print $1 "=" $2}')" >"$stage/versions"
	finish "$guest_dir"
}

# unpack_modules DIR copies the virtio modules below DIR to $stage/modules, numbered in loading order.
unpack_modules() {
	local m f n=10
	[ -n "$1" ] || return 0
	for m in $modules; do
		f=$(find "$1" -name "$m.ko" -o -name "$m.ko.xz" -o -name "$m.ko.gz" -o -name "$m.ko.zst" | head -1)
		[ -n "$f" ] || continue
		case $f in
		*.xz) "$stage/busybox" xz -dc "$f" >"$stage/modules/$n-$m.ko" ;;
		*.gz) "$stage/busybox" gzip -dc "$f" >"$stage/modules/$n-$m.ko" ;;
		*.zst) have zstd || die "install zstd to unpack $f"; zstd -qdc "$f" >"$stage/modules/$n-$m.ko" ;;
		*) cp "$f" "$stage/modules/$n-$m.ko" ;;
		esac
		n=$((n + 1))
	done
}

# qemu_is_new PROGRAM: is it at least 9.2, the first with reconnect-ms and so the first that suits the restart tests?
qemu_is_new() {
	local v
	v=$("$1" --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' | head -1)
	[ -n "$v" ] || return 1
	[ "${v% *}" -gt 9 ] || { [ "${v% *}" = 9 ] && [ "${v#* }" -ge 2 ]; }
}

new_qemu() {
	if [ -n "${E2E_QEMU_NEW:-}" ]; then
		qemu_is_new "$E2E_QEMU_NEW" || die "E2E_QEMU_NEW=$E2E_QEMU_NEW is not QEMU 9.2 or newer"
		return
	fi
	qemu_is_new "${E2E_QEMU:-qemu-system-x86_64}" && return
	done_or_start "$qemu_dir" && return
	[ "$os_id" = debian ] || die "the restart tests need QEMU 9.2 or newer: name one with E2E_QEMU_NEW"
	# Debian 13 is the first with a QEMU that is new enough, so it is what every older release takes it from.
	local suite=trixie root=$stage/root
	say "downloading QEMU from $suite, unpacked beside the installed one (about 40 MB)"
	private_apt "$suite" "$work/apt-qemu"
	try apt-get -c "$apt_conf" -qq -y --no-install-recommends --download-only install qemu-system-x86 >"$work/apt.log" 2>&1 || {
		tail -20 "$work/apt.log" >&2
		die "download qemu-system-x86 from $suite"
	}
	mkdir "$root"
	local f
	for f in "$work"/apt-qemu/cache/archives/*.deb; do dpkg-deb -x "$f" "$root"; done
	rm -rf "$root"/usr/share/{doc,man,locale,info}
	write_qemu_wrapper "$stage/qemu-system-x86_64"
	qemu_is_new "$stage/qemu-system-x86_64" || die "the QEMU from $suite does not run here: $("$stage/qemu-system-x86_64" --version 2>&1 | head -1)"
	"$stage/qemu-system-x86_64" --version | sed -n '1s/.*version \([^ ]*\).*/qemu=\1/p' >"$stage/versions"
	finish "$qemu_dir"
}

# write_qemu_wrapper FILE writes a script that runs the unpacked QEMU with its own loader, libraries and firmware. The
# directory is looked up at run time, as it is moved when complete.
write_qemu_wrapper() {
	cat >"$1" <<-'WRAPPER'
		#!/bin/bash
		r=$(dirname "$(readlink -f "$0")")/root
		l=$r/usr/lib/x86_64-linux-gnu
		export QEMU_MODULE_DIR=$l/qemu
		exec "$r/usr/lib64/ld-linux-x86-64.so.2" --library-path "$l" "$r/usr/bin/qemu-system-x86_64" \
			-L "$r/usr/share/qemu" -L "$r/usr/share/seabios" "$@"
	WRAPPER
	chmod 0755 "$1"
}

# User Mode Linux and the DHCP clients that run in it beside busybox': none is installed, as a DHCP client of the host's may begin
# to serve the host's own interfaces.
uml() {
	done_or_start "$uml_dir" && return
	[ "$os_id" = debian ] || die "the guests of User Mode Linux and their DHCP clients come from Debian's packages"
	local packages="user-mode-linux isc-dhcp-client dhcpcd-base" f
	say "downloading $packages ($os_codename, about 43 MB)"
	private_apt "$os_codename" "$work/apt-uml"
	# shellcheck disable=SC2086
	(cd "$work/apt-uml/deb" && try apt-get -c "$apt_conf" -qq download $packages >&2) || die "download $packages"
	for f in "$work"/apt-uml/deb/*.deb; do
		dpkg-deb -x "$f" "$stage"
		dpkg-deb -f "$f" Package Version | awk '/^Package/ {p = $2} /^Version/ {print p "=" $2}' >>"$work/uml.versions"
	done
	rm -rf "${stage:?}"/usr/{share,lib/uml} # pages, and modules that nothing here loads
	gcc -O1 -shared -fPIC -o "$stage/usr/lib/uml_fp.so" "$(dirname "${BASH_SOURCE[0]}")/../lab/csrc/uml_fp.c" || die "build uml_fp.so: is gcc installed?"
	cp "$work/uml.versions" "$stage/versions"
	finish "$uml_dir"
}

# --- main ------------------------------------------------------------------------------------------------------------

mkdir -p "$cache" || die "cannot create the cache directory $cache, choose another with E2E_CACHE"
exec 9>"$cache/lock"
flock -n 9 || { say "another set-up is running, waiting for it"; flock 9; }
rm -rf "$cache"/.work.* # of an interrupted run
work=$(mktemp -d "$cache/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

install_missing
[ "$what" != tools ] || exit 0
guest_files
[ "$what" = guest ] || new_qemu
[ "$what" = guest ] || uml
say "ready ($cache)"
