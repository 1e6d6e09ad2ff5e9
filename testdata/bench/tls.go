package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// HTTPS rows compare the program with --domain and the floor, both with the same certificate and
// over HTTP/2.

const (
	siteName = "bench.example.org"
	// authority is where no certificate authority listens: the program finds its certificate
	// beside the database.
	authority       = "127.0.0.1:1"
	authorityFolder = "127.0.0.1_1"
)

// certificate returns the path of the certificate and its key, which it makes once a run.
func (b *bench) certificate() (string, error) {
	path := filepath.Join(b.folder, "certificates", authorityFolder, siteName)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}

	draft := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{siteName},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(90 * 24 * time.Hour),
	}

	cert, err := x509.CreateCertificate(rand.Reader, draft, draft, key.Public(), key)
	if err != nil {
		return "", err
	}

	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}

	text := append(
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...)
	return path, errors.Join(
		os.MkdirAll(filepath.Dir(path), 0o700),
		os.WriteFile(path, text, 0o600),
	)
}

// startTLS serves a copy of the directory, or the floor, over HTTPS.
func (b *bench) startTLS(ctx context.Context, s site) (*process, error) {
	certificate, err := b.certificate()
	if err != nil {
		return nil, err
	}
	if s == floorTLS {
		l := b.role(string(s), "/ready/1", certificate)
		l.tls = true
		return b.start(ctx, l)
	}

	path, err := b.copy(ctx, string(s), b.agents)
	if err != nil {
		return nil, err
	}

	return b.startProgram(
		ctx,
		s,
		path,
		"--domain",
		siteName,
		"--acme-directory",
		"https://"+authority,
		"--http-addr",
		"off",
	)
}

// dial connects to a process, by HTTP/2 over TLS if it serves HTTPS.
func (p *process) dial() (*wire, error) {
	w, err := dial(p.addr)
	if err != nil || !p.tls {
		return w, err
	}

	conn := tls.Client(
		w.conn,
		&tls.Config{
			ServerName:         siteName,
			InsecureSkipVerify: true,
			NextProtos:         []string{http2.NextProtoTLS},
		},
	)
	w.conn = conn
	if w.streams, err = newStreams(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}

	return w, nil
}

// streams are those of an HTTP/2 connection, one after the other.
type streams struct {
	framer  *http2.Framer
	decoder *hpack.Decoder
	next    uint32 // stream: the odd ones are the client's
	// Bytes of the connection's window that were received since it was last enlarged.
	unread uint32
	blocks map[string][]byte // of headers, by the request as HTTP/1.1 has it
	status string            // of the response that is read
}

// window is the largest of HTTP/2: servers never wait for it.
const window = 1<<31 - 1

func newStreams(conn *tls.Conn) (*streams, error) {
	s := &streams{framer: http2.NewFramer(conn, conn), blocks: map[string][]byte{}, next: 1}
	s.framer.SetReuseFrames()
	s.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			s.status = f.Value
		}
	})

	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	if chosen := conn.ConnectionState().NegotiatedProtocol; chosen != http2.NextProtoTLS {
		return nil, fmt.Errorf("the server speaks %q instead of HTTP/2", chosen)
	}

	_, err := conn.Write([]byte(http2.ClientPreface))
	return s, errors.Join(
		err,
		s.framer.WriteSettings(
			http2.Setting{ID: http2.SettingInitialWindowSize, Val: window},
			http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		),
		s.framer.WriteWindowUpdate(0, window-65535),
	)
}

// block translates a request without a body to a block of headers, once.
func (s *streams) block(request []byte) []byte {
	if known := s.blocks[string(request)]; known != nil {
		return known
	}

	head, fields, _ := strings.Cut(string(request), "\r\n")
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0) // so that the block holds in every stream
	add := func(name, value string) { _ = encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) }
	words := strings.Fields(head)
	for name, value := range map[string]string{
		":method":    words[0],
		":path":      words[1],
		":scheme":    "https",
		":authority": siteName,
	} {
		add(name, value)
	}

	for line := range strings.SplitSeq(strings.TrimSpace(fields), "\r\n") {
		if name, value, _ := strings.Cut(line, ": "); name != "Host" {
			add(strings.ToLower(name), value)
		}
	}

	s.blocks[string(request)] = []byte(block.String())
	return s.blocks[string(request)]
}

// send sends a request and reads the response, whose body it appends to keep unless that is nil.
func (s *streams) send(request []byte, keep *[]byte) (r reply, err error) {
	err = s.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID:      s.next,
		BlockFragment: s.block(request),
		EndStream:     true,
		EndHeaders:    true,
	})

	s.next, s.status = s.next+2, ""
	for ended := false; err == nil && !ended; {
		var frame http2.Frame
		if frame, err = s.framer.ReadFrame(); err == nil {
			ended, err = s.read(frame, &r, keep)
		}
	}

	if _, noNumber := fmt.Sscan(s.status, &r.status); noNumber != nil && err == nil {
		err = errors.New("a response without a status")
	}

	return r, err
}

// read handles one frame, and reports whether it ends the response.
func (s *streams) read(frame http2.Frame, r *reply, keep *[]byte) (ended bool, err error) {
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		_, err = s.decoder.Write(f.HeaderBlockFragment())
		return f.StreamEnded(), err

	case *http2.ContinuationFrame:
		_, err = s.decoder.Write(f.HeaderBlockFragment())

	case *http2.DataFrame:
		r.length += len(f.Data())
		if keep != nil {
			*keep = append(*keep, f.Data()...)
		}

		if s.unread += f.Length; s.unread > window/2 {
			err = s.framer.WriteWindowUpdate(0, s.unread)
			s.unread = 0
		}

		return f.StreamEnded(), err

	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = s.framer.WriteSettingsAck()
		}

	case *http2.PingFrame:
		if !f.IsAck() {
			err = s.framer.WritePing(true, f.Data)
		}

	case *http2.RSTStreamFrame:
		err = fmt.Errorf("the server reset the stream: %s", f.ErrCode)

	case *http2.GoAwayFrame:
		err = fmt.Errorf("the server ended the connection: %s", f.ErrCode)
	}

	return false, err
}

// serveFloorTLS serves the floor over HTTPS, with the certificate and key of a file.
func serveFloorTLS(ctx context.Context, addr, certificate string) error {
	s := &http.Server{Addr: addr, Handler: floorHandler()}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.ListenAndServeTLS(certificate, certificate); ctx.Err() == nil {
		return err
	}
	return nil
}
