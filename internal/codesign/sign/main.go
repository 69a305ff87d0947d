// SPDX-License-Identifier: Apache-2.0

// Command sign signs programs for macOS ad hoc, in place, on any operating system; make runs it as the last step of a build.
//
//	sign -identifier io.github.owner.program [-entitlements FILE] PROGRAM...
//
// A program is replaced as a whole: macOS ends a process whose file was written to.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/socket-vmnet2/socket_vmnet2/internal/codesign"
)

func main() {
	identifier := flag.String("identifier", "", "the `name` that the signature gives the programs")
	entitlements := flag.String("entitlements", "", "a property list in a `file`; none without")
	flag.Parse()
	if err := run(*identifier, *entitlements, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

// run signs each of the programs.
func run(identifier, entitlements string, programs []string) error {
	if len(programs) == 0 {
		return errors.New("no program to sign")
	}
	o := codesign.Options{Identifier: identifier}
	if entitlements != "" {
		var err error
		if o.Entitlements, err = os.ReadFile(entitlements); err != nil {
			return err
		}
	}
	for _, p := range programs {
		if err := sign(p, o); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

// sign replaces a program by the same one with a signature.
func sign(path string, o codesign.Options) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	signed, err := codesign.Sign(b, o)
	if err != nil {
		return err
	}
	temp := path + ".signed"
	if err := os.WriteFile(temp, signed, fi.Mode().Perm()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, path)
}
