// Command holder is a holder of the proof suite, prove/clients/README.md: it makes IDs, and writes down each of them and each window.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	snowlease "github.com/snowlease/snowlease/clients/go"
	"github.com/snowlease/snowlease/clients/go/internal/clock"
)

// Since this program began, by the machine's monotonic clock.
var begun, uptime = time.Now(), readUptime()

type holder struct {
	ids       *snowlease.Generator
	layout    *snowlease.Layout
	idLog     *os.File
	factLog   *os.File
	bulk      int
	made      int
	unwritten []byte
	known     *snowlease.Lease
	claims    int
	errors    map[string]int
	// Guards all of it: the caller's commands come beside its IDs.
	mutex sync.Mutex
}

func main() {
	task := map[string]string{}
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		task[name] = value
	}
	number := func(name string) int { return must(strconv.Atoi(task[name])) }
	ms := func(name string) time.Duration { return time.Duration(number(name)) * time.Millisecond }
	if file := os.Getenv("WALL_CLOCK_FILE"); file != "" {
		clock.Now = clock.FromFile(file)
	}
	h := &holder{bulk: number("bulk"), errors: map[string]int{}}
	h.idLog, h.factLog = open(task["log"]+".ids"), open(task["log"]+".facts")
	h.ids = must(snowlease.New(task["registry"], snowlease.Options{
		Namespace: task["namespace"], Host: task["host"], Window: ms("window"), OperationTimeout: ms("operationTimeout"), MaxWait: ms("maxWait"),
	}))
	h.tell()
	go func() {
		for range time.Tick(500 * time.Millisecond) {
			h.mutex.Lock()
			h.note(map[string]any{"errors": h.errors})
			h.tell()
			h.mutex.Unlock()
		}
	}()
	go h.make(ms("pause"))
	if bufio.NewScanner(os.Stdin).Scan() {
		h.end()
	}
}

func (h *holder) make(pause time.Duration) {
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
	before := h.ids.Lease()
	h.look(before)
	id, err := h.ids.Next(context.Background())
	if err != nil {
		h.count(err)
		return false
	}
	after := h.ids.Lease()
	// Made before the window changed, or behind it.
	if after != before && !h.fits(id, before) {
		h.look(after)
	}
	h.unwritten = binary.LittleEndian.AppendUint64(h.unwritten, uint64(id))
	h.made++
	h.look(after)
	return true
}

func (h *holder) fits(id int64, lease *snowlease.Lease) bool {
	if lease == nil {
		return false
	}
	parts := must(h.ids.Layout().Decompose(id, 0))
	return parts.WorkerID == lease.WorkerID && parts.Timestamp >= lease.From && parts.Timestamp < lease.Until
}

// look writes down a window before anything that was made in it.
func (h *holder) look(lease *snowlease.Lease) {
	if lease == h.known {
		return
	}
	h.write()
	isSame := lease != nil && h.known != nil && lease.WorkerID == h.known.WorkerID && lease.Fence == h.known.Fence
	if h.known != nil && !isSame {
		h.note(map[string]any{"left": "lost", "fence": h.known.Fence})
	}
	if lease != nil {
		if !isSame {
			h.claims++
		}
		h.note(map[string]any{"window": map[string]any{
			"generation": h.claims, "workerId": lease.WorkerID, "fence": lease.Fence, "from": lease.From, "until": lease.Until, "knownFrom": lease.From,
		}})
	}
	h.known = lease
}

func (h *holder) write() {
	must(h.idLog.Write(h.unwritten))
	h.unwritten = h.unwritten[:0]
}

func (h *holder) count(err error) {
	code := err.Error()
	var refusal *snowlease.Error
	if errors.As(err, &refusal) {
		code = refusal.Code
	}
	h.errors[code]++
	if code == "QUARANTINE" {
		h.note(map[string]any{"heard": "quarantine"})
	}
	if (refusal == nil || !refusal.Retryable()) && code != "LEASE_LOST" {
		h.note(map[string]any{"strange": err.Error()})
	}
}

func (h *holder) end() {
	// For good: no ID comes behind the last fact.
	h.mutex.Lock()
	h.look(h.ids.Lease())
	if h.known != nil {
		h.note(map[string]any{"left": "own will"})
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = h.ids.Close(closing)
	h.note(map[string]any{"errors": h.errors})
}

func (h *holder) note(fact map[string]any) {
	fact["at"], fact["time"] = h.made, float64((uptime+time.Since(begun)).Microseconds())/1000
	must(h.factLog.Write(append(must(json.Marshal(fact)), '\n')))
}

func (h *holder) tell() { fmt.Printf("{\"made\":%d}\n", h.made) }

func open(path string) *os.File { return must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)) }

// readUptime reads the machine's monotonic clock: Go shows no origin of its own one.
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
