package command

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"callbook/server"
	"callbook/store"
)

// notify tells the service manager, where there is one, that the server answers, and
// goes on telling it, if it wants to hear, for as long as the database can be read
// and written; a watchdog that hears nothing starts the program again. stop ends it.
func notify(ctx context.Context, s *server.Server, log zerolog.Logger) (stop func()) {
	tell := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn().Err(err).Msg("the service manager cannot be told how the service is")
		}
	}
	tell(daemon.SdNotifyReady)
	context.AfterFunc(ctx, func() { tell(daemon.SdNotifyStopping) })
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	if period, err := daemon.SdWatchdogEnabled(false); err == nil && period > 0 {
		watching.Go(func() { watchdog(ctx, s, period/2, tell) })
	}
	return func() {
		cancel()
		watching.Wait()
	}
}

// watchdog tells in time that the database is well. On a full disk it goes on
// reading, which starting again would only interrupt.
func watchdog(ctx context.Context, s *server.Server, period time.Duration, tell func(string)) {
	due := time.NewTicker(period)
	defer due.Stop()
	for {
		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
		if _, err := s.Ready(ctx); err == nil || errors.Is(err, &store.Error{Code: store.CodeStorageFull}) {
			tell(daemon.SdNotifyWatchdog)
		}
	}
}
