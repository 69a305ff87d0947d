// SPDX-License-Identifier: Apache-2.0

package service

import (
	"embed"
	"encoding/xml"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"howett.net/plist"
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

// text is the file of j that the template of this name makes.
func (j *job) text(name string) (string, error) {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, name, j); err != nil {
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

// inRuntime writes the user's runtime directory as %t, so that the unit is the same for everybody.
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

// unitWord is a word of ExecStart= as quoteUnit writes it.
var unitWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\S+`) })

// unitArguments is the command line in ExecStart= of a unit, as this package writes it, without the program. runtime is what %t
// stands for.
func unitArguments(text, runtime string) (args []string) {
	_, line, _ := strings.Cut(text, "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	for i, word := range unitWord().FindAllString(line, -1) {
		if unquoted, err := strconv.Unquote(word); err == nil {
			word = unquoted
		}
		if i > 0 {
			args = append(args, strings.NewReplacer("%%", "%", "%t", runtime, "$$", "$").Replace(word))
		}
	}
	return args
}

// launchdArguments are the ProgramArguments of a property list without the program.
func launchdArguments(text string) []string {
	var job struct{ ProgramArguments []string }
	if _, err := plist.Unmarshal([]byte(text), &job); err != nil || len(job.ProgramArguments) < 2 {
		return nil
	}
	return job.ProgramArguments[1:]
}
