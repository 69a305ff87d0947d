// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	differentialRuns = 5000
	goodUUID         = "0E21C1D4-43D9-4363-B767-A6488D25C93E"
)

// reference compiles testdata/getopt.c against this machine's C library.
func reference(t *testing.T) string {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("gcc is required in CI: apt-get install gcc libc6-dev")
		}
		t.Skip("needs gcc to compare with getopt_long: apt-get install gcc libc6-dev")
	}
	bin := filepath.Join(t.TempDir(), "getopt")
	out, err := exec.Command(cc, "-Wall", "-Werror", "-D_GNU_SOURCE", "-o", bin, filepath.Join("testdata", "getopt.c")).CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

// seeded returns a source of random numbers and logs how to get the same one again.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("COMPAT_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, "COMPAT_SEED")
	}
	t.Logf("COMPAT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// randomValues are arguments for each option: good ones, bad ones, and what might be mistaken for something else.
var randomValues = map[string][]string{
	"socket-group":             {"staff", "", "a b", "-x"},
	"vmnet-mode":               {"host", "shared", "host", "shared", "bridged", "Host", ""},
	"vmnet-interface":          {"en0", "en1"},
	"vmnet-gateway":            {"192.168.105.1", "192.168.105.1", "0xc0a86901", "192.168.27137", "192.168.105", "x"},
	"vmnet-dhcp-end":           {"192.168.105.100", "192.168.105.254"},
	"vmnet-mask":               {"255.255.255.0", "0xffffff00"},
	"vmnet-interface-id":       {goodUUID, goodUUID, "x"},
	"vmnet-network-identifier": {strings.ToLower(goodUUID), goodUUID, goodUUID + "0"},
	"vmnet-nat66-prefix":       {"fd00:1234::", "fd01::"},
	"pidfile":                  {"/p", "", "--", "=x", "-v", "a=b"},
}

// upstream are socket_vmnet's options.
var upstream = Items(Flags(Old))

// randomLoose are arguments by themselves.
var randomLoose = []string{
	"/s", "/s", "/s", "s", "-", "--", "", "help", "-h", "-v", "-hv", "-vh", "-vp", "-p", "-hp/x", "-x", "-xh", "-h=", "-p=/q",
	"-vmnet-mode=host", "--", "---", "--=", "--=x", "-=", "--x", "--vmnet", "--vmnet-", "--no", "--help=", "--version=1",
	"--vmnet-disable-dhcp=false", "--vmnet-disable-dhcp=", "-é", "--é", "\xff", "-\xff", "--vmnet-mode", "-:", "-;", "-W",
}

// randomArgv makes a command line out of up to six pieces.
func randomArgv(r *rand.Rand) []string {
	argv := []string{"socket_vmnet"}
	for range r.IntN(7) {
		if r.IntN(3) == 0 {
			argv = append(argv, randomLoose[r.IntN(len(randomLoose))])
			continue
		}
		argv = append(argv, randomOption(r)...)
	}
	if r.IntN(3) > 0 {
		argv = append(argv, "/s")
	}
	return argv
}

// randomOption is one option with its argument, its name often cut.
func randomOption(r *rand.Rand) []string {
	o := upstream[r.IntN(len(upstream))]
	if randomValues[o.Name] == nil && r.IntN(4) > 0 {
		o = upstream[r.IntN(len(upstream))] // or most lines would end there
	}
	name := o.Name
	if r.IntN(3) == 0 {
		name = name[:1+r.IntN(len(name))]
	}
	if o.Arg == "" {
		return []string{"--" + name}
	}
	value := randomValues[o.Name][r.IntN(len(randomValues[o.Name]))]
	switch {
	case o.Short != "" && r.IntN(2) == 0:
		if r.IntN(2) == 0 {
			return []string{"-" + o.Short + value}
		}
		return []string{"-" + o.Short, value}
	case r.IntN(3) == 0:
		return []string{"--" + name, value}
	}
	return []string{"--" + name + "=" + value}
}

// A verdict is what the reference says of one command line.
type verdict struct {
	code, stdout, stderr string
	socket               string
	values               map[string]string // options given
}

func decodeVerdict(t *testing.T, text string) verdict {
	t.Helper()
	f := strings.Split(text, "\x00")
	require.GreaterOrEqual(t, len(f), 4, "%q", text)
	v := verdict{code: f[0], stdout: f[1], stderr: f[2], values: map[string]string{}}
	if len(f) == 4 {
		return v
	}
	require.Len(t, f, 16, "%q", text)
	v.socket = f[3]
	for i, given := range f[4:15] {
		if value, ok := strings.CutPrefix(given, "="); ok {
			v.values[upstream[i].Name] = value
		}
	}
	return v
}

// TestDifferential compares Parse with C's getopt_long on random command lines: options, operands, exit code and stream.
func TestDifferential(t *testing.T) {
	t.Parallel()
	bin := reference(t)
	r := seeded(t)
	var lines [][]string
	var in bytes.Buffer
	for range differentialRuns {
		argv := randomArgv(r)
		flags := ""
		if r.IntN(5) == 0 {
			flags = "p"
		}
		lines = append(lines, append([]string{flags}, argv...))
		fmt.Fprintf(&in, "%s\x00%d\x00", flags, len(argv))
		for _, a := range argv {
			in.WriteString(a + "\x00")
		}
	}
	cmd := exec.Command(bin)
	cmd.Stdin = &in
	out, err := cmd.Output()
	require.NoError(t, err)
	verdicts := strings.Split(strings.TrimSuffix(string(out), "\x00\n"), "\x00\n")
	require.Len(t, verdicts, differentialRuns)
	seen := map[string]int{}
	for i, text := range verdicts {
		v := decodeVerdict(t, text+"\x00")
		var env []string
		if lines[i][0] == "p" {
			env = []string{"POSIXLY_CORRECT="}
		}
		kind := compare(t, v, parse(t, Old, lines[i][1:], env...))
		seen[kind]++
		if t.Failed() {
			t.Fatalf("argv %q, POSIXLY_CORRECT %q", lines[i][1:], env)
		}
	}
	t.Logf("%v", seen)
	for _, kind := range []string{"started", "usage 0", "version 0", "usage 1 message", "usage 1 silent"} {
		assert.Greater(t, seen[kind], differentialRuns/200, "too few of kind %q for the test to mean much: %v", kind, seen)
	}
}

// compare checks one command line and tells what kind it was.
func compare(t *testing.T, v verdict, got run) string {
	t.Helper()
	if v.socket == "" && len(v.values) == 0 && (v.stdout != "" || v.code != "0") {
		return compareEnd(t, v, got)
	}
	argv := []string{"socket_vmnet"} // what it says, in one form
	for _, it := range upstream {
		value, given := v.values[it.Name]
		switch {
		case given && it.Arg == "":
			argv = append(argv, "--"+it.Name)
		case given:
			argv = append(argv, "--"+it.Name+"="+value)
		}
	}
	assert.Equal(t, parse(t, Old, append(argv, "--", v.socket)), got)
	if got.cfg == nil { // a value that socket_vmnet hands on unchecked
		assert.Equal(t, 1, got.code)
		assert.Empty(t, got.stdout)
		return "left to vmnet"
	}
	return "started"
}

// compareEnd checks a command line that starts no daemon.
func compareEnd(t *testing.T, v verdict, got run) string {
	t.Helper()
	assert.Nil(t, got.cfg)
	assert.Equal(t, v.code, strconv.Itoa(got.code))
	switch v.stdout {
	case "usage":
		assert.True(t, strings.HasPrefix(got.stdout, "Usage: "), got.stdout)
	default:
		assert.Equal(t, Version+"\n", got.stdout)
	}
	errs := 0
	for line := range strings.Lines(got.stderr) {
		if strings.HasPrefix(line, "ERROR| ") {
			errs++
		}
	}
	kind := v.stdout + " " + v.code
	if v.code == "0" {
		assert.Zero(t, errs)
		return kind
	}
	if v.stderr == "" {
		assert.Zero(t, errs, got.stderr)
		return kind + " silent"
	}
	assert.Equal(t, 1, errs, got.stderr)
	return kind + " message"
}

// TestStrerrorAgainstC compares every number that Go knows with the C library of this machine.
func TestStrerrorAgainstC(t *testing.T) {
	if os.Getenv("MACHRUN") != "" {
		return // the texts are macOS's, and gcc here has Linux's C library
	}
	cmd := exec.Command(reference(t), "strerror")
	cmd.Env = []string{"LC_ALL=C"}
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	require.Len(t, lines, 140)
	for i, want := range lines {
		if !strings.HasPrefix(syscall.Errno(i).Error(), "errno ") {
			assert.Equal(t, want, Strerror(syscall.Errno(i)), "errno %d", i)
		}
	}
}
