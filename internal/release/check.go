// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/codesign"
)

// Load commands of <mach-o/loader.h> that debug/macho does not name.
const (
	loadDylinker     macho.LoadCmd = 0x0e
	loadUUID         macho.LoadCmd = 0x1b
	loadSignature    macho.LoadCmd = 0x1d
	loadBuildVersion macho.LoadCmd = 0x32
	loadDyldInfoOnly macho.LoadCmd = 0x80000022
	loadMain         macho.LoadCmd = 0x80000028
)

const (
	platformMacOS = 1
	minimumOS     = 12 << 16 // Go 1.26's linker asks for macOS 12.0
	simulator     = "vmnetsim"
)

// loads are the load commands that Go's linker gives a program, with how often they occur at least and at most.
var loads = map[macho.LoadCmd][2]int{
	macho.LoadCmdSegment64:  {5, 5}, // __PAGEZERO, __TEXT, __DATA_CONST, __DATA, __LINKEDIT
	macho.LoadCmdSymtab:     {1, 1},
	macho.LoadCmdDysymtab:   {1, 1},
	macho.LoadCmdDylib:      {1, 8},
	loadDylinker:            {1, 1},
	macho.LoadCmdUnixThread: {0, 1}, // where x86_64 starts
	loadMain:                {0, 1}, // where arm64 starts
	loadDyldInfoOnly:        {1, 1},
	loadBuildVersion:        {1, 1},
	loadUUID:                {1, 1}, // macOS 26 starts no program without it
	loadSignature:           {1, 1},
}

// check looks at a program as it goes into the archive.
func (p program) check(binary []byte, on target, version string) error {
	if p.entitled && !bytes.Contains(binary, []byte(version)) {
		return fmt.Errorf("does not contain the version %q: do the linker flags set it?", version)
	}
	if bytes.Contains(binary, []byte(simulator)) {
		return fmt.Errorf("contains %q: the simulator is for tests only", simulator)
	}
	return on.check(p, binary, on.goarch)
}

// checkELF wants a program for Linux that needs nothing of the system it runs on.
func (p program) checkELF(binary []byte, goarch string) error {
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return err
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[goarch]
	if f.Machine != want || f.Type != elf.ET_EXEC {
		return fmt.Errorf("built for %v, type %v; want an executable for %v", f.Machine, f.Type, want)
	}
	for _, s := range f.Progs {
		if s.Type == elf.PT_INTERP || s.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("has a segment %v: it is not static", s.Type)
		}
	}
	return nil
}

// checkMachO looks at a program for macOS: how it is built, what it is linked with, its load commands and its signature.
func (p program) checkMachO(signed []byte, goarch string) error {
	f, err := macho.NewFile(bytes.NewReader(signed))
	if err != nil {
		return err
	}
	want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[goarch]
	if f.Cpu != want || f.Type != macho.TypeExec || f.Flags&macho.FlagPIE == 0 {
		return fmt.Errorf("built for %v, type %v, flags %#x; want an executable for %v that can be placed anywhere", f.Cpu, f.Type, f.Flags, want)
	}
	if err := checkLoads(f); err != nil {
		return err
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	if slices.Sort(libraries); !slices.Equal(libraries, p.libraries) {
		return fmt.Errorf("linked with %q, want %q", libraries, p.libraries)
	}
	o, err := p.signing()
	if err != nil {
		return err
	}
	return codesign.Verify(signed, o)
}

// checkLoads wants the known load commands and no others.
func checkLoads(f *macho.File) error {
	count := map[macho.LoadCmd]int{}
	for _, l := range f.Loads {
		raw := l.Raw()
		cmd := macho.LoadCmd(f.ByteOrder.Uint32(raw))
		count[cmd]++
		if _, known := loads[cmd]; !known {
			return fmt.Errorf("unknown load command %v of %d bytes", cmd, len(raw))
		}
		switch cmd {
		case loadUUID:
			if len(raw) != 24 || bytes.Equal(raw[8:], make([]byte, 16)) {
				return fmt.Errorf("LC_UUID is %x, want 16 bytes that are not all zero behind its header", raw)
			}
		case loadBuildVersion:
			if len(raw) < 16 || f.ByteOrder.Uint32(raw[8:]) != platformMacOS || f.ByteOrder.Uint32(raw[12:]) != minimumOS {
				return fmt.Errorf("LC_BUILD_VERSION is %x, want macOS (1) from %#x on", raw, minimumOS)
			}
		case loadDylinker:
			if len(raw) < 12 || string(bytes.TrimRight(raw[12:], "\x00")) != "/usr/lib/dyld" {
				return fmt.Errorf("LC_LOAD_DYLINKER is %q, want /usr/lib/dyld", raw)
			}
		}
	}
	for cmd, limits := range loads {
		if n := count[cmd]; n < limits[0] || n > limits[1] {
			return fmt.Errorf("load command %v occurs %d times, want %d to %d", cmd, n, limits[0], limits[1])
		}
	}
	if count[macho.LoadCmdUnixThread]+count[loadMain] != 1 {
		return errors.New("want either LC_MAIN or LC_UNIXTHREAD")
	}
	return nil
}
