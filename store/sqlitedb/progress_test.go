package sqlitedb

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch_ReportsUntilItIsStopped: a file that grows by a part each second.
func TestWatch_ReportsUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports, last int64
		ctx := WithProgress(t.Context(), func(step string, done, total int64) {
			if step != "copying" || done < last || total != 40 {
				t.Errorf("%s: %d of %d after %d", step, done, total, last)
			}
			reports, last = reports+1, done
		})
		start := time.Now()
		stop := watchProgress(ctx, "copying", func() (done, total int64) { return int64(time.Since(start) / time.Second), 40 })
		time.Sleep(10*time.Second + progressPeriod/2)
		stop()
		time.Sleep(time.Minute)
		if reports != int64(10*time.Second/progressPeriod) || last != 10 {
			t.Errorf("%d reports, the last of %d", reports, last)
		}
		watchProgress(t.Context(), "copying", func() (done, total int64) { t.Error("it is measured for nothing"); return 0, 0 })()
	})
}

// TestEstimate_ComparesWithTheClock: half of the time is half of the way, and a step that takes longer is
// reported as done.
func TestEstimate_ComparesWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, percent := time.Now(), &atomic.Int64{}
		ctx := WithProgress(t.Context(), func(_ string, done, total int64) { percent.Store(100 * done / total) })
		defer EstimateProgress(ctx, "checking", 40000<<20)()
		for _, tt := range []struct{ at, want int64 }{{100, 25}, {200, 50}, {360, 90}, {400, 100}, {800, 100}} {
			time.Sleep(time.Until(start.Add(time.Duration(tt.at)*time.Second + progressPeriod/2)))
			if got := percent.Load(); got != tt.want {
				t.Errorf("%d %% after %d s, want %d %%", got, tt.at, tt.want)
			}
		}
	})
}
