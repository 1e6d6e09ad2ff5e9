package cli

import (
	"errors"

	"callbook/server"
	"callbook/server/https"
	"callbook/server/listen"
)

// endpoints returns all addresses of a server; the first is the directory's own.
func (c *serveCommand) endpoints(certificates *https.Certificates) []listen.Endpoint {
	all := []listen.Endpoint{{Flag: listen.SiteFlag, Addr: c.Addr, Front: certificates.Front}}
	if len(c.Domain) > 0 && c.HTTPAddr != off {
		all = append(all, listen.Endpoint{Flag: "http-addr", Addr: c.HTTPAddr, Front: certificates.Redirect})
	}
	if c.MetricsAddr != "" {
		all = append(all, listen.Endpoint{Flag: "metrics-addr", Addr: c.MetricsAddr, Front: func(s *server.Server) server.Front {
			return server.Front{Handler: s.Metrics(c.Pprof)}
		}})
	}
	if c.OperatorAddr != "" && !c.ReadOnly {
		all = append(all, listen.Endpoint{Flag: listen.OperatorFlag, Addr: c.OperatorAddr, Front: func(s *server.Server) server.Front {
			return server.Front{Handler: s.OperatorPage(c.checkRunning)}
		}})
	}
	return all
}

// checkSocket rejects settings that need an address of the network, if the site listens on a Unix socket.
func (c *serveCommand) checkSocket() error {
	switch e := (listen.Endpoint{Flag: listen.SiteFlag, Addr: c.Addr}); {
	case e.Socket() == "":
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
