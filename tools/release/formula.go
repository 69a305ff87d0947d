// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	repository  = "https://github.com/socket-vmnet2/socket_vmnet2"
	formulaFile = "Formula/socket_vmnet2.rb"
)

// formula is the one for a tap: that of the repository, with where the sources of a version are and their checksum.
func formula(version, source string) (string, error) {
	if version[0] != 'v' {
		return "", fmt.Errorf("version %q: want a tag, as in v1.2.3", version)
	}
	if source == "" {
		return "", errors.New("formula: want -source FILE, the archive of " + version + " from " + repository)
	}
	packed, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if err := checkSource(packed, version); err != nil {
		return "", fmt.Errorf("%s: %w: is it the archive of %s from %s?", source, err, version, repository)
	}
	text, err := os.ReadFile(formulaFile)
	if err != nil {
		return "", err
	}
	return withSource(string(text), version, fmt.Sprintf("%x", sha256.Sum256(packed)))
}

// withSource puts the address and the checksum behind the homepage, which is where Homebrew's style wants them.
func withSource(text, version, checksum string) (string, error) {
	const homepage = "  homepage \"" + repository + "\"\n"
	switch {
	case strings.Count(text, homepage) != 1:
		return "", fmt.Errorf("%s: want the line %q once", formulaFile, strings.TrimSpace(homepage))
	case strings.Contains(text, "\n  url ") || strings.Contains(text, "\n  sha256 "):
		return "", errors.New(formulaFile + " has an url or a checksum already")
	}
	stable := fmt.Sprintf("  url \"%s/archive/refs/tags/%s.tar.gz\"\n  sha256 %q\n", repository, version, checksum)
	return strings.Replace(text, homepage, homepage+stable, 1), nil
}

// checkSource wants the sources of this program: a page with an error must not get into a formula.
func checkSource(packed []byte, version string) error {
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(zr)
	if want := "socket_vmnet2-" + strings.TrimPrefix(version, "v") + "/etc/entitlements.plist"; err == nil && !bytes.Contains(text, []byte(want)) {
		err = fmt.Errorf("no %s in it", want)
	}
	return err
}
