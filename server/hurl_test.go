package server

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// This file parses the part of Hurl's syntax (https://hurl.dev) that the API scripts use. It is
// stricter than Hurl: unknown syntax is an error.

type hurlEntry struct {
	request       hurlLine // METHOD url
	headers       []hurlLine
	query         []hurlLine
	form          []hurlLine
	repeat        int           // how often it is sent, at least 1
	retry         int           // how often it is sent again while the answer is not right
	delay         time.Duration // how long to wait before it
	body          []byte
	isJSON        bool
	status        hurlLine // what stands behind HTTP
	headersWanted []hurlLine
	captures      []hurlLine
	asserts       []hurlLine
}

// hurlLine is a line of a script: for "name: value" both parts, else name only.
type hurlLine struct {
	at          int
	name, value string
}

var (
	hurlSection = regexp.MustCompile(`^\[([A-Za-z]+)\]$`)
	hurlRequest = regexp.MustCompile(`^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (\S+)$`)
	hurlPair    = regexp.MustCompile(`^([A-Za-z0-9_-]+): (.+)$`)
	hurlToken   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/|\S+`)
	hurlStep    = regexp.MustCompile(`^(?:\.([A-Za-z0-9_-]+)|\[(\d+)\]|\['([^']+)'\])`)
	hurlUse     = regexp.MustCompile(`\{\{([a-zA-Z_0-9]+)\}\}`)
)

// hurlParser walks through the lines of one script.
type hurlParser struct {
	folder  string
	lines   []string
	next    int
	entries []*hurlEntry
	section string
}

func parseHurl(path string) ([]*hurlEntry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &hurlParser{folder: filepath.Dir(path), lines: strings.Split(string(text), "\n")}
	for p.next < len(p.lines) {
		line := strings.TrimSpace(p.lines[p.next])
		p.next++
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.parseLine(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, p.next, err)
		}
	}
	return p.entries, nil
}

func (p *hurlParser) parseLine(line string) error {
	if m := hurlRequest.FindStringSubmatch(line); m != nil {
		p.entries = append(p.entries, &hurlEntry{request: hurlLine{p.next, m[1], m[2]}, repeat: 1})
		p.section = "request"
		return nil
	}
	if len(p.entries) == 0 {
		return fmt.Errorf("%q before the first request", line)
	}
	e := p.entries[len(p.entries)-1]
	if status, ok := strings.CutPrefix(line, "HTTP "); ok {
		e.status, p.section = hurlLine{p.next, "status", status}, "answer"
		return nil
	}
	if m := hurlSection.FindStringSubmatch(line); m != nil {
		p.section = m[1]
		return nil
	}
	if e.status.at == 0 && strings.ContainsAny(line[:1], "{[`fh") && hurlPair.FindString(line) == "" {
		return p.body(e, line)
	}
	if p.section == "Asserts" {
		e.asserts = append(e.asserts, hurlLine{p.next, line, ""})
		return nil
	}
	m := hurlPair.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("what is %q?", line)
	}
	return p.pair(e, hurlLine{p.next, m[1], m[2]})
}

func (p *hurlParser) pair(e *hurlEntry, line hurlLine) (err error) {
	switch p.section {
	case "request":
		e.headers = append(e.headers, line)
	case "Query":
		e.query = append(e.query, line)
	case "Form":
		e.form = append(e.form, line)
	case "answer":
		e.headersWanted = append(e.headersWanted, line)
	case "Captures":
		e.captures = append(e.captures, line)
	case "Options":
		err = e.option(line)
	default:
		err = fmt.Errorf("section %s is not supported", p.section)
	}
	return err
}

func (e *hurlEntry) option(line hurlLine) (err error) {
	switch line.name {
	case "repeat":
		e.repeat, err = strconv.Atoi(line.value)
	case "retry":
		e.retry, err = strconv.Atoi(line.value)
	case "delay":
		e.delay, err = time.ParseDuration(line.value)
	case "retry-interval": // of no matter here
	default:
		err = fmt.Errorf("option %s is not supported", line.name)
	}
	return err
}

