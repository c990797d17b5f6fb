package snowlease

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	random "math/rand"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// The longest sleep between two looks at the clocks; a larger difference between the progress of both is a step, a smaller one jitter.
	watch, step                     = time.Second, 250 * time.Millisecond
	firstClaimPause                 = time.Millisecond
	shortestRenewal, longestRenewal = 50 * time.Millisecond, time.Second
	mostSentTurns                   = 8
	longestHost                     = 255 // bytes
	quarantineLength                = time.Minute
	noTimeLimit                     = time.Duration(math.MaxInt64)
)

// A call that Close does not break off: it may be granted, or give back.
var always = context.Background()

// Between two questions for a namespace that a claim has just made: another daemon's standby may show it late.
var standbyPauses = []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}

// holder is one lease, from its claim to its end: given back, lost or refused. A goroutine of its own renews it. After a loss another holder
// follows.
type holder struct {
	options *Options
	daemons *daemons
	clocks  *clocks
	// The lease that this one takes the place of; nil: none.
	lost *Lease

	// Ends with stop: nothing new is begun.
	stopping context.Context
	stop     context.CancelFunc
	// Closed when the claim has an outcome: the window, or err.
	claimed chan struct{}
	// Closed when the goroutine has ended, with how the give-back went.
	done      chan struct{}
	givenBack *Error

	mu        sync.Mutex
	isRunning bool
	isClosed  bool
	window    *window
	err       *Error // The claim was refused, or the lease is lost.
	layout    *Layout

	// The goroutine's own.
	token              string
	receipt            string
	turn, nextTurn     string
	sentTurns          []string
	turnFromOpenWindow bool // nextTurn was drawn in an open window
	jumpedSinceTurn    bool
	jumpedAhead        bool
	apart              time.Duration // by how much the wall clock is ahead of the monotonic one
	// The wall clock when the last two requests were sent that the registry answered, Unix ms.
	heardBefore, heard int64
}

// newHolder makes one that has not begun. before: the holder that it follows; nil: none.
func newHolder(options *Options, daemons *daemons, clocks *clocks, layout *Layout, before *holder) *holder {
	h := &holder{options: options, daemons: daemons, clocks: clocks, layout: layout, claimed: make(chan struct{}), done: make(chan struct{})}
	h.stopping, h.stop = context.WithCancel(always)
	if before == nil {
		return h
	}
	h.layout, h.lost = before.layout, before.lost
	if before.window != nil {
		h.lost = before.window.lease()
	}
	// Of a lost lease whose window is open: it shows a registry what it forgot.
	if h.lost != nil && h.lost.Until > clocks.ms() {
		h.receipt = before.receipt
	}
	return h
}

// held returns the window of the worker ID. It claims one, if no caller did, and waits for the answer.
func (h *holder) held(ctx context.Context) (*window, error) {
	if err := h.begin(ctx); err != nil {
		return nil, err
	}
	select {
	case <-h.claimed:
	case <-h.stopping.Done():
	case <-ctx.Done():
		if !isOver(h.claimed) && !isOver(h.stopping.Done()) {
			return nil, notWaited(ctx)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.isClosed:
		return nil, h.closedError()
	case h.window == nil:
		return nil, h.err.again()
	}
	return h.window, nil
}

// notWaited is the error of a caller whose context ended before the claim did.
func notWaited(ctx context.Context) error {
	return fmt.Errorf("%w (%w)", unavailable("REGISTRY_UNAVAILABLE", 0, "A worker ID is being claimed, and the caller waited no longer; try again."), ctx.Err())
}

func isOver(event <-chan struct{}) bool {
	select {
	case <-event:
		return true
	default:
		return false
	}
}

// begin starts the goroutine, once.
func (h *holder) begin(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isRunning || h.isClosed {
		return nil
	}
	if ctx.Err() != nil {
		return notWaited(ctx)
	}
	h.isRunning = true
	go h.run()
	return nil
}

// hasEnded tells that another holder has to follow.
func (h *holder) hasEnded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err != nil && !h.isClosed
}

// lease returns the claim as it is; nil: there is none.
func (h *holder) lease() *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.window == nil || h.err != nil || h.isClosed {
		return nil
	}
	return h.window.lease()
}

func (h *holder) knownLayout() *Layout {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.layout
}

