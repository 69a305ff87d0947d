#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After the files of a package are there: dpkg says "configure" and the version before, if any; rpm says 1, or 2 for an update.
set -e
if command -v systemd-sysusers >/dev/null; then systemd-sysusers socket_vmnet2.conf; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ -z "$2" ] && [ "$1" != 2 ]; then
	echo "To start the network, now and at boot: systemctl enable --now socket_vmnet2"
fi
# What runs becomes the new program without losing a client. One that refuses says why, and goes on as it is.
for socket in /run/socket_vmnet2/*; do
	if [ -S "$socket" ]; then socket_vmnet2 upgrade "$socket" || :; fi
done
