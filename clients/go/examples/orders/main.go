// Command orders answers POST /orders with the ID of a new order. The variable SNOWLEASE_REGISTRY names the daemon, and ADDRESS where it listens.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"snowlease.io/snowlease"
)

func main() {
	ids, err := snowlease.New("", snowlease.Options{Namespace: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/orders", func(w http.ResponseWriter, r *http.Request) {
		id, err := ids.NextString(r.Context(), snowlease.Decimal)
		if err != nil {
			unavailable(w, err)
			return
		}
		fmt.Fprintf(w, `{"id":"%s"}`+"\n", id)
	})

	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, failed := &http.Server{Addr: os.Getenv("ADDRESS")}, make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err = <-failed:
	case <-stopped.Done():
		ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		// Requests that are still served get their IDs.
		err = server.Shutdown(ending)
	}
	if err := errors.Join(err, ids.Close(context.Background())); err != nil {
		log.Fatal(err)
	}
}

func unavailable(w http.ResponseWriter, err error) {
	var refused *snowlease.Error
	if !errors.As(err, &refused) || !refused.Unavailable {
		log.Print(err)
		http.Error(w, "no ID", http.StatusInternalServerError)
		return
	}
	seconds := max(1, int((refused.RetryAfter + time.Second - 1).Seconds()))
	w.Header().Set("Retry-After", fmt.Sprint(seconds))
	http.Error(w, refused.Code, http.StatusServiceUnavailable)
}
