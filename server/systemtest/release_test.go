package systemtest

import (
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestVersion_PrintsBuild(t *testing.T) {
	status, out, errors := runCommand("version")
	of := regexp.MustCompile(`^callbook [A-Za-z0-9][A-Za-z0-9._+-]*(?: \([0-9a-f]{40}(?:-dirty)?\))? (go\S+) (\S+)\n$`).FindStringSubmatch(out)
	if status != 0 || errors != "" || of == nil || of[1] != runtime.Version() || of[2] != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("status %d, %q, %q", status, out, errors)
	}
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
		// The version is checked before anything is built or removed.
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
			if status, _, errors := runCommand("version"); status != 0 {
				t.Errorf("status %d: %s", status, errors)
			}
		})
	}
}
