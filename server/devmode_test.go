package server_test

import (
	"context"
	"os"

	"callbook/server"
	"callbook/server/devmode"
	"callbook/server/mail"
	"callbook/store"
)

func init() {
	server.DevMode.NewClock = func() server.DevClock { return &devmode.Clock{} }
	server.DevMode.New = func(st *store.Store, o server.Options, clock server.DevClock, sent *mail.Memory, demo bool, state string) (*server.Server, func(context.Context, bool) error, error) {
		s, err := devmode.New(st, o, devmode.Options{Clock: clock.(*devmode.Clock), Demo: os.DirFS("../testdata/demo"), Mail: sent, Empty: !demo, State: state})
		if err != nil {
			return nil, nil, err
		}
		return s.Site, s.Start, nil
	}
}
