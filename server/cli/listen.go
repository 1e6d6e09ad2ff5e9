package cli

import (
	"callbook/server"
	"callbook/server/service"
)

// endpoints returns all addresses of a server; the first is the directory's own.
func (c *serveCommand) endpoints(certificates *service.Certificates) (all []service.Endpoint) {
	metrics := func(s *server.Server) server.Front { return server.Front{Handler: s.Metrics()} }
	operator := func(s *server.Server) server.Front { return server.Front{Handler: s.OperatorPage(c.checkRunning)} }
	for _, e := range []service.Endpoint{
		{Flag: service.SiteFlag, Addr: c.Addr, Front: certificates.Front},
		{Flag: "http-addr", Addr: c.HTTPAddr, Front: certificates.Redirect},
		{Flag: "metrics-addr", Addr: c.MetricsAddr, Front: metrics},
		{Flag: service.OperatorFlag, Addr: c.OperatorAddr, Front: operator},
	} {
		if e.Addr != "" && e.Addr != off {
			all = append(all, e)
		}
	}

	return all
}
