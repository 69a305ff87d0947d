#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After the files of a package have gone. dpkg's "purge" takes what the networks remember, too; the user stays, as its number would be
# given to another.
set -e
case "$1" in remove | purge | 0) ;; *) exit 0 ;; esac
if [ "$1" = purge ]; then rm -rf /var/lib/socket_vmnet2; fi
rm -rf /run/socket_vmnet2
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
