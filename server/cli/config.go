package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"

	"callbook/store/domain"
	"callbook/store/search"
)

// configFile reads flags from the TOML file of --config or, without one, from systemConfig if that
// exists. Its keys are the names of the flags. One file serves all commands. The command line and
// the environment take precedence.
type configFile struct {
	path   string
	values map[string]any // nil before the file is read
	limits domain.Quotas  // single limits, of the table [limits]
	err    error          // of reading the file; kong would report it as that of some flag
}

// resolve implements kong.ResolverFunc. kong calls it for each flag that the command line does not
// set.
func (f *configFile) resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if f.values == nil {
		f.values = map[string]any{}
		f.err = f.read(ctx)
	}

	// A flag without a variable is not a setting.
	if f.err != nil || isSet(flag.Envs) || len(flag.Envs) == 0 {
		return nil, nil
	}

	text, ok := settingText(f.values[flag.Name])
	if !ok {
		// Without the value, which may be a password.
		f.err = fmt.Errorf(
			"%s: %s must be a text in quotation marks, an integer, true, false, or a list of texts",
			f.path,
			flag.Name,
		)
	}

	return text, nil
}

// settingText returns a value of the file as a variable would have it; nil for none. ok is false for
// a type that no setting has.
func settingText(value any) (text any, ok bool) {
	switch value := value.(type) {
	case nil:
		return nil, true

	case string, bool, int64:
		return fmt.Sprint(value), true

	case []any:
		var texts []string
		for _, element := range value {
			text, ok := element.(string)
			if !ok {
				return nil, false
			}

			texts = append(texts, text)
		}

		return strings.Join(texts, ","), true
	}

	return nil, false
}

// configName is the name of the flag that gives the path of the file.
const configName = "config"

// systemConfig is the file of settings of the machine; empty for none. Tests replace it.
var systemConfig = "/etc/callbook.toml"

func init() {
	// On Windows, every user may create that folder.
	if runtime.GOOS == "windows" {
		systemConfig = ""
	}
}

// read reads the file, if the command takes one, and one is named or the machine has one.
func (f *configFile) read(ctx *kong.Context) error {
	isConfig := func(flag *kong.Flag) bool { return flag.Name == configName }
	at := slices.IndexFunc(ctx.Flags(), isConfig)
	if at < 0 {
		return nil
	}

	f.path, _ = ctx.FlagValue(ctx.Flags()[at]).(string)
	given := rank(ctx, configName) > 0

	// Any other error, such as a missing permission, is reported when the file is opened.
	if _, err := os.Stat(systemConfig); !given && !errors.Is(err, fs.ErrNotExist) {
		f.path = systemConfig
		f.values[configName] = f.path
	}
	if f.path == "" {
		return nil
	}

	values := map[string]any{}
	_, err := toml.DecodeFile(f.path, &values)
	if errors.Is(err, fs.ErrPermission) && !given {
		return fmt.Errorf(
			"read the settings in %s: %w: run the command as root or the user of the service, "+
				"or give --config=\"\" to read no file",
			f.path,
			err,
		)
	}
	if err != nil {
		return fmt.Errorf("read the settings in %s: %w", f.path, err)
	}

	if err := f.rejectUnknown(ctx.Model, values); err != nil {
		return err
	}

	maps.Copy(f.values, values)
	return f.readLimits()
}

// limitFactor is the key in the table [limits] that stands for the setting limits, since one file
// cannot have both.
const limitFactor = "factor"

// maxLimit is the maximum of a single limit.
const maxLimit = 1_000_000_000

// readLimits reads the single limits in the table [limits], whose keys are their names with
// hyphens.
func (f *configFile) readLimits() error {
	table, ok := f.values["limits"].(map[string]any)
	if !ok {
		return nil
	}

	f.values["limits"] = table[limitFactor]
	delete(table, limitFactor)

	f.limits = domain.Quotas{}
	known := []string{limitFactor}
	for _, limit := range domain.Limits {
		key := limit.Key()
		known = append(known, key)
		value, ok := table[key]
		if !ok {
			continue
		}

		delete(table, key)
		number, ok := value.(int64)
		if !ok || number < 0 || number > maxLimit {
			return fmt.Errorf(
				"%s: %s in [limits] must be an integer from 0 (off) to %d",
				f.path,
				key,
				maxLimit,
			)
		}

		f.limits[limit.Name] = int(number)
	}

	// All known keys are removed.
	for key := range table {
		return fmt.Errorf(
			"%s: unknown limit %s in [limits]%s",
			f.path,
			key,
			suggestion(key, "", known),
		)
	}

	return nil
}

// rejectUnknown rejects a key that no flag of any command reads, so that a misspelt setting is not
// silently ignored.
func (f *configFile) rejectUnknown(app *kong.Application, values map[string]any) error {
	var known []string
	for _, flag := range settings(app) {
		if flag.Name != configName {
			known = append(known, flag.Name)
		}
	}

	for name := range values {
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

// minSimilarity is the similarity, from 0 to 1, from which a known name is suggested for an
// unknown one.
const minSimilarity = 0.55

// suggestion returns a hint at the known name that is most similar to a misspelt one, if one is,
// with a prefix. It is the same for commands, topics, flags, variables and keys of the file of
// settings.
func suggestion(misspelt, prefix string, known []string) string {
	best, name := minSimilarity, ""
	for _, k := range known {
		most := max(len(misspelt), len(k))
		like := 1 - float64(search.Distance(misspelt, k, most))/float64(most)
		if len(misspelt) > 3 && strings.HasPrefix(k, misspelt) {
			// It is an abbreviation, unless another name is more similar.
			like = max(like, minSimilarity+0.01)
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

// rank returns the precedence of the place where a flag is set: 3 for the command line, 2 for a
// variable, 1 for the file of settings, 0 for none.
func rank(k *kong.Context, name string) int {
	for _, p := range k.Path {
		if p.Flag != nil && p.Flag.Name == name {
			if p.Resolved {
				return 1
			}
			return 3
		}
	}

	for _, flag := range k.Flags() {
		if flag.Name == name && isSet(flag.Envs) {
			return 2
		}
	}

	return 0
}

// isSet reports whether one of the environment variables is set, even if it is empty.
func isSet(variables []string) bool {
	return slices.ContainsFunc(variables, func(name string) bool {
		_, ok := os.LookupEnv(name)
		return ok
	})
}
