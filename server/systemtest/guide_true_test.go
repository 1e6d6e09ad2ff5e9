package systemtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"callbook/server/api"
	"callbook/server/documents"
)

// directory holds the descriptions of the service, with which the guide is compared.
type directory struct {
	index, openapi map[string]any
	text           string // of both
}

func newDirectory(p *program) (d directory) {
	p.Helper()
	for path, into := range map[string]*map[string]any{"/api": &d.index, "/openapi.json": &d.openapi} {
		_, text := p.call("GET", path, "")
		if err := json.Unmarshal([]byte(text), into); err != nil {
			p.Fatal(err)
		}
		d.text += text
	}
	return d
}

// errorStatuses returns the status of each error code.
func errorStatuses() map[string]string {
	statuses := map[string]string{}
	for code, e := range api.ErrorMessages {
		statuses[string(code)] = strconv.Itoa(e.Status)
	}
	return statuses
}

// operations returns all operations of GET /api, as in "GET /api/agents/{}".
func (d directory) operations() (operations []string) {
	for _, endpoint := range d.index["endpoints"].([]any) {
		method, rest, _ := strings.Cut(endpoint.(string), " ")
		path, _, _ := strings.Cut(rest, " ")
		operations = append(operations, method+" "+anyID.ReplaceAllString(path, "{}"))
	}
	slices.Sort(operations)
	return operations
}

var (
	anyID     = regexp.MustCompile(`\{\w+\}|\$[A-Z]+`)
	namedCall = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE) (/api\S*)$`)
	request   = regexp.MustCompile(`(?m)^(?:api|send) ([A-Z]+) "?(/api[^"?\s]*)`)
)

// operations returns the operations that the guide names or calls.
func (g guide) operations() (operations []string) {
	for _, span := range g.spans() {
		if m := namedCall.FindStringSubmatch(span); m != nil {
			operations = append(operations, m[1]+" "+anyID.ReplaceAllString(m[2], "{}"))
		}
	}
	for _, b := range g.blocks {
		for _, m := range request.FindAllStringSubmatch(b.text, -1) {
			operations = append(operations, m[1]+" "+anyID.ReplaceAllString(m[2], "{}"))
		}
	}
	slices.Sort(operations)
	return slices.Compact(operations)
}

func TestGuide_StatementsHold(t *testing.T) {
	p := start(t, "dev", "--addr=127.0.0.1:0", "--empty", "--limits=normal")
	d := newDirectory(p)
	for _, lang := range []string{"en", "zh"} {
		g := readGuide(p, lang)
		t.Run(lang+" operations", func(t *testing.T) {
			if diff := cmp.Diff(d.operations(), g.operations()); diff != "" {
				t.Errorf("skill.%s.md and its further pages name other operations in their code spans and examples (-GET /api +guide):\n%s", lang, diff)
			}
		})
		t.Run(lang+" addresses", func(t *testing.T) { g.checkAddresses(t, p.base, d) })
		t.Run(lang+" errors", func(t *testing.T) { g.checkErrors(t) })
		t.Run(lang+" limits", func(t *testing.T) { g.checkLimits(t, d) })
		t.Run(lang+" names", func(t *testing.T) { g.checkNames(t, d) })
		t.Run(lang+" form", func(t *testing.T) { g.checkForm(t, d) })
		t.Run(lang+" commands", func(t *testing.T) { g.checkCommands(t) })
	}
	t.Run("languages", func(t *testing.T) { checkLanguages(t, readGuide(p, "en"), readGuide(p, "zh")) })
}

// checkAddresses checks that the links of the guide within the site work.
func (g guide) checkAddresses(t *testing.T, base string, d directory) {
	known := []string{base + "/agents/{handle}"}
	for _, name := range []string{"onboarding", "openapi", "mcp"} {
		known = append(known, d.index[name].(string))
	}
	named := map[string]bool{}
	for _, span := range g.spans() {
		if address, _, _ := strings.Cut(span, "?"); strings.HasPrefix(address, base) {
			named[address] = true
			if !slices.Contains(known, address) {
				t.Errorf("%s is no address of this site", address)
			}
		}
	}
	if len(named) != len(known) {
		t.Errorf("the guide names %v, and not all of %v", named, known)
	}
}

// checkErrors checks that the table of errors has all codes, each with its status.
func (g guide) checkErrors(t *testing.T) {
	want, got := errorStatuses(), map[string]string{}
	for _, row := range g.rows(3) {
		statuses := regexp.MustCompile(`\d{3}`).FindAllString(row[0], -1)
		if statuses == nil {
			continue // the heading
		}
		for _, code := range spansOf(row[1]) {
			got[code] = row[0]
			if slices.Contains(statuses, want[code]) {
				got[code] = want[code]
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses by code (-service +guide):\n%s", diff)
	}
}

// checkLimits checks that the table of limits shows all defaults.
func (g guide) checkLimits(t *testing.T, d directory) {
	want, got := map[string]any{}, map[string]any{}
	limits := d.index["limits"].(map[string]any)
	for _, whose := range []string{"per_address", "per_key"} {
		for name, limit := range limits[whose].(map[string]any) {
			limit := limit.(map[string]any)
			want[name] = fmt.Sprint(limit["calls"], " in ", limit["seconds"])
		}
	}
	for _, row := range g.rows(4) {
		if _, err := strconv.Atoi(row[3]); err == nil {
			list := strings.NewReplacer("、", ",", " ", "", "`", "")
			numbers := strings.Split(list.Replace(row[2]), ",")
			for i, name := range strings.Split(list.Replace(row[0]), ",") {
				got[name] = numbers[i] + " in " + row[3]
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-service +guide):\n%s", diff)
	}
	kib := fmt.Sprintf("%v KiB", limits["body_bytes"].(float64)/1024)
	if !strings.Contains(strings.Join(g.prose, "\n"), kib) {
		t.Errorf("the guide does not name the limit of a body, %s", kib)
	}
}

