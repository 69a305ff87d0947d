// SPDX-License-Identifier: Apache-2.0

package service

import (
	"embed"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"text/template"
)

//go:embed templates
var templateFiles embed.FS

// templates are the texts of the files. What comes out of them is given to the library as a template of its own, in which "{{"
// would be a key: none of the functions lets that through. They are made when they are needed, since the daemon is the same program
// and should not wait for them.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"xml":   escapeXML,
		"exec":  execStart,
		"path":  unitPath,
		"octal": func(mode int) string { return fmt.Sprintf("%04o", mode) },
	}).ParseFS(templateFiles, "templates/*.tmpl"))
})

// text is the file of j that the template of this name makes.
func (j *Job) text(name string) (string, error) {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, name, j); err != nil {
		return "", fmt.Errorf("make the job's file: %w", err)
	}
	return b.String(), nil
}

// escapeXML makes s the text of an XML element.
func escapeXML(s string) (string, error) {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "", err
	}
	return strings.ReplaceAll(b.String(), "{", "&#123;"), nil
}

// plain is what ExecStart= takes as it is.
var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_/.:=,@+-]+$`) })

// execStart is the command line of j as ExecStart= has it. "%" begins a specifier everywhere, "$" a variable in the arguments
// only.
func execStart(j *Job) string {
	words := []string{quoteUnit(strings.ReplaceAll(j.Program, "%", "%%"))}
	for i, a := range j.Args {
		if i == len(j.Args)-1 {
			words = append(words, j.inRuntime(a, func(s string) string { return quoteUnit(strings.ReplaceAll(escapePercent(s), "$", "$$")) }))
			continue
		}
		words = append(words, quoteUnit(strings.ReplaceAll(escapePercent(a), "$", "$$")))
	}
	return strings.Join(words, " ")
}

// unitPath is a path as a setting of a unit has it: nothing is quoted there.
func unitPath(j *Job, path string) string { return j.inRuntime(path, escapePercent) }

func escapePercent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// inRuntime writes the user's runtime directory as %t, so that the unit is the same for everybody.
func (j *Job) inRuntime(path string, escape func(string) string) string {
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
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `{`, `\x7b`).Replace(s) + `"`
}
