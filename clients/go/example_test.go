package snowlease_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	snowlease "github.com/snowlease/snowlease/clients/go"
)

// A service makes one generator, and shares it among its goroutines.
func Example() {
	ids, err := snowlease.New("http://127.0.0.1:7070", snowlease.Options{Namespace: "orders"})
	if err != nil {
		panic(err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		ids.Close(closing)
	}()
	http.HandleFunc("/orders", func(w http.ResponseWriter, r *http.Request) {
		id, err := ids.NextString(r.Context(), snowlease.Base62)
		var refused *snowlease.Error
		if errors.As(err, &refused) && refused.Retryable() {
			w.Header().Set("Retry-After", fmt.Sprint(max(1, int(refused.RetryAfter.Seconds()))))
			http.Error(w, refused.Error(), http.StatusServiceUnavailable)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, id)
	})
}

func ExampleLayout_Decompose() {
	layout, _ := snowlease.ParseLayout("westid")
	parts, _ := layout.Decompose(1280088182544662528, 0)
	fmt.Println(time.UnixMilli(parts.Timestamp).UTC().Format(time.RFC3339), parts.WorkerID, parts.Sequence)
	// Output: 2026-11-24T17:58:09Z 0 0
}
