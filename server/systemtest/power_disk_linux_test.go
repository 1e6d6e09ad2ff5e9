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

// effect is the effect of a system call on files.
type effect string

const (
	effectCreate    effect = "makes"
	effectMkdir     effect = "makes the folder"
	effectWrite     effect = "writes"
	effectResize    effect = "resizes"
	effectRemove    effect = "removes"
	effectRename    effect = "renames"
	effectLink      effect = "links"
	effectBeginSync effect = "begins to sync" // what follows may be left out
	effectSync      effect = "has synced"
	effectAck       effect = "acknowledges"
)

// diskCall is one system call.
type diskCall struct {
	effect   effect
	thread   string
	name, to string // of files; of a write when acknowledged
	at       int64  // in the file, or its new size; -1 for its end
	data     []byte
}

// recorder parses the output of strace.
type recorder struct {
	testing.TB
	folder     string            // whose files are relevant
	trace      string            // where strace writes
	unfinished map[string]string // by thread: the first half of a line
	calls      []diskCall
	disk       *simulatedDisk
}

// recorded are the calls that the recorder knows, and those that make the test fail because it does not.
const recorded = "trace=open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,copy_file_range,sendfile,splice,ftruncate,truncate,fallocate," +
	"fsync,fdatasync,sync_file_range,msync,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlinkat,mmap"

// start starts the program under strace.
func (r *recorder) start(args ...string) *process {
	r.Helper()
	return newProcessVia(r.TB, func(self string) *exec.Cmd {
		return exec.Command("strace", append([]string{
			"-f", "-qq", "-y", "-xx", "-s", "100000", "-o", r.trace, "-e", "signal=none", "-e", recorded,
			"-e", "inject=copy_file_range,sendfile,splice:error=ENOSYS", self,
		}, args...)...)
	})
}

// readTrace adds the calls of a program that has exited.
func (r *recorder) readTrace() {
	r.Helper()
	f, err := os.Open(r.trace)
	if err != nil {
		r.Fatal(err)
	}
	defer f.Close()
	r.unfinished = map[string]string{}
	from, lines := len(r.calls), bufio.NewReaderSize(f, 1<<20)
	line, err := lines.ReadString('\n')
	for ; err == nil; line, err = lines.ReadString('\n') {
		thread, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		r.line(thread, strings.TrimLeft(text, " "))
	}
	if !errors.Is(err, io.EOF) {
		r.Fatal(err)
	}
	r.addInterruptedWrites()
	for _, c := range r.calls[from:] {
		r.disk.apply(c)
	}
	r.compare()
}

// addInterruptedWrites adds the write that was running when the program was killed, if it was done.
func (r *recorder) addInterruptedWrites() {
	for thread, half := range r.unfinished {
		if name, path, quoted := parseCall(half); name == "pwrite64" && r.isRelevant(path) {
			data, err := os.ReadFile(path)
			if at := numbersIn(half)[1]; err == nil && bytes.HasPrefix(data[min(at, int64(len(data))):], quoted[0]) {
				r.end(thread, half)
			}
		}
	}
}

