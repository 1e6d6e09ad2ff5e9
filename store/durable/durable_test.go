package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

func TestCreate_ReplacesNoFile(t *testing.T) {
	folder := t.TempDir()
	draft, name := filepath.Join(folder, "draft"), filepath.Join(folder, "file")
	for i, want := range []error{nil, fs.ErrExist} {
		if err := os.WriteFile(draft, []byte{byte(i)}, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Create(draft, name); !errors.Is(err, want) {
			t.Errorf("file %d: %v, want %v", i, err, want)
		}
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "\x00" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMakeFolder_CreatesParents(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // one that exists is no error
		if err := MakeFolder(name); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(name, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeFolder(file); err == nil {
		t.Error("a file counts as a folder")
	}
}