// body reads JSON up to the line HTTP, a text in backticks, file,name; or hex,…;.
func (p *hurlParser) body(e *hurlEntry, line string) (err error) {
	switch {
	case line[0] == '`':
		e.body = []byte(strings.Trim(line, "`"))
		if strings.Contains(line, `\`) {
			return fmt.Errorf("Hurl would unescape this text")
		}
	case strings.HasPrefix(line, "file,"):
		e.body, err = os.ReadFile(filepath.Join(p.folder, strings.TrimSuffix(line[len("file,"):], ";")))
	case strings.HasPrefix(line, "hex,"):
		e.body, err = hex.DecodeString(strings.TrimSuffix(line[len("hex,"):], ";"))
	default:
		e.isJSON = true
		first := p.next - 1
		for p.next < len(p.lines) && !strings.HasPrefix(p.lines[p.next], "HTTP ") {
			p.next++
		}
		e.body = []byte(strings.TrimSpace(strings.Join(p.lines[first:p.next], "\n")))
	}
	return err
}

// query evaluates jsonpath "…", header "…" or body, with the filters count and regex /…(…)…/ behind it; it returns the
// tokens that follow. found is false where there is nothing.
func (a *result) query(tokens []string) (value any, found bool, rest []string, err error) {
	argument := ""
	rest = tokens[1:]
	if tokens[0] == "jsonpath" || tokens[0] == "header" {
		argument, rest = unquoteHurl(tokens[1]).(string), tokens[2:]
	}
	switch tokens[0] {
	case "jsonpath":
		value, found, err = a.jsonPath(argument)
	case "header":
		value, found = a.Header.Get(argument), len(a.Header.Values(argument)) > 0
	case "body":
		value, found = string(a.Body), true
	default:
		err = fmt.Errorf("query %s is not supported", tokens[0])
	}
	for err == nil && len(rest) > 0 {
		switch {
		case rest[0] == "count":
			list, ok := value.([]any)
			if !ok {
				return nil, false, nil, fmt.Errorf("%v is no list to count", value)
			}
			value, rest = float64(len(list)), rest[1:]
		case rest[0] == "regex" && len(rest) > 1:
			value, found, err = captureRegex(value, rest[1])
			rest = rest[2:]
		default:
			return value, found, rest, nil
		}
	}
	return value, found, rest, err
}

// captureRegex returns the first group of an expression in a text.
func captureRegex(value any, literal string) (any, bool, error) {
	text, isText := value.(string)
	pattern, isPattern := unquoteHurl(literal).(string)
	if !isText || !isPattern {
		return nil, false, fmt.Errorf("regex %s of %T", literal, value)
	}
	expression, err := regexp.Compile(pattern)
	if err != nil || expression.NumSubexp() != 1 {
		return nil, false, fmt.Errorf("regex %s: one group is needed: %w", literal, err)
	}
	m := expression.FindStringSubmatch(text)
	if m == nil {
		return nil, false, nil
	}
	return m[1], true, nil
}

func (a *result) jsonPath(path string) (value any, found bool, err error) {
	if err := json.Unmarshal(a.Body, &value); err != nil {
		return nil, false, fmt.Errorf("the answer is not JSON: %w", err)
	}
	for rest := strings.TrimPrefix(path, "$"); rest != ""; {
		m := hurlStep.FindStringSubmatch(rest)
		if m == nil {
			return nil, false, fmt.Errorf("path %s is not supported", path)
		}
		rest = rest[len(m[0]):]
		if m[2] == "" {
			object, _ := value.(map[string]any)
			if value, found = object[cmp.Or(m[1], m[3])]; !found {
				return nil, false, nil
			}
			continue
		}
		list, _ := value.([]any)
		i, _ := strconv.Atoi(m[2])
		if i >= len(list) {
			return nil, false, nil
		}
		value = list[i]
	}
	return value, true, nil
}

// holds evaluates a predicate such as == "x" on a value.
func holds(value any, found bool, tokens []string) (bool, error) {
	if len(tokens) > 0 && tokens[0] == "not" {
		ok, err := holds(value, found, tokens[1:])
		return !ok, err
	}
	if len(tokens) == 1 && tokens[0] == "exists" {
		return found, nil
	}
	if len(tokens) != 2 {
		return false, fmt.Errorf("predicate %q is not supported", tokens)
	}
	want := unquoteHurl(tokens[1])
	text, isText := value.(string)
	part, _ := want.(string)
	switch tokens[0] {
	case "==":
		return found && reflect.DeepEqual(value, want), nil
	case "!=":
		return found && !reflect.DeepEqual(value, want), nil
	case "contains":
		return isText && strings.Contains(text, part), nil
	case "startsWith":
		return isText && strings.HasPrefix(text, part), nil
	case "matches":
		matched, err := regexp.MatchString(part, text)
		return isText && matched, err
	}
	return false, fmt.Errorf("predicate %s is not supported", tokens[0])
}

// unquoteHurl reads a literal: "text", /expression/, a number, true, false, null.
func unquoteHurl(token string) (v any) {
	if len(token) > 1 && token[0] == '/' {
		return strings.ReplaceAll(token[1:len(token)-1], `\/`, "/")
	}
	if json.Unmarshal([]byte(token), &v) != nil {
		return token
	}
	return v
}

// check captures values, and returns the failed expectations as "line: problem".
func (e *hurlEntry) check(a *result, variables map[string]string) (problems []string) {
	add := func(line hurlLine, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%d: ", line.at)+fmt.Sprintf(format, args...))
	}
	if e.status.value != strconv.Itoa(a.Status) {
		add(e.status, "status %d, want %s: %.300s", a.Status, e.status.value, a.Body)
	}
	for _, line := range e.headersWanted {
		if want := fill(line.value, variables); a.Header.Get(line.name) != want {
			add(line, "header %s is %q, want %q", line.name, a.Header.Get(line.name), want)
		}
	}
	for _, line := range e.captures {
		value, found, rest, err := a.query(hurlToken.FindAllString(line.value, -1))
		if err != nil || !found || len(rest) > 0 {
			add(line, "there is nothing to capture as %s", line.name)
		}
		variables[line.name] = fmt.Sprint(value)
	}
	for _, line := range e.asserts {
		text := fill(line.name, variables)
		value, found, predicate, err := a.query(hurlToken.FindAllString(text, -1))
		ok := false
		if err == nil {
			ok, err = holds(value, found, predicate)
		}
		if strings.Contains(text, unknownVariable) {
			err = errors.New("it uses a variable that is not known")
		}
		switch {
		case err != nil:
			add(line, "%s: %v", line.name, err)
		case !found && !ok:
			add(line, "%s: there is none: %.300s", line.name, a.Body)
		case !ok:
			add(line, "%s: it is %.300s", line.name, fmt.Sprint(value))
		}
	}
	return problems
}

// fill inserts the variables, and marks unknown ones, so that no value equals them.
func fill(text string, variables map[string]string) string {
	return hurlUse.ReplaceAllStringFunc(text, func(use string) string {
		if value, ok := variables[strings.Trim(use, "{}")]; ok {
			return value
		}
		return unknownVariable + use
	})
}

const unknownVariable = "unknown variable "

// newRequest makes the entry's request.
func (e *hurlEntry) newRequest(variables map[string]string) (*http.Request, error) {
	address := fill(e.request.value, variables)
	var query []string
	for _, line := range e.query {
		query = append(query, line.name+"="+url.QueryEscape(fill(line.value, variables)))
	}
	if len(query) > 0 {
		address += "?" + strings.Join(query, "&")
	}
	body := fill(string(e.body), variables)
	if len(e.form) > 0 {
		fields := url.Values{}
		for _, line := range e.form {
			fields.Add(line.name, fill(line.value, variables))
		}
		body = fields.Encode()
	}
	if strings.Contains(address+body, unknownVariable) || strings.Contains(body, url.QueryEscape(unknownVariable)) {
		return nil, fmt.Errorf("line %d: the request uses a variable that is not known", e.request.at)
	}
	r, err := http.NewRequest(e.request.name, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if e.isJSON {
		r.Header.Set("Content-Type", "application/json")
	}
	if len(e.form) > 0 {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, line := range e.headers {
		r.Header.Set(line.name, fill(line.value, variables))
	}
	return r, nil
}
