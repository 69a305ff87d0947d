// SPDX-License-Identifier: Apache-2.0

// Package pages makes the pages of the report from templates, in which every figure is computed from raw rounds.
//
// What a template may call, beside what text/template has:
//
//	runs "SERIES"                    the files that have a series, to range over; RUN below is one of them
//	table RUN "KIND" "QUERY"         a table of the set-ups that match: rates, costs, trips, tcp, memory, start, idle
//	plot RUN "KIND" "QUERY"          a plot of them, as plots/RUN-KIND.svg: the names are in plots.go
//	figure RUN "METRIC" "QUERY"      one figure with its unit; the names are in figures.Metrics
//	ratio RUN "METRIC" "QUERY" "QUERY"    the first by the second, as 1.23x
//	targets, summary                 the table of all targets; how many are met
//	machines, macs                   where and when each file was made; which of them on a Mac
//	raw                              the directory of the raw rounds, for links
//	published "ID"                   a table of what others have published; peerSets "PREFIX" are the ids to range over
//	fall RUN                         a plot of what others have published beside ours
//	note "ID", notes                 a figure that no round has, as a profile's, from notes.json; the table of all of them
//	notMeasured                      what stands where there are no rounds
//
// A query is like "series=sizes relay=daemon transport=stream sender=batch direction=client-to-client frame=64 clients=2 active=2".
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/output"
)

//go:embed templates/*.md.tmpl
var templates embed.FS

// A Source is all that pages are made from.
type Source struct {
	Runs  []*figures.Run
	Peers Peers
	Notes Notes
	Raw   string // the directory of the raw rounds as links name it, as seen from the pages
}

// Make makes every page and plot.
func Make(from Source) (output.Files, error) {
	names, err := fs.Glob(templates, "templates/*.md.tmpl")
	if err != nil {
		return nil, err
	}
	m := maker{from, output.Files{}}
	for _, name := range names {
		text, err := templates.ReadFile(name)
		if err != nil {
			return nil, err
		}
		page := strings.TrimSuffix(path.Base(name), ".tmpl")
		b, err := m.page(page, string(text))
		if err != nil {
			return nil, err
		}
		m.files[page] = b
	}
	return m.files, nil
}

// A maker collects the files of a report.
type maker struct {
	Source
	files output.Files
}

// emptyLines are more of them than Markdown needs, which a template leaves where there is nothing to show.
var emptyLines = regexp.MustCompile(`\n{3,}`)

// page renders a template.
func (m maker) page(name, text string) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(m.funcs()).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template of %s: %w", name, err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s from raw/*.json and templates: make report. Do not edit. -->\n\n", output.Mark)
	if err := t.Execute(&b, m.Runs); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return append(bytes.TrimSpace(emptyLines.ReplaceAll(b.Bytes(), []byte("\n\n"))), '\n'), nil
}

func (m maker) funcs() template.FuncMap {
	return template.FuncMap{
		"runs":        func(series string) []*figures.Run { return figures.Of(m.Runs, series) },
		"table":       makeTable,
		"plot":        m.plot,
		"figure":      oneFigure,
		"ratio":       oneRatio,
		"targets":     func() (string, error) { return targetTable(m.Runs) },
		"summary":     func() (string, error) { return summary(m.Runs) },
		"machines":    m.machines,
		"raw":         func() string { return m.Raw },
		"macs":        func() string { return macs(m.Runs) },
		"published":   m.Peers.table,
		"peerSets":    m.Peers.ids,
		"fall":        m.fall,
		"note":        m.Notes.value,
		"notes":       m.Notes.table,
		"notMeasured": func() string { return notMeasured },
	}
}

// add puts a plot among the files and returns how a page shows it: nothing if there is no plot.
func (m maker) add(name, title string, svg []byte) (string, error) {
	if svg == nil {
		return "", nil
	}
	file := output.Plots + "/" + name + ".svg"
	if old, ok := m.files[file]; ok && !bytes.Equal(old, svg) {
		return "", fmt.Errorf("two plots would be %s", file)
	}
	m.files[file] = svg
	return fmt.Sprintf("![%s](%s)", title, file), nil
}

func (m maker) plot(run *figures.Run, kind, query string) (string, error) {
	title, svg, err := makePlot(run, kind, query)
	if err != nil {
		return "", err
	}
	return m.add(run.Name+"-"+kind, title, svg)
}

func (m maker) fall(run *figures.Run) (string, error) {
	title, svg, err := m.Peers.scaling(run)
	if err != nil {
		return "", err
	}
	return m.add(run.Name+"-fall", title, svg)
}

// group is what a metric and a query mean.
func group(run *figures.Run, metric, query string) (figures.Metric, figures.Group, error) {
	m, ok := figures.Metrics[metric]
	if !ok {
		return m, nil, fmt.Errorf("there is no metric %q", metric)
	}
	q, err := figures.ParseQuery(query)
	if err != nil {
		return m, nil, err
	}
	g, err := run.Group(q)
	return m, g, err
}

func oneFigure(run *figures.Run, metric, query string) (string, error) {
	m, g, err := group(run, metric, query)
	if err != nil {
		return "", err
	}
	v, ok := m.Of(g)
	if !ok {
		return "(not measured)", nil
	}
	return figures.Format(v.Value) + " " + m.Unit, nil
}

func oneRatio(run *figures.Run, metric, subject, base string) (string, error) {
	m, s, err := group(run, metric, subject)
	if err != nil {
		return "", err
	}
	_, b, err := group(run, metric, base)
	if err != nil {
		return "", err
	}
	r, ok := figures.Compare(m, s, b)
	if !ok {
		return "(not measured)", nil
	}
	return figures.Format(r.Ratio) + "x", nil
}

// machines is the table of the runs.
func (m maker) machines() string {
	var b strings.Builder
	b.WriteString("| raw rounds | made by | machine | commit | date | load average before and after |\n|---|---|---|---|---|---|\n")
	for _, r := range m.Runs {
		on := r.Machine
		with := strings.Join(slices.DeleteFunc(append([]string{on.Go, on.CC}, on.Programs...), func(s string) bool { return s == "" }), ", ")
		fmt.Fprintf(&b, "| [%s.json](%s/%s.json), %s | %s | %s, %d cores, %s, %s | %s | %s | %s; %s |\n", r.Name, m.Raw, r.Name,
			plural(len(r.Rounds), "round"), code(r.Command), escape(on.CPU), on.Cores, escape(on.Kernel), escape(with), code(on.Commit),
			on.Date.UTC().Format("2006-01-02 15:04 UTC"), escape(on.LoadBegin), escape(on.LoadEnd))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// macs says which runs were made on macOS.
func macs(runs []*figures.Run) string {
	var on []string
	for _, r := range runs {
		if r.Machine.OS == "darwin" {
			on = append(on, code(r.Name+".json"))
		}
	}
	if len(on) == 0 {
		return "**None of our figures was measured on a Mac.**"
	}
	return "Of our figures, those of " + strings.Join(on, ", ") + " were measured on a Mac and no others."
}
