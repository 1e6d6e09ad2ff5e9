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
// Not promised, and not tried: disks that tell of a sync before it is done.
func TestPowerCut_LosesNothing(t *testing.T) {
	t.Parallel()
	needStrace(t)
	states, lost, broken := 0, 0, 0
	for _, part := range []struct {
		states int
		before map[string][]byte // files of a database of this version, which the next one upgrades
	}{
		{proof.Rounds(60, 400, 14_000), nil},
		{proof.Rounds(0, 200, 7_000), olderFiles(t)},
	} {
		if part.states > 0 {
			n, l, b := newFilm(t, "full", part.before).play(part.states)
			states, lost, broken = states+n, lost+l, broken+b
		}
	}
	if lost+broken > 0 {
		t.Errorf("of %d states %d lose what was answered, and %d are broken", states, lost, broken)
	}
	proof.Figure(t, "states", states)
	proof.Figure(t, "lost", lost)
	proof.Figure(t, "broken", broken)
	if proof.Asked() {
		_, lost, broken = newFilm(t, "normal", nil).play(proof.Rounds(0, 60, 600))
		if lost == 0 || broken > 0 {
			t.Errorf("with --durability=normal %d states lose what was answered, and %d are broken", lost, broken)
		}
		proof.Figure(t, "control lost", lost)
	}
}

// promise is the effect of an acknowledged request on the directory.
type promise struct {
	name    string
	at      int      // when it was answered: the number of a call of the system
	after   *promise // whose answer came before the call was made
	undoing *promise // the call that takes it back
	sights  []sight
	erases  string // what no file may hold then
}

// sight is how a request is visible.
type sight struct {
	path, key string
	status    int
	holds     string
}

// binds reports whether a promise must hold in a state that was taken between two calls. A promise that is being undone
// may hold or not.
func (p *promise) binds(from, to int) bool {
	return p.at <= from && (p.undoing == nil || p.undoing.after.at > to)
}

// film is a recorded run.
type film struct {
	testing.TB
	folder, db string
	before     map[string][]byte // files
	calls      []diskCall
	promises   []*promise
	copies     map[string]*copied
	first      int   // answer
	borders    []int // calls that write nothing
	restoring  int   // the first call of a restore
	restored   *copied
	migrations fs.FS    // of the program
	settings   []string // for them

	mu    sync.Mutex
	whole map[string]bool // copies that were looked at
}

// copied holds when a copy was started, and when the log reported it.
type copied struct{ begun, told int }

// newFilm records a directory from its first start, or from a database of an earlier version: it is killed, started
// again, stopped, started again and killed; in the end the first copy is restored.
func newFilm(t testing.TB, durability string, before map[string][]byte) *film {
	t.Helper()
	temporary, err := filepath.EvalSymlinks(t.TempDir()) // the system tells of paths without links
	folder := filepath.Join(temporary, "data")
	if err = errors.Join(err, os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	f := &film{TB: t, folder: folder, db: filepath.Join(folder, "callbook.db"), before: map[string][]byte{}, copies: map[string]*copied{}, whole: map[string]bool{}}
	if before != nil {
		for suffix, data := range before {
			f.before[f.db+suffix] = data
			f.lay(folder, f.db+suffix, data)
		}
		f.migrations, f.settings = upgrade.Migrations(upgrade.Step), []string{asNextVersion}
		f.promises = f.standing()
	}
	r := &recorder{TB: t, folder: folder, trace: filepath.Join(temporary, "trace"), disk: newMedium(f.before)}
	acts := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL}[:proof.Rounds(1, 3, 3)]
	for act, signal := range acts {
		f.act(r, act, signal, durability)
	}
	f.restoring = len(r.calls)
	if made, _ := filepath.Glob(filepath.Join(folder, "copies-0", "daily", "*.db")); len(acts) > 1 {
		p := r.runs(append(f.settings, "restore", made[0], "--db="+f.db)...)
		if status := comes(t, p.status); status != 0 {
			t.Fatalf("restore: %d, %s", status, p.err)
		}
		p.status <- 0
		r.read()
	}
	f.calls = r.calls
	f.index()
	return f
}

