package cli

import (
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
			return server.Front{Handler: s.Metrics()}
		}})
	}
	if c.OperatorAddr != "" {
		all = append(all, listen.Endpoint{Flag: listen.OperatorFlag, Addr: c.OperatorAddr, Front: func(s *server.Server) server.Front {
			return server.Front{Handler: s.OperatorPage(c.checkRunning)}
		}})
	}
	return all
}
