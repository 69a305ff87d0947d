// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os/exec"
)

// startApart is Linux's.
func startApart(context.Context, string, ...string) (*exec.Cmd, *bytes.Buffer, error) {
	return nil, nil, errors.ErrUnsupported
}

// vpn is Linux's.
func vpn(string, netip.Prefix) error { return errors.ErrUnsupported }