// act runs the service while agents register and write.
func (f *film) act(r *recorder, act int, end syscall.Signal, durability string) {
	f.Helper()
	p := r.runs(append(f.settings, "serve", "--addr=127.0.0.1:0", "--limits=off", "--durability="+durability,
		"--db="+f.db, "--backup-dir="+filepath.Join(f.folder, fmt.Sprint("copies-", act), "daily"))...)
	if !p.serving() {
		f.Fatalf("it does not serve: %s", p.err)
	}
	p.servesUntil(end, f.db)
	f.promises = append(f.promises, powerUsers(p, act)...)
	if end == syscall.SIGTERM && proof.Rounds(0, 0, 1) > 0 {
		waitFor(f, 3*patience, "what was erased leaves the log", func() bool { return sizeOf(f.db+"-wal") == 0 }) // readers may put it off to the next time
	}
	p.logs("wrote a backup", 1)
	p.stop()
	r.read()
}

// lay writes a file of the film to a folder.
func (f *film) lay(folder, name string, data []byte) {
	path := filepath.Join(folder, strings.TrimPrefix(name, f.folder))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		f.Error(err)
	}
}

var draftOf = regexp.MustCompile(`/\.(callbook-\w+\.db)\.\d+$`)

// index finds the time of each promise.
func (f *film) index() {
	f.Helper()
	told := map[string]int{}
	for i, c := range f.calls {
		if c.deed == didAnswer {
			told[c.name] = i
		}
		if c.deed != didWrite {
			f.borders = append(f.borders, i)
		}
		if m := draftOf.FindStringSubmatch(c.name); c.deed == didMake && m != nil {
			f.copies[filepath.Join(filepath.Dir(c.name), m[1])] = &copied{begun: i}
		}
	}
	for name, c := range f.copies {
		if c.told = told[name]; c.told == 0 {
			f.Fatalf("what is told of %s is not recorded", name)
		}
		if strings.Contains(name, "copies-0") {
			f.restored = c
		}
	}
	f.first = len(f.calls)
	for _, p := range f.promises {
		if p.name == "" {
			continue
		}
		var found bool
		if p.at, found = told[p.name]; !found {
			f.Fatalf("the answer to %s is not recorded", p.name)
		}
		f.first = min(f.first, p.at)
	}
}

// powerUser sends requests one after the other.
type powerUser struct {
	*process
	name     string
	promises []*promise
}

// powerUsers lets agents write, four at a time.
func powerUsers(p *process, act int) (promises []*promise) {
	users := make([]*powerUser, 4)
	var writing sync.WaitGroup
	for i := range users {
		users[i] = &powerUser{process: p, name: fmt.Sprintf("%d-%d", act, i)}
		writing.Go(func() {
			for n := range proof.Rounds(2, 4, 8) {
				users[i].live(n)
			}
		})
	}
	writing.Wait()
	for _, u := range users {
		promises = append(promises, u.promises...)
	}
	return promises
}

