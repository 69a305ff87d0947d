// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPoint(t *testing.T) {
	assert.Equal(t, "once", arm("once\na 2\nb 1\nodd\n"))
	for range 2 {
		assert.PanicsWithValue(t, "injected at a", func() { Point("a") })
	}
	assert.NotPanics(t, func() { Point("a") })
	assert.NotPanics(t, func() { Point("odd") })
	assert.NotPanics(t, func() { In("b", []byte("anything")) })
	assert.PanicsWithValue(t, "injected at b", func() { In("b", []byte("a "+Mark+" in it")) })
	arm("again\nb 1")
	arm("and again")
	assert.NotPanics(t, func() { Point("b") })
}
