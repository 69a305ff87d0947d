// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"embed"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"text/template"
)

//go:embed templates
var templateFiles embed.FS

// templates are the texts of the files. They are made when they are needed, since the daemon is the same program and should not
// wait for them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"xml": func(s string) (string, error) {
			var b strings.Builder
			err := xml.EscapeText(&b, []byte(s))
			return b.String(), err
		},
		"exec": execStart,
		"path": func(j *job, path string) string { return j.inRuntime(path, escapePercent) }, // nothing is quoted in settings
	}).ParseFS(templateFiles, "templates/*.tmpl"))
})

// text is the file of j of this name.
func (j *job) text(name string) (string, error) {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, filepath.Ext(name)[1:]+".tmpl", j); err != nil {
		return "", fmt.Errorf("make the job's file: %w", err)
	}
	return b.String(), nil
}

// plain is what ExecStart= takes as it is.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_/.:=,@+-]+$`) })

// execStart is the command line of j as ExecStart= has it. "%" begins a specifier everywhere, "$" a variable in the arguments
// only.
func execStart(j *job) string {
	words := []string{quoteUnit(escapePercent(j.Program))}
	argument := func(s string) string { return quoteUnit(strings.ReplaceAll(escapePercent(s), "$", "$$")) }
	for i, a := range j.Args {
		if i == len(j.Args)-1 {
			words = append(words, j.inRuntime(a, argument))
		} else {
			words = append(words, argument(a))
		}
	}
	return strings.Join(words, " ")
}

func escapePercent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// inRuntime writes the user's runtime directory as %t, so that the unit is the same for all users.
func (j *job) inRuntime(path string, escape func(string) string) string {
	rest, ok := strings.CutPrefix(path, j.Runtime+"/")
	if j.Runtime == "" || !ok || !plain().MatchString(rest) {
		return escape(path)
	}
	return "%t/" + rest
}

// quoteUnit makes one word of s, which is escaped already as far as "%" and "$" go.
func quoteUnit(s string) string {
	if plain().MatchString(strings.NewReplacer("%", "", "$", "").Replace(s)) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
