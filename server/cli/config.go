package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"

	"callbook/store/domain"
	"callbook/store/search"
)

// configFile reads flags from the TOML file of --config or, without one, from systemConfig if that exists. Its keys are the
// names of the flags. One file serves all commands. The command line and the environment take precedence.
type configFile struct {
	path   string
	values map[string]any
	limits domain.Quotas // of the table [limits]
	err    error         // of reading it; kong would send it as that of some flag
}

// resolve is a kong.ResolverFunc, for each flag that the command line does not set.
func (f *configFile) resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if f.values == nil {
		f.values = map[string]any{}
		f.err = f.read(ctx)
	}
	if f.err != nil || isSet(flag.Envs) || len(flag.Envs) == 0 {
		return nil, nil
	}
	value := f.values[flag.Name]
	if form := wantedType(flag.Target, value); form != "" {
		f.err = fmt.Errorf("%s: %s must be %s", f.path, flag.Name, form) // the value may be a password
		return nil, nil
	}
	return value, nil
}

// wantedType returns the type that a setting must have, if its value in the file has another; else the empty string.
// Strings are parsed like the values of variables.
func wantedType(target reflect.Value, value any) string {
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

const configName = "config"

// systemConfig is the file of settings of the machine. On Windows there is none: every user may create that folder.
var systemConfig = map[bool]string{false: "/etc/callbook.toml"}[runtime.GOOS == "windows"]

// read reads the file, if the command takes one, and one is named or the machine has one.
func (f *configFile) read(ctx *kong.Context) error {
	at := rank(ctx, configName)
	_, err := os.Stat(systemConfig) // which this user may not be allowed to open
	for _, flag := range ctx.Flags() {
		switch {
		case flag.Name != configName:
		case at == 0 && !errors.Is(err, fs.ErrNotExist):
			f.path = systemConfig
		default:
			f.path, _ = ctx.FlagValue(flag).(string)
		}
	}
	if f.path == "" {
		return nil
	}
	if _, err := toml.DecodeFile(f.path, &f.values); errors.Is(err, fs.ErrPermission) && at == 0 {
		return fmt.Errorf("read the settings in %s: %w: run the command as root or the user of the service, or give --config=\"\" to read no file", f.path, err)
	} else if err != nil {
		return fmt.Errorf("read the settings in %s: %w", f.path, err)
	}
	if err := f.rejectUnknown(ctx.Model); err != nil {
		return err
	}
	if err := f.readLimits(); err != nil {
		return err
	}

	if at == 0 {
		f.values[configName] = f.path
	}
	return nil
}

// limitFactor is the key in the table [limits] that stands for the setting limits, since one file cannot have both.
const limitFactor = "factor"

// maxLimit is the maximum of a single limit.
const maxLimit = 1_000_000_000

// readLimits reads the single limits in the table [limits], whose keys are their names with hyphens.
func (f *configFile) readLimits() error {
	table, ok := f.values["limits"].(map[string]any)
	if !ok {
		return nil
	}
	delete(f.values, "limits")
	if factor, ok := table[limitFactor]; ok {
		f.values["limits"] = factor
	}

	known := []string{limitFactor}
	names := map[string]domain.LimitName{}
	for _, limit := range domain.Limits {
		names[limit.Key()] = limit.Name
		known = append(known, limit.Key())
	}

	f.limits = domain.Quotas{}
	for key, value := range table {
		if key == limitFactor {
			continue
		}
		if !slices.Contains(known, key) {
			return fmt.Errorf("%s: unknown limit %s in [limits]%s", f.path, key, suggestion(key, "", known))
		}
		number, ok := value.(int64)
		if !ok || number < 0 || number > maxLimit {
			return fmt.Errorf("%s: %s in [limits] must be an integer from 0 (off) to %d", f.path, key, maxLimit)
		}
		f.limits[names[key]] = int(number)
	}
	return nil
}

// rejectUnknown rejects a key that no flag reads: a misspelt setting must not be silently ignored.
func (f *configFile) rejectUnknown(app *kong.Application) error {
	var known []string
	for _, flag := range settings(app) {
		if flag.Name != configName {
			known = append(known, flag.Name)
		}
	}
	for name := range f.values {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: unknown setting %s%s", f.path, name, suggestion(name, "", known))
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

// minSimilarity is the similarity, from 0 to 1, from which a known name is suggested for an unknown one.
const minSimilarity = 0.55

// suggestion returns a hint at the known name that is most similar to a misspelt one, if one is, with a prefix. It is the same
// for commands, topics, flags, variables and keys of the file of settings.
func suggestion(misspelt, prefix string, known []string) string {
	best, name := minSimilarity, ""
	for _, k := range known {
		most := max(len(misspelt), len(k))
		like := 1 - float64(search.Distance(misspelt, k, most))/float64(most)
		if len(misspelt) > 3 && strings.HasPrefix(k, misspelt) {
			like = max(like, minSimilarity+0.01) // an abbreviation, unless another name is more similar
		}
		if like > best {
			best, name = like, k
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s%s?", prefix, name)
}

// rank returns the precedence of the place where a flag is set: 3 for the command line, 2 for a variable, 1 for the
// file of settings, 0 for none.
func rank(k *kong.Context, name string) int {
	for _, p := range k.Path {
		if p.Flag != nil && p.Flag.Name == name {
			return map[bool]int{true: 1, false: 3}[p.Resolved]
		}
	}
	if slices.ContainsFunc(k.Flags(), func(f *kong.Flag) bool { return f.Name == name && isSet(f.Envs) }) {
		return 2
	}
	return 0
}

func isSet(variables []string) bool {
	return slices.ContainsFunc(variables, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}
