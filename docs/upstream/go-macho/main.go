// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// This program saves a Mach-O file unchanged under another name and opens the copy. See ../go-macho.md.
package main

import (
	"fmt"
	"os"

	"github.com/blacktop/go-macho"
)

func main() {
	f, err := macho.Open(os.Args[1])
	if err == nil {
		err = f.Save(os.Args[2])
	}
	if err == nil {
		_, err = macho.Open(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