// send sends a request whose response promises something, and undoes earlier promises.
func (u *powerUser) send(key, method, path, body string, undone ...*promise) (made *promise, text string) {
	made = &promise{name: fmt.Sprintf("power-%s-%d", u.name, len(u.promises))}
	headers := []string{"X-Request-Id: " + made.name}
	if key != "" {
		headers = append(headers, "Authorization: Bearer "+key)
	}
	if len(u.promises) > 0 {
		made.after = u.promises[len(u.promises)-1]
	}
	for _, p := range undone {
		p.undoing = made
	}
	status, text := u.call(method, path, body, headers...)
	if status >= 300 {
		u.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	u.promises = append(u.promises, made)
	return made, text
}

// live lets an agent register, write, and change its mind or leave.
func (u *powerUser) live(n int) {
	handle := fmt.Sprintf("agent-%s-%d", u.name, n)
	mailbox, card := handle+"@example.org", "/api/agents/"+handle
	words := func(n int) string { return fmt.Sprintf("words %d of %s", n, handle) }

	came, text := u.send("", "POST", "/api/agents", registrationFor(handle, mailbox))
	key := firstIn(givenKey, text)
	came.sights = []sight{{"/api/me", key, 200, mailbox}}
	tagline, _ := u.send(key, "PATCH", "/api/me", `{"tagline":"`+words(1)+`"}`)
	tagline.sights = []sight{{card, "", 200, words(1)}}
	menu, _ := u.send(key, "PUT", "/api/me/offerings", `{"offerings":[{"title":"`+words(2)+`","deliverable":"Levels","mode":"free"}]}`)
	menu.sights = []sight{{card, "", 200, words(2)}}
	called, text := u.send(key, "POST", "/api/posts", `{"kind":"seeking","title":"`+words(3)+`","body":"`+strings.Repeat("Hourly levels. ", 50)+`"}`)
	post := "/api/posts/" + firstIn(givenID, text)
	called.sights = []sight{{post, "", 200, words(3)}}
	replied, _ := u.send(key, "POST", post+"/replies", `{"body":"`+words(4)+`"}`)
	replied.sights = []sight{{post, "", 200, words(4)}}
	switch n % 4 {
	case 0:
		left, _ := u.send(key, "DELETE", "/api/me?confirm="+handle, "", came, tagline, menu, called, replied)
		left.sights = []sight{{card, "", 404, ""}, {post, "", 404, ""}, {"/api/me", key, 401, ""}}
		left.erases = mailbox
	case 1:
		rotated, text := u.send(key, "POST", "/api/me/rotate-key", "", came)
		rotated.sights = []sight{{"/api/me", firstIn(givenKey, text), 200, mailbox}, {"/api/me", key, 401, ""}}
	case 2:
		gone, _ := u.send(key, "DELETE", post, "", called, replied)
		gone.sights = []sight{{post, "", 404, ""}}
	case 3:
		again, _ := u.send(key, "PATCH", "/api/me", `{"tagline":"`+words(5)+`"}`, tagline)
		again.sights = []sight{{card, "", 200, words(5)}}
	}
}

// standing returns what the directory shows before any write.
func (f *film) standing() []*promise {
	folder, p := f.TempDir(), &promise{}
	for name, data := range f.before {
		f.lay(folder, name, data)
	}
	get, end, err := f.opened(filepath.Join(folder, "callbook.db"))
	if err != nil {
		f.Fatal(err)
	}
	for list, each := range map[string]string{"/api/agents": `"handle":"([\w-]+)","name":`, "/api/posts": `"id":"(pst_\w+)"`} {
		_, text := get(list+"?limit=100", "")
		for _, m := range regexp.MustCompile(each).FindAllStringSubmatch(text, -1) {
			status, text := get(list+"/"+m[1], "")
			p.sights = append(p.sights, sight{list + "/" + m[1], "", status, text})
		}
	}
	if err := end(); err != nil || len(p.sights) == 0 {
		f.Fatalf("it shows %d records: %v", len(p.sights), err)
	}
	return []*promise{p}
}

// play checks states in which power cuts leave the disk, no two of them equal after the same responses, until it has
// met as many as wanted.
func (f *film) play(states int) (n, lost, broken int) {
	f.Helper()
	met := map[[sha256.Size]byte]bool{}
	for showing := 0; len(met) < states; showing++ {
		if showing == mostShowings {
			f.Fatalf("only %d states in %d showings", len(met), showing)
		}
		// The last ones that are missing may lie anywhere: a few moments would miss them.
		l, b := f.show(max(states-len(met), states/10), met)
		lost, broken = lost+l, broken+b
	}
	return len(met), lost, broken
}

// mostShowings is the maximum number of passes through a film.
const mostShowings = 20

// show cuts the power at that many moments of one pass, each with one kind of loss, and checks the new states.
func (f *film) show(moments int, met map[[sha256.Size]byte]bool) (lost, broken int) {
	f.Helper()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	cuts := f.moments(moments, r)
	disk, n := newMedium(f.before), 0
	folder, places := imageFolder(f), make(chan string, 2)
	for i := range cap(places) {
		places <- filepath.Join(folder, fmt.Sprint(i))
	}
	var looking sync.WaitGroup
	var mu sync.Mutex
	for at, c := range f.calls {
		disk.do(c)
		for range cuts[at] {
			names, contents := lossesOfNames[r.IntN(len(lossesOfNames))], lossesOfContent[r.IntN(len(lossesOfContent))]
			image := disk.image(names, contents, r)
			state := f.state(image, at)
			if met[state] {
				continue
			}
			met[state] = true
			open, place := f.opened, <-places
			if n++; n%100 == 1 {
				open = f.served
			}
			looking.Go(func() {
				defer func() { places <- place }()
				v := f.cut(place, image, at, open)
				mu.Lock()
				defer mu.Unlock()
				lost += min(1, len(v.lost))
				broken += min(1, len(v.broken))
				if len(v.lost)+len(v.broken) > 0 && lost+broken < 10 {
					f.Logf("seed %d: after call %d of %d, which %s %s: names %s, contents %s: lost %d: %.400q; broken %q",
						seed, at, len(f.calls), c.deed, c.name, names, contents, len(v.lost), v.lost[:min(1, len(v.lost))], v.broken)
				}
			})
		}
	}
	looking.Wait()
	return lost, broken
}

// state identifies the files after a cut together with the responses before it.
func (f *film) state(image map[string][]byte, at int) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(image)) {
		fmt.Fprintf(h, "%q %d ", name, len(image[name]))
		h.Write(image[name])
	}
	for i, p := range f.promises {
		fmt.Fprint(h, i, p.binds(at, at), " ")
	}
	h.Sum(sum[:0])
	return sum
}

