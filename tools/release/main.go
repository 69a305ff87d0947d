// SPDX-License-Identifier: Apache-2.0

// Command release makes the archives and packages of a release, on any operating system:
//
//	OUT/socket_vmnet-VERSION-arm64.tar.gz          for macOS
//	OUT/socket_vmnet-VERSION-x86_64.tar.gz
//	OUT/socket_vmnet-VERSION-linux-arm64.tar.gz
//	OUT/socket_vmnet-VERSION-linux-x86_64.tar.gz
//	OUT/socket-vmnet2_VERSION_ARCH.deb, socket-vmnet2-VERSION-1.ARCH.rpm
//	OUT/build-env.txt   what is needed to make the same bytes again
//	OUT/sbom.cdx.json   the modules in the programs, as CycloneDX
//	OUT/SHA256SUMS      of all of them
//
// The names for macOS and the paths in the archives are those of socket_vmnet, because other projects download them. The
// same sources, version, time and Go release give the same bytes.
//
//	release notes -version v1.2.3                   what CHANGELOG.md says of a version
//	release formula -version v1.2.3 -source FILE    the Homebrew formula, with the address and checksum of the sources in FILE
//	release sign -identifier NAME PROGRAM...        sign programs for macOS ad hoc, as the last step of a build
//
// It is run by "go -C tools/release run .", and names files from the root of the repository: docs/releasing.md.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := os.Chdir("../..")
	if err == nil {
		err = command(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// command does what the arguments say.
func command(ctx context.Context, args []string, stdout io.Writer) error {
	what := "archives"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		what, args = args[0], args[1:]
	}
	var r release
	var source, identifier, entitlements string
	flags := flag.NewFlagSet("release "+what, flag.ContinueOnError)
	if what != "sign" {
		flags.StringVar(&r.version, "version", "", "the `version`, as the programs print it")
	}
	switch what {
	case "archives":
		flags.StringVar(&r.goTool, "go", "go", "the go `command`")
		flags.StringVar(&r.ldflags, "ldflags", "", "`flags` for Go's linker; they set the version in the programs")
		flags.StringVar(&r.out, "out", "artifacts", "the `directory` to make; it must not exist or be empty")
	case "formula":
		flags.StringVar(&source, "source", "", "the `file` with the sources, as GitHub packs them for the tag")
	case "sign":
		flags.StringVar(&identifier, "identifier", "", "the `name` that the signature gives the programs")
		flags.StringVar(&entitlements, "entitlements", "", "a property list in a `file`; none without")
	case "notes":
	default:
		return fmt.Errorf("unknown command %q: want notes, formula, sign, or none to make the archives", what)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case what == "sign":
		return signFiles(identifier, entitlements, flags.Args())
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case !versionRule.MatchString(r.version):
		return fmt.Errorf("version %q: want letters, digits and any of ._+~-, as in v1.2.3", r.version)
	}
	var text string
	var err error
	switch what {
	case "notes":
		text, err = notes(r.version)
	case "formula":
		text, err = formula(r.version, source)
	default:
		text, err = r.run(ctx)
	}
	if err == nil {
		_, err = io.WriteString(stdout, text)
	}
	return err
}

// versionRule is what does in the name of a file.
var versionRule = regexp.MustCompile(`^(v[A-Za-z0-9._+~-]|[A-Za-uw-z0-9])[A-Za-z0-9._+~-]*$`)

// notes is what CHANGELOG.md says of a version.
func notes(version string) (string, error) {
	b, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return "", err
	}
	return section(string(b), strings.TrimPrefix(version, "v"))
}

// section cuts the section of a version out of the changes. Its heading is "## 1.2.3 - 2026-12-24".
func section(changes, number string) (string, error) {
	for section := range strings.SplitSeq("\n"+changes, "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		if date, ok := strings.CutPrefix(heading, number+" - "); ok && dateRule.MatchString(date) {
			if text = strings.TrimSpace(text); text == "" {
				return "", errors.New("CHANGELOG.md: the section " + number + " is empty")
			}
			return text + "\n", nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md: no section \"## %s - YYYY-MM-DD\": put the version and the date in place of Unreleased, and tag that commit", number)
}

var dateRule = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)

// output runs a command; the error holds what it complained about.
func output(c *exec.Cmd) ([]byte, error) {
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

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
