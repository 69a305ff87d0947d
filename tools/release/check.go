// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/macho"
	"errors"
	"fmt"
	"slices"
)

// Load commands of <mach-o/loader.h> that debug/macho does not name, with what they must say.
const (
	loadUUID         macho.LoadCmd = 0x1b // macOS 26 starts no program without it
	loadSignature    macho.LoadCmd = 0x1d
	loadBuildVersion macho.LoadCmd = 0x32

	platformMacOS = 1
	minimumOS     = 12 << 16 // Go 1.26's linker asks for macOS 12.0
)

// check looks at a program as it goes into the archive.
func (p program) check(binary []byte, on target, version string) error {
	if p.entitled && !bytes.Contains(binary, []byte(version)) {
		return fmt.Errorf("does not contain the version %q: do the linker flags set it?", version)
	}
	if bytes.Contains(binary, []byte("vmnetsim")) {
		return errors.New(`contains "vmnetsim": the simulator is for tests only`)
	}
	if on.goos == "darwin" {
		return p.checkMachO(binary, on.goarch)
	}
	return nil // layout_test.go sees to it that those for Linux are static
}

// checkMachO looks at a program for macOS: how it is built, what it is linked with, and its signature.
func (p program) checkMachO(signed []byte, goarch string) error {
	f, err := macho.NewFile(bytes.NewReader(signed))
	if err != nil {
		return err
	}
	want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[goarch]
	if f.Cpu != want || f.Type != macho.TypeExec || f.Flags&macho.FlagPIE == 0 {
		return fmt.Errorf("built for %v, type %v, flags %#x; want an executable for %v that can be placed anywhere", f.Cpu, f.Type, f.Flags, want)
	}
	command := map[macho.LoadCmd][]byte{}
	for _, l := range f.Loads {
		command[macho.LoadCmd(f.ByteOrder.Uint32(l.Raw()))] = l.Raw()
	}
	if id := command[loadUUID]; len(id) != 24 || bytes.Equal(id[8:], make([]byte, 16)) {
		return fmt.Errorf("LC_UUID is %x, want 16 bytes that are not all zero behind its header", id)
	}
	if v := command[loadBuildVersion]; len(v) < 16 || f.ByteOrder.Uint32(v[8:]) != platformMacOS || f.ByteOrder.Uint32(v[12:]) != minimumOS {
		return fmt.Errorf("LC_BUILD_VERSION is %x, want macOS (1) from %#x on", v, minimumOS)
	}
	libraries, err := f.ImportedLibraries()
	if slices.Sort(libraries); err != nil || !slices.Equal(libraries, p.libraries) {
		return errors.Join(err, fmt.Errorf("linked with %q, want %q", libraries, p.libraries))
	}
	return p.checkSignature(signed)
}

// checkSignature wants every byte to be as signing makes it: with hashes of what the program is now, and its identifier and entitlements.
func (p program) checkSignature(signed []byte) error {
	if again, err := p.sign(signed); err != nil || !bytes.Equal(again, signed) {
		return errors.Join(err, errors.New("the signature is another one than signing it again gives"))
	}
	return nil
}
