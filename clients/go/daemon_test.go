package snowlease

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A daemon that answers as a test says, to be hostile in ways that a real one is not.

var background = context.Background()

const testLayout = "timestamp:41,worker:10,sequence:12@1490346283706/1"

type request struct {
	method, path, receipt, authorization string
	closes                               bool // the connection, after it
	body                                 map[string]any
}

func (r request) text(name string) string {
	text, _ := r.body[name].(string)
	return text
}

func (r request) number(name string) int64 {
	number, _ := r.body[name].(float64)
	return int64(number)
}

// An answer is sent as it is; where `slowly` is set, that follows, again and again.
type answer struct {
	text, slowly string
}

type fakeDaemon struct {
	url      string
	listener net.Listener
	over     chan struct{}

	mu       sync.Mutex
	requests []request
	script   func(request) answer
}

func startDaemon(t *testing.T) *fakeDaemon {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveDaemon(t, listener)
}

func serveDaemon(t *testing.T, listener net.Listener) *fakeDaemon {
	d := &fakeDaemon{url: "http://" + listener.Addr().String(), listener: listener, over: make(chan struct{})}
	d.answer(func(r request) answer { return granted(r, nil) })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go d.serve(connection)
		}
	}()
	t.Cleanup(func() {
		close(d.over)
		listener.Close()
	})
	return d
}

func (d *fakeDaemon) serve(connection net.Conn) {
	defer connection.Close()
	received, err := http.ReadRequest(bufio.NewReader(connection))
	if err != nil {
		return
	}
	r := request{received.Method, received.URL.Path, received.Header.Get("Snowlease-Receipt"), received.Header.Get("Authorization"), received.Close, nil}
	text, _ := io.ReadAll(received.Body)
	json.Unmarshal(text, &r.body)
	d.mu.Lock()
	d.requests = append(d.requests, r)
	script := d.script
	d.mu.Unlock()
	given := script(r)
	io.WriteString(connection, given.text)
	for given.slowly != "" {
		select {
		case <-d.over:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if _, err := io.WriteString(connection, given.slowly); err != nil {
			return
		}
	}
}

func (d *fakeDaemon) answer(script func(request) answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script = script
}

func (d *fakeDaemon) all() []request { return d.of("", "") }

// of returns the requests of a method whose path ends in this.
func (d *fakeDaemon) of(method, end string) []request {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []request
	for _, r := range d.requests {
		if (method == "" || r.method == method) && strings.HasSuffix(r.path, end) {
			found = append(found, r)
		}
	}
	return found
}

func (d *fakeDaemon) claims() []request { return d.of("POST", "/leases") }

func (d *fakeDaemon) renewals() []request { return d.of("PATCH", "") }

func jsonAnswer(status int, body any, receipt string) answer {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	head := fmt.Sprintf("HTTP/1.1 %d X\r\ncontent-length: %d\r\n", status, len(text))
	if receipt != "" {
		head += "snowlease-receipt: " + receipt + "\r\n"
	}
	return answer{text: head + "\r\n" + string(text)}
}

// granted is what a daemon answers where nothing is wrong, but for `other`.
func granted(r request, other object) answer {
	now := time.Now().UnixMilli()
	body := object{"from": now - 10_000, "until": now + 60_000, "clock": now, "renewAfterMs": 20_000}
	switch {
	case r.method == "GET":
		return jsonAnswer(200, object{"id": "one"}, "")
	case strings.HasSuffix(r.path, "/release") || r.method == "DELETE":
		return answer{text: "HTTP/1.1 204 X\r\n\r\n"}
	case r.method == "PATCH":
		body["turn"] = r.body["nextTurn"]
	default:
		body["workerId"], body["fence"], body["token"], body["layout"] = 7, 1, r.body["token"], testLayout
	}
	for name, value := range other {
		body[name] = value
	}
	if r.method == "PATCH" {
		return jsonAnswer(200, body, "renewed")
	}
	return jsonAnswer(201, body, "granted")
}

func refusedWith(status int, code string, other object) answer {
	body := object{"title": "X", "status": status, "detail": "No.", "code": code}
	for name, value := range other {
		body[name] = value
	}
	return jsonAnswer(status, body, "")
}

// snowflakeOf makes one that is closed at the end.
func snowflakeOf(t *testing.T, registry string, options Options) *Snowflake {
	t.Helper()
	return snowflakeAt(t, registry, options, &systemClocks)
}

// snowflakeAt makes one with clocks of its own.
func snowflakeAt(t *testing.T, registry string, options Options, clocks *clocks) *Snowflake {
	t.Helper()
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	ids, err := newSnowflake(registry, options, clocks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(background)
		cancel()
		ids.Close(ended)
		if h := holderOf(ids); h.hasBegun() {
			<-h.done
		}
	})
	return ids
}

// behind returns a wall clock that is behind by so many ms; the monotonic one is the system's.
func behind(by *atomic.Int64) *clocks {
	return &clocks{func() time.Time { return time.Now().Add(-milliseconds(by.Load())) }, systemClocks.elapsed}
}

// still returns a wall clock that shows this, Unix ms, and a monotonic one on which an hour passes from look to look: so no reading holds.
func still(ms *atomic.Int64) *clocks {
	var looks atomic.Int64
	return &clocks{func() time.Time { return time.UnixMilli(ms.Load()) }, func() time.Duration { return time.Duration(looks.Add(1)) * time.Hour }}
}

func (h *holder) hasBegun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isRunning
}

func holderOf(ids *Snowflake) *holder {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return ids.holder
}

func next(t *testing.T, ids *Snowflake) int64 {
	t.Helper()
	id, err := ids.Next(background)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// eventually waits until that holds, for a minute.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came")
		}
	}
}
