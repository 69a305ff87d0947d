// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// head begins a file that breaks no rule.
const head = "// " + spdx + "\n\n"

// TestRulesCanFail gives each rule sources that break it, and ones that do not.
func TestRulesCanFail(t *testing.T) {
	tests := []struct {
		name string
		rule func([]*source) []string
		path string
		text string
		want string // part of a complaint, "" for none
	}{
		{"contract imports a back end", checkOwnImports, "internal/network/x.go", imp(module + "/internal/network/usernet"), "internal/network/usernet"},
		{"bridge knows a client", checkOwnImports, "internal/network/bridge/x.go", imp(module + "/internal/perclient/link"), "internal/perclient/link"},
		{"test imports a program", checkOwnImports, "internal/perclient/link/x_test.go", imp(module + "/cmd/socket_vmnet2"), "cmd/socket_vmnet2"},
		{"file for another platform", checkOwnImports, "internal/frame/x_darwin.go", imp(module + "/internal/state"), "internal/state"},
		{"new package", checkOwnImports, "internal/news/x.go", "package x", "no row in the import table"},

		{"cli outside compat and cmd", checkThirdParty, "internal/perclient/link/x.go", imp("github.com/urfave/cli/v2"), "not for internal/perclient/link"},
		{"cli in compat", checkThirdParty, "internal/compat/x.go", imp("github.com/urfave/cli/v2"), ""},
		{"gvisor outside usernet", checkThirdParty, "internal/network/bridge/x.go", imp("gvisor.dev/gvisor/pkg/tcpip"), "not for internal/network/bridge"},
		{"testify in code", checkThirdParty, "internal/frame/x.go", imp("github.com/stretchr/testify/assert"), "not for internal/frame"},
		{"testify in a test", checkThirdParty, "internal/frame/x_test.go", imp("github.com/stretchr/testify/assert"), ""},
		{"unknown module", checkThirdParty, "internal/frame/x_test.go", imp("example.com/x"), "not on the list"},
		{"standard library", checkThirdParty, "internal/frame/x.go", imp("net/http"), ""},

		{"cgo in internal", checkCgo, "internal/perclient/link/x_darwin.go", imp("C"), "cgo"},
		{"cgo in cmd", checkCgo, "cmd/socket_vmnet2/x.go", imp("C"), "cgo"},
		{"cgo in a macOS test guest", checkCgo, "test/vzguest/x.go", imp("C"), ""},

		{"exported for nothing", checkExported, "internal/x/x.go", "package x\nvar V, v = 1, 2\n", "uses V"},
		{"method for itself", checkExported, "internal/x/x.go", "package x\nfunc (t) M() { t.M() }\n", "uses M"},
		{"method of an interface", checkExported, "internal/x/x.go", "package x\ntype i interface{ M() }\nfunc (t) M() {}\n", ""},

		{"licence", checkSPDX, "x.go", head + "package x\n", ""},
		{"no licence", checkSPDX, "x.go", "package x\n", "does not begin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parse(tt.path, tt.text)
			require.NoError(t, err)
			got := tt.rule([]*source{s})
			if tt.want == "" {
				assert.Empty(t, got)
				return
			}
			require.Len(t, got, 1, "%v", got)
			assert.Contains(t, got[0], tt.want)
			assert.Contains(t, got[0], filepath.Dir(tt.path), "tells where")
		})
	}
}

// imp is a file that imports one package.
func imp(p string) string { return fmt.Sprintf("package x\nimport _ %q\n", p) }

func TestExportedForAnotherPackage(t *testing.T) {
	x, err := parse("internal/x/x.go", "package x\nfunc F() {}\n")
	require.NoError(t, err)
	for file, want := range map[string]int{"internal/x/x_test.go": 1, "internal/y/y_test.go": 0} {
		user, err := parse(file, "package x_test\nimport z \""+module+"/internal/x\"\nvar _ = z.F\n")
		require.NoError(t, err)
		assert.Len(t, checkExported([]*source{x, user}), want, file)
	}
}

func TestSkipsAreFound(t *testing.T) {
	for _, call := range []string{`t.Skip("x")`, `t.Skipf("%d", 1)`, `b.SkipNow()`, `func() { t.Skip() }()`} {
		s, err := parse("internal/x/x_test.go", "package x\nfunc TestX() {\n\tif true { "+call+" }\n}\n")
		require.NoError(t, err)
		assert.Contains(t, strings.Join(checkSkips([]*source{s}), "\n"), "x_test.go:3: TestX skips, but is not on the list", call)
	}
	for text, want := range map[string]string{
		`if os.Getenv("CI") != "" { t.Fatal() }; t.Skip()`: "",
		`t.Skip("darwin: no x")`:                           "",
		`t.Skip()`:                                         "in CI each of them must fail",
		`if os.Getenv("CI") != "" { t.Fatal() }; t.Skip(); t.Skip()`: "has 2 skips and asks for CI 1 times",
	} {
		s, err := parse("internal/x/x_test.go", "package x\nfunc TestX() { "+text+" }\n")
		require.NoError(t, err)
		got := strings.Join(checkSkips([]*source{s}), "\n")
		if want == "" {
			assert.NotContains(t, got, "asks for CI", text)
			continue
		}
		assert.Contains(t, got, want, text)
	}
	bad := checkSkips(nil)
	assert.Len(t, bad, len(skips), "rows that nothing needs")
}

func TestForbiddenDependencies(t *testing.T) {
	for _, d := range []string{"github.com/ebitengine/purego/internal/fakecgo", "testing", module + "/test/lab"} {
		assert.Len(t, checkLinked([]string{"fmt", d}), 1, d)
	}
	assert.Empty(t, checkLinked([]string{"runtime", "internal/testlog", module + "/internal/network"}))
}

func TestLicences(t *testing.T) {
	const bsd = "Redistribution and use in source and binary forms, with or without modification, are permitted"
	for text, want := range map[string]string{
		"                Apache License\n           Version 2.0, January 2004":                           "Apache-2.0",
		"Permission is hereby granted, free of charge, to any person obtaining\na copy of this software": "MIT",
		bsd + " ... * Neither the name of Google Inc. nor the names":                                     "BSD-3-Clause",
		bsd:                                    "BSD-2-Clause",
		"GNU GENERAL PUBLIC LICENSE Version 3": "",
	} {
		assert.Equal(t, want, licenceIn(text))
	}
}
