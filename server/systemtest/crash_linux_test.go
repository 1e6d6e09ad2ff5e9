package systemtest

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"callbook/store"
	"callbook/testdata/proof"
)

// The service is killed at one system call after another: strace does it
// in the middle of a session that writes through every operation, and of an upgrade.

// crashCalls are the system calls that change or open files. A machine may lack
// those with a question mark. TestPowerCut_LosesNothing covers restores.
const crashCalls = "pwrite64,fsync,fdatasync,ftruncate,copy_file_range,openat,?mkdir,mkdirat,?unlink,unlinkat,?rename,renameat,?link,linkat"

func TestCrash_KillAtSystemCall(t *testing.T) {
	t.Parallel()
	needStrace(t)
	wanted, tally := proof.Rounds(3, 60, 2000), &crashCounts{}
	var reached sync.Map // points, by script, call and the number of such calls before
	points := 0
	for script := 0; points < wanted && script < 30 && !t.Failed(); script++ {
		var image crashImage
		most := wanted - points
		if script == 0 { // an upgrade, in the long form at each of its calls
			image, most = newCrashUpgrade(t), most/4+1
		} else {
			image = newCrashSession(t, tally, uint64(script))
		}
		t.Run(fmt.Sprint("script ", script), func(t *testing.T) {
			for _, point := range image.points(t, crashCalls, most) {
				t.Run(fmt.Sprint(point), func(t *testing.T) {
					t.Parallel()
					inject := fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", point.call, point.nth)
					if left := image.runTraced(t, tally, "-e", "trace="+point.call, "-e", inject); left.status == -1 {
						reached.Store(fmt.Sprint(script, point.call, len(left.calls)), true)
						left.checkRecovery(image)
					}
				})
			}
		})
		points = 0
		for range reached.Range {
			points++
		}
	}
	tally.report(t)
	proof.Figure(t, "points", points)
}

// TestCrash_RetryAfterFailedSync checks that a retried request takes effect once after a failed sync, whatever its
// response was and whether or not it was stored.
func TestCrash_RetryAfterFailedSync(t *testing.T) {
	t.Parallel()
	needStrace(t)
	wanted, tally := proof.Rounds(2, 20, 300), &crashCounts{}
	var failed atomic.Int64
	for seed := uint64(1); int(failed.Load()) < wanted && seed < 30 && !t.Failed(); seed++ {
		image := newCrashSession(t, tally, seed)
		t.Run(fmt.Sprint("session ", seed), func(t *testing.T) {
			for _, point := range image.points(t, "fsync", wanted-int(failed.Load())) {
				t.Run(fmt.Sprint(point), func(t *testing.T) {
					t.Parallel()
					left := image.runTraced(t, tally, "-y", "-e", "trace=fsync", "-e", fmt.Sprintf("inject=fsync:error=EIO:when=%d", point.nth))
					ofDatabase := regexp.MustCompile(`<` + regexp.QuoteMeta(left.db) + `(-wal)?>.*INJECTED`).Match(readFile(t, left.db+".trace"))
					switch {
					case left.status == 74:
						failed.Add(1)
						wantNoSyncAfterFailure(t, left.db)
						if log := left.log; !strings.Contains(log, "the disk fails") || ofDatabase && !strings.Contains(log, "start again") {
							t.Errorf("it ends, and logs %s", log)
						}
					case left.status == 0 && ofDatabase: // otherwise a sync of a copy, or of a folder, which SQLite ignores
						t.Error("it goes on after a failed sync of the database")
					}
					left.checkRecovery(image)
				})
			}
		})
	}
	tally.report(t)
	proof.Figure(t, "failed", int(failed.Load()))
}

// crashImage is a database that runs are started from again and again: with the write-ahead log of a killed service.
type crashImage struct {
	files map[string][]byte // by the suffix of the database's name
	run   *crashRun         // nil without clients
	seed  uint64
	want  map[string][]string // rows by table after an uninterrupted run; nil for a session
}

