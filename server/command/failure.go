package command

import (
	"cmp"
	"errors"
	"fmt"

	"callbook/store"
)

// advise adds the next step to what the operator is told of a database that cannot
// be served.
func (c *serveCommand) advise(err error) error {
	switch {
	case errors.Is(err, store.ErrGone):
		return fmt.Errorf("%w (%s)", err, c.restoring())
	case errors.Is(err, store.ErrDamaged):
		return fmt.Errorf("%w; bring a copy back: %s", err, c.restoring())
	case errors.Is(err, store.ErrReplaced):
		return fmt.Errorf("%w; where the database is still under its name, start again; else put it back, or bring a copy back: %s", err, c.restoring())
	case errors.Is(err, store.ErrDisk):
		return fmt.Errorf("%w; nothing is tried again on it: look for what the system says of the disk (dmesg), then start again, which checks the whole database", err)
	}
	return err
}

// restoring is the command that brings the newest copy back.
func (c *serveCommand) restoring() string {
	return fmt.Sprintf("callbook restore %s --db %s", cmp.Or(c.schedule(c.DB).NewestName(), "COPY"), c.DB)
}
