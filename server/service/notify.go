package service

import (
	"context"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"callbook/store"
)

// NotifyManager notifies the service manager, if there is one, that the server is ready, then at
// the intervals of its watchdog that the program responds, and when ctx ends that it stops. stop
// ends the notifications.
func NotifyManager(ctx context.Context, st *store.Store, log zerolog.Logger) (stop func()) {
	send := func(state string) {
		// Without a service manager, SdNotify does nothing.
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn().Err(err).Msg("cannot notify the service manager")
		}
	}

	send(daemon.SdNotifyReady)
	stopNotice := context.AfterFunc(ctx, func() { send(daemon.SdNotifyStopping) })

	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	if period, err := daemon.SdWatchdogEnabled(false); err == nil && period > 0 {
		reports.Go(func() { watchdog(ctx, st, period, send) })
	}

	return func() {
		stopNotice()
		cancel()
		reports.Wait()
	}
}

// watchdog notifies the service manager twice in a period, each time after the store has
// responded. Without notifications the service manager restarts the program.
func watchdog(ctx context.Context, st *store.Store, period time.Duration, send func(string)) {
	due := time.NewTicker(period / 2)
	defer due.Stop()

	for {
		// An error counts as a response: a store that has failed ends the program by itself, and
		// where it cannot write, as on a full disk, a restart would only interrupt the reads.
		_, _ = st.Ready(ctx)
		send(daemon.SdNotifyWatchdog)

		select {
		case <-due.C:
		case <-ctx.Done():
			return
		}
	}
}