// checkNames checks that names set as code are names of the service or of the guide's own commands.
func (g guide) checkNames(t *testing.T, d directory) {
	name := regexp.MustCompile(`^([a-z][a-z_.]*)(=\w+)?$`)
	commands, codes := "", errorStatuses()
	for _, b := range g.blocks {
		commands += b.text
	}
	for _, span := range g.spans() {
		m := name.FindStringSubmatch(span)
		if m == nil || m[1] == "null" || codes[m[1]] != "" {
			continue
		}
		if !strings.Contains(d.text, `"`+m[1]+`"`) && !strings.Contains(commands, m[1]+"() {") {
			t.Errorf("there is no %s", m[1])
		}
	}
}

// options are those of the guide's commands. curl 7.55 has all of its own; Debian 11 has 7.74, and --json came with 7.82.
var options = strings.Fields("-sS -X -H -w -o -d -G --data-urlencode --max-time -p -s -q -f -An -N16 -tx1")

// checkCommands checks that each block works in a shell of its own with an old curl, and needs no other tool.
func (g guide) checkCommands(t *testing.T) {
	option, tool := regexp.MustCompile(`\s(--?[A-Za-z][\w-]*)`), regexp.MustCompile(`\b(jq|sed|awk|perl|python3?|base64)\b`)
	for i, b := range g.blocks {
		if b.kind != "sh" {
			continue
		}
		if i > 0 && !strings.HasPrefix(b.text, ". ~/.callbook/env.sh || exit\n") {
			t.Errorf("a block does not read the state first:\n%s", b.text)
		}
		for _, m := range option.FindAllStringSubmatch(b.text, -1) {
			if !slices.Contains(options, m[1]) {
				t.Errorf("%s is not an option of every curl:\n%s", m[1], b.text)
			}
		}
		if found := tool.FindString(b.text); found != "" {
			t.Errorf("%s is not everywhere:\n%s", found, b.text)
		}
	}
}

// checkForm checks that the guide is an Agent Skill.
func (g guide) checkForm(t *testing.T, d directory) {
	if text := strings.Join(g.lines, "\n"); strings.Contains(text, "{base_url}") || strings.Contains(text, "{skill_url}") || !utf8.ValidString(text) {
		t.Error("something is not filled in")
	}
	front := documents.FrontMatter([]byte(g.core))
	for name, most := range map[string]int{"description": 1024, "compatibility": 500} {
		text, _ := front[name].(string)
		if n := utf8.RuneCountInString(text); n == 0 || n > most || strings.Contains(text, ": ") || strings.Contains(text, " #") {
			t.Errorf("%s has %d characters, or is no plain value of YAML: %s", name, n, text)
		}
		delete(front, name)
	}
	version := map[string]any{"version": d.openapi["info"].(map[string]any)["version"]}
	if diff := cmp.Diff(map[string]any{"name": "callbook", "license": "MIT", "metadata": version}, front); diff != "" {
		t.Errorf("front matter (-want +got):\n%s", diff)
	}
}

// checkLanguages checks line by line that both languages have the same form, names set as code and commands, except
// for comments, and that each is written in its language.
func checkLanguages(t *testing.T, en, zh guide) {
	if diff := cmp.Diff(en.shape(), zh.shape()); diff != "" {
		t.Errorf("form (-English +Chinese):\n%s", diff)
	}
	sentence := regexp.MustCompile(`[A-Za-z][a-z]*(?:[ ,;]+[A-Za-z][a-z]*){3}`)
	for i := range en.lines {
		if strings.ContainsFunc(en.words(i), func(c rune) bool { return unicode.Is(unicode.Han, c) }) {
			t.Errorf("Chinese in English: %s", en.lines[i])
		}
	}
	for i := range zh.lines {
		if found := sentence.FindString(zh.words(i)); found != "" {
			t.Errorf("%q in Chinese: %s", found, zh.lines[i])
		}
	}
}

var (
	comment   = regexp.MustCompile(` # .*$`)
	beginning = regexp.MustCompile(`^(#+ |\| |\d+\. |- |---$)?`)
	frontKey  = regexp.MustCompile(`^ *[a-z]+:`)
)

// words returns the text of a line in its language: of code only the comment.
func (g guide) words(i int) string {
	line := g.lines[i]
	if g.fenced[i] {
		return comment.FindString(line)
	}
	return codeSpan.ReplaceAllString(line, "`")
}

// shape returns the part of each line that both languages share.
func (g guide) shape() (shape []string) {
	for i, line := range g.lines {
		switch {
		case g.fenced[i] && namedStatus.MatchString(line):
			shape = append(shape, line)
		case g.fenced[i]:
			shape = append(shape, comment.ReplaceAllString(line, " #"))
		case i < 10 && frontKey.MatchString(line):
			shape = append(shape, frontKey.FindString(line))
		default:
			spans := spansOf(line)
			slices.Sort(spans)
			shape = append(shape, fmt.Sprintf("%stext: %t, cells: %d, %q", beginning.FindString(line), line != "", strings.Count(line, " | "), spans))
		}
	}
	return shape
}
