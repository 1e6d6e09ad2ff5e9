package service

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"

	"callbook/server"
	"callbook/store/text"
)

// Endpoint is an address that a server listens on.
type Endpoint struct {
	Flag string // name of the flag that gives the address
	Addr string // host and port, or unix: and a path

	// Front returns the handler of the endpoint, without its listener.
	Front func(*server.Server) server.Front

	Listener net.Listener // nil before Listen
}

// Flags of endpoints that can be Unix sockets.
const (
	SiteFlag     = "addr"
	OperatorFlag = "operator-addr" // of an endpoint that only this machine may reach
)

// Socket returns the path of the Unix socket that the address names; empty for any other address.
func (e Endpoint) Socket() string {
	path, ok := strings.CutPrefix(e.Addr, "unix:")
	if !ok || e.Flag != OperatorFlag && e.Flag != SiteFlag {
		return ""
	}
	return path
}

// Check rejects a malformed address. It does not use the network.
func (e Endpoint) Check() error {
	if path := e.Socket(); path != "" {
		if !filepath.IsAbs(path) {
			return fmt.Errorf(
				"--%s: give the absolute path of the socket, such as unix:/run/callbook/callbook.sock",
				e.Flag,
			)
		}
		return nil
	}

	host, port, err := net.SplitHostPort(e.Addr)
	if err == nil && port == "" {
		err = errors.New("the port is missing")
	}
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf(
			"--%s: %s is not an address such as 127.0.0.1:8080: %w",
			e.Flag,
			e.Addr,
			err,
		)
	}

	if e.Flag == OperatorFlag && !text.IsLoopback(host) {
		return fmt.Errorf(
			"--%s: other machines could reach %s: give an address of this machine such as 127.0.0.1:8081, or a socket such as unix:/var/lib/callbook/operator.sock",
			e.Flag,
			e.Addr,
		)
	}

	return nil
}

// Listen opens the listener of the address. It replaces a socket that a killed process has left.
func (e Endpoint) Listen() (net.Listener, error) {
	path := e.Socket()
	if path == "" {
		return net.Listen("tcp", e.Addr)
	}

	// A socket whose process still accepts connections stays, and listening fails.
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
	} else if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // if this fails, so does listening
	}

	l, err := net.Listen("unix", path)
	if err != nil || e.Flag != SiteFlag {
		return l, err
	}

	// A reverse proxy runs as another user. The permissions of the folder decide who may connect.
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Remedy returns the next step after an error of Listen.
func (e Endpoint) Remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop the process that listens there (ss -ltnp lists it), or give another --" + e.Flag
	case errors.Is(err, fs.ErrPermission):
		return "allow this user ports below 1024, as the unit of callbook unit does, or give another --" + e.Flag
	}
	return "give another --" + e.Flag
}

// ErrForeign reports a socket of the service manager whose address is in no setting.
var ErrForeign = errors.New("the service manager passes a socket for")

// Listen listens on all endpoints, or on none. An address for which the service manager has a
// socket uses that, so that clients can connect while the program restarts.
func Listen(endpoints []Endpoint) error {
	handed, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("use the sockets of the service manager: %w", err)
	}

	// A socket that does not listen, such as one of datagrams, is nil here.
	handed = slices.DeleteFunc(handed, func(l net.Listener) bool { return l == nil })

	for i := range endpoints {
		e := &endpoints[i]
		if at := slices.IndexFunc(handed, e.matches); at >= 0 {
			e.Listener = handed[at]
			handed = slices.Delete(handed, at, at+1)
			continue
		}

		if e.Listener, err = e.Listen(); err != nil {
			CloseAll(endpoints)
			return fmt.Errorf("listen for --%s: %w: %s", e.Flag, err, e.Remedy(err))
		}
	}

	// Clients would connect to a socket that nothing serves, and wait.
	if len(handed) > 0 {
		CloseAll(endpoints)
		return fmt.Errorf("%w %s, an address in no setting", ErrForeign, handed[0].Addr())
	}
	return nil
}

// matches reports whether a listener of the service manager is that of the address.
func (e *Endpoint) matches(l net.Listener) bool {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return e.Socket() != "" && l.Addr().String() == e.Socket()
	}

	want, err := net.ResolveTCPAddr("tcp", e.Addr)

	// A listener on all addresses does not match a single one: it would expose the endpoint.
	return err == nil && at.Port == want.Port &&
		(want.IP == nil || want.IP.IsUnspecified() || want.IP.Equal(at.IP))
}

// CloseAll closes the listeners.
func CloseAll(endpoints []Endpoint) {
	for _, e := range endpoints {
		if e.Listener != nil {
			_ = e.Listener.Close()
		}
	}
}

// Fronts returns the handlers and listeners of the endpoints, for server.Serve.
func Fronts(endpoints []Endpoint, s *server.Server) (all []server.Front) {
	for _, e := range endpoints {
		front := e.Front(s)
		front.Listener = e.Listener
		all = append(all, front)
	}
	return all
}

// Reachable returns the host and port at which this machine reaches a listener.
func Reachable(addr net.Addr) string {
	if at, ok := addr.(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(at.Port))
	}
	return addr.String()
}
