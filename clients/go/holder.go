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

var (
	// A call that Close does not break off: it may be granted, or give back.
	always = context.Background()
	// A call that is not repeated.
	over = func() context.Context {
		ctx, end := context.WithCancel(always)
		end()
		return ctx
	}()
)

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
	// Of a borrowed lease: when blocks of the next spans are due, and from when on a caller may have others asked for.
	prefetchDue, wantsFrom time.Time
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
	for wanted, goesOn := h.pause(w, due); goesOn; wanted, goesOn = h.pause(w, due) {
		if h.notesJump() || !time.Now().Before(due) {
			if due, err = h.renew(w); err != nil {
				h.lose(err)
				return
			}
		}
		if w.blocks != nil && h.borrow(w, wanted) {
			// A renewal decides.
			due = time.Now()
		}
	}
	h.givenBack = h.giveBack(w)
}

// pause waits until something is due, or until a caller wants blocks; false: the holder is closed.
func (h *holder) pause(w *window, due time.Time) (wanted *blocksRequest, goesOn bool) {
	wait := min(watch, time.Until(due))
	var wants <-chan blocksRequest
	if w.blocks != nil {
		wait = min(wait, time.Until(h.prefetchDue))
		if rest := time.Until(h.wantsFrom); rest > 0 {
			wait = min(wait, rest)
		} else {
			wants = w.blocks.wanted
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case asked := <-wants:
		wanted = &asked
	case <-h.stopping.Done():
	}
	return wanted, h.stopping.Err() == nil
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
			w, due, unfit := h.take(given, receipt)
			if unfit == nil || !unfit.lendsNone {
				return w, due, unfit
			}
			refused = unfit
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
		case refused.lendsNone && h.lost != nil:
			// In the place of one that did. A daemon that lends may come back: the next call of a program that goes on calling asks again.
			sleep(h.stopping, longestRenewal)
			refused.Unavailable = true
			return nil, time.Time{}, refused
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

func (h *holder) claimBody(now int64) object {
	// If the clock jumped, this may be a copy, and the other one may have sent this token.
	if h.notesJump() {
		h.drawToken()
	}
	host, _ := os.Hostname()
	body := object{
		"now":   now,
		"token": h.token,
		"host":  host[:min(len(host), longestHost)],
		"pid":   os.Getpid(),
		// What the last holder used of a tick is nothing that this client reads.
		"continues": false,
	}
	if h.options.Instance != "" {
		body["instance"] = h.options.Instance
	}
	if h.options.Borrow {
		body["shared"] = true
	}
	if layout := h.knownLayout(); layout != nil {
		body["layout"] = layout.String()
	}
	return body
}

// take takes a grant for this holder's, and returns when to renew it; or gives it back and says why.
func (h *holder) take(given grant, receipt string) (*window, time.Time, *Error) {
	h.receipt = receipt
	h.heard, h.heardBefore = h.daemons.clock, h.daemons.clock
	due := h.due(given.renewAfter, given.lease.Until)
	begin := newWindow
	if given.isShared {
		begin, h.receipt = newBorrowed, ""
	}
	w := begin(given.layout, given.lease, h.clocks, h.clocks.ms())
	err := h.difference()
	if h.options.Borrow && !given.isShared {
		err = h.notLent()
	}
	if err != nil && h.stopping.Err() == nil {
		h.giveBack(w)
		return nil, time.Time{}, err
	}
	// Where it is closed, blocks would keep its place taken.
	if given.isShared && h.stopping.Err() == nil && h.borrow(w, nil) {
		due = time.Now()
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
	return w, due, nil
}

// renew renews the lease. It returns when to do so again, or why the lease is lost.
func (h *holder) renew(w *window) (time.Time, *Error) {
	until, used := w.lease().Until, w.usage()
	length := h.length(w)
	body := func(now int64) object {
		h.notesJump()
		h.drawTurn(now, until)
		return h.telling(w, used, now)
	}
	atMost := length / 3
	if w.blocks != nil {
		// Requests for blocks wait for it, and those that there are last for some seconds.
		atMost = min(atMost, 2*longestRenewal)
	}
	var given renewal
	receipt, refused := h.call(h.stopping, h.stopping, "PATCH", fmt.Sprintf("/%d", w.workerID), body, h.receipt, atMost, func(answer object) (err error) {
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
	if receipt != "" && w.blocks == nil {
		h.receipt = receipt
	}
	h.heardBefore, h.heard = h.heard, h.daemons.clock
	w.renewed(given.from, given.until)
	return h.due(given.renewAfter, max(until, given.until)), nil
}

// borrow asks for the blocks that a caller wants, or once a second for those of the next spans: one request, since a renewal may be due behind it.
// Returns whether the lender says that the lease is lost.
func (h *holder) borrow(w *window, wanted *blocksRequest) (isLost bool) {
	if wanted != nil {
		return h.ask(w, *wanted)
	}
	if time.Now().Before(h.prefetchDue) {
		return false
	}
	h.prefetchDue = time.Now().Add(watch)
	asked := w.prefetch()
	return asked.spans > 0 && h.ask(w, asked)
}

// ask asks for blocks, once: those of an answer that is lost are lost, too. Returns whether the lender says that the lease is lost.
func (h *holder) ask(w *window, asked blocksRequest) bool {
	body := func(int64) object {
		body := h.body(w)
		body["first"], body["spans"], body["blocks"], body["held"] = asked.first, asked.spans, asked.blocks, asked.held
		return body
	}
	var given []int64
	// A renewal may wait for it.
	atMost := min(longestRenewal, h.length(w)/3)
	_, refused := h.call(h.stopping, over, "POST", fmt.Sprintf("/%d/blocks", w.workerID), body, "", atMost, func(answer object) (err error) {
		given, err = readBlocks(answer, asked.spans, w.blocks.blocks)
		return err
	})
	isNews := w.blocks.answered(asked, given, refused)
	isLost := refused != nil && refused.Code == "LEASE_LOST"
	// It is of no use to ask at each tick.
	switch {
	case isLost:
		h.wantsFrom = time.Now().Add(longestRenewal)
	case refused != nil:
		h.wantsFrom = time.Now().Add(min(max(shortestRenewal, refused.RetryAfter), longestRenewal))
	case !isNews:
		h.wantsFrom = time.Now().Add(firstPause)
	}
	return isLost
}

// length is that of the window, as it was told last.
func (h *holder) length(w *window) time.Duration {
	return max(shortestRenewal, milliseconds(w.lease().Until-h.heard))
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
	body := func(now int64) object {
		body := h.telling(w, used, now)
		if !h.jumpedAhead && w.blocks == nil {
			body["until"] = used.until
		}
		return body
	}
	path := fmt.Sprintf("/%d", w.workerID)
	_, refused := h.call(always, always, "POST", path+"/release", body, h.receipt, noTimeLimit, nil)
	if refused != nil && refused.Code == "NOT_FOUND" {
		// A daemon of a version before has the DELETE alone.
		_, refused = h.call(always, always, "DELETE", path, body, h.receipt, noTimeLimit, nil)
	}
	if refused != nil && refused.Code == "LEASE_LOST" {
		if _, _, isDoubtful := h.doubt(refused, w); isDoubtful {
			h.tell(refused, w)
		}
		if w.blocks != nil {
			// Nothing rests.
			return nil
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

// telling is the body of a request that tells what was used. Of a borrowed lease its lender knows that.
func (h *holder) telling(w *window, used usage, now int64) object {
	body := h.body(w)
	body["now"] = now
	if used.timestamp >= 0 && w.blocks == nil {
		body["lastTimestamp"], body["lastSequence"] = used.timestamp, used.sequence
	}
	return body
}

// body has what each request of a lease has.
func (h *holder) body(w *window) object {
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
	return body
}

// grant is what the answer to a claim says.
type grant struct {
	lease      Lease
	layout     *Layout
	renewAfter time.Duration
	isShared   bool
}

func (h *holder) readGrant(answer object) (grant, error) {
	isShared, isTold := answer["shared"].(bool)
	if isShared && !h.options.Borrow {
		// Its window is used by others, too.
		return grant{}, refusal("CONFIG_INVALID", "This address lends a lease that others use, too; name a daemon in its place.")
	}
	var numbers reader
	lease := Lease{numbers.of(answer, "workerId"), numbers.of(answer, "fence"), numbers.of(answer, "from"), numbers.of(answer, "until")}
	given := grant{lease: lease, renewAfter: milliseconds(numbers.of(answer, "renewAfterMs")), isShared: isShared}
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
	switch {
	case !isTold && answer["shared"] != nil || answer["token"] != h.token || given.layout.String() != text || lease.From > lease.Until:
		return grant{}, fmt.Errorf("it grants the lease of another claim")
	case lease.WorkerID > given.layout.maxWorkerID || known != nil && known.String() != text:
		return grant{}, fmt.Errorf("it grants worker ID %d of %s to a claim of %v", lease.WorkerID, text, known)
	}
	return given, nil
}

// readBlocks reads the blocks of each span, as bits.
func readBlocks(answer object, spans, blocks int64) ([]int64, error) {
	listed, isList := answer["blocks"].([]any)
	if !isList || int64(len(listed)) > spans {
		return nil, fmt.Errorf("its `blocks` is no list of %d spans", spans)
	}
	given := make([]int64, len(listed))
	for i, one := range listed {
		if given[i] = wholeOf(one); given[i] < 0 || given[i] > mask(int(blocks)) {
			return nil, fmt.Errorf("its `blocks` has what are no bits of %d blocks", blocks)
		}
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

func (h *holder) notLent() *Error {
	e := refusal("CONFIG_INVALID", "The registry lends no lease of namespace `%s`; start its daemon with `--lend`, or leave `borrow` out to lease "+
		"a worker ID for this process alone.", h.options.Namespace)
	e.lendsNone = true
	return e
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
