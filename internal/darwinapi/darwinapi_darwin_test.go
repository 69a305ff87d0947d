// SPDX-License-Identifier: Apache-2.0

package darwinapi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
)

// prepare uses the real library.
func prepare(testing.TB) {}

func TestLibSystem(t *testing.T) {
	assert.True(t, darwinapi.Available())
	_, err := darwinapi.ActivateSocket("daemon")
	assert.ErrorIs(t, err, darwinapi.ErrNotLaunchd, "go test is no job of launchd")
}
