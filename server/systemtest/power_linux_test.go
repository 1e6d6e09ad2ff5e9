package systemtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"callbook/server"
	"callbook/store"
	"callbook/store/sqlitedb"
	"callbook/testdata/proof"
	"callbook/testdata/upgrade"
)

// TestPowerCut_LosesNothing records the system calls of the program while agents write: from a first start and from
// the upgrade of an older database, through kills, copies and erasures, to a restore. Then it builds the disk as a
// power cut may leave it after any of these calls, and compares the directory with earlier responses. Synced data is
// there; of the rest nothing, all, some in any order, or some sectors. The sync of a file does not keep its name:
// the sync of its folder does. With --durability=normal the same run must lose acknowledged writes, otherwise the
// test proves nothing.
//
// Not promised, and not tested: disks that report a sync before it is done.
func TestPowerCut_LosesNothing(t *testing.T) {
	t.Parallel()
	needStrace(t)
	states, lost, broken := 0, 0, 0
	for _, part := range []struct {
		states int
		before map[string][]byte // files of a database of this version, which the next one upgrades
	}{
		{proof.Rounds(60, 400, 14_000), nil},
		{proof.Rounds(0, 200, 7_000), newKilledFiles(t)},
	} {
		if part.states > 0 {
			n, l, b := record(t, "full", part.before).checkStates(part.states)
			states, lost, broken = states+n, lost+l, broken+b
		}
	}
	if lost+broken > 0 {
		t.Errorf("of %d states %d lose acknowledged writes, and %d are broken", states, lost, broken)
	}
	proof.Figure(t, "states", states)
	proof.Figure(t, "lost", lost)
	proof.Figure(t, "broken", broken)
	if proof.Asked() {
		_, lost, broken = record(t, "normal", nil).checkStates(proof.Rounds(0, 60, 600))
		if lost == 0 || broken > 0 {
			t.Errorf("with --durability=normal %d states lose acknowledged writes, and %d are broken", lost, broken)
		}
		proof.Figure(t, "control lost", lost)
	}
}

// ackedWrite is the effect of an acknowledged request on the directory.
type ackedWrite struct {
	name     string
	acked    int         // when it was acknowledged: the index of a system call
	after    *ackedWrite // acknowledged before the request was sent
	undoneBy *ackedWrite // the request that undoes it
	visible  []observation
	erases   string // what the file must not contain afterwards
}

// observation is how a request is visible.
type observation struct {
	path, key string
	status    int
	contains  string
}

// mustHold reports whether a write must be visible in a state between two system calls. A write that is being
// undone may be visible or not.
func (p *ackedWrite) mustHold(from, to int) bool {
	return p.acked <= from && (p.undoneBy == nil || p.undoneBy.after.acked > to)
}

// recording is a recorded run.
type recording struct {
	testing.TB
	folder, db string
	before     map[string][]byte // files before the first start
	calls      []diskCall
	writes     []*ackedWrite
	copies     map[string]*copied
	firstWrite int   // index of its acknowledgement
	nonWrites  []int // calls that write nothing
	restoreAt  int   // the first call of a restore
	restored   *copied
	migrations fs.FS    // of the program that opens the database
	settings   []string // flags for these migrations

	mu            sync.Mutex
	checkedCopies map[string]bool // contents of checked copies
}

// copied holds when a copy was started, and when the log reported it.
type copied struct{ started, logged int }

// record records a directory from its first start, or from a database of an earlier version: it is killed, started
// again, stopped, started again and killed; in the end the first copy is restored.
func record(t testing.TB, durability string, before map[string][]byte) *recording {
	t.Helper()
	temporary, err := filepath.EvalSymlinks(t.TempDir()) // strace prints paths without links
	folder := filepath.Join(temporary, "data")
	if err = errors.Join(err, os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	f := &recording{TB: t, folder: folder, db: filepath.Join(folder, "callbook.db"), before: map[string][]byte{}, copies: map[string]*copied{}, checkedCopies: map[string]bool{}}
	if before != nil {
		for suffix, data := range before {
			f.before[f.db+suffix] = data
			f.writeTo(folder, f.db+suffix, data)
		}
		f.migrations, f.settings = upgrade.Migrations(upgrade.Step), []string{asNextVersion}
		f.writes = f.initialState()
	}
	r := &recorder{TB: t, folder: folder, trace: filepath.Join(temporary, "trace"), disk: newSimulatedDisk(f.before)}
	acts := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL}[:proof.Rounds(1, 3, 3)]
	for act, signal := range acts {
		f.runService(r, act, signal, durability)
	}
	f.restoreAt = len(r.calls)
	if made, _ := filepath.Glob(filepath.Join(folder, "copies-0", "daily", "*.db")); len(acts) > 1 {
		p := r.start(append(f.settings, "restore", made[0], "--db="+f.db)...)
		if status := p.wait(); status != 0 {
			t.Fatalf("restore: %d, %s", status, p.err)
		}
		r.readTrace()
	}
	f.calls = r.calls
	f.indexWrites()
	return f
}

