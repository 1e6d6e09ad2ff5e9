package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"callbook/server/service"
)

// healthCommand checks that a running service responds, for the health check of a container, whose
// image has no other program. It takes the settings of callbook serve.
type healthCommand struct {
	serveCommand `embed:""`
}

// healthTimeout is the maximum duration of the check.
const healthTimeout = 2 * time.Second

// Run implements the command.
func (c *healthCommand) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()

	network, addr := "tcp", c.Addr
	if path := (service.Endpoint{Flag: service.SiteFlag, Addr: c.Addr}).Socket(); path != "" {
		network, addr = "unix", path
	}

	// The host of the URL only has to be one that the service accepts.
	url := "http://localhost/healthz"
	if len(c.Domain) > 0 {
		url = "https://" + c.Domain[0] + "/healthz"
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}

	// The certificate need not be valid, or there yet: the request stays on this machine, and asks
	// for something public.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}

	resp, err := transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("there is no response from %s: %w", c.Addr, err)
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the service at %s responds with status %d", c.Addr, resp.StatusCode)
	}

	return nil
}
