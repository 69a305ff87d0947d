// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package lab

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { _ = p.Kill() }