// last returns the call after which a restore reports its end, if there is one.
func (f *film) last() int { return len(f.calls) - 1 }

// moments returns the calls after which the power is cut, and how often: a third of them in the first start, at its
// calls that write nothing by turns, in the restore and after it, a third at calls that write nothing, a third anywhere.
func (f *film) moments(n int, r *rand.Rand) map[int]int {
	cuts := map[int]int{}
	before, _ := slices.BinarySearch(f.borders, f.first) // an upgrade changes names at few of them
	turn := r.IntN(before)
	for i := range n {
		from, to := 0, len(f.calls)
		switch i % 6 {
		case 0:
			from = f.borders[(turn+i/6)%before]
			to = from + 1
		case 1:
			if from = f.restoring % to; i%12 == 1 {
				from = f.last()
			}
		case 2, 3:
			from = f.borders[r.IntN(len(f.borders))]
			to = from + 1
		}
		cuts[from+r.IntN(to-from)]++
	}
	return cuts
}

// verdict is the result of a cut.
type verdict struct{ lost, broken []string }

// opening starts the directory on a database, and stops it.
type opening func(db string) (get getting, end func() error, err error)

type getting func(path, key string) (status int, text string)

// cut checks one state in which a power cut leaves the disk.
func (f *film) cut(folder string, image map[string][]byte, at int, open opening) (v verdict) {
	defer os.RemoveAll(folder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		f.Error(err)
	}
	for name, data := range image {
		f.lay(folder, name, data)
	}
	f.look(&v, filepath.Join(folder, "callbook.db"), at, at, open)
	for name, c := range f.copies {
		data, is := image[name]
		if !is && at >= c.told {
			v.lost = append(v.lost, name)
		}
		if is && f.isNew(data) {
			f.lay(folder, f.db+".copied", data)
			f.look(&v, filepath.Join(folder, "callbook.db.copied"), c.begun, c.told, f.opened)
		}
	}
	return v
}