// newCrashUpgrade returns a database of this version with its log, for the next version to upgrade.
func newCrashUpgrade(t testing.TB) crashImage {
	t.Helper()
	i := crashImage{files: newKilledFiles(t)}
	d, _ := i.directory(t, nil)
	spawn(t, d.db, asNextVersion).stopCleanly()
	i.want = d.rows()
	return i
}

// newKilledFiles returns the files of a directory that was killed, by the suffix of the database's name.
func newKilledFiles(t testing.TB) map[string][]byte {
	t.Helper()
	db := newDB(t)
	p := spawn(t, db)
	p.registerAgent("harbour-pilot", "pilot@example.org")
	p.stopCleanly()
	p = spawn(t, db)
	p.object("POST", "/api/posts", `{"kind":"announce","title":"Tides","body":"Hourly."}`, p.registerAgent("tide-clerk", "clerk@example.org").auth)
	p.kill()
	return map[string][]byte{"": readFile(t, db), "-wal": readFile(t, db+"-wal")}
}

func newCrashSession(t testing.TB, tally *crashCounts, seed uint64) crashImage {
	t.Helper()
	crashStatesAfterSteps(t)
	d := newCrashDirectory(t, tally)
	r := d.newRun("session")
	p := spawn(t, d.db)
	p.registerAgent("bystander", "bystander@example.org")
	p.kill()
	return crashImage{map[string][]byte{"": readFile(t, d.db), "-wal": readFile(t, d.db+"-wal")}, r, seed, nil}
}

// directory writes the image to a folder, in memory if the machine allows it, and copies its run.
func (i crashImage) directory(t testing.TB, tally *crashCounts) (d *crashDirectory, r *crashRun) {
	t.Helper()
	d = &crashDirectory{TB: t, counts: tally, db: filepath.Join(newImageFolder(t), "callbook.db"), mails: newCrashMails(t)}
	for suffix, data := range i.files {
		writeFile(t, d.db+suffix, data)
	}
	if i.run != nil {
		r = &crashRun{name: i.run.name, values: maps.Clone(i.run.values)}
	}
	return d, r
}

// crashResult is what a run of the service on an image has left.
type crashResult struct {
	*crashDirectory
	run    *crashRun
	status int
	calls  [][]string // system calls in the trace
	log    string
}

// runTraced runs the service on the image under strace, until the session is done or the service has exited.
func (i crashImage) runTraced(t testing.TB, tally *crashCounts, faults ...string) crashResult {
	t.Helper()
	d, r := i.directory(t, tally)
	d.failing = strings.Contains(strings.Join(faults, " "), "error=")
	trace := d.db + ".trace"
	p := newProcessVia(t, func(self string) *exec.Cmd {
		args := append([]string{"-f", "-qq", "-o", trace, "-e", "signal=none"}, faults...)
		args = append(args, self, "serve", "--addr=127.0.0.1:0", "--limits=off", "--base-url="+site, "--db="+d.db)
		args = append(args, i.flags(d)...)
		return exec.Command("strace", args...)
	})
	p.cancel = func() {}
	if p.waitServing() {
		p.signalServer(syscall.SIGTERM, d.db)
		c := &crashClient{crashDirectory: d}
		c.connect(p.base)
		for r != nil && !r.finished() {
			if !c.next(r, p) {
				if !r.keyLost {
					p.cancel = func() {} // it ends by itself
				}
				break
			}
		}
	}
	status := p.stop()
	if status > 0 && status != 74 {
		t.Errorf("it ends with status %d: %s", status, p.err)
	}
	p.cancel = func() {}
	return crashResult{d, r, status, tracedCall.FindAllStringSubmatch(string(readFile(t, trace)), -1), p.err.String()}
}

// flags returns the flags of a run: mails and backups, or the next version, whose backups this one cannot read.
func (i crashImage) flags(d *crashDirectory) []string {
	if i.run == nil {
		return []string{asNextVersion}
	}
	return append(d.mails.flags(), "--backup-dir="+d.copies())
}

func (d *crashDirectory) copies() string { return filepath.Join(filepath.Dir(d.db), "copies") }

