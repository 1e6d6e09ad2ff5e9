package systemtest

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// deed is the effect of a system call on files.
type deed string

const (
	didMake      deed = "makes"
	didMakeDir   deed = "makes the folder"
	didWrite     deed = "writes"
	didResize    deed = "resizes"
	didRemove    deed = "removes"
	didRename    deed = "renames"
	didLink      deed = "links"
	didBeginSync deed = "begins to sync" // what follows may be left out
	didSync      deed = "has synced"
	didAnswer    deed = "answers"
)

// diskCall is one system call.
type diskCall struct {
	deed     deed
	thread   string
	name, to string // of files; of a promise when answered
	at       int64  // in the file, or its new size; -1 for its end
	data     []byte
}

// recorder parses the output of strace.
type recorder struct {
	testing.TB
	folder string            // whose files count
	trace  string            // where strace writes
	begun  map[string]string // by thread: the first half of a line
	calls  []diskCall
	disk   *medium
}

// recorded are the calls that the recorder knows, and those that it would have to know.
const recorded = "trace=open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,copy_file_range,sendfile,splice,ftruncate,truncate,fallocate," +
	"fsync,fdatasync,sync_file_range,msync,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlinkat,mmap"

// runs starts the program under strace.
func (r *recorder) runs(args ...string) *process {
	r.Helper()
	return newProcessBy(r.TB, func(self string) *exec.Cmd {
		return exec.Command("strace", append([]string{
			"-f", "-qq", "-y", "-xx", "-s", "100000", "-o", r.trace, "-e", "signal=none", "-e", recorded,
			"-e", "inject=copy_file_range,sendfile,splice:error=ENOSYS", self,
		}, args...)...)
	})
}

// read adds the calls of a program that has exited.
func (r *recorder) read() {
	r.Helper()
	f, err := os.Open(r.trace)
	if err != nil {
		r.Fatal(err)
	}
	defer f.Close()
	r.begun = map[string]string{}
	from, lines := len(r.calls), bufio.NewReaderSize(f, 1<<20)
	line, err := lines.ReadString('\n')
	for ; err == nil; line, err = lines.ReadString('\n') {
		thread, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		r.line(thread, strings.TrimLeft(text, " "))
	}
	if !errors.Is(err, io.EOF) {
		r.Fatal(err)
	}
	r.killed()
	for _, c := range r.calls[from:] {
		r.disk.do(c)
	}
	r.compare()
}

// killed adds the write that was running when the program was killed, if it was done.
func (r *recorder) killed() {
	for thread, half := range r.begun {
		if name, path, quoted := partsOf(half); name == "pwrite64" && r.counts(path) {
			data, err := os.ReadFile(path)
			if at := numbersOf(half)[1]; err == nil && bytes.HasPrefix(data[min(at, int64(len(data))):], quoted[0]) {
				r.ends(thread, half)
			}
		}
	}
}

// compare compares the files that result from the calls with the real ones.
func (r *recorder) compare() {
	r.Helper()
	made := r.disk.image(allKept, allKept, nil)
	err := filepath.WalkDir(r.folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !r.counts(path) {
			return err
		}
		data, err := os.ReadFile(path)
		if of, is := made[path]; !is || !bytes.Equal(of, data) {
			r.Errorf("the record is not whole: %s has %d bytes, not %d", path, len(data), len(of))
		}
		delete(made, path)
		return err
	})
	if err != nil || len(made) > 0 {
		r.Errorf("the record is not whole: there is no %q; %v", slices.Collect(maps.Keys(made)), err)
	}
}

func (r *recorder) line(thread, text string) {
	begin, isHalf := strings.CutSuffix(text, " <unfinished ...>")
	switch {
	case strings.HasPrefix(text, "+++"):
	case isHalf:
		r.begun[thread] = begin
		r.begins(thread, begin)
	case strings.HasPrefix(text, "<... "):
		_, end, _ := strings.Cut(text, " resumed>")
		begin := r.begun[thread]
		delete(r.begun, thread)
		r.ends(thread, begin+end)
	default:
		r.begins(thread, text)
		r.ends(thread, text)
	}
}

var (
	answerOf      = regexp.MustCompile(`^HTTP/1\.1 2\d\d (?s:.*)\r\nX-Request-Id: (power-\S+)\r\n`)
	unknownResult = regexp.MustCompile(`( <unfinished \.\.\.>)?\) += \?$`)

	copyMade = regexp.MustCompile(`wrote a backup .*\bfile=(\S+)`)
)

