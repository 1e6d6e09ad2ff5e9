package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFile_ReplacesTheFileOrNothing(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "file")
	for _, text := range []string{"one", "two"} {
		if err := WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(folder, "taken"), nil); err == nil {
		t.Error("a folder is replaced")
	}
	if err := WriteFile(filepath.Join(folder, "missing", "file"), nil); err == nil {
		t.Error("a file is written into a folder that does not exist")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
