// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"howett.net/plist"
)

// languages are what a fenced block may be, with what looks at it; nil for those that another test has, or nobody can.
var languages = map[string]func(string) error{
	"yaml": yamlBlock, "json": jsonBlock, "ini": iniBlock, "xml": plistBlock, "go": goBlock,
	"": nil, "text": nil, "sh": nil, "bash": nil, "console": nil, "mermaid": nil, "diff": nil, "c": nil, "ruby": nil, "make": nil, "makefile": nil,
}

// TestData parses the blocks that are no commands.
func TestData(t *testing.T) {
	looked := map[string]int{}
	for _, page := range pages(t) {
		for _, b := range blocksOf(page, read(t, page)) {
			look, ok := languages[b.language]
			assert.True(t, ok, "%s:%d: what is %q?", b.page, b.line, b.language)
			if look != nil {
				assert.NoError(t, look(b.text), "%s:%d", b.page, b.line)
				looked[b.language]++
			}
		}
	}
	t.Log(looked)
	for _, language := range []string{"yaml", "json", "ini", "xml", "go"} {
		assert.Positive(t, looked[language], language)
	}
}

// TestDataRefuses: what is wrong is found.
func TestDataRefuses(t *testing.T) {
	for name, err := range map[string]error{
		"yaml":               yamlBlock("a: [1\n"),
		"network":            yamlBlock("networks:\n- sockets: /tmp/s\n"),
		"networks as a text": yamlBlock("networks: /tmp/s\n"),
		"json":               jsonBlock(`{"a":1,}`),
		"ini":                iniBlock("[Service]\nExecStart /bin/x\n"),
		"section":            iniBlock("ExecStart=/bin/x\n"),
		"plist":              plistBlock("<key>Label</key><integer>x</integer>"),
		"go":                 goBlock("link, err := "),
	} {
		assert.Error(t, err, name)
	}
}

// networkKeys are what an entry of networks in a lima.yaml may have.
var networkKeys = map[string]bool{"lima": true, "socket": true, "vzNAT": true, "macAddress": true, "interface": true, "metric": true}

// yamlBlock parses it. In a lima.yaml networks is a list; in Lima's networks.yaml, which has paths, it is a map.
func yamlBlock(text string) error {
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	networks, ok := v["networks"]
	if !ok {
		return nil
	}
	switch n := networks.(type) {
	case map[string]any:
		return nil
	case []any:
		for _, entry := range n {
			m, ok := entry.(map[string]any)
			if !ok {
				return fmt.Errorf("%v is no network", entry)
			}
			for key := range m {
				if !networkKeys[key] {
					return fmt.Errorf("networks have no key %s", key)
				}
			}
		}
		return nil
	}
	return fmt.Errorf("networks: %v is no list", networks)
}

// jsonBlock parses it; there may be several values, and dots for what was left out.
func jsonBlock(text string) error {
	text = regexp.MustCompile(`,?\s*(\.\.\.|…)`).ReplaceAllString(text, "")
	d := json.NewDecoder(strings.NewReader(text))
	for {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// iniBlock parses a unit of systemd, or lines like it.
func iniBlock(text string) error {
	section := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case regexp.MustCompile(`^\[\w+\]$`).MatchString(line):
			section = true
		case !section || !regexp.MustCompile(`^[A-Z]\w+=`).MatchString(line):
			return fmt.Errorf("%q is no line of a unit", line)
		}
	}
	return nil
}

// plistBlock parses a property list, or what stands in its dictionary.
func plistBlock(text string) error {
	if !strings.Contains(text, "<plist") {
		text = `<plist version="1.0"><dict>` + text + `</dict></plist>`
	}
	var v map[string]any
	return plist.NewDecoder(bytes.NewReader([]byte(text))).Decode(&v)
}

// goBlock parses a file, declarations or statements.
func goBlock(text string) error {
	var errs []error
	for _, around := range []string{"%s", "package p\n%s", "package p\nfunc f() {\n%s\n}"} {
		_, err := parser.ParseFile(token.NewFileSet(), "", fmt.Sprintf(around, text), parser.AllErrors)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
