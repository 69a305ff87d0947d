#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes a machine of this one's programs with nothing else of it: it has /etc, /run, /var, /opt and so on of its own, and no
# network. Then it runs a systemd there as process 1, in a cgroup of its own, and takes it all away when that has ended, or when it
# gets SIGTERM:
#
#	unshare --mount --propagation unchanged rig.sh DIR COMMAND...
#
# DIR is /mnt there, and DIR/socket_vmnet2 is /opt/socket_vmnet/bin/socket_vmnet2. systemd sees the units of the test only: those
# of the distribution would empty /tmp and set what is the whole machine's.
set -eu

if [ "$1" != inside ]; then
	dir=$1
	mkdir "$dir/cgroup"
	mount --make-rprivate / 2>/dev/null || true # fails where / is no mount point, and mounts are private there
	mount -t cgroup2 cgroup2 "$dir/cgroup"
	group=$dir/cgroup/$(basename "$dir")
	mkdir "$group"
	(
		exec sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$group" \
			unshare --pid --cgroup --uts --ipc --net --mount --propagation unchanged --fork --kill-child sh "$0" inside "$@"
	) &
	trap 'echo 1 >"$group/cgroup.kill"' TERM
	code=0
	wait $! || code=$?
	trap '' TERM
	echo 1 >"$group/cgroup.kill"
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
		sleep 0.2 # those who were killed have yet to go
	done
	umount "$dir/cgroup"
	exit "$code"
fi

dir=$2
shift 2
mkdir -p "$dir/root"
mount -t tmpfs -o mode=0755 tmpfs "$dir/root"
mount --make-private "$dir/root"
cd "$dir/root"
mkdir -p dev etc/systemd/system home/user mnt opt/socket_vmnet/bin proc root run/lock run/systemd sys tmp var/lib var/log var/tmp
for d in bin lib lib32 lib64 libx32 sbin usr; do
	if [ -L "/$d" ]; then
		cp -P "/$d" .
	elif [ -d "/$d" ]; then
		mkdir "$d"
		mount --rbind "/$d" "$d"
	fi
done
mount --bind "$dir" mnt
mount -t proc proc proc
mount -t sysfs sysfs sys
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
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
mount -t cgroup2 cgroup2 sys/fs/cgroup
for unit in sysinit basic shutdown multi-user sockets; do
	printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' "$unit" >"etc/systemd/system/$unit.target"
done
cp "$dir"/units/* etc/systemd/system/
exec chroot "$dir/root" "$@"
