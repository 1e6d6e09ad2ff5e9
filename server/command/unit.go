package command

import (
	_ "embed"
	"fmt"
)

//go:embed callbook.service
var serviceUnit string

//go:embed callbook.socket
var socketUnit string

// unitCommand prints what systemd needs, so that the program is the only file to
// copy to a server.
type unitCommand struct {
	Socket bool `help:"Print callbook.socket instead: systemd keeps the addresses open while the service restarts."`
}

func (c unitCommand) Run(console *console) error {
	unit := serviceUnit
	if c.Socket {
		unit = socketUnit
	}
	_, err := fmt.Fprint(console.out, unit)
	return err
}
