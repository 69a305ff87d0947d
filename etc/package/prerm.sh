#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Before the files of a package go: dpkg says "remove", rpm 0. An update says something else.
set -e
case "$1" in remove | 0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then
	for unit in socket_vmnet2.socket socket_vmnet2.service socket_vmnet2-host.socket socket_vmnet2-host.service; do
		systemctl --quiet disable --now "$unit" || :
	done
fi