// close ends the claim: no ID is made from then on. The worker ID is given back soon.
func (h *holder) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isClosed = true
	if h.window != nil {
		h.window.end(h.closedError())
	}
	h.stop()
}

// wait waits until the worker ID of a closed holder is given back.
func (h *holder) wait(ctx context.Context) error {
	h.mu.Lock()
	holdsNothing := !h.isRunning || h.err != nil
	h.mu.Unlock()
	if holdsNothing {
		return nil
	}
	select {
	case <-h.done:
	case <-ctx.Done():
		if !isOver(h.done) {
			return fmt.Errorf("snowlease: the worker ID is not given back yet: %w", ctx.Err())
		}
	}
	if h.givenBack != nil {
		return h.givenBack.again()
	}
	return nil
}

func (h *holder) run() {
	defer close(h.done)
	defer h.stop()
	w, due, err := h.claim()
	if err != nil {
		h.lose(err)
		return
	}
	for sleep(h.stopping, min(watch, time.Until(due))) {
		if !h.notesJump() && time.Now().Before(due) {
			continue
		}
		if due, err = h.renew(w); err != nil {
			h.lose(err)
			return
		}
	}
	h.givenBack = h.giveBack(w)
}

// claim claims a worker ID. It returns when the first renewal is due.
func (h *holder) claim() (*window, time.Time, *Error) {
	begun, pause := time.Now(), firstClaimPause
	h.drawToken()
	for h.stopping.Err() == nil {
		var given grant
		// A claim that is under way when the holder is closed may be granted: that is given back.
		receipt, refused := h.call(always, h.stopping, "POST", "", h.claimBody, h.receipt, noTimeLimit, func(answer object) (err error) {
			given, err = h.readGrant(answer)
			return err
		})
		if refused == nil {
			due := h.due(given.renewAfter, given.lease.Until)
			w, err := h.take(given, receipt)
			return w, due, err
		}
		left := h.options.ClaimTimeout - time.Since(begun)
		wait := refused.RetryAfter
		switch code := refused.Code; {
		case code == "OTHER_REGISTRY" && h.receipt != "":
			// A receipt of another registry proves nothing here.
			h.receipt = ""
			continue
		case code == "LEASE_LOST":
			// The registry knows this token from before, or a copy of this process has used it.
			left += h.options.OperationTimeout
			h.drawToken()
		case code == "CLOCK_SKEW" || code == "CLOCK_ROLLBACK":
			if time.Since(h.daemons.sent) < longestRenewal {
				return nil, time.Time{}, refused
			}
			// The request itself took as long as the clocks seem to differ.
			left += h.options.OperationTimeout
		case !refused.Unavailable:
			return nil, time.Time{}, refused
		case code == "POOL_EXHAUSTED" || code == "WORKER_ID_HELD":
			// A worker ID may come free long before its window ends.
			wait = min(wait, longestRenewal)
		case code == "QUARANTINE":
			wait = quarantinePause(refused, quarantineLength)
		}
		if left <= 0 {
			return nil, time.Time{}, refused
		}
		sleep(h.stopping, min(max(wait, pause), left))
		pause = min(2*pause, longestRenewal)
	}
	return nil, time.Time{}, h.closedError()
}

func (h *holder) claimBody(int64) object {
	// If the clock jumped, this may be a copy, and the other one may have sent this token.
	if h.notesJump() {
		h.drawToken()
	}
	host, _ := os.Hostname()
	body := object{
		"token": h.token,
		"host":  host[:min(len(host), longestHost)],
		"pid":   os.Getpid(),
		// What the last holder used of a tick is nothing that this client reads.
		"continues": false,
	}
	if h.options.Instance != "" {
		body["instance"] = h.options.Instance
	}
	if layout := h.knownLayout(); layout != nil {
		body["layout"] = layout.String()
	}
	return body
}