// begins records the start of a call: from then on a client may have the response, and later writes are not part of
// the sync.
func (r *recorder) begins(thread, text string) {
	if !strings.HasPrefix(text, "write(") && !strings.Contains(text, "sync(") {
		return
	}
	name, path, quoted := partsOf(text)
	if name != "write" {
		r.add(diskCall{deed: didBeginSync, thread: thread, name: path})
		return
	}
	for _, told := range []*regexp.Regexp{answerOf, copyMade} {
		if m := told.FindSubmatch(quoted[0]); m != nil && !r.counts(path) {
			r.add(diskCall{deed: didAnswer, name: string(m[1])})
		}
	}
}

func (r *recorder) ends(thread, text string) {
	// The program was killed during a call without a result, so nobody knows yet whether it was done.
	if m := unknownResult.FindStringIndex(text); m != nil {
		r.begun[thread] = text[:m[0]]
		return
	}

	name, path, quoted := partsOf(text)
	result := text[strings.LastIndex(text, "=")+1:]
	if !r.counts(path) || strings.Contains(result, " -1 ") || name == "mmap" && !strings.Contains(text, "PROT_WRITE, MAP_SHARED") {
		return
	}
	c := diskCall{name: path, thread: thread, at: -1}
	switch name {
	case "open", "openat":
		if strings.Contains(text, "O_CREAT") {
			r.add(diskCall{deed: didMake, name: path})
		}
		if !strings.Contains(text, "O_TRUNC") {
			return
		}
		c.deed, c.at = didResize, 0
	case "mkdir", "mkdirat":
		c.deed = didMakeDir
	case "write", "pwrite64":
		c.deed, c.data = didWrite, quoted[0]
		numbers := numbersOf(text)
		if int64(len(c.data)) != numbers[0] {
			r.Fatalf("a write of %d bytes is recorded with %d", numbers[0], len(c.data))
		}
		if name == "pwrite64" {
			c.at = numbers[1]
		}
	case "ftruncate":
		c.deed, c.at = didResize, numbersOf(text)[0]
	case "unlink", "unlinkat":
		c.deed = didRemove
	case "rename", "renameat", "renameat2":
		c.deed, c.to = didRename, string(quoted[1])
	case "link", "linkat":
		c.deed, c.to = didLink, string(quoted[1])
	case "fsync", "fdatasync":
		c.deed = didSync
	default:
		r.Fatalf("the program does what this test does not know: %s of %s", name, path)
	}
	r.add(c)
}

// counts reports whether a file counts: the contents of -shm are discarded at startup.
func (r *recorder) counts(path string) bool {
	return strings.HasPrefix(path+"/", r.folder+"/") && !strings.HasSuffix(path, "-shm")
}

func (r *recorder) add(c diskCall) { r.calls = append(r.calls, c) }

// partsOf returns the name of a call, the file that it concerns, and its strings.
func partsOf(text string) (name, path string, quoted [][]byte) {
	name, arguments, _ := strings.Cut(text, "(")
	fields := strings.Split(arguments, `"`)
	for i := 1; i < len(fields); i += 2 {
		quoted = append(quoted, unhexed(fields[i]))
	}
	if open, of, is := strings.Cut(fields[0], "<"); is && !strings.HasPrefix(open, "AT_FDCWD") {
		path, _, _ = strings.Cut(of, ">")
		return name, string(unhexed(path)), quoted
	}
	if len(quoted) > 0 {
		path = string(quoted[0])
	}
	return name, path, quoted
}

// unhexed decodes \x41\x42.
func unhexed(text string) []byte {
	data := make([]byte, len(text)/4)
	for i := range data {
		_, _ = hex.Decode(data[i:], []byte(text[4*i+2:4*i+4]))
	}
	return data
}

// numbersOf returns the numbers behind the file and string of a call.
func numbersOf(text string) (numbers []int64) {
	text, _, _ = strings.Cut(text[max(strings.LastIndex(text, `"`), strings.Index(text, ">"))+1:], ")")
	for field := range strings.SplitSeq(strings.TrimPrefix(text, ","), ",") {
		n, _ := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
		numbers = append(numbers, n)
	}
	return numbers
}

// medium is a disk after some calls.
type medium struct {
	names   map[string][]*inode // what each name has stood for; nil for nothing
	lasting map[string]int      // the first of those that a cut may leave
	syncing map[string]func()   // by thread: what its sync does at its end
}

// inode is a file or a folder, whatever its name.
type inode struct {
	folder  bool
	size    int64
	changes []diskCall
	lasting int    // how many of the changes a cut leaves
	content []byte // with those
}

// newMedium returns a disk with the files that existed before.
func newMedium(before map[string][]byte) *medium {
	m := &medium{map[string][]*inode{}, map[string]int{}, map[string]func(){}}
	for name, data := range before {
		m.names[name] = []*inode{{size: int64(len(data)), content: bytes.Clone(data)}}
	}
	return m
}