// runService runs the service while agents register and write.
func (f *recording) runService(r *recorder, act int, end syscall.Signal, durability string) {
	f.Helper()
	p := r.start(append(f.settings, "serve", "--addr=127.0.0.1:0", "--limits=off", "--durability="+durability,
		"--db="+f.db, "--backup-dir="+filepath.Join(f.folder, fmt.Sprint("copies-", act), "daily"))...)
	if !p.waitServing() {
		f.Fatalf("it does not serve: %s", p.err)
	}
	p.signalServer(end, f.db)
	f.writes = append(f.writes, runPowerClients(p, act)...)
	if end == syscall.SIGTERM && proof.Rounds(0, 0, 1) > 0 {
		waitAtMost(f, 3*patience, "what was erased leaves the log", func() bool { return fileSize(f.db+"-wal") == 0 }) // readers may put it off to the next time
	}
	p.waitLog("wrote a backup", 1)
	p.stop()
	r.readTrace()
}

// writeTo writes a file of the recording to a folder.
func (f *recording) writeTo(folder, name string, data []byte) {
	path := filepath.Join(folder, strings.TrimPrefix(name, f.folder))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		f.Error(err)
	}
}

var draftOf = regexp.MustCompile(`/\.(callbook-\w+\.db)\.\d+$`)

// indexWrites finds when each write was acknowledged.
func (f *recording) indexWrites() {
	f.Helper()
	logged := map[string]int{}
	for i, c := range f.calls {
		if c.effect == effectAck {
			logged[c.name] = i
		}
		if c.effect != effectWrite {
			f.nonWrites = append(f.nonWrites, i)
		}
		if m := draftOf.FindStringSubmatch(c.name); c.effect == effectCreate && m != nil {
			f.copies[filepath.Join(filepath.Dir(c.name), m[1])] = &copied{started: i}
		}
	}
	for name, c := range f.copies {
		if c.logged = logged[name]; c.logged == 0 {
			f.Fatalf("the log line of %s is not recorded", name)
		}
		if strings.Contains(name, "copies-0") {
			f.restored = c
		}
	}
	f.firstWrite = len(f.calls)
	for _, p := range f.writes {
		if p.name == "" {
			continue
		}
		var found bool
		if p.acked, found = logged[p.name]; !found {
			f.Fatalf("the response to %s is not recorded", p.name)
		}
		f.firstWrite = min(f.firstWrite, p.acked)
	}
}

// powerClient sends requests one after the other.
type powerClient struct {
	*process
	name   string
	writes []*ackedWrite
}

// runPowerClients lets agents write, four at a time.
func runPowerClients(p *process, act int) (writes []*ackedWrite) {
	users := make([]*powerClient, 4)
	var writing sync.WaitGroup
	for i := range users {
		users[i] = &powerClient{process: p, name: fmt.Sprintf("%d-%d", act, i)}
		writing.Go(func() {
			for n := range proof.Rounds(2, 4, 8) {
				users[i].run(n)
			}
		})
	}
	writing.Wait()
	for _, u := range users {
		writes = append(writes, u.writes...)
	}
	return writes
}

