// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"fmt"
	"math"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// LongestRuntimePath is the name, below the runtime directory, of the socket with the longest path.
const LongestRuntimePath = "/dgram/sock"

func setRuntimeDir(s *settings, v string) error {
	if v == "" {
		return errors.New(`--runtime-dir is empty: give a directory, or "none"`)
	}
	if n := len(v) + len(LongestRuntimePath); v != RuntimeDirNone && n > maxSocketPath {
		return fmt.Errorf("--runtime-dir=%s is too long: the path of %s below it has %d bytes, that of a socket %d at most",
			v, LongestRuntimePath[1:], n, maxSocketPath)
	}
	s.RuntimeDir = v
	return nil
}

func setAntiSpoof(s *settings, _ string) error {
	s.AntiSpoof = true
	return nil
}

// addAllowUID takes a number or a name. What consists of digits is a number: no user's name does on macOS or Linux.
func addAllowUID(s *settings, v string) error {
	uid, err := parseUID(v)
	if err != nil {
		return err
	}
	if !slices.Contains(s.AllowUIDs, uid) {
		s.AllowUIDs = append(s.AllowUIDs, uid)
	}
	return nil
}

func parseUID(v string) (uint32, error) {
	text := v
	if strings.Trim(v, "0123456789") != "" {
		u, err := user.Lookup(v)
		if err != nil {
			return 0, fmt.Errorf("--allow-uid=%s is no number and no user's name", v)
		}
		text = u.Uid
	}
	// The largest number stands for "no user" in every call that takes one.
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == math.MaxUint32 {
		return 0, fmt.Errorf("--allow-uid=%s is no user's number from 0 to %d", v, uint32(math.MaxUint32-1))
	}
	return uint32(n), nil
}
