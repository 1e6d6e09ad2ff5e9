package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/julienschmidt/httprouter"
)

// ready is an answer of the floor, made once for each size.
type ready struct {
	body   []byte
	length []string
}

// floorHandler answers with ready bodies: what net/http and httprouter reach when
// nothing is to be done.
func floorHandler() http.Handler {
	var made sync.Map // size as the path spells it → *ready
	contentType := []string{"application/json; charset=utf-8"}
	router := httprouter.New()
	router.GET("/ready/:bytes", func(w http.ResponseWriter, _ *http.Request, p httprouter.Params) {
		a, err := readyBody(&made, p[0].Value)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}

		h := w.Header()
		h["Content-Type"] = contentType
		h["Content-Length"] = a.length
		_, _ = w.Write(a.body)
	})

	return router
}

func readyBody(made *sync.Map, size string) (*ready, error) {
	if a, ok := made.Load(size); ok {
		return a.(*ready), nil
	}

	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > 1<<24 {
		return nil, fmt.Errorf("no size: %q", size)
	}

	a := &ready{bytes.Repeat([]byte("x"), n), []string{strconv.Itoa(n)}}
	made.Store(size, a)
	return a, nil
}

// floorAsk asks the floor for an answer of so many bytes.
func floorAsk(p *process, size int) *ask {
	return &ask{bytes: get(p.addr, "/ready/"+strconv.Itoa(size)), status: http.StatusOK}
}