func (m *medium) at(name string) *inode {
	if of := m.names[name]; len(of) > 0 {
		return of[len(of)-1]
	}
	return nil
}

func (m *medium) set(name string, f *inode) {
	if len(m.names[name]) == 0 {
		m.names[name] = []*inode{nil}
	}
	m.names[name] = append(m.names[name], f)
}

func (m *medium) do(c diskCall) {
	f := m.at(c.name)
	switch c.deed {
	case didMake:
		if f == nil {
			m.set(c.name, &inode{})
		}
	case didMakeDir:
		m.set(c.name, &inode{folder: true})
	case didWrite, didResize:
		if f != nil { // else it has no name any longer
			f.change(c)
		}
	case didRemove:
		m.set(c.name, nil)
	case didRename:
		m.set(c.name, nil)
		m.set(c.to, f)
	case didLink:
		m.set(c.to, f)
	case didBeginSync:
		m.syncing[c.thread] = m.sync(c.name)
	case didSync:
		m.syncing[c.thread]()
	}
}

func (f *inode) change(c diskCall) {
	if c.at < 0 {
		c.at = f.size
	}
	f.changes = append(f.changes, c)
	if f.size = max(f.size, c.at+int64(len(c.data))); c.deed == didResize {
		f.size = c.at
	}
}

// sync returns a function that makes the present state of a file or folder durable.
func (m *medium) sync(name string) func() {
	if f := m.at(name); f != nil && !f.folder {
		n := len(f.changes)
		return func() {
			for ; f.lasting < n; f.lasting++ {
				f.content = f.changes[f.lasting].on(f.content)
			}
		}
	}
	lengths := map[string]int{}
	for in, of := range m.names {
		if filepath.Dir(in) == name {
			lengths[in] = len(of)
		}
	}
	return func() {
		for in, n := range lengths {
			m.lasting[in] = max(m.lasting[in], n-1)
		}
	}
}

// on applies a change to a file's content.
func (c diskCall) on(content []byte) []byte {
	end := int(c.at)
	if c.deed == didWrite {
		end = max(len(content), end+len(c.data))
	}
	content = append(content, make([]byte, max(0, end-len(content)))...)[:end]
	copy(content[min(int(c.at), end):], c.data)
	return content
}

// sectors returns the parts of a write that a disk writes atomically.
func (c diskCall) sectors() (parts []diskCall) {
	if c.deed != didWrite {
		return []diskCall{c}
	}
	const sector = 512
	for at, data := c.at, c.data; len(data) > 0; {
		n := min(int64(len(data)), sector-at%sector)
		parts = append(parts, diskCall{deed: didWrite, at: at, data: data[:n]})
		at, data = at+n, data[n:]
	}
	return parts
}

// loss is the fate of unsynced data.
type loss string

const (
	allLost       loss = "all lost"
	allKept       loss = "all kept"
	someKept      loss = "some kept"
	someReordered loss = "some kept in another order"
	someSectors   loss = "some sectors kept"
	lastTorn      loss = "all kept but sectors of the last"
)

var (
	lossesOfNames   = []loss{allLost, allKept, someKept} // by the last, each is as it was at any time since its folder's sync
	lossesOfContent = []loss{allLost, allKept, someKept, someReordered, someSectors, lastTorn}
)

func (f *inode) after(l loss, r *rand.Rand) []byte {
	changes := slices.Clone(f.changes[f.lasting:])
	switch l {
	case allLost:
		changes = nil
	case someReordered:
		r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	case someSectors:
		var parts []diskCall
		for _, c := range changes {
			parts = append(parts, c.sectors()...)
		}
		changes = parts
	case lastTorn:
		if last := len(changes) - 1; last >= 0 {
			parts := changes[last].sectors()
			changes = append(changes[:last], parts[:r.IntN(len(parts))]...)
		}
	}
	content := bytes.Clone(f.content)
	for _, c := range changes {
		if l == allKept || l == lastTorn || r.IntN(2) == 0 {
			content = c.on(content)
		}
	}
	return content
}

// image returns the files after a power cut: a file without its folder is not found.
func (m *medium) image(names, contents loss, r *rand.Rand) map[string][]byte {
	image, made, lost := map[string][]byte{}, map[*inode][]byte{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(m.names)) { // a folder before what is in it
		of := m.names[name][m.lasting[name]:]
		f := of[0]
		switch names {
		case allKept:
			f = of[len(of)-1]
		case someKept:
			f = of[r.IntN(len(of))]
		}
		switch {
		case f == nil || lost[filepath.Dir(name)]:
			lost[name] = true
			continue
		case f.folder:
			continue
		}
		if _, is := made[f]; !is {
			made[f] = f.after(contents, r)
		}
		image[name] = made[f]
	}
	return image
}
