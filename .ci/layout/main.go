// Command layout checks the rules of layout that keep production code readable: lines, blank lines, comments inside
// functions, literals and files. It names the places that break a rule, and fails. It runs in the module's root folder.
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
	"strings"
	"unicode/utf8"
)

// Bounds of the rules. A tab counts as tabWidth columns.
const (
	tabWidth       = 4
	lineWidth      = 100
	widestLine     = 260
	wideLines      = 15 // of 1,000 lines may exceed lineWidth, none widestLine
	longFunction   = 10 // lines; such a function needs a blank line
	denseFunctions = 25 // of 100 long functions may lack one
	commentLines   = 8  // of 1,000 lines of functions, at the least
	keysOfLine     = 3  // of a literal
	fileLines      = 500
)

// measures is what the checked files have of everything that a rule bounds.
type measures struct {
	lines, functionLines, commentLines, longFunctions int

	wide, widest, dense, crowded, large []string // places: file and line
}

func main() {
	log.SetFlags(0)

	files, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go").Output()
	if err != nil {
		log.Fatalf("list the files: %v", err)
	}

	var m measures
	for path := range strings.Lines(string(files)) {
		path = strings.TrimSpace(path)
		if strings.HasPrefix(path, "testdata/") || strings.HasSuffix(path, "_test.go") {
			continue
		}

		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			log.Fatal(err)
		}
		if err := m.add(path, string(data)); err != nil {
			log.Fatal(err)
		}
	}

	broken := m.broken()
	for _, rule := range broken {
		log.Print(rule)
	}
	if len(broken) > 0 {
		os.Exit(1)
	}
	fmt.Printf("of %d lines %d are wide, of %d long functions %d are dense, of %d lines of functions %d are comments\n",
		m.lines, len(m.wide), m.longFunctions, len(m.dense), m.functionLines, m.commentLines)
}

// broken returns a text with the places for each rule that does not hold.
func (m *measures) broken() (rules []string) {
	check := func(holds bool, places []string, format string, args ...any) {
		if !holds {
			rules = append(rules, fmt.Sprintf(format, args...)+"\n  "+strings.Join(places, "\n  "))
		}
	}

	check(len(m.widest) == 0, m.widest, "lines over %d columns: break them", widestLine)
	check(len(m.wide)*1000 <= m.lines*wideLines, m.wide,
		"more than %d of 1,000 lines have over %d columns: break some", wideLines, lineWidth)
	check(len(m.dense)*100 <= m.longFunctions*denseFunctions, m.dense,
		"more than %d %% of the functions of %d lines or more have no blank line: put one between thoughts",
		denseFunctions, longFunction)
	check(m.commentLines*1000 >= m.functionLines*commentLines, nil,
		"%d of %d lines of functions are comments, fewer than %d of 1,000: say why where a reader would ask",
		m.commentLines, m.functionLines, commentLines)
	check(len(m.crowded) == 0, m.crowded,
		"literals with more than %d keys on a line: put each key on a line of its own", keysOfLine)
	check(len(m.large) == 0, m.large, "files over %d lines: divide them by subject", fileLines)

	return rules
}

// add adds a file.
func (m *measures) add(path, text string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return err
	}

	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	m.lines += len(lines)
	if len(lines) > fileLines {
		m.large = append(m.large, path)
	}

	line := func(p token.Pos) int { return set.Position(p).Line }
	unbreakable := map[int]int{} // columns of a line that are one text, as a string or a URL; all of a raw string's
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			for i := line(n.Pos()); i <= line(n.End()) && n.Kind == token.STRING; i++ {
				unbreakable[i] = max(unbreakable[i], utf8.RuneCountInString(n.Value))
				if n.Value[0] == '`' {
					unbreakable[i] = math.MaxInt // a struct tag or a document
				}
			}
		case *ast.CompositeLit:
			m.addLiteral(n, path, line)
		case *ast.FuncDecl:
			m.addFunction(n, path, lines, line)
		}
		return true
	})

	for i, text := range lines {
		width := utf8.RuneCountInString(text) + (tabWidth-1)*strings.Count(text, "\t")
		if width <= lineWidth {
			continue
		}

		for _, word := range strings.Fields(text) {
			unbreakable[i+1] = max(unbreakable[i+1], utf8.RuneCountInString(word))
		}
		if width-unbreakable[i+1] <= lineWidth/2 {
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

// addLiteral adds the lines of a literal that have too many keys.
func (m *measures) addLiteral(literal *ast.CompositeLit, path string, line func(token.Pos) int) {
	keys := map[int]int{}
	for _, element := range literal.Elts {
		if _, ok := element.(*ast.KeyValueExpr); !ok {
			continue
		}
		keys[line(element.Pos())]++
		if keys[line(element.Pos())] == keysOfLine+1 {
			m.crowded = append(m.crowded, fmt.Sprintf("%s:%d", path, line(element.Pos())))
		}
	}
}

// addFunction adds the blank lines and comments of a function.
func (m *measures) addFunction(function *ast.FuncDecl, path string, lines []string, line func(token.Pos) int) {
	if function.Body == nil {
		return
	}

	body := lines[line(function.Body.Lbrace):max(line(function.Body.Lbrace), line(function.Body.Rbrace)-1)]
	m.functionLines += len(body)
	blank := false
	for _, text := range body {
		text = strings.TrimSpace(text)
		blank = blank || text == ""
		if strings.HasPrefix(text, "//") {
			m.commentLines++
		}
	}

	if len(body) < longFunction {
		return
	}
	m.longFunctions++
	if !blank {
		m.dense = append(m.dense, fmt.Sprintf("%s:%d: %s", path, line(function.Pos()), function.Name.Name))
	}
}
