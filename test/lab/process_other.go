// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package lab

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return new(syscall.SysProcAttr) }

func killGroup(p *os.Process) { _ = p.Kill() }

// UseOf knows nothing: there is no /proc.
func UseOf(int) (Use, error) { return Use{}, nil }

// Files, Child, FewFiles and As are for Linux.
func Files(int) []string { return nil }

// Child knows nothing.
func Child(int) int { return 0 }

// FewFiles does nothing.
func FewFiles(int, int) (restore func()) { return func() {} }

// As calls f as the user that it is.
func As(_, _ int, f func()) { f() }