// send sends a request that writes, and that undoes earlier writes.
func (u *powerClient) send(key, method, path, body string, undone ...*ackedWrite) (made *ackedWrite, text string) {
	made = &ackedWrite{name: fmt.Sprintf("power-%s-%d", u.name, len(u.writes))}
	headers := []string{"X-Request-Id: " + made.name}
	if key != "" {
		headers = append(headers, "Authorization: Bearer "+key)
	}
	if len(u.writes) > 0 {
		made.after = u.writes[len(u.writes)-1]
	}
	for _, p := range undone {
		p.undoneBy = made
	}
	status, text := u.call(method, path, body, headers...)
	if status >= 300 {
		u.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	u.writes = append(u.writes, made)
	return made, text
}

// run lets an agent register, write, and change its mind or leave.
func (u *powerClient) run(n int) {
	handle := fmt.Sprintf("agent-%s-%d", u.name, n)
	mailbox, card := handle+"@example.org", "/api/agents/"+handle
	words := func(n int) string { return fmt.Sprintf("words %d of %s", n, handle) }

	registered, text := u.send("", "POST", "/api/agents", registrationJSON(handle, mailbox))
	key := firstSubmatch(apiKeyInJSON, text)
	registered.visible = []observation{{"/api/me", key, 200, mailbox}}
	tagline, _ := u.send(key, "PATCH", "/api/me", `{"tagline":"`+words(1)+`"}`)
	tagline.visible = []observation{{card, "", 200, words(1)}}
	menu, _ := u.send(key, "PUT", "/api/me/offerings", `{"offerings":[{"title":"`+words(2)+`","deliverable":"Levels","mode":"free"}]}`)
	menu.visible = []observation{{card, "", 200, words(2)}}
	posted, text := u.send(key, "POST", "/api/posts", `{"kind":"seeking","title":"`+words(3)+`","body":"`+strings.Repeat("Hourly levels. ", 50)+`"}`)
	post := "/api/posts/" + firstSubmatch(postIDInJSON, text)
	posted.visible = []observation{{post, "", 200, words(3)}}
	replied, _ := u.send(key, "POST", post+"/replies", `{"body":"`+words(4)+`"}`)
	replied.visible = []observation{{post, "", 200, words(4)}}
	switch n % 4 {
	case 0:
		left, _ := u.send(key, "DELETE", "/api/me?confirm="+handle, "", registered, tagline, menu, posted, replied)
		left.visible = []observation{{card, "", 404, ""}, {post, "", 404, ""}, {"/api/me", key, 401, ""}}
		left.erases = mailbox
	case 1:
		rotated, text := u.send(key, "POST", "/api/me/rotate-key", "", registered)
		rotated.visible = []observation{{"/api/me", firstSubmatch(apiKeyInJSON, text), 200, mailbox}, {"/api/me", key, 401, ""}}
	case 2:
		gone, _ := u.send(key, "DELETE", post, "", posted, replied)
		gone.visible = []observation{{post, "", 404, ""}}
	case 3:
		again, _ := u.send(key, "PATCH", "/api/me", `{"tagline":"`+words(5)+`"}`, tagline)
		again.visible = []observation{{card, "", 200, words(5)}}
	}
}

// initialState returns what the directory shows before any write.
func (f *recording) initialState() []*ackedWrite {
	folder, p := f.TempDir(), &ackedWrite{}
	for name, data := range f.before {
		f.writeTo(folder, name, data)
	}
	get, end, err := f.openInTest(filepath.Join(folder, "callbook.db"))
	if err != nil {
		f.Fatal(err)
	}
	for list, each := range map[string]string{"/api/agents": `"handle":"([\w-]+)","name":`, "/api/posts": `"id":"(pst_\w+)"`} {
		_, text := get(list+"?limit=100", "")
		for _, m := range regexp.MustCompile(each).FindAllStringSubmatch(text, -1) {
			status, text := get(list+"/"+m[1], "")
			p.visible = append(p.visible, observation{list + "/" + m[1], "", status, text})
		}
	}
	if err := end(); err != nil || len(p.visible) == 0 {
		f.Fatalf("it shows %d records: %v", len(p.visible), err)
	}
	return []*ackedWrite{p}
}

// checkStates checks states in which power cuts leave the disk, no two of them equal after the same responses, until there
// are as many as wanted.
func (f *recording) checkStates(states int) (n, lost, broken int) {
	f.Helper()
	met := map[[sha256.Size]byte]bool{}
	for showing := 0; len(met) < states; showing++ {
		if showing == maxPasses {
			f.Fatalf("only %d states in %d showings", len(met), showing)
		}
		// A few cuts would rarely find the last missing states, which may be anywhere.
		l, b := f.checkPass(max(states-len(met), states/10), met)
		lost, broken = lost+l, broken+b
	}
	return len(met), lost, broken
}

// maxPasses is the maximum number of passes through a recording.
const maxPasses = 20

// checkPass cuts the power at that many moments of one pass, each with one kind of loss, and checks the new states.
func (f *recording) checkPass(moments int, met map[[sha256.Size]byte]bool) (lost, broken int) {
	f.Helper()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	cuts := f.cutPoints(moments, r)
	disk, n := newSimulatedDisk(f.before), 0
	folder, places := newImageFolder(f), make(chan string, 2)
	for i := range cap(places) {
		places <- filepath.Join(folder, fmt.Sprint(i))
	}
	var looking sync.WaitGroup
	var mu sync.Mutex
	for at, c := range f.calls {
		disk.apply(c)
		for range cuts[at] {
			names, contents := lossesOfNames[r.IntN(len(lossesOfNames))], lossesOfContent[r.IntN(len(lossesOfContent))]
			image := disk.image(names, contents, r)
			state := f.state(image, at)
			if met[state] {
				continue
			}
			met[state] = true
			open, place := f.openInTest, <-places
			if n++; n%100 == 1 {
				open = f.openInProcess
			}
			looking.Go(func() {
				defer func() { places <- place }()
				v := f.checkCut(place, image, at, open)
				mu.Lock()
				defer mu.Unlock()
				lost += min(1, len(v.lost))
				broken += min(1, len(v.broken))
				if len(v.lost)+len(v.broken) > 0 && lost+broken < 10 {
					f.Logf("seed %d: after call %d of %d, which %s %s: names %s, contents %s: lost %d: %.400q; broken %q",
						seed, at, len(f.calls), c.effect, c.name, names, contents, len(v.lost), v.lost[:min(1, len(v.lost))], v.broken)
				}
			})
		}
	}
	looking.Wait()
	return lost, broken
}

// state identifies the files after a cut together with the responses before it.
func (f *recording) state(image map[string][]byte, at int) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(image)) {
		fmt.Fprintf(h, "%q %d ", name, len(image[name]))
		h.Write(image[name])
	}
	for i, p := range f.writes {
		fmt.Fprint(h, i, p.mustHold(at, at), " ")
	}
	h.Sum(sum[:0])
	return sum
}

