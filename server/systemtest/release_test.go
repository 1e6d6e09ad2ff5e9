package systemtest

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"callbook/testdata/proof"
)

func TestVersion_PrintsBuild(t *testing.T) {
	status, out, errors := finished("version")
	of := regexp.MustCompile(`^callbook [A-Za-z0-9][A-Za-z0-9._+-]*(?: \([0-9a-f]{40}(?:-dirty)?\))? (go\S+) (\S+)\n$`).FindStringSubmatch(out)
	if status != 0 || errors != "" || of == nil || of[1] != runtime.Version() || of[2] != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("status %d, %q, %q", status, out, errors)
	}
}

func readText(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRelease_SetsVersionVariables checks the names, because the linker does not report unknown ones.
func TestRelease_SetsVersionVariables(t *testing.T) {
	source := readText(t, root+"server/cli/version.go")
	names := regexp.MustCompile(`-X callbook/server/cli\.(\w+)=`).FindAllStringSubmatch(readText(t, root+".release/build"), -1)
	if len(names) != 2 {
		t.Errorf("%d names are set", len(names))
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^var .*\b` + name[1] + `\b.* string$`).MatchString(source) {
			t.Errorf("the release sets %s, which is no variable", name[1])
		}
	}
}

func TestRelease_RejectsWrongVersions(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash here")
	}
	for _, version := range []string{"1 2", "../v1", "-v1", "v1/2", "v1\n"} {
		// What is refused comes before anything is built or removed.
		if out, err := exec.Command("bash", root+".release/build", version).CombinedOutput(); err == nil || !strings.Contains(string(out), "is no version") {
			t.Errorf("%q: %v, %s", version, err, out)
		}
	}
}

// TestRelease_ContainerVariablesExist sets the variables of the image, and those of compose.yaml.
func TestRelease_ContainerVariablesExist(t *testing.T) {
	for file, set := range map[string]string{"package/image.json": `"(CALLBOOK_\w+)=([^"]+)"`, "compose.yaml": `(?m)^ +(CALLBOOK_\w+): "?([^"\n]+)"?$`} {
		t.Run(file, func(t *testing.T) {
			pairs := regexp.MustCompile(set).FindAllStringSubmatch(readText(t, root+".release/"+file), -1)
			if len(pairs) < 2 {
				t.Fatalf("it sets %q", pairs)
			}
			for _, pair := range pairs {
				t.Setenv(pair[1], pair[2])
			}
			if status, _, errors := finished("version"); status != 0 {
				t.Errorf("status %d: %s", status, errors)
			}
		})
	}
}

// TestRelease_BuildsAreReproducible builds one commit in two folders, with nothing cached for the second.
func TestRelease_BuildsAreReproducible(t *testing.T) {
	if !proof.Asked() {
		t.Skip("builds everything twice: set PROOF")
	}
	var sums [2][sha256.Size]byte
	for i := range sums {
		folder := t.TempDir()
		copySource(t, folder)
		command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", "callbook", ".")
		command.Dir, command.Env = folder, append(os.Environ(), "CGO_ENABLED=0")
		if i > 0 && proof.Rounds(0, 0, 1) > 0 {
			command.Env = append(command.Env, "GOCACHE="+t.TempDir())
		}
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		program, err := os.ReadFile(filepath.Join(folder, "callbook"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(program)
	}
	if sums[0] != sums[1] {
		t.Error("two builds differ")
		return
	}
	proof.Figure(t, "equal builds", len(sums))
}

// copySource copies the files that a build reads.
func copySource(t testing.TB, folder string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bench"):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(folder, path), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(root + path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, path), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
