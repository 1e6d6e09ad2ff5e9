// World is what a server finds on the internet, for .ci/server: a mail server that
// keeps what it is given, and the way to a certificate authority at the name and the
// path of Let's Encrypt. Both have certificates of an authority of its own.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

const (
	mailHost  = "mail.example.org"
	authority = "acme-v02.api.letsencrypt.org"
)

func main() {
	log.SetFlags(0)
	folder := flag.String("folder", ".", "where root.pem, key.pem, cert.pem and the mails go")
	mailAddr := flag.String("mail", "127.0.0.1:587", "where mails are taken")
	authorityAddr := flag.String(
		"authority",
		"127.0.0.1:443",
		"where the certificate authority is reached",
	)
	pebble := flag.String("pebble", "https://127.0.0.1:14000", "who answers there")
	flag.Parse()
	cert, err := certify(*folder, mailHost, authority)
	if err != nil {
		log.Fatal(err)
	}

	ended := make(chan error, 2)
	go func() { ended <- takeMails(*mailAddr, *folder, cert) }()
	go func() { ended <- leadTo(*pebble, *authorityAddr, cert) }()
	log.Fatal(<-ended)
}

// certify makes an authority and one certificate for the names, and leaves both in the
// folder for whoever has to trust or show them.
func certify(folder string, names ...string) (tls.Certificate, error) {
	rootKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		return tls.Certificate{}, err
	}

	begin, end := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	root := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "Root of the tests"},
		NotBefore:             begin,
		NotAfter:              end,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}

	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		DNSNames:     names,
		NotBefore:    begin,
		NotAfter:     end,
	}

	rootDER, err1 := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	leafDER, err2 := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), rootKey)
	keyDER, err3 := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err1, err2, err3); err != nil {
		return tls.Certificate{}, err
	}

	for name, block := range map[string]*pem.Block{
		"root.pem": {Type: "CERTIFICATE", Bytes: rootDER},
		"cert.pem": {Type: "CERTIFICATE", Bytes: leafDER},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return tls.Certificate{}, err
		}
	}

	return tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}, nil
}

// leadTo answers for Let's Encrypt. Only the path where one begins differs in pebble.
func leadTo(pebble, addr string, cert tls.Certificate) error {
	to, err := url.Parse(pebble)
	if err != nil {
		return err
	}

	front := &http.Server{
		Addr: addr, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				r.Out.Host = r.In.Host // its addresses begin with it
				if r.In.URL.Path == "/directory" {
					r.Out.URL.Path = "/dir"
				}
			},
			Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		},
	}

	return front.ListenAndServeTLS("", "")
}

// takeMails takes mails from the one user that the README names, and from nobody
// without TLS.
func takeMails(addr, folder string, cert tls.Certificate) error {
	o := &office{folder: filepath.Join(folder, "mails")}
	if err := os.MkdirAll(o.folder, 0o755); err != nil {
		return err
	}

	server := smtp.NewServer(o)
	server.Addr, server.Domain = addr, mailHost
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}

	return server.ListenAndServe()
}

type office struct {
	folder string
	mails  atomic.Int64
}

func (o *office) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{office: o}, nil }

type session struct {
	*office
	known bool
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if s.known = user == "USER" && password == "PASSWORD"; !s.known {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (s *session) Mail(string, *smtp.MailOptions) error {
	if !s.known {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (s *session) Rcpt(string, *smtp.RcptOptions) error { return nil }

// Data keeps a mail under its number; a name with .eml is a whole mail.
func (s *session) Data(r io.Reader) error {
	name := filepath.Join(s.folder, fmt.Sprintf("%03d.eml", s.mails.Add(1)))
	text, err := io.ReadAll(r)
	if err == nil {
		err = os.WriteFile(name+".new", text, 0o644)
	}

	if err == nil {
		err = os.Rename(name+".new", name)
	}

	return err
}

func (s *session) Reset() {}

func (s *session) Logout() error { return nil }
