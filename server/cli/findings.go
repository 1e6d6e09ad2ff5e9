package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// findings prints the results of a check and counts the problems. A note is no problem.
type findings struct {
	out  io.Writer
	json bool // print all at the end, as JSON

	// Settings are the settings in force by variable, or by limits.NAME; without passwords.
	Settings map[string]string `json:"settings"`
	Findings []finding         `json:"findings"`
	Problems int               `json:"problems"`
}

// finding is one result. Its verdict is ok, note or error.
type finding struct {
	Verdict string `json:"verdict"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// printf prints a finding, or adds it to the JSON object.
func (f *findings) printf(verdict, subject, format string, args ...any) {
	one := finding{strings.ToLower(verdict), subject, fmt.Sprintf(format, args...)}
	if f.json {
		f.Findings = append(f.Findings, one)
		return
	}
	fmt.Fprintf(f.out, "%-6s%-10s%s\n", verdict, subject, one.Text)
}

// setting prints a setting in force, or adds it to the JSON object.
func (f *findings) setting(name, value string) {
	f.Settings[name] = value
	if !f.json {
		fmt.Fprintf(f.out, "%s=%s\n", name, value)
	}
}

// end prints the JSON object, if that is wanted.
func (f *findings) end() error {
	if !f.json {
		return nil
	}
	out := json.NewEncoder(f.out)
	out.SetIndent("", "  ")
	return out.Encode(f)
}

func (f *findings) ok(subject, format string, args ...any) {
	f.printf("ok", subject, format, args...)
}

func (f *findings) note(subject, format string, args ...any) {
	f.printf("note", subject, format, args...)
}

func (f *findings) problem(subject, format string, args ...any) {
	f.Problems++
	f.printf("ERROR", subject, format, args...)
}
