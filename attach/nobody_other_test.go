// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package attach

import "errors"

// becomeNobody is for Linux, where threads have users of their own.
func becomeNobody() error { return errors.New("permission denied: run this test as an ordinary user") }
