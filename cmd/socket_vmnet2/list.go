// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// printInterfaces writes the interfaces of this host that bridged mode takes to w, one per line.
func printInterfaces(cfg *compat.Config, w io.Writer) error {
	names, err := listInterfaces(cfg)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("macOS names no interface of this host that can be bridged to")
	}
	for _, name := range names {
		if _, err := fmt.Fprintln(w, name); err != nil {
			return fmt.Errorf("list interfaces: %w", err)
		}
	}
	return nil
}
