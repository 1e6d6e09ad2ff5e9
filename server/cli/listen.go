package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"

	"callbook/server"
	"callbook/store/text"
)

// endpoint is an address that a server listens on.
type endpoint struct {
	flag     string // that gives the address
	addr     string
	front    func(*server.Server) server.Front // its handler, without its listener
	listener net.Listener
}

// endpoints returns all addresses of a server; the first is the directory's own.
func (c *serveCommand) endpoints(certificates *certificates) []endpoint {
	all := []endpoint{{flag: siteFlag, addr: c.Addr, front: certificates.front}}
	if len(c.Domain) > 0 && c.HTTPAddr != off {
		all = append(all, endpoint{flag: "http-addr", addr: c.HTTPAddr, front: certificates.redirect})
	}
	if c.MetricsAddr != "" {
		all = append(all, endpoint{flag: "metrics-addr", addr: c.MetricsAddr, front: func(s *server.Server) server.Front {
			return server.Front{Handler: s.Metrics(c.Pprof)}
		}})
	}
	if c.OperatorAddr != "" && !c.ReadOnly {
		all = append(all, endpoint{flag: operatorFlag, addr: c.OperatorAddr, front: func(s *server.Server) server.Front {
			return server.Front{Handler: s.OperatorPage(c.checkRunning)}
		}})
	}
	return all
}

const (
	siteFlag     = "addr"
	operatorFlag = "operator-addr" // of an endpoint that only this machine may reach
)

// socket returns the path of the Unix socket that the address names; empty for another address.
func (e endpoint) socket() string {
	path, ok := strings.CutPrefix(e.addr, "unix:")
	if !ok || e.flag != operatorFlag && e.flag != siteFlag {
		return ""
	}
	return path
}

// listen opens the listener of the address. A socket that a killed process has left is replaced.
func (e endpoint) listen() (net.Listener, error) {
	path := e.socket()
	if path == "" {
		return net.Listen("tcp", e.addr)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
	} else if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // or else listening fails
	}
	l, err := net.Listen("unix", path)
	if err != nil || e.flag != siteFlag {
		return l, err
	}
	// Like a port of this machine, for a proxy of another user. Who may enter its folder may connect.
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// checkSocket rejects settings that need an address of the network, if the site listens on a Unix socket.
func (c *serveCommand) checkSocket() error {
	switch e := (endpoint{flag: siteFlag, addr: c.Addr}); {
	case e.socket() == "":
		return nil
	case len(c.Domain) > 0:
		return errors.New("--addr: a socket serves no HTTPS: leave out --domain, and let the reverse proxy in front serve it")
	case c.BaseURL == "":
		return errors.New("--base-url: with a socket as --addr, give the URL at which the reverse proxy serves the site, such as https://directory.example.org")
	}
	return nil
}

// checkProfiles rejects profiles without the listener that serves them.
func (c *serveCommand) checkProfiles() error {
	if c.Pprof && c.MetricsAddr == "" {
		return errors.New("--pprof: profiles are served beside the metrics: give --metrics-addr as well, such as 127.0.0.1:9100")
	}
	return nil
}

// check rejects a malformed address. It does not use the network.
func (e endpoint) check() error {
	if path := e.socket(); path != "" {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("--%s: give the absolute path of the socket, such as unix:/run/callbook/callbook.sock", e.flag)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(e.addr)
	if n, numberErr := strconv.Atoi(port); err == nil && (numberErr != nil && port == "" || numberErr == nil && (n < 0 || n > 65535)) {
		err = errors.New("the port must be from 0 to 65535")
	}
	if err != nil {
		return fmt.Errorf("--%s: %s is not an address such as 127.0.0.1:8080 or :8080: %w", e.flag, e.addr, err)
	}
	if e.flag == operatorFlag && !text.IsLoopback(host) {
		return fmt.Errorf("--%s: other machines could reach %s: give an address of this machine such as 127.0.0.1:8081, or a socket such as unix:/var/lib/callbook/operator.sock", e.flag, e.addr)
	}
	return nil
}

// listen listens on all endpoints, or on none. It uses a socket of the service manager for its address, so that
// clients can connect while the program restarts.
func listen(endpoints []endpoint) error {
	handed, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("use the sockets of the service manager: %w", err)
	}
	for i := range endpoints {
		e := &endpoints[i]
		if e.listener = takeListener(handed, e); e.listener != nil {
			continue
		}
		if e.listener, err = e.listen(); err != nil {
			closeAll(endpoints)
			if next := lowPort(err); next != "" {
				err = fmt.Errorf("%w: %s", err, next)
			}
			return fmt.Errorf("listen for --%s: %w", e.flag, err)
		}
	}
	for _, l := range handed {
		if l != nil {
			closeAll(endpoints)
			return fmt.Errorf("%w: the service manager passes a socket for %s, an address in no setting", errSettings, l.Addr())
		}
	}
	return nil
}

// lowPort returns the remedy for a missing right to listen on a port; empty for other errors.
func lowPort(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "allow this user ports below 1024, as the unit of callbook unit does, or use another port"
	}
	return ""
}

// takeListener removes the listener of an address from those of the service manager. A listener on all addresses is
// not used for one of them, because it would expose the endpoint.
func takeListener(handed []net.Listener, e *endpoint) net.Listener {
	want, err := net.ResolveTCPAddr("tcp", e.addr)
	for i, l := range handed {
		if l == nil {
			continue
		}
		at, ok := l.Addr().(*net.TCPAddr)
		switch {
		case ok && err == nil && at.Port == want.Port && (want.IP == nil || want.IP.IsUnspecified() || want.IP.Equal(at.IP)),
			!ok && e.socket() != "" && l.Addr().String() == e.socket():
			handed[i] = nil
			return l
		}
	}
	return nil
}

func closeAll(endpoints []endpoint) {
	for _, e := range endpoints {
		if e.listener != nil {
			_ = e.listener.Close()
		}
	}
}

// fronts returns the endpoints for server.Serve.
func fronts(endpoints []endpoint, s *server.Server) (all []server.Front) {
	for _, e := range endpoints {
		front := e.front(s)
		front.Listener = e.listener
		all = append(all, front)
	}
	return all
}

// reachable returns a listener's address as this machine reaches it.
func reachable(addr net.Addr) string {
	if at, ok := addr.(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(at.Port))
	}
	return addr.String()
}