// take takes a grant for this holder's, or gives it back and says why.
func (h *holder) take(given grant, receipt string) (*window, *Error) {
	h.receipt = receipt
	h.heard, h.heardBefore = h.daemons.clock, h.daemons.clock
	w := newWindow(given.layout, given.lease, h.clocks, h.clocks.ms())
	if err := h.difference(); err != nil && h.stopping.Err() == nil {
		h.giveBack(w)
		return nil, err
	}
	h.mu.Lock()
	h.layout, h.window = given.layout, w
	if h.isClosed {
		// At this moment.
		w.end(h.closedError())
	}
	h.mu.Unlock()
	close(h.claimed)
	if h.lost != nil {
		h.log(slog.LevelWarn, "Worker %d of namespace `%s` takes the place of worker %d.", w.workerID, h.options.Namespace, h.lost.WorkerID)
	}
	return w, nil
}

// renew renews the lease. It returns when to do so again, or why the lease is lost.
func (h *holder) renew(w *window) (time.Time, *Error) {
	until, used := w.lease().Until, w.usage()
	length := max(shortestRenewal, milliseconds(until-h.heard))
	body := func(now int64) object {
		h.notesJump()
		h.drawTurn(now, until)
		return h.body(w, used)
	}
	var given renewal
	receipt, refused := h.call(h.stopping, h.stopping, "PATCH", fmt.Sprintf("/%d", w.workerID), body, h.receipt, length/3, func(answer object) (err error) {
		given, err = readRenewal(answer)
		return err
	})
	now := time.Now()
	switch {
	case refused == nil:
	case h.stopping.Err() != nil:
		return now, nil
	case refused.Code == "LEASE_LOST" || refused.Code == "OTHER_REGISTRY":
		return now, refused
	default:
		if w.notRenewed(refused) && refused.Code != "REGISTRY_UNAVAILABLE" {
			h.log(slog.LevelWarn, "Worker %d of namespace `%s` is not renewed: %v", w.workerID, h.options.Namespace, refused)
		}
		if refused.Code == "QUARANTINE" {
			w.giveUpBefore(h.daemons.highest)
			return now.Add(quarantinePause(refused, length)), nil
		}
		return now.Add(min(longestRenewal, max(shortestRenewal, length/10))), nil
	}
	// A daemon of a version before names no turn.
	if given.turn != "" {
		if given.turn != h.nextTurn {
			// The answer is to a copy of this process.
			return now.Add(shortestRenewal), nil
		}
		h.turn, h.nextTurn, h.sentTurns = h.nextTurn, "", nil
	}
	if receipt != "" {
		h.receipt = receipt
	}
	h.heardBefore, h.heard = h.heard, h.daemons.clock
	w.renewed(given.from, given.until)
	return h.due(given.renewAfter, max(until, given.until)), nil
}

// due is when to renew: a third of the way to the end of the window, Unix ms, at the latest.
func (h *holder) due(renewAfter time.Duration, until int64) time.Time {
	return h.daemons.sent.Add(max(shortestRenewal, min(renewAfter, milliseconds(until-h.daemons.clock)/3)))
}

// lose: the claim was refused, or the lease is lost.
func (h *holder) lose(err *Error) {
	h.mu.Lock()
	h.err = err
	w := h.window
	if w == nil {
		close(h.claimed)
	} else {
		// The call that meets this asks the holder that follows.
		w.end(unavailable("LEASE_EXPIRED", 0, "The lease was lost; try again. %v", err))
	}
	h.mu.Unlock()
	if w != nil {
		h.tell(err, w)
	}
}

// tell tells the operator of a loss, and of IDs that may exist twice, since no other process knows of them.
func (h *holder) tell(err *Error, w *window) {
	what := fmt.Sprintf("Worker %d of namespace `%s` was lost (%s)", w.workerID, h.options.Namespace, firstOf(err.reason, err.Code))
	if from, until, isDoubtful := h.doubt(err, w); isDoubtful {
		h.log(slog.LevelError, "%s. Its IDs from %s to %s may exist twice.", what, timeText(from), timeText(until))
		return
	}
	h.mu.Lock()
	isClosed := h.isClosed
	h.mu.Unlock()
	if !isClosed {
		what += "; the next ID claims another one"
	}
	h.log(slog.LevelWarn, "%s.", what)
}

// doubt is from when to when another holder may have used the same times, Unix ms.
func (h *holder) doubt(err *Error, w *window) (from, until int64, isDoubtful bool) {
	if err.reason == "cloned" {
		// Both copies of a process may have heard the last answer.
		return h.heardBefore, w.lease().Until, true
	}
	// What was answered later is this holder's alone.
	from, until = max(err.doubt[0], h.heard), err.doubt[1]
	return from, until, from < until
}

