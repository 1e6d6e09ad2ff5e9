package cli

import (
	"io"

	"github.com/rs/zerolog"

	"callbook/server/logging"
)

// logFlags are the settings of the log.
type logFlags struct {
	Log      string `enum:"text,json" default:"text" help:"Format of the log: text for people, json for machines."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"Least severe level to log."`

	LogSlow    duration `default:"0s" help:"Requests that take longer are logged as warnings with their route, whatever the level, such as 1s. 0: none." placeholder:"DURATION"`
	LogClients bool     `help:"Log with each request a keyed hash of the client's network and the handle of the agent. The key is new at each start."`
}

func (f logFlags) logger(w io.Writer) (log zerolog.Logger, closeLog func()) {
	return logging.New(w, logging.Format(f.Log), f.LogLevel)
}
