package cli

import (
	"callbook/server"
	"callbook/server/https"
	"callbook/server/listen"
)

// endpoints returns all addresses of a server; the first is the directory's own.
func (c *serveCommand) endpoints(certificates *https.Certificates) (all []listen.Endpoint) {
	metrics := func(s *server.Server) server.Front { return server.Front{Handler: s.Metrics()} }
	operator := func(s *server.Server) server.Front { return server.Front{Handler: s.OperatorPage(c.checkRunning)} }
	for _, e := range []listen.Endpoint{
		{Flag: listen.SiteFlag, Addr: c.Addr, Front: certificates.Front},
		{Flag: "http-addr", Addr: c.HTTPAddr, Front: certificates.Redirect},
		{Flag: "metrics-addr", Addr: c.MetricsAddr, Front: metrics},
		{Flag: listen.OperatorFlag, Addr: c.OperatorAddr, Front: operator},
	} {
		if e.Addr != "" && e.Addr != off {
			all = append(all, e)
		}
	}
	return all
}
