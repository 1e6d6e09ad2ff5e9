package cli

import (
	"fmt"
	"os"
	"reflect"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/agext/levenshtein"
	"github.com/alecthomas/kong"
)

// configFile gives flags their values from the file that --config names: TOML,
// whose keys are the names of the flags. One file serves all commands. The command
// line and the environment win over it.
type configFile struct {
	path   string
	values map[string]any
	err    error // of reading it; kong would tell it as that of some flag
}

// Resolve is called by kong for each flag that the command line does not give.
func (f *configFile) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if f.values == nil {
		f.values = map[string]any{}
		f.err = f.read(ctx)
	}
	if f.err != nil || isSet(flag.Envs) || len(flag.Envs) == 0 {
		return nil, nil
	}
	value := f.values[flag.Name]
	if form := formOf(flag.Target, value); form != "" {
		f.err = fmt.Errorf("%s: %s must be %s", f.path, flag.Name, form) // the value may be a password
		return nil, nil
	}
	return value, nil
}

// formOf says what a setting has to be where its value in the file is something else. A
// text is read as that of a variable is.
func formOf(target reflect.Value, value any) string {
	fits, form := false, "a string in quotation marks"
	switch target.Kind() {
	case reflect.Bool:
		_, fits = value.(bool)
		form = "true or false"
	case reflect.Int:
		_, fits = value.(int64)
		form = "an integer"
	case reflect.Slice:
		list, isList := value.([]any)
		fits = isList && !slices.ContainsFunc(list, func(e any) bool { _, ok := e.(string); return !ok })
		form = "a list of strings in quotation marks"
	}
	if _, isText := value.(string); fits || isText || value == nil {
		return ""
	}
	return form
}

// Validate is called by kong in the end; Resolve has looked by then.
func (f *configFile) Validate(*kong.Application) error { return nil }

const configName = "config"

// read reads the file, if the command takes one and one is named.
func (f *configFile) read(ctx *kong.Context) error {
	for _, flag := range ctx.Flags() {
		if flag.Name != configName {
			continue
		}
		f.path, _ = ctx.FlagValue(flag).(string)
		for _, name := range flag.Envs {
			if f.path == "" {
				f.path = os.Getenv(name)
			}
		}
	}
	if f.path == "" {
		return nil
	}
	if _, err := toml.DecodeFile(f.path, &f.values); err != nil {
		return fmt.Errorf("read the settings in %s: %w", f.path, err)
	}
	return f.refuseUnknown(ctx.Model)
}

// refuseUnknown rejects a key that no flag reads: a misspelt setting must not be
// silently without effect.
func (f *configFile) refuseUnknown(app *kong.Application) error {
	var known []string
	for _, flag := range settings(app) {
		if flag.Name != configName {
			known = append(known, flag.Name)
		}
	}
	for name := range f.values {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: unknown setting %s%s", f.path, name, suggestion(name, known))
		}
	}
	return nil
}

// settings returns the flags of all commands that can be set without the command line.
func settings(app *kong.Application) (flags []*kong.Flag) {
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && len(flag.Envs) > 0 {
			flags = append(flags, flag)
		}
		return next(nil)
	})
	return flags
}

// likeness is from which on, of 1, a name is taken for another one misspelt.
const likeness = 0.7

// suggestion names the known name that a misspelt one is most like, if one is.
func suggestion(misspelt string, known []string) string {
	best, name := likeness, ""
	for _, k := range known {
		if like := levenshtein.Similarity(misspelt, k, nil); like > best {
			best, name = like, k
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", name)
}

func isSet(variables []string) bool {
	return slices.ContainsFunc(variables, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}
