package devmode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"callbook/server/api"
	"callbook/store/durable"
)

// state is what a restart needs beside the database, which has only the hashes of keys. It has a file
// of its own, because a database that callbook serve opens must not hold keys.
type state struct {
	Warning string  `json:"warning"`
	Ahead   int64   `json:"clock_ahead_ns"`
	Agents  []Agent `json:"agents"`
}

// stateWarning is the first member of the file.
const stateWarning = "callbook dev stores the API keys of its test agents here in clear: " +
	"share this file only with those who may act as them"

// Start fills a fresh directory as the options say, or goes on with that of an earlier run.
func (d *Server) Start(ctx context.Context, fresh bool) error {
	if fresh {
		return d.load(ctx, !d.options.Empty, !d.options.Empty)
	}

	data, err := os.ReadFile(d.options.State)
	if errors.Is(err, fs.ErrNotExist) {
		d.log.Warn().
			Str("file", d.options.State).
			Msg("the keys of the demo agents are unknown without this file: the clock is not ahead, and counterparts do not act until POST /dev/reset")
		return nil
	}

	var from state
	if err == nil {
		err = json.Unmarshal(data, &from)
	}
	if err != nil {
		return fmt.Errorf(
			"read the keys and the clock of the test directory; without their file it starts without them: %w",
			err,
		)
	}

	d.options.Clock.offset.Store(from.Ahead)
	d.agents = from.Agents
	return d.refreshAgents(ctx)
}

// save stores what a restart needs.
func (d *Server) save() error {
	if d.options.State == "" {
		return nil
	}

	data := api.Marshal(state{stateWarning, d.options.Clock.offset.Load(), d.agents})
	if err := durable.WriteFile(d.options.State, append(data, '\n')); err != nil {
		return fmt.Errorf("store the keys and the clock of the test directory: %w", err)
	}

	return nil
}