// giveBack ends the claim, then tells what was used, so that another holder may have the worker ID at once. It returns why that failed.
func (h *holder) giveBack(w *window) *Error {
	w.end(h.closedError())
	h.notesJump()
	used := w.usage()
	if h.jumpedAhead {
		// This process may be a copy, which does not know what the other one used: the worker ID rests.
		used.timestamp = -1
	}
	body := h.body(w, used)
	if !h.jumpedAhead {
		body["until"] = used.until
	}
	again := func(int64) object { return body }
	path := fmt.Sprintf("/%d", w.workerID)
	_, refused := h.call(always, always, "POST", path+"/release", again, h.receipt, noTimeLimit, nil)
	if refused != nil && refused.Code == "NOT_FOUND" {
		// A daemon of a version before has the DELETE alone.
		_, refused = h.call(always, always, "DELETE", path, again, h.receipt, noTimeLimit, nil)
	}
	if refused != nil && refused.Code == "LEASE_LOST" {
		if _, _, isDoubtful := h.doubt(refused, w); isDoubtful {
			h.tell(refused, w)
		}
	}
	return refused
}

// difference compares the namespace at all daemons: those of two registries would grant one worker ID twice.
func (h *holder) difference() *Error {
	d := h.daemons
	if len(d.all) == 1 {
		return nil
	}
	ids := map[string]bool{}
	var shown []string
	for _, one := range d.all {
		shown = append(shown, one.shown)
		var id string
		look := call{method: "GET", path: "/v1/" + h.options.Namespace, read: func(answer object) (err error) {
			id, err = answer.text("id")
			return err
		}}
		for _, pause := range standbyPauses {
			sleep(h.stopping, pause)
			_, failed, kind := d.ask(h.stopping, one, look, longestRenewal)
			if failed != nil && (kind != final || failed.Code != "NOT_FOUND") {
				break
			}
			if failed == nil {
				ids[id] = true
				delete(ids, one.shown)
				break
			}
			// As an id of its own: it has no such namespace.
			ids[one.shown] = true
		}
	}
	if len(ids) < 2 {
		return nil
	}
	return refusal("CONFIG_INVALID", "The addresses %s are daemons of different registries (namespace `%s`): nothing was claimed; name only daemons of one registry.",
		strings.Join(shown, ", "), h.options.Namespace)
}

func (h *holder) call(ctx, repeating context.Context, method, path string, body func(int64) object, proof string, atMost time.Duration,
	read func(object) error) (string, *Error) {
	return h.daemons.call(ctx, repeating, call{method, "/v1/" + h.options.Namespace + "/leases" + path, body, proof, read}, atMost)
}

// body has what each request of a lease has, and what was used.
func (h *holder) body(w *window, used usage) object {
	body := object{"token": h.token, "fence": w.fence}
	if h.turn != "" {
		body["turn"] = h.turn
	}
	if h.nextTurn != "" {
		body["nextTurn"] = h.nextTurn
	}
	if len(h.sentTurns) > 0 {
		body["sentTurns"] = h.sentTurns
	}
	if used.timestamp >= 0 {
		body["lastTimestamp"], body["lastSequence"] = used.timestamp, used.sequence
	}
	return body
}

// grant is what the answer to a claim says.
type grant struct {
	lease      Lease
	layout     *Layout
	renewAfter time.Duration
}

func (h *holder) readGrant(answer object) (grant, error) {
	if answer["shared"] == true {
		// Its window is used by others, too.
		return grant{}, refusal("CONFIG_INVALID", "This address lends a lease that others use, too; name a daemon in its place.")
	}
	var numbers reader
	lease := Lease{numbers.of(answer, "workerId"), numbers.of(answer, "fence"), numbers.of(answer, "from"), numbers.of(answer, "until")}
	given := grant{lease: lease, renewAfter: milliseconds(numbers.of(answer, "renewAfterMs"))}
	text, err := answer.text("layout")
	if err == nil {
		err = numbers.err
	}
	if err != nil {
		return grant{}, err
	}
	if given.layout, err = ParseLayout(text); err != nil {
		return grant{}, err
	}
	known := h.knownLayout()
	isShared := answer["shared"] != nil && answer["shared"] != false
	switch {
	case isShared || answer["token"] != h.token || given.layout.String() != text || lease.From > lease.Until:
		return grant{}, fmt.Errorf("it grants the lease of another claim")
	case lease.WorkerID > given.layout.maxWorkerID || known != nil && known.String() != text:
		return grant{}, fmt.Errorf("it grants worker ID %d of %s to a claim of %v", lease.WorkerID, text, known)
	}
	return given, nil
}

