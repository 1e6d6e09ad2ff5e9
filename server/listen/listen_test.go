package listen

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestOpen_NamesTheProcessThatListens and the flag that gives another address.
func TestOpen_NamesTheProcessThatListens(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		taken, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skip(err)
		}
		defer taken.Close()
		err = All([]Endpoint{{Flag: SiteFlag, Addr: taken.Addr().String()}})
		want := fmt.Sprintf("stop process %d (listen.test), or give another --addr", os.Getpid())
		if runtime.GOOS != "linux" {
			want = "ss -ltnp"
		}
		if err == nil || !strings.HasPrefix(err.Error(), "listen for --addr: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if by := (Endpoint{Flag: "metrics-addr", Addr: "127.0.0.1:1"}).InUse(); !strings.Contains(by, "(ss -ltnp lists it), or give another --metrics-addr") {
		t.Errorf("nothing listens: %s", by)
	}
}
