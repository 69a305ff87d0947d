#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# go test -exec for programs for macOS, as root: MACHRUN is the loader. Each gets a network namespace of its own, where a unix
# socket has room for as many datagrams as macOS's, which counts bytes.
exec unshare -n sh -c 'ip link set lo up && echo 4096 > /proc/sys/net/unix/max_dgram_qlen && exec "$@"' sh "$MACHRUN" "$@"
