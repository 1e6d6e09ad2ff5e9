// Command layout checks the rules of layout that keep production code readable, and names the places that break them.
// It runs in the module's root folder.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of the rules. A tab counts as four columns.
const (
	lineWidth      = 100
	widestLine     = 120
	wideLines      = 15 // of 1,000 lines may exceed lineWidth, none widestLine
	longFunction   = 10 // lines; such a function needs a blank line
	denseFunctions = 25 // of 100 long functions may lack one
	commentLines   = 30 // of 1,000 lines of functions, at the least
	keysOfLine     = 3  // of a literal
	fileLines      = 500
)

// largeFiles may exceed fileLines.
var largeFiles = []string{"server/cli/check.go", "server/devmode/devmode.go", "store/owner.go"}

// measures are the figures and the places of all files.
type measures struct {
	lines, functionLines, comments, longFunctions int
	wide, widest, dense, crowded, large           []string
}

func main() {
	log.SetFlags(0)
	list := []string{"ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "*.go"}
	files, err := exec.Command("git", list...).Output()
	if err != nil {
		log.Fatalf("list the files: %v", err)
	}

	var m measures
	for path := range strings.FieldsSeq(string(files)) {
		if strings.HasPrefix(path, "testdata/") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		// A deleted file stays in the list until it is committed.
		if err := m.add(path); err != nil && !os.IsNotExist(err) {
			log.Fatal(err)
		}
	}

	broken := false
	check := func(holds bool, places []string, format string, args ...any) {
		if !holds {
			broken = true
			log.Printf(format+"\n  %s", append(args, strings.Join(places, "\n  "))...)
		}
	}
	check(len(m.widest) == 0, m.widest, "lines over %d columns: break them", widestLine)
	check(1000*len(m.wide) <= wideLines*m.lines, m.wide,
		"more than %d of 1,000 lines have over %d columns: break some", wideLines, lineWidth)
	check(100*len(m.dense) <= denseFunctions*m.longFunctions, m.dense,
		"more than %d %% of long functions have no blank line: put one between thoughts", denseFunctions)
	check(1000*m.comments >= commentLines*m.functionLines, nil,
		"fewer than %d of 1,000 lines of functions are comments: say why where a reader asks", commentLines)
	check(len(m.crowded) == 0, m.crowded, "more than %d keys of a literal on a line: one key a line", keysOfLine)
	check(len(m.large) == 0, m.large, "files over %d lines: divide them by subject", fileLines)

	fmt.Printf("%d lines, %d wide; %d long functions, %d dense; %d lines of functions, %d comments\n",
		m.lines, len(m.wide), m.longFunctions, len(m.dense), m.functionLines, m.comments)
	if broken {
		os.Exit(1)
	}
}

// add adds a file.
func (m *measures) add(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, data, parser.SkipObjectResolution)
	if err != nil {
		return err
	}

	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	m.lines += len(lines)
	if len(lines) > fileLines && !slices.Contains(largeFiles, path) {
		m.large = append(m.large, path)
	}

	line := func(p token.Pos) int { return set.Position(p).Line }
	unbreakable := make([]int, len(lines)+1) // columns of the longest string or word of a line
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			columns := utf8.RuneCountInString(n.Value)
			if strings.HasPrefix(n.Value, "`") {
				columns = math.MaxInt // a struct tag or a document
			}
			for i := line(n.Pos()); i <= line(n.End()); i++ {
				unbreakable[i] = max(unbreakable[i], columns)
			}
		case *ast.CompositeLit:
			keys := map[int]int{}
			for _, element := range n.Elts {
				if _, ok := element.(*ast.KeyValueExpr); !ok {
					continue
				}
				at := line(element.Pos())
				if keys[at]++; keys[at] == keysOfLine+1 {
					m.crowded = append(m.crowded, fmt.Sprintf("%s:%d", path, at))
				}
			}
		case *ast.FuncDecl:
			if n.Body != nil && line(n.Body.Rbrace) > line(n.Body.Lbrace) {
				place := fmt.Sprintf("%s:%d: %s", path, line(n.Pos()), n.Name.Name)
				m.addFunction(place, lines[line(n.Body.Lbrace):line(n.Body.Rbrace)-1])
			}
		}
		return true
	})

	for i, text := range lines {
		for _, word := range strings.Fields(text) {
			unbreakable[i+1] = max(unbreakable[i+1], utf8.RuneCountInString(word))
		}
		// A line that is mostly one text cannot be broken well.
		width := utf8.RuneCountInString(text) + 3*strings.Count(text, "\t")
		if width <= lineWidth || width-unbreakable[i+1] <= lineWidth/2 {
			continue
		}
		place := fmt.Sprintf("%s:%d: %d columns", path, i+1, width)
		m.wide = append(m.wide, place)
		if width > widestLine {
			m.widest = append(m.widest, place)
		}
	}

	return nil
}

// addFunction adds the lines of a function's body.
func (m *measures) addFunction(place string, body []string) {
	blank := false
	for _, text := range body {
		text = strings.TrimSpace(text)
		blank = blank || text == ""
		if strings.HasPrefix(text, "//") {
			m.comments++
		}
	}

	m.functionLines += len(body)
	if len(body) < longFunction {
		return
	}
	m.longFunctions++
	if !blank {
		m.dense = append(m.dense, place)
	}
}