// compare compares the files that result from the calls with the real ones.
func (r *recorder) compare() {
	r.Helper()
	made := r.disk.image(allKept, allKept, nil)
	err := filepath.WalkDir(r.folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !r.isRelevant(path) {
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
		r.unfinished[thread] = begin
		r.begin(thread, begin)
	case strings.HasPrefix(text, "<... "):
		_, end, _ := strings.Cut(text, " resumed>")
		begin := r.unfinished[thread]
		delete(r.unfinished, thread)
		r.end(thread, begin+end)
	default:
		r.begin(thread, text)
		r.end(thread, text)
	}
}

var (
	ackLine       = regexp.MustCompile(`^HTTP/1\.1 2\d\d (?s:.*)\r\nX-Request-Id: (power-\S+)\r\n`)
	unknownResult = regexp.MustCompile(`( <unfinished \.\.\.>)?\) += \?$`)

	backupLine = regexp.MustCompile(`wrote a backup .*\bfile=(\S+)`)
)

// begin records the start of a call: from then on a client may have the response, and later writes are not part of
// the sync.
func (r *recorder) begin(thread, text string) {
	if !strings.HasPrefix(text, "write(") && !strings.Contains(text, "sync(") {
		return
	}
	name, path, quoted := parseCall(text)
	if name != "write" {
		r.add(diskCall{effect: effectBeginSync, thread: thread, name: path})
		return
	}
	for _, pattern := range []*regexp.Regexp{ackLine, backupLine} {
		if m := pattern.FindSubmatch(quoted[0]); m != nil && !r.isRelevant(path) {
			r.add(diskCall{effect: effectAck, name: string(m[1])})
		}
	}
}

func (r *recorder) end(thread, text string) {
	// The program was killed during a call without a result, so it is unknown whether it was done.
	if m := unknownResult.FindStringIndex(text); m != nil {
		r.unfinished[thread] = text[:m[0]]
		return
	}

	name, path, quoted := parseCall(text)
	result := text[strings.LastIndex(text, "=")+1:]
	if !r.isRelevant(path) || strings.Contains(result, " -1 ") || name == "mmap" && !strings.Contains(text, "PROT_WRITE, MAP_SHARED") {
		return
	}
	c := diskCall{name: path, thread: thread, at: -1}
	switch name {
	case "open", "openat":
		if strings.Contains(text, "O_CREAT") {
			r.add(diskCall{effect: effectCreate, name: path})
		}
		if !strings.Contains(text, "O_TRUNC") {
			return
		}
		c.effect, c.at = effectResize, 0
	case "mkdir", "mkdirat":
		c.effect = effectMkdir
	case "write", "pwrite64":
		c.effect, c.data = effectWrite, quoted[0]
		numbers := numbersIn(text)
		if int64(len(c.data)) != numbers[0] {
			r.Fatalf("a write of %d bytes is recorded with %d", numbers[0], len(c.data))
		}
		if name == "pwrite64" {
			c.at = numbers[1]
		}
	case "ftruncate":
		c.effect, c.at = effectResize, numbersIn(text)[0]
	case "unlink", "unlinkat":
		c.effect = effectRemove
	case "rename", "renameat", "renameat2":
		c.effect, c.to = effectRename, string(quoted[1])
	case "link", "linkat":
		c.effect, c.to = effectLink, string(quoted[1])
	case "fsync", "fdatasync":
		c.effect = effectSync
	default:
		r.Fatalf("the program does what this test does not know: %s of %s", name, path)
	}
	r.add(c)
}

// isRelevant reports whether a file counts: the contents of -shm are discarded at startup.
func (r *recorder) isRelevant(path string) bool {
	return strings.HasPrefix(path+"/", r.folder+"/") && !strings.HasSuffix(path, "-shm")
}

func (r *recorder) add(c diskCall) { r.calls = append(r.calls, c) }

// parseCall returns the name of a call, the file that it concerns, and its strings.
func parseCall(text string) (name, path string, quoted [][]byte) {
	name, arguments, _ := strings.Cut(text, "(")
	fields := strings.Split(arguments, `"`)
	for i := 1; i < len(fields); i += 2 {
		quoted = append(quoted, decodeHex(fields[i]))
	}
	if open, of, is := strings.Cut(fields[0], "<"); is && !strings.HasPrefix(open, "AT_FDCWD") {
		path, _, _ = strings.Cut(of, ">")
		return name, string(decodeHex(path)), quoted
	}
	if len(quoted) > 0 {
		path = string(quoted[0])
	}
	return name, path, quoted
}

// decodeHex decodes \x41\x42.
func decodeHex(text string) []byte {
	data := make([]byte, len(text)/4)
	for i := range data {
		_, _ = hex.Decode(data[i:], []byte(text[4*i+2:4*i+4]))
	}
	return data
}

// numbersIn returns the numbers behind the file and string of a call.
func numbersIn(text string) (numbers []int64) {
	text, _, _ = strings.Cut(text[max(strings.LastIndex(text, `"`), strings.Index(text, ">"))+1:], ")")
	for field := range strings.SplitSeq(strings.TrimPrefix(text, ","), ",") {
		n, _ := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
		numbers = append(numbers, n)
	}
	return numbers
}

// simulatedDisk is a disk after some calls.
type simulatedDisk struct {
	names   map[string][]*inode // the files that each name has had; nil for none
	durable map[string]int      // index of the oldest of them that a cut may leave
	syncing map[string]func()   // by thread: run when its sync ends
}

// inode is a file or a folder, whatever its name.
type inode struct {
	folder  bool
	size    int64
	changes []diskCall
	durable int    // the number of changes that every cut leaves
	content []byte // with the durable changes
}

// newSimulatedDisk returns a disk with the files that existed before.
func newSimulatedDisk(before map[string][]byte) *simulatedDisk {
	m := &simulatedDisk{map[string][]*inode{}, map[string]int{}, map[string]func(){}}
	for name, data := range before {
		m.names[name] = []*inode{{size: int64(len(data)), content: bytes.Clone(data)}}
	}
	return m
}

func (m *simulatedDisk) at(name string) *inode {
	if of := m.names[name]; len(of) > 0 {
		return of[len(of)-1]
	}
	return nil
}

func (m *simulatedDisk) set(name string, f *inode) {
	if len(m.names[name]) == 0 {
		m.names[name] = []*inode{nil}
	}
	m.names[name] = append(m.names[name], f)
}

func (m *simulatedDisk) apply(c diskCall) {
	f := m.at(c.name)
	switch c.effect {
	case effectCreate:
		if f == nil {
			m.set(c.name, &inode{})
		}
	case effectMkdir:
		m.set(c.name, &inode{folder: true})
	case effectWrite, effectResize:
		if f != nil { // otherwise it has been removed
			f.change(c)
		}
	case effectRemove:
		m.set(c.name, nil)
	case effectRename:
		m.set(c.name, nil)
		m.set(c.to, f)
	case effectLink:
		m.set(c.to, f)
	case effectBeginSync:
		m.syncing[c.thread] = m.sync(c.name)
	case effectSync:
		m.syncing[c.thread]()
	}
}

func (f *inode) change(c diskCall) {
	if c.at < 0 {
		c.at = f.size
	}
	f.changes = append(f.changes, c)
	if f.size = max(f.size, c.at+int64(len(c.data))); c.effect == effectResize {
		f.size = c.at
	}
}

// sync returns a function that makes the present state of a file or folder durable.
func (m *simulatedDisk) sync(name string) func() {
	if f := m.at(name); f != nil && !f.folder {
		n := len(f.changes)
		return func() {
			for ; f.durable < n; f.durable++ {
				f.content = f.changes[f.durable].applyTo(f.content)
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
			m.durable[in] = max(m.durable[in], n-1)
		}
	}
}

// applyTo applies a change to a file's content.
func (c diskCall) applyTo(content []byte) []byte {
	end := int(c.at)
	if c.effect == effectWrite {
		end = max(len(content), end+len(c.data))
	}
	content = append(content, make([]byte, max(0, end-len(content)))...)[:end]
	copy(content[min(int(c.at), end):], c.data)
	return content
}

// sectors returns the parts of a write that a disk writes atomically.
func (c diskCall) sectors() (parts []diskCall) {
	if c.effect != effectWrite {
		return []diskCall{c}
	}
	const sector = 512
	for at, data := c.at, c.data; len(data) > 0; {
		n := min(int64(len(data)), sector-at%sector)
		parts = append(parts, diskCall{effect: effectWrite, at: at, data: data[:n]})
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
	lossesOfNames   = []loss{allLost, allKept, someKept} // with someKept, each name is as it was at any time since the sync of its folder
	lossesOfContent = []loss{allLost, allKept, someKept, someReordered, someSectors, lastTorn}
)

func (f *inode) contentAfter(l loss, r *rand.Rand) []byte {
	changes := slices.Clone(f.changes[f.durable:])
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
			content = c.applyTo(content)
		}
	}
	return content
}

// image returns the files after a power cut: a file without its folder is not found.
func (m *simulatedDisk) image(names, contents loss, r *rand.Rand) map[string][]byte {
	image, made, lost := map[string][]byte{}, map[*inode][]byte{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(m.names)) { // a folder before its files
		of := m.names[name][m.durable[name]:]
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
			made[f] = f.contentAfter(contents, r)
		}
		image[name] = made[f]
	}
	return image
}
