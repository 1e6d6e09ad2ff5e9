package cli

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// model is a small command line with what candidates depend on.
type model struct {
	Serve struct {
		Addr   string `help:"Address. More." env:"T_ADDR" default:"x" placeholder:"ADDR"`
		Limits string `enum:"on,off" default:"on" group:"Limits:"`
		Once   bool
		Secret string `hidden:""`
	} `cmd:"" default:"withargs" help:"Serve."`
	Admin struct {
		Block struct {
			Word string `arg:""`
			Kind string `arg:"" enum:"name,host" default:"name"`
			Yes  bool   `help:"Without \"asking\" a\\b."`
		} `cmd:"" help:"Block a word."`
		Hidden struct{} `cmd:"" hidden:""`
	} `cmd:"" help:"Moderate. Carefully."`
	Help struct {
		Topic []string `arg:"" optional:""`
	} `cmd:""`
}

func parse(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&model{}, kong.Name("callbook"), kong.Description("A directory. For agents."))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

func TestCandidates(t *testing.T) {
	app, topics := parse(t), [][2]string{{"backup"}, {"testing"}, {"admin"}}
	for typed, want := range map[string]string{
		"":                            "serve admin help",
		"a":                           "admin",
		"help ":                       "backup testing admin serve help",
		"help b":                      "backup",
		"help admin ":                 "block",  // also a topic
		"--a":                         "--addr", // of the default command
		"serve --":                    "--help --addr --limits --once",
		"serve --limits ":             "on off",
		"serve --limits of":           "off",
		"serve --limits off --o":      "--once",
		"serve --addr ":               "", // a file, for all that is known
		"serve --addr --o":            "", // the value
		"serve --once --l":            "--limits",
		"admin ":                      "block",
		"admin block --":              "--help --yes",
		"admin block --yes weather h": "host",
	} {
		var got []string
		for line := range strings.Lines(completionCandidates(app, topics, strings.Split(typed, " "))) {
			word, _, _ := strings.Cut(line, "\t")
			got = append(got, word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	if got, want := completionCandidates(app, nil, []string{"adm"}), "admin\tModerate\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestManPage checks what groff would take for macros. Package cli has it read the real page.
func TestManPage(t *testing.T) {
	var written strings.Builder
	if err := writeManPage(&written, parse(t), "v1"); err != nil {
		t.Fatal(err)
	}
	page := written.String()
	for _, want := range []string{
		".TH \"CALLBOOK\" \"1\" \"\" \"callbook v1\" \"User Commands\"\n", "\ncallbook \\- A directory\n",
		".TP\n.B \"admin block <word> [<kind>]\"\n\\&Block a word.\n.RS\n.TP\n.B \"\\-\\-yes\"\n\\&Without \\(dqasking\\(dq a\\eb.\n.RE\n",
		".SS \"Limits\"\n.TP\n.B \"\\-\\-limits=\\(dqon\\(dq\"\n", ".B \"\\-\\-addr=ADDR, T_ADDR\"\n\\&Address. More. Default: x.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %q in:\n%s", want, page)
		}
	}
	if strings.Contains(page, "secret") || strings.Contains(page, "admin hidden") {
		t.Errorf("hidden flags and commands are in:\n%s", page)
	}
}
