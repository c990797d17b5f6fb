// Command holder is a holder of the proof suite, README.md above: it makes IDs, and writes down each of them and each window.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"snowlease.io/snowlease"
)

// When this program began, and the machine's monotonic clock then: Go does not show it.
var begun, uptime = time.Now(), readUptime()

type fact map[string]any

type holder struct {
	ids            *snowlease.Snowflake
	idLog, factLog *os.File
	bulk           int
	made, claims   int
	unwritten      []byte
	known          *snowlease.Lease
	errors         map[string]int
	// Guards all of that: commands come beside IDs.
	mutex sync.Mutex
	told  reason
}

// reason is why the last lease was lost, as the client's log told. The client waits for it.
type reason struct{ atomic.Value }

var lost = regexp.MustCompile(`was lost \((\w+)\)`)

func (r *reason) Write(line []byte) (int, error) {
	if found := lost.FindSubmatch(line); found != nil {
		r.Store(string(found[1]))
	}
	return len(line), nil
}

func main() {
	task := map[string]string{}
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		task[name] = value
	}
	number := func(name string) int { return must(strconv.Atoi(task[name])) }
	ms := func(name string) time.Duration { return time.Duration(number(name)) * time.Millisecond }
	if task["clock"] != "" {
		snowlease.FakeClock(task["clock"])
	}
	h := &holder{bulk: number("bulk"), errors: map[string]int{}}
	h.idLog, h.factLog = open(task["log"]+".ids"), open(task["log"]+".facts")
	h.ids = must(snowlease.New(task["registry"], snowlease.Options{
		Namespace:        task["namespace"],
		OperationTimeout: ms("operationTimeout"),
		MaxWait:          ms("maxWait"),
		Logger:           slog.New(slog.NewTextHandler(io.MultiWriter(os.Stderr, &h.told), nil)),
	}))
	go func() {
		for ; ; time.Sleep(500 * time.Millisecond) {
			h.mutex.Lock()
			h.note(fact{"errors": h.errors})
			fmt.Printf("{\"made\":%d}\n", h.made)
			h.mutex.Unlock()
		}
	}()
	go h.run(ms("pause"))
	if bufio.NewScanner(os.Stdin).Scan() {
		h.end()
	}
}

func (h *holder) run(pause time.Duration) {
	for {
		h.mutex.Lock()
		for i := 0; i < h.bulk && h.next(); i++ {
		}
		h.write()
		h.mutex.Unlock()
		time.Sleep(pause)
	}
}

func (h *holder) next() bool {
	before := h.look()
	id, err := h.ids.Next(context.Background())
	if err != nil {
		h.count(err)
		return false
	}
	// It was made before the window changed, or behind it.
	if !h.fits(id, before) {
		h.look()
	}
	h.unwritten = binary.LittleEndian.AppendUint64(h.unwritten, uint64(id))
	h.made++
	return true
}

func (h *holder) fits(id int64, lease *snowlease.Lease) bool {
	if lease == nil {
		return false
	}
	parts := must(h.ids.Layout().Decompose(id))
	return parts.WorkerID == lease.WorkerID && parts.Timestamp >= lease.From && parts.Timestamp < lease.Until
}

// look writes down the window before anything that is made in it, and the end of the one before.
func (h *holder) look() *snowlease.Lease {
	lease, known := h.ids.Lease(), h.known
	if (lease == nil) != (known == nil) || (lease != nil && *lease != *known) {
		h.write()
		isSame := lease != nil && known != nil && lease.WorkerID == known.WorkerID && lease.Fence == known.Fence
		if known != nil && !isSame {
			h.note(fact{"left": "own will"})
			if reason, _ := h.told.Swap("").(string); reason != "" {
				h.note(fact{"left": "lost", "reason": reason, "fence": known.Fence})
			}
		}
		if lease != nil {
			if !isSame {
				h.claims++
			}
			h.note(fact{"window": fact{
				"generation": h.claims, "workerId": lease.WorkerID, "fence": lease.Fence, "from": lease.From, "until": lease.Until, "knownFrom": lease.From,
			}})
		}
		h.known = lease
	}
	return lease
}

func (h *holder) write() {
	must(h.idLog.Write(h.unwritten))
	h.unwritten = h.unwritten[:0]
}

func (h *holder) count(err error) {
	var refused *snowlease.Error
	if !errors.As(err, &refused) {
		panic(err)
	}
	h.errors[refused.Code]++
	if refused.Code == "QUARANTINE" {
		h.note(fact{"heard": "quarantine"})
	}
	if !refused.Unavailable && refused.Code != "LEASE_LOST" {
		h.note(fact{"strange": err.Error()})
	}
}

func (h *holder) end() {
	// For good: no ID comes behind the last fact.
	h.mutex.Lock()
	if h.look() != nil {
		h.note(fact{"left": "own will"})
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = h.ids.Close(closing)
	h.note(fact{"errors": h.errors})
}

func (h *holder) note(told fact) {
	told["at"], told["time"] = h.made, float64((uptime+time.Since(begun)).Microseconds())/1000
	must(h.factLog.Write(append(must(json.Marshal(told)), '\n')))
}

func open(path string) *os.File { return must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)) }

func readUptime() time.Duration {
	seconds, _, _ := strings.Cut(string(must(os.ReadFile("/proc/uptime"))), " ")
	return time.Duration(must(strconv.ParseFloat(seconds, 64)) * float64(time.Second))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
