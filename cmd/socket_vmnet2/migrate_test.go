// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
)

// TestMigrateKnowsSubcommands: a process whose first argument is a subcommand is no daemon to migrate.
func TestMigrateKnowsSubcommands(t *testing.T) {
	assert.ElementsMatch(t, commandNames(), find.Subcommands)
}
