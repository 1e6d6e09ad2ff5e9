package main

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestVersionTellsWhatItWasBuiltWith(t *testing.T) {
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

// TestReleaseSetsWhatVersionReads: the linker says nothing of a name that is not there.
func TestReleaseSetsWhatVersionReads(t *testing.T) {
	source := readText(t, "server/command/version.go")
	names := regexp.MustCompile(`-X callbook/server/command\.(\w+)=`).FindAllStringSubmatch(readText(t, ".release/build"), -1)
	if len(names) != 2 {
		t.Errorf("%d names are set", len(names))
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^var .*\b` + name[1] + `\b.* string$`).MatchString(source) {
			t.Errorf("the release sets %s, which is no variable", name[1])
		}
	}
}

func TestReleaseRefusesWhatIsNoVersion(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash here")
	}
	for _, version := range []string{"1 2", "../v1", "-v1", "v1/2", "v1\n"} {
		// What is refused comes before anything is built or removed.
		if out, err := exec.Command("bash", ".release/build", version).CombinedOutput(); err == nil || !strings.Contains(string(out), "is no version") {
			t.Errorf("%q: %v, %s", version, err, out)
		}
	}
}

// TestContainerSetsWhatThereIs: each variable of the image is one that the program knows.
func TestContainerSetsWhatThereIs(t *testing.T) {
	set := regexp.MustCompile(`(CALLBOOK_\w+)=(\S+)`)
	image := regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(readText(t, ".release/Dockerfile"))
	if image == nil || !set.MatchString(image[1]) {
		t.Fatal("the image sets nothing")
	}
	for _, pair := range set.FindAllStringSubmatch(image[1], -1) {
		t.Setenv(pair[1], pair[2])
	}
	if status, _, errors := finished("version"); status != 0 {
		t.Errorf("status %d: %s", status, errors)
	}
}
