package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"callbook/server"
	"callbook/store"
)

type serveCommand struct {
	Addr         string        `default:"127.0.0.1:8080" help:"Address to listen on."`
	DB           string        `name:"db" default:"callbook.db" help:"The SQLite file; made when it is missing." type:"path"`
	BaseURL      string        `name:"base-url" help:"Where the public reaches the site, such as https://directory.example.org. Default: http:// and the address."`
	Contact      string        `help:"Where to report what is wrong with the site or in it: a mail address, or a mailto:, https: or http: URI. Default: the home page." placeholder:"ADDRESS"`
	TrustedProxy []string      `help:"Addresses or networks of reverse proxies whose X-Forwarded-For is believed." placeholder:"ADDR"`
	MCPOrigin    []string      `name:"mcp-origin" help:"Origins of web pages that may use the MCP endpoint, such as https://app.example.org. Programs need none." placeholder:"ORIGIN"`
	MetricsAddr  string        `help:"Address of a listener for Prometheus: GET /metrics. Keep it from the public. Default: none." placeholder:"ADDR"`
	BackupDir    string        `help:"Folder for copies of the database that the service makes by itself; made when it is missing." type:"path"`
	BackupEvery  time.Duration `default:"24h" help:"From one copy to the next."`
	BackupKeep   int           `default:"7" help:"How many copies stay."`
	Durability   string        `enum:"full,normal" default:"full" help:"normal is faster on slow disks, but a power cut may lose the last writes."`
	logFlags     `embed:""`
	mailFlags    `embed:""`
	limitFlags   `embed:""`
}

// Validate is called by kong once the flags are read.
func (c *serveCommand) Validate() (err error) {
	c.Contact, err = server.ParseContact(c.Contact)
	_, originErr := server.ParseMCPOrigins(c.MCPOrigin)
	return errors.Join(err, originErr, c.checkBackups(), c.mailFlags.check(), c.limitFlags.check())
}

func (c *serveCommand) checkBackups() error {
	if c.BackupEvery < time.Minute || c.BackupKeep < 1 || c.BackupKeep > 1000 {
		return errors.New("backups: --backup-every is at least 1m, --backup-keep from 1 to 1000")
	}
	return nil
}

func (c *serveCommand) Run(ctx context.Context, console *console) error {
	log, err := c.logger(console.err)
	if err != nil {
		return err
	}
	proxies, err := server.ParseTrustedProxies(c.TrustedProxy)
	if err != nil {
		return err
	}
	sink, err := c.open(log)
	if err != nil {
		return err
	}
	if c.BackupDir != "" {
		if err := os.MkdirAll(c.BackupDir, 0o700); err != nil {
			return fmt.Errorf("the folder for backups: %w", err)
		}
	}
	lock, err := store.AcquireLock(c.DB)
	if err != nil {
		return err
	}
	defer lock.Release()
	listener, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	if !store.Exists(c.DB) {
		log.Info().Str("db", c.DB).Msg("there is no database yet: making a new one")
	}
	limits, quotas := c.limits()
	mails := store.DefaultMailCaps
	mails.Site = c.LimitMails
	st, err := store.Open(ctx, store.Options{
		Path: c.DB, Quotas: &quotas, Mails: &mails, OwnerAgents: &c.OwnerAgents, Normal: c.Durability == "normal",
	})
	if err != nil {
		return err
	}
	if c.BaseURL == "" {
		c.BaseURL = "http://" + reachable(listener.Addr())
		log.Info().Str("base_url", c.BaseURL).Msg("no --base-url is given: documents name this address")
	}
	s, err := server.New(st, server.Options{
		BaseURL: c.BaseURL, Limits: limits, TrustedProxies: proxies, Log: log, Version: version(), Mail: sink,
		Contact: c.Contact, MCPOrigins: c.MCPOrigin,
		Backups: store.Schedule{Path: c.DB, Folder: c.BackupDir, Every: c.BackupEvery, Keep: c.BackupKeep},
	})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	if c.Durability == "normal" {
		log.Warn().Msg("durability is normal: a power cut may lose the last writes")
	}
	stopMetrics, err := c.serveMetrics(ctx, s, log)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	log.Info().Str("address", listener.Addr().String()).Str("base_url", c.BaseURL).Str("db", c.DB).Str("version", version()).Msg("callbook serves")
	err = s.Serve(ctx, listener)
	stopMetrics() // they are read from the store
	err = errors.Join(err, st.Close())
	log.Info().Msg("callbook has stopped")
	return err
}

// serveMetrics answers for Prometheus until it is told to stop.
func (c *serveCommand) serveMetrics(ctx context.Context, s *server.Server, log zerolog.Logger) (stop func(), err error) {
	if c.MetricsAddr == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", c.MetricsAddr)
	if err != nil {
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	log.Info().Str("metrics", listener.Addr().String()).Msg("figures for Prometheus at /metrics")
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.ServeMetrics(ctx, listener); err != nil {
			log.Error().Err(err).Msg("the metrics are no longer served")
		}
	})
	return func() { cancel(); serving.Wait() }, nil
}

// reachable is a listener's address as this machine reaches it.
func reachable(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err == nil && at.Addr().IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(int(at.Port())))
	}
	return addr.String()
}
