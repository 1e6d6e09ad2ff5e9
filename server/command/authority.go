package command

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// authority is the way to the certificate authority. It remembers what that found
// wrong, which autocert keeps to itself.
type authority struct {
	mu   sync.Mutex
	said map[string]string // by name and challenge; what concerns none by itself
}

// longestAnswer is more than any answer of an authority has.
const longestAnswer = 1 << 20

func (a *authority) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		a.remember("", err.Error())
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	a.hear(body)
	return answer, nil
}

// hear remembers the problems in an answer (RFC 8555, 6.7 and 7.1.4).
func (a *authority) hear(body []byte) {
	type problem struct{ Type, Detail string }
	var said struct {
		problem
		Identifier struct{ Value string }
		Challenges []struct {
			Type  string
			Error problem
		}
	}
	if json.Unmarshal(body, &said) != nil { // a certificate, say
		return
	}
	if said.Detail != "" && !strings.HasSuffix(said.Type, ":badNonce") {
		a.remember("", said.Detail)
	}
	for _, c := range said.Challenges {
		if c.Error.Detail != "" {
			a.remember(said.Identifier.Value+" "+c.Type, c.Type+": "+c.Error.Detail)
		}
	}
}

func (a *authority) remember(of, what string) {
	const longest = 300
	if len(what) > longest {
		what = strings.ToValidUTF8(what[:longest], "") + "…"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said[of] = what
}

// forget begins a new try.
func (a *authority) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for of := range a.said {
		if of == "" || strings.HasPrefix(of, name+" ") {
			delete(a.said, of)
		}
	}
}

// reason is what was wrong with a name: what the authority found, or err.
func (a *authority) reason(name string, err error) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []string
	for of, what := range a.said {
		if strings.HasPrefix(of, name+" ") {
			found = append(found, what)
		}
	}
	slices.Sort(found)
	var refused *acme.Error
	if err != nil && (len(found) == 0 || errors.As(err, &refused)) {
		found = append(found, err.Error())
	}
	return cmp.Or(strings.Join(found, "; "), a.said[""])
}

// certificateFolder is where an authority's certificates lie. Those of another one, such
// as a trial's, must not be taken for them.
func (c *serveCommand) certificateFolder() string {
	u, _ := url.Parse(c.ACMEDirectory) // as check has found
	return filepath.Join(filepath.Dir(c.DB), "certificates", strings.ReplaceAll(u.Host, ":", "_"))
}

// certificateFolder keeps certificates, their keys and the account's key, as files that
// nobody but their owner may read. autocert's own cache does not sync: after a power cut,
// an empty account key would be in the way of every further certificate.
type certificateFolder struct {
	path string
	log  zerolog.Logger
}

// open makes the folder, and keeps others out of it.
func (f certificateFolder) open() error {
	err := os.MkdirAll(f.path, 0o700)
	for _, path := range []string{f.path, filepath.Dir(f.path)} {
		if err == nil && openToOthers(path) {
			err = os.Chmod(path, 0o700)
		}
	}
	if err != nil {
		return fmt.Errorf("make the folder of certificates: %w", err)
	}
	return nil
}

// openToOthers tells whether others on this machine may look into a file.
func openToOthers(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

func (f certificateFolder) Get(_ context.Context, name string) ([]byte, error) {
	path, err := f.file(name)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, autocert.ErrCacheMiss
	}
	return data, err
}

// Put logs its failure too: autocert goes on without the file, and a later start would
// ask for the same certificate again.
func (f certificateFolder) Put(_ context.Context, name string, data []byte) error {
	path, err := f.file(name)
	if err == nil {
		err = replace(path, data)
	}
	if err != nil {
		f.log.Error().Err(err).Msg("a certificate or its key cannot be kept: give this user room and the right to write there")
	}
	return err
}

func (f certificateFolder) Delete(_ context.Context, name string) error {
	path, err := f.file(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// file is where a thing lies; callers of plain http name some.
func (f certificateFolder) file(name string) (string, error) {
	if filepath.Base(name) != name || !filepath.IsLocal(name) {
		return "", autocert.ErrCacheMiss
	}
	return filepath.Join(f.path, name), nil
}

// replace writes a file as a whole or not at all.
func replace(path string, data []byte) error {
	draft := path + ".new"
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	return os.Rename(draft, path)
}

// kept reads the certificate of a name that lies in a folder.
func kept(folder, name string) (*x509.Certificate, error) {
	text, err := os.ReadFile(filepath.Join(folder, name))
	for err == nil {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("the file holds no certificate")
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, err
}
