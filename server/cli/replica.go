package cli

import (
	"time"

	"callbook/server"
)

// replicaFlags configure a read-only replica of a directory.
type replicaFlags struct {
	ReadOnly bool     `help:"Serve a copy of the database of another server, the primary, which another program replaces by newer copies, such as Litestream. Requests that need an API key or change something are rejected and name the primary."`
	Primary  string   `help:"With --read-only: public URL of the primary, such as https://directory.example.org." placeholder:"URL"`
	MaxLag   duration `default:"5m" help:"With --read-only: age of the copy beyond which /readyz and the log report a problem, such as 90s." placeholder:"DURATION"`
}

// replica returns the settings of the server; the zero value if it is no replica.
func (f replicaFlags) replica() (r server.Replica) {
	if f.ReadOnly {
		r.Primary, r.MaxLag = f.Primary, time.Duration(f.MaxLag)
	}
	return r
}
