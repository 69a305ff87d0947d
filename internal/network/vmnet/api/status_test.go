// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStatusTexts(t *testing.T) {
	assert.Equal(t, "[1234] unknown vmnet status", Status(1234).Error())
	assert.Equal(t, "vmnet status 0", Status(0).Name())
	for s := Success; s <= NotAuthorized; s++ {
		assert.Regexp(t, `^\[10\d\d\] VMNET_[A-Z_]+: [a-z]`, s.Error(), "status %d has a name and a meaning", s)
	}
}

// TestCallError: the line begins as socket_vmnet prints it, which scripts look for.
func TestCallError(t *testing.T) {
	err := fmt.Errorf("start: %w", &CallError{Call: "vmnet_start_interface", Status: NotAuthorized})
	assert.ErrorIs(t, err, NotAuthorized)
	assert.NotErrorIs(t, err, Failure)
	var call *CallError
	require.ErrorAs(t, err, &call)
	assert.Contains(t, call.Error(), "vmnet_start_interface: [1010] VMNET_NOT_AUTHORIZED")

	// Only a start fails for want of rights.
	assert.Contains(t, (&CallError{Call: "vmnet_network_create", Status: Failure}).Error(), "run as root")
	assert.Equal(t, "vmnet_write: [1001] VMNET_FAILURE: macOS gives no reason", (&CallError{Call: "vmnet_write", Status: Failure}).Error())
}
