// Package listen opens the listeners of the service: ports, Unix sockets, and the sockets of the service manager.
package listen

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"

	"callbook/server"
	"callbook/store/text"
)

// Endpoint is an address that a server listens on.
type Endpoint struct {
	Flag     string // that gives the address
	Addr     string
	Front    func(*server.Server) server.Front // its handler, without its listener
	Listener net.Listener
}

const (
	SiteFlag     = "addr"
	OperatorFlag = "operator-addr" // of an endpoint that only this machine may reach
)

// Socket returns the path of the Unix socket that the address names; empty for another address.
func (e Endpoint) Socket() string {
	path, ok := strings.CutPrefix(e.Addr, "unix:")
	if !ok || e.Flag != OperatorFlag && e.Flag != SiteFlag {
		return ""
	}
	return path
}

// Listen opens the listener of the address. A socket that a killed process has left is replaced.
func (e Endpoint) Listen() (net.Listener, error) {
	path := e.Socket()
	if path == "" {
		return net.Listen("tcp", e.Addr)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
	} else if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // or else listening fails
	}
	l, err := net.Listen("unix", path)
	if err != nil || e.Flag != SiteFlag {
		return l, err
	}
	// Like a port of this machine, for a proxy of another user. Who may enter its folder may connect.
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Check rejects a malformed address. It does not use the network.
func (e Endpoint) Check() error {
	if path := e.Socket(); path != "" {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("--%s: give the absolute path of the socket, such as unix:/run/callbook/callbook.sock", e.Flag)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(e.Addr)
	if n, numberErr := strconv.Atoi(port); err == nil && (numberErr != nil && port == "" || numberErr == nil && (n < 0 || n > 65535)) {
		err = errors.New("the port must be from 0 to 65535")
	}
	if err != nil {
		return fmt.Errorf("--%s: %s is not an address such as 127.0.0.1:8080: %w", e.Flag, e.Addr, err)
	}
	if e.Flag == OperatorFlag && !text.IsLoopback(host) {
		return fmt.Errorf("--%s: other machines could reach %s: give an address of this machine such as 127.0.0.1:8081, or a socket such as unix:/var/lib/callbook/operator.sock", e.Flag, e.Addr)
	}
	return nil
}

// ErrForeign reports a socket of the service manager that no setting names.
var ErrForeign = errors.New("the service manager passes a socket for")

// All listens on all endpoints, or on none. It uses a socket of the service manager for its address, so that
// clients can connect while the program restarts.
func All(endpoints []Endpoint) error {
	handed, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("use the sockets of the service manager: %w", err)
	}
	for i := range endpoints {
		e := &endpoints[i]
		if e.Listener = takeListener(handed, e); e.Listener != nil {
			continue
		}
		if e.Listener, err = e.Listen(); err != nil {
			CloseAll(endpoints)
			return e.explain(err)
		}
	}
	for _, l := range handed {
		if l != nil {
			CloseAll(endpoints)
			return fmt.Errorf("%w %s, an address in no setting", ErrForeign, l.Addr())
		}
	}
	return nil
}

// explain adds the next step to an error of Listen.
func (e Endpoint) explain(err error) error {
	next := LowPort(err)
	if errors.Is(err, syscall.EADDRINUSE) {
		next = e.InUse()
	}
	if next != "" {
		err = fmt.Errorf("%w: %s", err, next)
	}
	return fmt.Errorf("listen for --%s: %w", e.Flag, err)
}

// InUse returns the remedy for an address on which another process listens, and names that process if this user may know.
func (e Endpoint) InUse() string {
	by := "the process that uses it"
	if at, err := net.ResolveTCPAddr("tcp", e.Addr); err == nil && e.Socket() == "" {
		by = cmp.Or(holder(at.Port), by+" (ss -ltnp lists it)")
	}
	return fmt.Sprintf("stop %s, or give another --%s", by, e.Flag)
}

// LowPort returns the remedy for a missing right to listen on a port; empty for other errors.
func LowPort(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "allow this user ports below 1024, as the unit of callbook unit does, or use another port"
	}
	return ""
}

// takeListener removes the listener of an address from those of the service manager. A listener on all addresses is
// not used for one of them, because it would expose the endpoint.
func takeListener(handed []net.Listener, e *Endpoint) net.Listener {
	want, err := net.ResolveTCPAddr("tcp", e.Addr)
	for i, l := range handed {
		if l == nil {
			continue
		}
		at, ok := l.Addr().(*net.TCPAddr)
		switch {
		case ok && err == nil && at.Port == want.Port && (want.IP == nil || want.IP.IsUnspecified() || want.IP.Equal(at.IP)),
			!ok && e.Socket() != "" && l.Addr().String() == e.Socket():
			handed[i] = nil
			return l
		}
	}
	return nil
}

// CloseAll closes the listeners.
func CloseAll(endpoints []Endpoint) {
	for _, e := range endpoints {
		if e.Listener != nil {
			_ = e.Listener.Close()
		}
	}
}

// Fronts returns the endpoints for server.Serve.
func Fronts(endpoints []Endpoint, s *server.Server) (all []server.Front) {
	for _, e := range endpoints {
		front := e.Front(s)
		front.Listener = e.Listener
		all = append(all, front)
	}
	return all
}

// Reachable returns a listener's address as this machine reaches it.
func Reachable(addr net.Addr) string {
	if at, ok := addr.(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(at.Port))
	}
	return addr.String()
}
