package server

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"callbook/testdata/testkit"
)

// layers are the packages of the program from the top. A package imports only packages of lower layers.
var layers = [][]string{
	{"."},
	{"server/cli"},
	{"server/devmode", "server/service"},
	{"server"},
	{"server/operator"},
	{"server/web", "server/tools", "server/ard"},
	{"server/api", "server/mcp", "server/mail", "server/outbound", "server/documents"},
	{"server/middleware"},
	{"server/ratelimit", "server/public"},
	{"store"},
	{"store/listing"},
	{"store/text", "store/sqlitedb"},
	{"store/domain", "store/search", "store/durable"},
	{"schema", "static"},
}

func layerOf(folder string) int {
	return slices.IndexFunc(layers, func(layer []string) bool { return slices.Contains(layer, folder) })
}

func TestImports_PointInOneDirection(t *testing.T) {
	const module = "callbook/"
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(file string, _ fs.DirEntry, err error) error {
		folder := path.Dir(file)
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(folder, ".") && folder != "." || strings.HasPrefix(folder, "testdata") || folder == "server/systemtest" {
			return err
		}
		from := layerOf(folder)
		if from < 0 {
			t.Errorf("%s belongs to no layer", folder)
			return nil
		}
		source, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			to := layerOf(strings.TrimPrefix(imported, module))
			if strings.HasPrefix(imported, module) && to >= 0 && to <= from {
				t.Errorf("%s imports %s, which is not below it", file, imported)
			}
		}
		return nil
	})
	testkit.NoError(t, err)
}