// isNew reports whether a copy was not yet checked: in almost all states it is the same.
func (f *film) isNew(data []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.whole[string(data)]
	f.whole[string(data)] = true
	return !known
}

// look opens a database as a start does, and checks its integrity and the promises of a state that was taken between
// two calls.
func (f *film) look(v *verdict, db string, at, to int, open opening) {
	get, end, err := open(db)
	for range 2 {
		if len(f.before) == 0 && at < f.first && errors.Is(err, sqlitedb.ErrGone) && begunAnew(db, err) {
			get, end, err = open(db)
		}
	}
	if errors.Is(err, sqlitedb.ErrGone) && at >= f.restoring && at < f.last() {
		return // it is set aside, and the copy is still there
	}
	if err != nil {
		v.broken = append(v.broken, err.Error())
		return
	}
	lost := f.missed(get, at, to)
	if at >= f.restoring && (len(lost) > 0 || at == f.last()) {
		lost = f.mixed(get)
	}
	v.lost = append(v.lost, lost...)
	if err := end(); err != nil {
		v.broken = append(v.broken, err.Error())
	}
	if torn := integrityOf(db); torn != "" {
		v.broken = append(v.broken, torn)
	}
	if len(lost) == 0 && at < f.restoring {
		v.broken = append(v.broken, f.kept(db, at, to)...)
	}
}

// begunAnew follows the hint of a start for a missing first database.
func begunAnew(db string, cause error) bool {
	for _, left := range []string{db + ".lock", db + "-wal"} {
		if strings.Contains(cause.Error(), left+" shows") && strings.Contains(cause.Error(), "to start with a new database, delete that file") {
			return os.Remove(left) == nil
		}
	}
	return false
}

// missed returns the broken promises of a state that was taken between two calls.
func (f *film) missed(get getting, from, to int) (lost []string) {
	type answer struct {
		status int
		text   string
	}
	seen := map[[2]string]answer{}
	for _, p := range f.promises {
		for _, s := range p.sights {
			if !p.binds(from, to) {
				continue
			}
			a, known := seen[[2]string{s.path, s.key}]
			if !known {
				a.status, a.text = get(s.path, s.key)
				seen[[2]string{s.path, s.key}] = a
			}
			if a.status != s.status || !strings.Contains(a.text, s.holds) {
				lost = append(lost, fmt.Sprintf("%s: GET %s: %d without %q: %s", p.name, s.path, a.status, s.holds, a.text))
			}
		}
	}
	return lost
}

// mixed returns the differences between a restored database and the copy.
func (f *film) mixed(get getting) []string {
	faults := f.missed(get, f.restored.begun, f.restored.told)
	for _, p := range f.promises {
		if p.after == nil || p.after.at < f.restored.told || p.undoing != nil {
			continue
		}
		s := p.sights[0]
		if status, text := get(s.path, s.key); s.holds != "" && status == s.status && strings.Contains(text, s.holds) {
			faults = append(faults, p.name+" is from after the copy")
		}
	}
	return faults
}

// kept returns the erased data that a database still contains.
func (f *film) kept(db string, from, to int) (kept []string) {
	data, err := os.ReadFile(db)
	if err != nil {
		return []string{err.Error()}
	}
	for _, p := range f.promises {
		if p.erases != "" && p.binds(from, to) && bytes.Contains(data, []byte(p.erases)) {
			kept = append(kept, p.erases+" is not erased")
		}
	}
	return kept
}

// opened opens a database within the test, as a start of the program does.
func (f *film) opened(db string) (get getting, end func() error, err error) {
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

// served starts the program itself.
func (f *film) served(db string) (get getting, end func() error, err error) {
	p := newProcess(f.TB, append(f.settings, "serve", "--addr=127.0.0.1:0", "--limits=off", "--base-url="+site, "--db="+db)...)
	if !p.serving() {
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
