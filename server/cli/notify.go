package cli

import (
	"context"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"callbook/store"
)

// notify tells the service manager, where there is one, that the server answers, and
// goes on telling it, if it wants to hear, for as long as the database can be read
// and written; a watchdog that hears nothing starts the program again. stop ends it.
func notify(ctx context.Context, st *store.Store, log zerolog.Logger) (stop func()) {
	tell := func(state string) {
		if _, err := daemon.SdNotify(false, state); err != nil {
			log.Warn().Err(err).Msg("cannot notify the service manager")
		}
	}
	tell(daemon.SdNotifyReady)
	told := context.AfterFunc(ctx, func() { tell(daemon.SdNotifyStopping) })
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	if period, err := daemon.SdWatchdogEnabled(false); err == nil && period > 0 {
		watching.Go(func() { watchdog(ctx, st, period, tell) })
	}
	return func() {
		told()
		cancel()
		watching.Wait()
	}
}

// watchdog notifies the service manager twice in a period while the store is alive, and checks again soon if it is not.
func watchdog(ctx context.Context, st *store.Store, period time.Duration, tell func(string)) {
	for {
		pause := period / 2
		if st.Alive(ctx, period/3) == nil {
			tell(daemon.SdNotifyWatchdog)
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
