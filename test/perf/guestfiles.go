// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// guestIperf is the directory of iperf3 and its libraries in a guest.
const guestIperf = "perf"

// unlinked is a library that iperf3's threads need when they end, by way of dlopen.
const unlinked = "libgcc_s.so.1"

// libraryRE finds the file behind each line of ldd: "name => path (address)" or "path (address)" of the loader.
var libraryRE = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// guestFiles are the host's iperf3 and its libraries, by their paths in a guest, which has none but these. A script in the
// guest's PATH calls iperf3 by its own loader; it is written to dir, which must be there until the guests' image is packed.
func guestFiles(ctx context.Context, iperf, dir string) (map[string]string, error) {
	out, err := output(ctx, "ldd", iperf)
	if err != nil {
		return nil, fmt.Errorf("find the libraries of %s for the guests: %w", iperf, err)
	}
	files, loader := map[string]string{guestIperf + "/iperf3": iperf}, ""
	for _, m := range libraryRE.FindAllStringSubmatch(string(out), -1) {
		library := m[1]
		files[path.Join(guestIperf, filepath.Base(library))] = library
		if strings.HasPrefix(filepath.Base(library), "ld-") {
			loader = filepath.Base(library)
		}
		if beside := filepath.Join(filepath.Dir(library), unlinked); exists(beside) {
			files[path.Join(guestIperf, unlinked)] = beside
		}
	}
	if loader == "" {
		return nil, fmt.Errorf("find the libraries of %s for the guests: ldd names no loader:\n%s", iperf, out)
	}
	script := filepath.Join(dir, "iperf3")
	text := fmt.Sprintf("#!/bin/sh\nexec /%[1]s/%[2]s --library-path /%[1]s /%[1]s/iperf3 \"$@\"\n", guestIperf, loader)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		return nil, fmt.Errorf("write the guests' iperf3: %w", err)
	}
	files["lab/iperf3"] = script // lab is in the PATH of guests
	return files, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
