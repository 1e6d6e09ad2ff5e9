package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"callbook/testdata/proof"
)

// result is what a run came to.
type result struct {
	Date   time.Time   `json:"date"`
	Commit string      `json:"commit"`
	Go     string      `json:"go"`
	System string      `json:"system"`
	Agents int         `json:"agents"`
	Quick  bool        `json:"quick,omitempty"`
	Rows   []rowResult `json:"rows"`
}

type rowResult struct {
	Name string `json:"name"`
	What string `json:"what"`
	figures
	Goals []goalResult `json:"goals,omitempty"`
}

type goalResult struct {
	Goal string `json:"goal"`
	Met  bool   `json:"met"`
}

func newResult(ctx context.Context, s settings) *result {
	return &result{
		Date:   time.Now().UTC(),
		Commit: proof.Commit(ctx),
		Go:     runtime.Version(),
		System: proof.Machine(),
		Agents: s.agents,
		Quick:  s.quick,
	}
}

func (r *result) add(of row, f figures) {
	line := rowResult{Name: of.name, What: of.what, figures: f}
	for _, g := range of.goals {
		line.Goals = append(line.Goals, goalResult{g.String(), g.met(f)})
	}
	r.Rows = append(r.Rows, line)
}

// missed tells whether a goal is missed.
func (r *result) missed() bool {
	return slices.ContainsFunc(r.Rows, func(l rowResult) bool { return l.met() == "no" })
}

// met is the last column of the table.
func (l rowResult) met() string {
	if len(l.Goals) == 0 {
		return ""
	}
	if slices.ContainsFunc(l.Goals, func(g goalResult) bool { return !g.Met }) {
		return "no"
	}
	return "yes"
}

func (r *result) print(s settings, w io.Writer) error {
	if s.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}

	if s.charts != "" {
		if err := r.writeCharts(s.charts); err != nil {
			return err
		}
	}

	text := r.table()
	if s.markdown {
		text = r.markdown()
	}

	_, err := io.WriteString(w, text)
	return err
}

func (r *result) head() string {
	quick := ""
	if r.Quick {
		quick = ", quick and rough"
	}

	return fmt.Sprintf(
		"%s, commit %s, %s, %s, %d agents%s",
		r.Date.Format(time.DateOnly),
		r.Commit,
		r.Go,
		r.System,
		r.Agents,
		quick,
	)
}

var columns = []string{
	"what",
	"requests/s",
	"p50",
	"p99",
	"CPU µs",
	"of floor",
	"× PocketBase",
	"× before",
	"figure",
	"goal",
	"met",
}

// table is the result for a terminal.
func (r *result) table() string {
	lines := [][]string{columns}
	for _, l := range r.Rows {
		lines = append(lines, l.cells())
	}

	var b strings.Builder
	b.WriteString(r.head() + "\n\n" + aligned(lines))
	for _, l := range r.Rows {
		for i, note := range l.Notes {
			if i == 0 {
				fmt.Fprintf(&b, "\n%s:\n", l.What)
			}

			fmt.Fprintf(&b, "  %s\n", note)
		}
	}

	return b.String()
}

func (l rowResult) cells() []string {
	var goals []string
	for _, g := range l.Goals {
		goals = append(goals, g.Goal)
	}

	return []string{
		l.What,
		number(l.Rate, "%.0f"),
		shortTime(l.P50),
		shortTime(l.P99),
		number(float64(l.CPU)/1e3, "%.1f"),
		number(l.OfFloor, "%.3f"),
		number(l.TimesPocketBase, "%.1f"),
		number(l.TimesBefore, "%.2f"),
		l.value(),
		strings.Join(goals, ", "),
		l.met(),
	}
}

func (l rowResult) value() string {
	if l.Unit == "" {
		return ""
	}
	if l.Value >= 1000 {
		return fmt.Sprintf("%.0f %s", l.Value, l.Unit)
	}
	return fmt.Sprintf("%.3g %s", l.Value, l.Unit)
}

// number is empty for what was not measured.
func number(n float64, format string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}

func shortTime(d time.Duration) string {
	switch {
	case d == 0:
		return ""

	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())

	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}

	return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
}

// aligned sets cells in columns: the first and the last two to the left.
func aligned(lines [][]string) string {
	widths := make([]int, len(columns))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}

	var b strings.Builder
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if left := i == 0 || i >= len(columns)-2; left {
				cell += space
			} else {
				cell = space + cell
			}

			text.WriteString(cell + "  ")
		}

		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}

	return b.String()
}

// markdown is the result as README.md has it.
func (r *result) markdown() string {
	var b strings.Builder
	b.WriteString(
		r.head() + "\n\n| what | a second | p99 | of floor | × PocketBase | × before | figure | goal | met |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n",
	)

	for _, l := range r.Rows {
		c := l.cells()
		fmt.Fprintf(
			&b,
			"| %s |\n",
			strings.Join([]string{c[0], c[1], c[3], c[5], c[6], c[7], c[8], c[9], c[10]}, " | "),
		)
	}

	return b.String()
}
