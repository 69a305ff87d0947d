#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh: set-up, build, then three real virtual machines on one daemon. This is `make demo`.
# Environment: GO is the go command (default go), BIN where make puts what it builds; for the others see setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export GO=${GO:-go}
command -v "$GO" >/dev/null || { echo "demo: FAILED: Go is missing, version 1.26 or newer: https://go.dev/dl/" >&2; exit 1; }
test/e2e/setup.sh guest
echo "building (the first time takes a minute or two)"
make --no-print-directory -s build GO="$GO"
cache=${E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/socket_vmnet2/e2e}
"$GO" build -o "$cache/demo" ./test/e2e/demo
# The program takes this shell's place, so that a signal reaches the one who cleans up.
exec "$cache/demo" -bin "${BIN:-bin}"
