// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write "+pagePath)

func TestMain(m *testing.M) {
	if done, err := otherRole(); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestScenes plays everything: each cause must be named by what the commands print, nothing may be said of a daemon in order, and
// the page must look like what is printed now.
func TestScenes(t *testing.T) {
	w, err := newWorld(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.remove()) })
	list, missing := scenes, lookForTools()
	if missing != nil {
		list = slices.DeleteFunc(slices.Clone(scenes), func(s scene) bool { return s.tools })
	}
	results := playAll(t.Context(), w, list)
	for _, r := range results {
		for _, s := range r.Sections {
			t.Logf("%s, %s:\n%s", r.Scene, s.Name, s.Text)
		}
		assert.NoError(t, r.err())
	}
	if t.Failed() {
		return
	}
	if missing != nil && os.Getenv("CI") != "true" {
		t.Skipf("the scenes without virtual machines were played; %v", missing)
	}
	require.NoError(t, missing)
	page, err := fillPage(results)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("../../"+pagePath, []byte(page), 0o644))
		return
	}
	is, err := os.ReadFile("../../" + pagePath)
	require.NoError(t, err)
	assert.Empty(t, differences(string(is), page), "if the programs are right: make diagnose")
}

// TestScenesFail: a scene in which nothing is wrong fails, and so does one that says the wrong thing.
func TestScenesFail(t *testing.T) {
	w := &world{dir: t.TempDir()} // without programs
	r := play(t.Context(), w, scene{name: "x", play: func(s *stage) {
		s.page.section("wrong")
		s.names(s.show("echo the subnet is used by vpn0"), "SUBNET", "vpn1")
		s.silent("a Problem", "problem")
		s.names(s.show("exit 3"))
	}})
	require.Len(t, r.Faults, 2)
	assert.Contains(t, r.Faults[0], `"vpn1" is not named`)
	assert.Contains(t, r.Faults[1], `"problem" is named`)
	text, ok := r.get("wrong")
	require.True(t, ok)
	assert.Equal(t, "$ echo the subnet is used by vpn0\nthe subnet is used by vpn0\n$ exit 3\n(exit code 3)\n", text)
}

// TestVPNHere: only a scene in a namespace of its own makes interfaces.
func TestVPNHere(t *testing.T) {
	err := vpn("vpn0", netip.MustParsePrefix("192.168.105.77/24"))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = net.InterfaceByName("vpn0")
	assert.Error(t, err)
}

func TestShape(t *testing.T) {
	same := func(a, b string) { t.Helper(); assert.Empty(t, differences(a, b)); assert.Empty(t, differences(b, a)) }
	same("alpha  192.168.105.3  1.2 KiB   3m12s", "alpha 192.168.105.17   980 B 7s")
	same("since 2026-11-22T09:15:27.123Z: 1 frame", "since 2026-11-23T19:05:02Z: 200 frames")
	same("pid 12, 52:54:00:aa:bb:cc", "pid 12345, 52:54:00:0a:0b:0c")
	same("socket_vmnet2 v0.0.0-abc.m", "socket_vmnet2 v1.2.3")
	for name, pair := range map[string][2]string{
		"word":        {"health: nothing", "health: something"},
		"line less":   {"a\nb", "a"},
		"line more":   {"a", "a\nb"},
		"no number":   {"leased: 3", "leased: none"},
		"column gone": {"alpha 3 4", "alpha x 4"},
	} {
		assert.NotEmpty(t, differences(pair[0], pair[1]), name)
	}
}

// TestPageTemplate: what a template asks for must be there, and what was printed must be asked for.
func TestPageTemplate(t *testing.T) {
	r := &result{Scene: "a"}
	r.section("b")
	r.add(strings.NewReplacer("/tmp/0123456", shownDir), "ls /tmp/0123456", "/tmp/0123456/sock  \n", 0)
	keep := pageTemplate
	t.Cleanup(func() { pageTemplate = keep })
	pageTemplate = `x {{show "a" "b"}}`
	page, err := fillPage([]*result{r})
	require.NoError(t, err)
	assert.Equal(t, "x ```text\n$ ls /tmp/example\n/tmp/example/sock\n```", page)
	pageTemplate = `x {{show "a" "c"}}`
	_, err = fillPage([]*result{r})
	require.ErrorContains(t, err, `no section "c"`)
	pageTemplate = "x"
	_, err = fillPage([]*result{r})
	require.ErrorContains(t, err, `section "b" of the scene "a" is not on the page`)
}

// TestGuest: the lines that a guest takes, and what it says to others.
func TestGuest(t *testing.T) {
	var out strings.Builder
	in := strings.NewReader("nonsense\n\nstatic\nping here\nflood x\nquiet\n")
	require.NoError(t, runGuest([]string{"vm-x", t.TempDir() + "/none", macAlpha}, in, &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 6)
	for _, line := range lines[:5] {
		assert.True(t, strings.HasPrefix(line, "error: "), line)
	}
	assert.Equal(t, "ok", lines[5])
	require.Error(t, runGuest([]string{"vm-x"}, in, &out))
	require.Error(t, runGuest([]string{"vm-x", "s", "no address"}, in, &out))
}
