package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"syscall"
	"testing/fstest"
	"time"

	"github.com/pocketbase/pocketbase/core"
	"github.com/rs/zerolog"

	"callbook/server"
	"callbook/server/cli"
	"callbook/server/ratelimit"
	"callbook/store"
)

// roleArgument has this program serve as one of the sites.
const roleArgument = "role"

// runRole serves until the process is asked to end. The arguments are those behind
// roleArgument: the role, its address, and what the role takes.
func runRole(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error

	switch name, addr, rest := args[0], args[1], args[2:]; site(name) {
	case floor:
		err = serve(ctx, addr, floorHandler())

	case floorTLS:
		err = serveFloorTLS(ctx, addr, rest[0])

	case shared, alone:
		err = serveDirectory(ctx, addr, rest[0], rest[1])

	case pocketBase:
		err = servePocketBase(ctx, addr, rest[0], core.DefaultDBConnect)

	case pocketBaseFull:
		err = servePocketBase(ctx, addr, rest[0], connectFull)

	case peerSchema:
		err = makeCollections(rest[0])

	case "program":
		return runProgram(ctx, addr, rest)

	default:
		err = fmt.Errorf("no role %s", name)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	return 0
}

// serve answers on an address until ctx ends.
func serve(ctx context.Context, addr string, h http.Handler) error {
	s := &http.Server{Addr: addr, Handler: h}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

// unreachedLimits are on, as in service, but out of reach.
var unreachedLimits = ratelimit.Limits{
	"reads":         {Requests: 1e9, Period: time.Minute},
	"registrations": {Requests: 1e9, Period: time.Hour},
	"calls":         {Requests: 1e9, Period: time.Minute},
	"writes":        {Requests: 1e9, Period: time.Minute},
}

// serveDirectory serves a directory in which at most batch writes share a commit; 0
// is the program's own number.
func serveDirectory(ctx context.Context, addr, path, batch string) error {
	n, err := strconv.Atoi(batch)
	if err != nil {
		return err
	}

	st, err := openStore(ctx, store.Options{Path: path, Batch: n, NetworkDisk: true})
	if err != nil {
		return err
	}

	defer st.Close()
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	s, err := server.New(
		st,
		server.Options{BaseURL: "http://" + addr, Limits: unreachedLimits, Log: log},
	)
	if err != nil {
		return err
	}

	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}

	return s.Serve(ctx, server.Front{Listener: l})
}

// runProgram is the released program, of which profiles can be made at another
// address.
func runProgram(ctx context.Context, control string, args []string) int {
	go func() { _ = serve(ctx, control, profiler()) }()
	return cli.Run(ctx, args, fstest.MapFS{}, os.Stdout, os.Stderr)
}

func profiler() http.Handler {
	mux := http.NewServeMux()
	var file *os.File
	mux.HandleFunc("POST /begin", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Create(r.FormValue("file"))
		if err == nil {
			file, err = f, pprof.StartCPUProfile(f)
		}

		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})

	mux.HandleFunc("POST /end", func(w http.ResponseWriter, _ *http.Request) {
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})

	return mux
}