// crashPoint is a system call of a thread: strace counts the calls of each thread.
type crashPoint struct {
	call string
	nth  int
}

// points returns the system calls of a run without faults, at most as many as wanted, with equal shares of each
// call.
func (i crashImage) points(t testing.TB, calls string, most int) (points []crashPoint) {
	t.Helper()
	without := i.runTraced(t, &crashCounts{}, "-e", "trace="+calls)
	if without.status != 0 || without.run != nil && !without.run.finished() {
		t.Fatalf("without faults it ends with status %d", without.status)
	}
	counts, last := map[string]int{}, map[string]int{}
	for _, line := range without.calls {
		thread, call := line[1], line[2]
		counts[thread+call]++
		last[call] = max(last[call], counts[thread+call])
	}
	turns, random := map[crashPoint]int{}, rand.New(rand.NewPCG(i.seed, 2))
	for _, call := range slices.Sorted(maps.Keys(last)) {
		for turn, n := range random.Perm(last[call]) {
			point := crashPoint{call, n + 1}
			points, turns[point] = append(points, point), turn
		}
	}
	slices.SortStableFunc(points, func(x, y crashPoint) int { return turns[x] - turns[y] })
	return points[:min(most, len(points))]
}

// tracedCall matches thread and name of a call in a trace.
var tracedCall = regexp.MustCompile(`(?m)^(\d+) +(\w+)\(`)

// checkRecovery looks at the remaining files, starts the service on them, and sends the request without a response again.
func (d crashResult) checkRecovery(i crashImage) {
	d.Helper()
	copies, _ := filepath.Glob(filepath.Join(d.copies(), "callbook-*.db"))
	preMigration, _ := filepath.Glob(d.db + ".pre-migrate-*.db")
	for _, name := range append(copies, preMigration...) {
		if _, err := store.VerifyFile(d.Context(), name, false); err != nil {
			d.reportDamage("a copy that has its name: %v", err)
		}
	}
	d.failing = false
	if d.run == nil {
		spawn(d, d.db, asNextVersion).stopCleanly()
		if diff := cmp.Diff(i.want, d.rows()); diff != "" {
			d.counts.lost.Add(1)
			d.Errorf("rows (-want +got):\n%s", diff)
		}
		if torn := integrityErrors(d.db); torn != "" {
			d.reportDamage("the file is not whole: %s", torn)
		}
		return
	}

	p := spawn(d, d.db, d.mails.flags()...)
	settle := func(st *store.Store, file *sql.DB) { d.checkRun(d.run, st, file) }
	d.read(settle)
	c := &crashClient{crashDirectory: d.crashDirectory}
	c.connect(p.base)
	if d.run.unanswered && !c.next(d.run, p) {
		d.Errorf("a repeated request has no response: %s", p.err)
	}
	d.read(settle)
	p.kill()
	d.checkIntegrity()
}

// rows returns all rows of a database that no process serves, by table, except mails and their counts, which the service
// changes when mails have expired, times of startup, and index positions.
func (d *crashDirectory) rows() map[string][]string {
	d.Helper()
	tables := map[string][]string{}
	withDatabase(d, d.db, func(file *sql.DB) (err error) {
		var queries []string
		err = queryPairs(file, `
			SELECT t.name, 'SELECT ' || quote(t.name) || ', ' || group_concat('quote(' || c.name || ')', ' || '','' || ') || ' FROM ' || t.name
			FROM pragma_table_list t JOIN pragma_table_info(t.name) c
			WHERE t.type IN ('table', 'shadow') AND t.name NOT IN ('site', 'outbox', 'mail_log') AND t.name NOT LIKE 'goose_%' AND t.name NOT LIKE '%_data' AND t.name NOT LIKE '%_idx'
			GROUP BY t.name`, func(_, query string) { queries = append(queries, query) })
		for _, query := range queries {
			err = errors.Join(err, queryPairs(file, query, func(table, row string) { tables[table] = append(tables[table], row) }))
		}
		return err
	})
	for _, rows := range tables {
		slices.Sort(rows)
	}
	return tables
}
