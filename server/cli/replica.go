package cli

import (
	"errors"
	"fmt"
	"time"

	"callbook/server"
)

// replicaFlags configure a read-only replica of a directory.
type replicaFlags struct {
	ReadOnly bool     `help:"Serve a copy of the database of another server, the primary, which another program replaces by newer copies, such as Litestream. Requests that need an API key or change something are rejected and name the primary."`
	Primary  string   `help:"With --read-only: public URL of the primary, such as https://directory.example.org." placeholder:"URL"`
	MaxLag   duration `default:"5m" help:"With --read-only: age of the copy beyond which /readyz and the log report a problem, such as 90s." placeholder:"DURATION"`
}

func (f replicaFlags) check() error {
	switch {
	case f.MaxLag <= 0:
		return errors.New("--max-lag: give a positive duration, such as 5m")
	case f.ReadOnly && f.Primary == "":
		return errors.New("--read-only: set --primary to the URL of the server that writes")
	case f.Primary != "" && !f.ReadOnly:
		return errors.New("--primary needs --read-only: without it, this server would write into the copy")
	case f.Primary != "" && server.CheckBaseURL(f.Primary) != nil:
		return fmt.Errorf("--primary: %w", server.CheckBaseURL(f.Primary))
	}
	return nil
}

// replica returns the settings of the server; the zero value if it is no replica.
func (f replicaFlags) replica() (r server.Replica) {
	if f.ReadOnly {
		r.Primary, r.MaxLag = f.Primary, time.Duration(f.MaxLag)
	}
	return r
}
