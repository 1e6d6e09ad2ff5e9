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

// entrance is an address that a server listens on.
type entrance struct {
	flag     string // that gives the address
	addr     string
	front    func(*server.Server) server.Front // what answers there, without its listener
	listener net.Listener
}

// entrances are all addresses of a server; the first is the directory's own.
func (c *serveCommand) entrances(certificates *certificates) []entrance {
	all := []entrance{{flag: "addr", addr: c.Addr, front: certificates.front}}
	if len(c.Domain) > 0 && c.HTTPAddr != off {
		all = append(all, entrance{flag: "http-addr", addr: c.HTTPAddr, front: certificates.redirect})
	}
	if c.MetricsAddr != "" {
		all = append(all, entrance{flag: "metrics-addr", addr: c.MetricsAddr, front: func(s *server.Server) server.Front {
			return server.Front{Handler: s.Metrics()}
		}})
	}
	return all
}

// check refuses what is no address, without asking anybody.
func (e entrance) check() error {
	_, port, err := net.SplitHostPort(e.addr)
	if n, numberErr := strconv.Atoi(port); err == nil && (numberErr != nil && port == "" || numberErr == nil && (n < 0 || n > 65535)) {
		err = errors.New("the port must be from 0 to 65535")
	}
	if err != nil {
		return fmt.Errorf("--%s: %s is not an address such as 127.0.0.1:8080 or :8080: %w", e.flag, e.addr, err)
	}
	return nil
}

// listen listens on all entrances, or on none. A socket that the service manager hands
// over is taken for its address: nobody is refused while the program is started again.
func listen(entrances []entrance) error {
	handed, err := activation.Listeners()
	if err != nil {
		return fmt.Errorf("use the sockets of the service manager: %w", err)
	}
	for i := range entrances {
		e := &entrances[i]
		if e.listener = take(handed, e.addr); e.listener != nil {
			continue
		}
		if e.listener, err = net.Listen("tcp", e.addr); err != nil {
			closeAll(entrances)
			if next := lowPort(err); next != "" {
				err = fmt.Errorf("%w: %s", err, next)
			}
			return fmt.Errorf("listen for --%s: %w", e.flag, err)
		}
	}
	for _, l := range handed {
		if l != nil {
			closeAll(entrances)
			return fmt.Errorf("%w: the service manager passes a socket for %s, an address in no setting", errSettings, l.Addr())
		}
	}
	return nil
}

// lowPort is what to do where only some users may listen.
func lowPort(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "allow this user ports below 1024, as the unit of callbook unit does, or use another port"
	}
	return ""
}

// take takes the listener of an address out of those handed over. One for all of the
// machine's addresses does not serve for one of them: it would let others in.
func take(handed []net.Listener, addr string) net.Listener {
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

func closeAll(entrances []entrance) {
	for _, e := range entrances {
		if e.listener != nil {
			_ = e.listener.Close()
		}
	}
}

// fronts are the entrances as a server serves them.
func fronts(entrances []entrance, s *server.Server) (all []server.Front) {
	for _, e := range entrances {
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
