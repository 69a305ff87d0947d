#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes a machine of this one's programs with nothing else of it: it has /etc, /run, /var, /opt and so on of its own, and no
# network. Then it runs a command there as process 1. It is run in namespaces of its own:
#
#	unshare --mount --pid --cgroup --uts --ipc --net --fork --kill-child rig.sh DIR COMMAND...
#
# DIR is /mnt there, and DIR/socket_vmnet2 is /opt/socket_vmnet/bin/socket_vmnet2. systemd sees the units of the test only: those
# of the distribution would empty /tmp and set what is the whole machine's.
set -eu
dir=$1
shift

mkdir -p "$dir/root"
mount --make-rprivate / 2>/dev/null || true # fails where / is no mount point, and mounts are private there
mount --rbind / "$dir/root"
mount --make-rprivate "$dir/root"
mount --bind "$dir" "$dir/root/mnt"
cd "$dir/root"
mount -t proc proc proc
for d in run tmp etc opt var home root; do
	mkdir -p "$d"
	mount -t tmpfs -o mode=0755 tmpfs "$d"
done
mkdir -p sys
mount -t sysfs sysfs sys
mkdir -p run/systemd run/lock etc/systemd/system opt/socket_vmnet/bin var/lib var/log var/tmp home/user
ln -s /run var/run
chmod 1777 tmp var/tmp
cp "$dir/socket_vmnet2" opt/socket_vmnet/bin/
cat >etc/passwd <<'END'
root:x:0:0:root:/root:/bin/sh
member:x:1001:1001:in the group kvm:/:/bin/sh
stranger:x:1002:1002:in no group:/:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
END
cat >etc/group <<'END'
root:x:0:
staff:x:50:
kvm:x:109:member
member:x:1001:
stranger:x:1002:
nogroup:x:65534:
END
echo 'passwd: files' >etc/nsswitch.conf
echo 0123456789abcdef0123456789abcdef >etc/machine-id
if [ "$(basename "$1")" = systemd ]; then
	mount -t cgroup2 cgroup2 sys/fs/cgroup
	for unit in sysinit basic shutdown multi-user sockets; do
		printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' "$unit" >"etc/systemd/system/$unit.target"
	done
	cp "$dir"/units/* etc/systemd/system/
fi
exec chroot "$dir/root" "$@"
