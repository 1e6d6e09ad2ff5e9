package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
)

// wire is one kept-alive connection: as cheap a client as can be, for it shares the
// processors with the server.
type wire struct {
	conn   net.Conn
	reader *bufio.Reader
	body   []byte

	streams *streams // of HTTP/2; nil: HTTP/1.1
}

// reply is what came back. The body is good until the next request.
type reply struct {
	status int
	length int // of the body
	body   []byte
}

func dial(addr string) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, reader: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// send sends a request and reads the answer: its body away, or for keep into the
// reply.
func (w *wire) send(request []byte, keep bool) (r reply, err error) {
	w.body = w.body[:0]
	if w.streams != nil {
		kept := &w.body
		if !keep {
			kept = nil
		}

		r, err = w.streams.send(request, kept)
		r.body = w.body
		return r, err
	}
	if _, err := w.conn.Write(request); err != nil {
		return r, err
	}

	r, chunked, err := w.head()
	switch {
	case err != nil:
		return r, err

	case chunked:
		r.length, err = w.chunks(keep)

	default:
		err = w.read(r.length, keep)
	}

	r.body = w.body
	return r, err
}

var (
	lengthHeader  = []byte("Content-Length: ")
	chunkedHeader = []byte("Transfer-Encoding: chunked")
)

// head reads the status line and the headers.
func (w *wire) head() (r reply, chunked bool, err error) {
	for {
		line, err := w.reader.ReadSlice('\n')
		if err != nil {
			return r, false, err
		}

		switch {
		case r.status == 0:
			if len(line) < 12 {
				return r, false, errors.New("no HTTP")
			}

			r.status, _ = strconv.Atoi(string(line[9:12]))

		case len(line) == 2:
			return r, chunked, nil

		case bytes.HasPrefix(line, lengthHeader):
			r.length, _ = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthHeader):])))

		case bytes.HasPrefix(line, chunkedHeader):
			chunked = true
		}
	}
}

func (w *wire) read(n int, keep bool) error {
	if !keep {
		_, err := w.reader.Discard(n)
		return err
	}

	from := len(w.body)
	w.body = append(w.body, make([]byte, n)...)
	_, err := io.ReadFull(w.reader, w.body[from:])

	return err
}

func (w *wire) chunks(keep bool) (total int, err error) {
	for {
		line, err := w.reader.ReadSlice('\n')
		if err != nil {
			return total, err
		}

		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return total, fmt.Errorf("read the size of a chunk: %w", err)
		}
		if err := w.read(int(n), keep); err != nil {
			return total, err
		}
		if _, err := w.reader.Discard(2); err != nil || n == 0 {
			return total, err
		}

		total += int(n)
	}
}

func get(host, path string, headers ...string) []byte {
	b := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n", path, host)
	for _, h := range headers {
		b = append(append(b, h...), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

func post(host, path, authorization string, body []byte) []byte {
	b := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n", path, host)
	if authorization != "" {
		b = append(append(append(b, "Authorization: "...), authorization...), "\r\n"...)
	}
	b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	return append(b, body...)
}

// exchange sends a request that is not timed and reads the whole answer.
func exchange(r *http.Request) (*http.Response, []byte, error) {
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, body, err
}
