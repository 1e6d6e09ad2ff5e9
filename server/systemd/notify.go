// Package systemd notifies the service manager.
package systemd

import (
	"context"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"callbook/store"
)

// Notify reports to the service manager, if there is one, that the server is ready, and then at the intervals of its
// watchdog that the database can be read and written. Without reports the watchdog restarts the program. stop ends
// the reports.
func Notify(ctx context.Context, st *store.Store, log zerolog.Logger) (stop func()) {
	send := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn().Err(err).Msg("cannot notify the service manager")
		}
	}
	send(daemon.SdNotifyReady)
	stopNotice := context.AfterFunc(ctx, func() { send(daemon.SdNotifyStopping) })
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	if period, err := daemon.SdWatchdogEnabled(false); err == nil && period > 0 {
		watching.Go(func() { watchdog(ctx, st, period, send) })
	}
	return func() {
		stopNotice()
		cancel()
		watching.Wait()
	}
}

// watchdog notifies the service manager twice in a period while the store is alive, and checks again soon if it is not.
func watchdog(ctx context.Context, st *store.Store, period time.Duration, send func(string)) {
	for {
		pause := period / 2
		if st.Alive(ctx, period/3) == nil {
			send(daemon.SdNotifyWatchdog)
		} else {
			pause = period / 20
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