// renewal is what the answer to a renewal says. turn: empty where there is none.
type renewal struct {
	from, until int64
	renewAfter  time.Duration
	turn        string
}

func readRenewal(answer object) (renewal, error) {
	var numbers reader
	given := renewal{from: numbers.of(answer, "from"), until: numbers.of(answer, "until"), renewAfter: milliseconds(numbers.of(answer, "renewAfterMs"))}
	err := numbers.err
	if _, isThere := answer["turn"]; isThere && err == nil {
		given.turn, err = answer.text("turn")
	}
	if err == nil && given.from > given.until {
		err = errors.New("its `from` is behind its `until`")
	}
	return given, err
}

// reader reads integers, and keeps the first error.
type reader struct{ err error }

func (r *reader) of(answer object, name string) int64 {
	value, err := answer.integer(name)
	if r.err == nil {
		r.err = err
	}
	return value
}

func (h *holder) drawToken() {
	h.token = h.fresh()
	// What a copy of this process, made from now on, would repeat.
	h.apart, h.jumpedAhead = h.differenceOfClocks(), false
}

// drawTurn draws the next turn, which is repeated until an answer comes. But a copy made in between would repeat it, too: so another one, where
// this may be one.
func (h *holder) drawTurn(now, until int64) {
	if h.nextTurn != "" && (h.jumpedSinceTurn || h.turnFromOpenWindow && now >= until) {
		sent := append(h.sentTurns[:len(h.sentTurns):len(h.sentTurns)], h.nextTurn)
		h.sentTurns = sent[max(0, len(sent)-mostSentTurns):]
		h.nextTurn = ""
	}
	if h.nextTurn == "" {
		h.nextTurn, h.turnFromOpenWindow, h.jumpedSinceTurn = h.fresh(), now < until, false
	}
}

// notesJump tells whether the wall clock has jumped since the last look.
func (h *holder) notesJump() bool {
	before := h.apart
	h.apart = h.differenceOfClocks()
	by := h.apart - before
	h.jumpedAhead = h.jumpedAhead || by >= step
	h.jumpedSinceTurn = h.jumpedSinceTurn || by.Abs() >= step
	return by.Abs() >= step
}

// differenceOfClocks is by how much the wall clock is ahead of the monotonic one: of three reads the shortest, since a process may be stopped in
// one.
func (h *holder) differenceOfClocks() time.Duration {
	least, best := noTimeLimit, time.Duration(0)
	for range [3]int{} {
		before := time.Now()
		wall := h.clocks.wall()
		if took := time.Since(before); took < least {
			least = took
			best = time.Duration(wall.UnixMicro())*time.Microsecond - before.Sub(began) - took/2
		}
	}
	return best
}

func (h *holder) closedError() *Error {
	return refusal("LEASE_LOST", "This Snowflake of namespace `%s` was closed; make a new one.", h.options.Namespace)
}

func (h *holder) log(level slog.Level, format string, args ...any) {
	logger := h.options.Logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Log(always, level, fmt.Sprintf(format, args...))
}

// quarantinePause is how long to wait with what a quarantine refused, in a window of this length: an operator may end it early. Not all at once.
func quarantinePause(refused *Error, length time.Duration) time.Duration {
	share := random.Float64()
	look := time.Duration(float64(length) * (0.15 + share*0.1))
	told := look
	if refused.RetryAfter > 0 {
		told = refused.RetryAfter
	}
	return max(shortestRenewal, min(look, told+time.Duration(share*0.05*float64(length))))
}

// fresh returns 32 random hex digits. A machine that was copied while it ran may repeat random bytes; the clocks tell the copies apart.
func (h *holder) fresh() string {
	var bytes [16]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(err)
	}
	text, _ := json.Marshal([]any{bytes, time.Since(began), h.clocks.wall().UnixNano(), os.Getpid()})
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:len(bytes)])
}
