package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"

	"github.com/coreos/go-systemd/v22/activation"

	"callbook/server"
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
	all := []endpoint{{flag: "addr", addr: c.Addr, front: certificates.front}}
	if len(c.Domain) > 0 && c.HTTPAddr != off {
		all = append(all, endpoint{flag: "http-addr", addr: c.HTTPAddr, front: certificates.redirect})
	}
	if c.MetricsAddr != "" {
		all = append(all, endpoint{flag: "metrics-addr", addr: c.MetricsAddr, front: func(s *server.Server) server.Front {
			return server.Front{Handler: s.Metrics()}
		}})
	}
	return all
}

// check rejects a malformed address. It does not use the network.
func (e endpoint) check() error {
	_, port, err := net.SplitHostPort(e.addr)
	if n, numberErr := strconv.Atoi(port); err == nil && (numberErr != nil && port == "" || numberErr == nil && (n < 0 || n > 65535)) {
		err = errors.New("the port must be from 0 to 65535")
	}
	if err != nil {
		return fmt.Errorf("--%s: %s is not an address such as 127.0.0.1:8080 or :8080: %w", e.flag, e.addr, err)
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
		if e.listener = takeListener(handed, e.addr); e.listener != nil {
			continue
		}
		if e.listener, err = net.Listen("tcp", e.addr); err != nil {
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
func takeListener(handed []net.Listener, addr string) net.Listener {
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil
	}
	for i, l := range handed {
		if l == nil {
			continue
		}
		at, ok := l.Addr().(*net.TCPAddr)
		if ok && at.Port == want.Port && (want.IP == nil || want.IP.IsUnspecified() || want.IP.Equal(at.IP)) {
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