// lastCall returns the call after which a restore reports its end, if there is one.
func (f *recording) lastCall() int { return len(f.calls) - 1 }

// cutPoints returns the calls after which the power is cut, and how often: a third of them in the first start, at its
// calls that write nothing by turns, in the restore and after it, a third at calls that write nothing, a third anywhere.
func (f *recording) cutPoints(n int, r *rand.Rand) map[int]int {
	cuts := map[int]int{}
	before, _ := slices.BinarySearch(f.nonWrites, f.firstWrite) // an upgrade renames at few of them
	turn := r.IntN(before)
	for i := range n {
		from, to := 0, len(f.calls)
		switch i % 6 {
		case 0:
			from = f.nonWrites[(turn+i/6)%before]
			to = from + 1
		case 1:
			if from = f.restoreAt % to; i%12 == 1 {
				from = f.lastCall()
			}
		case 2, 3:
			from = f.nonWrites[r.IntN(len(f.nonWrites))]
			to = from + 1
		}
		cuts[from+r.IntN(to-from)]++
	}
	return cuts
}

// verdict is the result of a cut.
type verdict struct{ lost, broken []string }

// openFunc starts the directory on a database, and stops it.
type openFunc func(db string) (get getFunc, end func() error, err error)

type getFunc func(path, key string) (status int, text string)

// checkCut checks one state in which a power cut leaves the disk.
func (f *recording) checkCut(folder string, image map[string][]byte, at int, open openFunc) (v verdict) {
	defer os.RemoveAll(folder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		f.Error(err)
	}
	for name, data := range image {
		f.writeTo(folder, name, data)
	}
	f.checkDatabase(&v, filepath.Join(folder, "callbook.db"), at, at, open)
	for name, c := range f.copies {
		data, is := image[name]
		if !is && at >= c.logged {
			v.lost = append(v.lost, name)
		}
		if is && f.isNewCopy(data) {
			f.writeTo(folder, f.db+".copied", data)
			f.checkDatabase(&v, filepath.Join(folder, "callbook.db.copied"), c.started, c.logged, f.openInTest)
		}
	}
	return v
}

// isNewCopy reports whether a copy was not yet checked: in almost all states it is the same.
func (f *recording) isNewCopy(data []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.checkedCopies[string(data)]
	f.checkedCopies[string(data)] = true
	return !known
}

