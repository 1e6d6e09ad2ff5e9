package service

import (
	"net"
	"strings"
	"testing"
)

func TestAll_TellsTheNextStepForAnAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	err = Listen([]Endpoint{{Flag: SiteFlag, Addr: taken.Addr().String()}})
	if err == nil || !strings.HasPrefix(err.Error(), "listen for --addr: ") ||
		!strings.Contains(err.Error(), "(ss -ltnp lists it), or give another --addr") {
		t.Errorf("%v", err)
	}
}
