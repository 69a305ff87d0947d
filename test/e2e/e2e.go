// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the end-to-end tests: the built daemon, real virtual machines and a server on this host. README.md
// beside this file says what each test shows and how to run it.
package e2e
