package service

import (
	"context"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"callbook/store"
)

// NotifyManager reports to the service manager, if there is one, that the server is ready, and
// then at the intervals of its watchdog that the program responds. Without reports the watchdog
// restarts the program. stop ends the reports.
func NotifyManager(ctx context.Context, st *store.Store, log zerolog.Logger) (stop func()) {
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

// watchdog notifies the service manager twice in a period, each time after the store has
// responded. What it responds does not count: a store that has failed ends the program by itself,
// and a restart would only interrupt the reads of one that cannot write, as on a full disk.
func watchdog(ctx context.Context, st *store.Store, period time.Duration, send func(string)) {
	due := time.NewTicker(period / 2)
	defer due.Stop()

	for {
		_, _ = st.Ready(ctx)
		send(daemon.SdNotifyWatchdog)

		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
	}
}