// checkDatabase opens a database as a start does, and checks its integrity and the writes of a state between two calls.
func (f *recording) checkDatabase(v *verdict, db string, at, to int, open openFunc) {
	get, end, err := open(db)
	for range 2 {
		if len(f.before) == 0 && at < f.firstWrite && errors.Is(err, sqlitedb.ErrGone) && removeLeftover(db, err) {
			get, end, err = open(db)
		}
	}
	if errors.Is(err, sqlitedb.ErrGone) && at >= f.restoreAt && at < f.lastCall() {
		return // the database is set aside, and the copy remains
	}
	if err != nil {
		v.broken = append(v.broken, err.Error())
		return
	}
	lost := f.lostWrites(get, at, to)
	if at >= f.restoreAt && (len(lost) > 0 || at == f.lastCall()) {
		lost = f.restoreFaults(get)
	}
	v.lost = append(v.lost, lost...)
	if err := end(); err != nil {
		v.broken = append(v.broken, err.Error())
	}
	if torn := integrityErrors(db); torn != "" {
		v.broken = append(v.broken, torn)
	}
	if len(lost) == 0 && at < f.restoreAt {
		v.broken = append(v.broken, f.unerased(db, at, to)...)
	}
}

// removeLeftover follows the hint of a start for a missing first database.
func removeLeftover(db string, cause error) bool {
	for _, left := range []string{db + ".lock", db + "-wal"} {
		if strings.Contains(cause.Error(), left+" shows") && strings.Contains(cause.Error(), "to start with a new database, delete that file") {
			return os.Remove(left) == nil
		}
	}
	return false
}

// lostWrites returns the missing writes of a state between two calls.
func (f *recording) lostWrites(get getFunc, from, to int) (lost []string) {
	type response struct {
		status int
		text   string
	}
	seen := map[[2]string]response{}
	for _, p := range f.writes {
		for _, s := range p.visible {
			if !p.mustHold(from, to) {
				continue
			}
			a, known := seen[[2]string{s.path, s.key}]
			if !known {
				a.status, a.text = get(s.path, s.key)
				seen[[2]string{s.path, s.key}] = a
			}
			if a.status != s.status || !strings.Contains(a.text, s.contains) {
				lost = append(lost, fmt.Sprintf("%s: GET %s: %d without %q: %s", p.name, s.path, a.status, s.contains, a.text))
			}
		}
	}
	return lost
}

// restoreFaults returns the differences between a restored database and the copy.
func (f *recording) restoreFaults(get getFunc) []string {
	faults := f.lostWrites(get, f.restored.started, f.restored.logged)
	for _, p := range f.writes {
		if p.after == nil || p.after.acked < f.restored.logged || p.undoneBy != nil {
			continue
		}
		s := p.visible[0]
		if status, text := get(s.path, s.key); s.contains != "" && status == s.status && strings.Contains(text, s.contains) {
			faults = append(faults, p.name+" is from after the copy")
		}
	}
	return faults
}

// unerased returns the erased data that a database still contains.
func (f *recording) unerased(db string, from, to int) (remains []string) {
	data, err := os.ReadFile(db)
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range f.writes {
		if p.erases != "" && p.mustHold(from, to) && bytes.Contains(data, []byte(p.erases)) {
			remains = append(remains, p.erases+" is not erased")
		}
	}
	return remains
}

// openInTest opens a database within the test, as a start of the program does.
func (f *recording) openInTest(db string) (get getFunc, end func() error, err error) {
	lock, err := sqlitedb.AcquireLock(db)
	if err != nil {
		return nil, nil, err
	}
	st, err := store.Open(context.Background(), store.Options{Path: db, Migrations: f.migrations})
	if err != nil {
		return nil, nil, errors.Join(err, lock.Release())
	}
	s, err := server.New(st, server.Options{BaseURL: site, Log: zerolog.Nop(), CacheBytes: -1})
	if err != nil {
		f.Fatal(err)
	}
	get = func(path, key string) (int, string) {
		r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer "+key)
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	return get, func() error { return errors.Join(st.Close(), lock.Release()) }, nil
}

// openInProcess starts the program itself.
func (f *recording) openInProcess(db string) (get getFunc, end func() error, err error) {
	p := newProcess(f.TB, append(f.settings, "serve", "--addr=127.0.0.1:0", "--limits=off", "--base-url="+site, "--db="+db)...)
	if !p.waitServing() {
		if err = fmt.Errorf("status %d: %s", p.stop(), p.err); p.stop() == 73 {
			err = fmt.Errorf("%w: %w", sqlitedb.ErrGone, err)
		}
		return nil, nil, err
	}
	get = func(path, key string) (int, string) { return p.call("GET", path, "", "Authorization: Bearer "+key) }
	return get, func() (err error) {
		if status := p.stop(); status != 0 {
			err = fmt.Errorf("status %d: %s", status, p.err)
		}
		return err
	}, nil
}
