package snowlease

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/snowlease/snowlease/clients/go/internal/clock"
)

const (
	// A larger difference between the progress of both clocks is a step, a smaller one is the jitter of a busy machine.
	step  = 250 * time.Millisecond
	watch = time.Second
	// Between two tries of what failed.
	shortestRetry, longestRetry = 50 * time.Millisecond, time.Second
	firstRetry, longestLook     = 20 * time.Millisecond, 200 * time.Millisecond
	mostSentTurns               = 8
	longestWindow               = 86_400_000 // ms
	prefetchInterval            = time.Second
)

// Between two questions for a namespace that a claim has just made: another daemon's standby may show it late.
var standbyPauses = []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}

// lease is one lease: a goroutine of its own claims it, renews it, claims another one where it is lost, and gives it back.
type lease struct {
	options   Options
	transport *transport
	open      *atomic.Pointer[tick]
	snapshot  *atomic.Pointer[Lease]
	layout    *atomic.Pointer[Layout]

	// Closed when the first claim has an outcome: ticks, or err.
	claimed chan struct{}
	err     *Error
	ticks   atomic.Pointer[ticks]

	// Ends with Close: nothing new is begun.
	stopping context.Context
	stop     context.CancelFunc
	// Ends with the goroutine, or where Close does not wait any longer: no request goes on.
	living context.Context
	kill   context.CancelFunc
	// Closed when the goroutine has ended, with how the give-back went.
	done      chan struct{}
	givenBack *Error

	// The goroutine's own.
	token     string
	receipt   string
	fence     int64
	turns     turns
	heard     [2]int64 // the wall clock at which the last two requests that were answered were sent, Unix ms
	apart     time.Duration
	hasJumped bool
}

type grant struct {
	workerID, fence, from, until int64
	renewAfter                   time.Duration
	layout                       *Layout
	isShared                     bool
}

func newLease(g *Generator) *lease {
	l := &lease{
		options:   g.options,
		transport: &transport{daemons: g.registry.daemons, token: g.options.Token, timeout: g.options.OperationTimeout},
		open:      &g.open,
		snapshot:  &g.snapshot,
		layout:    &g.layout,
		claimed:   make(chan struct{}),
		done:      make(chan struct{}),
	}
	l.living, l.kill = context.WithCancel(context.Background())
	l.stopping, l.stop = context.WithCancel(l.living)
	go l.run()
	return l
}

// close ends the lease at once, and waits until the worker ID is given back.
func (l *lease) close(ctx context.Context) error {
	l.stop()
	if t := l.ticks.Load(); t != nil {
		t.end(l.ended())
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		l.kill()
		return fmt.Errorf("snowlease: the worker ID was not given back, and rests until its window has passed: %w", ctx.Err())
	}
	if l.givenBack != nil {
		return l.givenBack
	}
	return nil
}

// hasFailed tells that the claim was refused: the next one is another lease's.
func (l *lease) hasFailed() bool {
	select {
	case <-l.claimed:
		return l.err != nil
	default:
		return false
	}
}

// held returns the ticks of the worker ID once it is claimed.
func (l *lease) held(ctx context.Context) (*ticks, error) {
	if t := l.ticks.Load(); t != nil {
		return t, nil
	}
	select {
	case <-l.claimed:
		if l.err != nil {
			return nil, l.err
		}
		return l.ticks.Load(), nil
	case <-l.stopping.Done():
		// A claim that was refused ends the lease, too.
		if l.hasFailed() {
			return nil, l.err
		}
		return nil, l.ended()
	case <-ctx.Done():
		return nil, fmt.Errorf("snowlease: waiting for a worker ID: %w", ctx.Err())
	}
}

func (l *lease) run() {
	defer close(l.done)
	defer l.kill()
	due, failed := l.claim("")
	if failed != nil {
		l.err = failed.Error
		close(l.claimed)
		return
	}
	close(l.claimed)
	prefetch := time.Now().Add(prefetchInterval)
	for {
		t := l.ticks.Load()
		var more <-chan blocksRequest
		next := due
		if t.share != nil {
			more = t.share.want
			if prefetch.Before(next) {
				next = prefetch
			}
		}
		timer := time.NewTimer(min(watch, max(0, time.Until(next))))
		failed = nil
		select {
		case <-l.stopping.Done():
			timer.Stop()
			l.snapshot.Store(nil)
			l.givenBack = l.giveBack(t)
			return
		case request := <-more:
			if _, failed = l.takeBlocks(t, request); failed != nil {
				// Callers ask again and again.
				sleep(l.stopping, shortestRetry)
			}
			t.answered()
		case <-timer.C:
		}
		timer.Stop()
		now := time.Now()
		if failed == nil && more != nil && !now.Before(prefetch) {
			prefetch = now.Add(prefetchInterval)
			failed = l.prefetch(t)
		}
		// A lender that does not know this claim: the answer to a renewal decides.
		isUnknown := failed != nil && isLoss(failed)
		if !isUnknown && !l.notesJump() && now.Before(due) {
			continue
		}
		if due, failed = l.renew(t); failed != nil {
			if due, failed = l.replace(t, failed); failed != nil {
				// What is lost for good does not come back by itself.
				t.end(failed.Error)
				return
			}
			prefetch = time.Now().Add(prefetchInterval)
		}
	}
}

// claim claims a worker ID, and returns when its renewal is due. recall: the receipt of the lease that it replaces.
func (l *lease) claim(recall string) (time.Time, *failure) {
	o := &l.options
	begun, retry, token := time.Now(), firstRetry, fresh()
	for {
		asked, wall := time.Now(), clock.Ms()
		body := object{
			"token": token,
			"now":   wall,
			"pid":   os.Getpid(),
			// What the last holder used of a tick is nothing that this client reads.
			"continues": false,
		}
		if o.Host != "" {
			body["host"] = o.Host
		}
		if o.Instance != "" {
			body["instance"] = o.Instance
		}
		if layout := l.layout.Load(); layout != nil {
			body["layout"] = layout.canonical
		}
		if o.Window != 0 {
			body["windowMs"] = o.Window.Milliseconds()
		}
		if o.Borrow {
			body["shared"] = true
		}
		var given grant
		// Close lets a request go on that may be granted, to give back what it was granted, but repeats none.
		receipt, failed := l.send(l.living, l.stopping, "POST", "", body, recall, func(answer object) (err error) {
			given, err = readGrant(answer, token, o.Borrow)
			return err
		})
		if failed == nil {
			if failed = l.begin(given, token, receipt, wall); failed != nil {
				// It was given back.
				token = fresh()
			}
		}
		if failed == nil {
			return l.due(asked, given.renewAfter, given.until-wall), nil
		}
		left := -time.Since(begun)
		longest := max(o.OperationTimeout, o.ClaimTimeout)
		wait := retry
		retry = min(2*retry, longestRetry)
		switch {
		case l.stopping.Err() != nil:
			return time.Time{}, &failure{Error: l.ended()}
		case failed.Code == "OTHER_REGISTRY" && recall != "":
			// A receipt of another registry proves nothing here.
			recall = ""
			continue
		case failed.Code == "LEASE_LOST" && left+longest > 0:
			// The registry knows this token from before a quarantine, a copy of this process has used it, or a lender has another lease now.
			token = fresh()
		default:
			if failed.Code == "REGISTRY_UNAVAILABLE" && !failed.isLasting {
				left += longest
			} else {
				left += o.ClaimTimeout
			}
			if !failed.Retryable() || failed.Code == "CLOCK_SKEW" || left <= 0 {
				return time.Time{}, failed
			}
			pause := failed.RetryAfter
			if look := quarantinePause(failed, o.windowOr(time.Minute), token); look > 0 {
				pause = look
			}
			// A worker ID that is held may come free long before its window ends.
			if failed.Code == "POOL_EXHAUSTED" || failed.Code == "WORKER_ID_HELD" {
				pause = min(pause, longestLook)
			}
			wait = min(max(pause, wait), left)
		}
		if !sleep(l.stopping, wait) {
			return time.Time{}, &failure{Error: l.ended()}
		}
	}
}

// begin takes a grant for this lease's own, or gives it back and says why.
func (l *lease) begin(given grant, token, receipt string, asked int64) *failure {
	refused := func(code, format string, args ...any) *failure {
		return &failure{Error: refusal(code, format, args...)}
	}
	if known := l.layout.Load(); known != nil && known.canonical != given.layout.canonical {
		return refused("SCHEMA_INCOMPATIBLE", "The registry granted a worker ID of %s to a claim for %s; check that this address is a registry of this version.",
			given.layout, known)
	}
	l.token, l.receipt, l.fence, l.turns = token, receipt, given.fence, turns{}
	l.hasJumped, l.apart, l.heard = false, readClocks(), [2]int64{asked, asked}
	t := newTicks(given.layout, given.workerID, given.from, given.until, clock.Ms(), l.open)
	failed := l.difference()
	if l.options.Borrow {
		t.share = newShare(given.layout)
		if failed == nil && !given.isShared {
			failed = refused("CONFIG_INVALID", "The registry lends no lease of namespace `%s`; start its daemon with `--lend`, or leave `borrow` out to lease a worker ID for this process alone.",
				l.options.Namespace)
			// It is a lease of its own, whose window nobody else uses.
			t.share = nil
		}
	}
	if failed == nil && t.share != nil {
		failed = l.prefetch(t)
	}
	if failed == nil && l.stopping.Err() != nil {
		failed = &failure{Error: l.ended()}
	}
	if failed != nil {
		l.giveBack(t)
		return failed
	}
	l.layout.CompareAndSwap(nil, given.layout)
	// First: no ID lies outside of what the lease shows.
	l.show(t, 0, 0)
	l.ticks.Store(t)
	if l.stopping.Err() != nil {
		// Closed at this moment.
		t.end(l.ended())
	}
	return nil
}

// renew renews the lease, and returns when the next renewal is due. It fails where the lease is lost.
func (l *lease) renew(t *ticks) (time.Time, *failure) {
	asked, wall := time.Now(), clock.Ms()
	_, end := t.window()
	body := l.key()
	body["now"] = wall
	l.turns.forRenewal(wall < end)
	l.turns.addTo(body)
	if t.share == nil {
		t.usage().addTo(body)
	}
	if l.options.Window != 0 {
		body["windowMs"] = l.options.Window.Milliseconds()
	}
	var from, until int64
	var renewAfter time.Duration
	var turn string
	receipt, failed := l.send(l.stopping, l.stopping, "PATCH", l.path(t, ""), body, l.receipt, func(answer object) (err error) {
		if from, until, renewAfter, err = readWindow(answer); err == nil && answer["turn"] != nil {
			turn, err = answer.text("turn")
		}
		return err
	})
	if failed != nil {
		if isLoss(failed) {
			return time.Time{}, failed
		}
		if failed.Code == "QUARANTINE" {
			t.giveUpBefore(wall)
			l.show(t, 0, 0)
		}
		window := l.options.windowOr(time.Minute)
		pause := quarantinePause(failed, window, l.token)
		if pause == 0 {
			pause = min(longestRetry, max(shortestRetry, window/10))
		}
		// Two more tries before the window ends.
		longest := max(longestRetry, milliseconds(end-wall)/3)
		return time.Now().Add(max(pause, min(failed.RetryAfter, longest))), nil
	}
	l.turns.acknowledge(turn)
	if receipt != "" {
		l.receipt = receipt
	}
	l.heard = [2]int64{l.heard[1], wall}
	// First: no ID lies outside of what the lease shows.
	l.show(t, from, until)
	t.renewed(from, until)
	return l.due(asked, renewAfter, until-wall), nil
}

// due is when to renew what was asked for at this moment: with two more tries before the window ends, ms from then.
func (l *lease) due(asked time.Time, renewAfter time.Duration, window int64) time.Time {
	return asked.Add(max(shortestRetry, min(renewAfter, milliseconds(window)/3)))
}

// replace claims another worker ID for a lease that is lost, for as long as it takes.
func (l *lease) replace(lost *ticks, failed *failure) (time.Time, *failure) {
	lost.end(refusal("LEASE_EXPIRED", "Worker %d of namespace `%s` was lost, and another worker ID is being claimed; try again. %v",
		lost.workerID, l.options.Namespace, failed.Error))
	l.snapshot.Store(nil)
	l.tell(lost, failed)
	recall := ""
	if _, until := lost.window(); until > clock.Ms() {
		recall = l.receipt
	}
	for pause := shortestRetry; ; pause = min(2*pause, longestRetry) {
		due, failed := l.claim(recall)
		switch {
		case failed == nil:
			l.log().Warn("snowlease: another worker ID takes the place of the lost one", "worker", l.ticks.Load().workerID, "lost", lost.workerID)
			return due, nil
		case l.stopping.Err() != nil:
			return due, failed
		case !failed.Retryable() && failed.Code != "LEASE_LOST":
			l.log().Error("snowlease: no more IDs", "error", failed.Error.Error())
			return due, failed
		}
		wait := quarantinePause(failed, l.options.windowOr(time.Minute), l.token)
		sleep(l.stopping, max(pause, wait))
	}
}

// giveBack ends the claim, then tells what was used, so that another holder may have the worker ID at once.
func (l *lease) giveBack(t *ticks) *Error {
	t.end(l.ended())
	l.notesJump()
	body := l.key()
	body["now"] = clock.Ms()
	l.turns.addTo(body)
	// After a jump this process may be a copy, which does not know what the other one used: the worker ID rests. And what a borrower used, its
	// lender knows.
	if !l.hasJumped && t.share == nil {
		used := t.usage()
		body["until"] = used.until
		used.addTo(body)
	}
	ignore := func(object) error { return nil }
	_, failed := l.send(l.living, l.living, "POST", l.path(t, "/release"), body, l.receipt, ignore)
	if failed != nil && (failed.status == 404 || failed.status == 405) {
		// An older daemon has no such call.
		_, failed = l.send(l.living, l.living, "DELETE", l.path(t, ""), body, l.receipt, ignore)
	}
	if failed == nil {
		return nil
	}
	if _, _, isDoubtful := l.doubt(t, failed); isDoubtful {
		l.tell(t, failed)
	}
	return failed.Error
}

// tell tells the operator of a loss, and of IDs that may exist twice, which no other process knows.
func (l *lease) tell(t *ticks, failed *failure) {
	l.log().Warn("snowlease: the lease of a worker ID was lost", "worker", t.workerID, "reason", reasonOf(failed))
	if from, until, ok := l.doubt(t, failed); ok {
		l.log().Error("snowlease: IDs of a worker ID may exist twice", "worker", t.workerID, "from", timeText(from), "until", timeText(until))
	}
}

// doubt is from when to when another holder may have used the same times, Unix ms.
func (l *lease) doubt(t *ticks, failed *failure) (from, until int64, ok bool) {
	if reasonOf(failed) == "cloned" {
		// Both copies of a process may have heard the last answer.
		_, until = t.window()
		return l.heard[0], until, true
	}
	doubt, _ := failed.Details["doubt"].(map[string]any)
	from, noFrom := object(doubt).integer("from")
	until, noUntil := object(doubt).integer("until")
	// What was answered later is this holder's alone.
	from = max(from, l.heard[1])
	return from, until, failed.Code == "LEASE_LOST" && noFrom == nil && noUntil == nil && from < until
}

func (l *lease) log() *slog.Logger { return l.options.Logger.With("namespace", l.options.Namespace) }

// prefetch takes blocks ahead of the clock. It fails where the lease is lost, or where the first blocks cannot be had.
func (l *lease) prefetch(t *ticks) *failure {
	request := t.prefetch(clock.Ms())
	if request.spans <= 0 {
		return nil
	}
	next, failed := l.takeBlocks(t, request)
	if failed == nil {
		t.prefetched(next)
	}
	return failed
}

// takeBlocks asks for blocks, once, and returns the span behind the last one that has any. A lost answer costs its blocks: asking again gets others.
func (l *lease) takeBlocks(t *ticks, request blocksRequest) (int64, *failure) {
	body := l.key()
	body["first"], body["spans"], body["blocks"], body["held"] = request.first, request.spans, request.blocks, request.held
	l.turns.addTo(body)
	var given []uint32
	question := call{"POST", l.base() + l.path(t, "/blocks"), body, "", func(answer object) (err error) {
		given, err = readBlocks(answer, request.spans, t.share.count)
		return err
	}}
	_, failed, _ := l.transport.ask(l.stopping, l.transport.daemons[0], question, min(prefetchInterval, l.options.OperationTimeout))
	if failed != nil {
		return 0, failed
	}
	return t.put(request.first, given), nil
}

// difference compares the namespace at all daemons: those of two registries would grant one worker ID twice.
func (l *lease) difference() *failure {
	if len(l.transport.daemons) == 1 {
		return nil
	}
	var first *daemon
	var known string
	for _, d := range l.transport.daemons {
		id, ok := l.idAt(d)
		switch {
		case !ok:
		case first == nil:
			first, known = d, id
		case id != known:
			return &failure{Error: refusal("CONFIG_INVALID",
				"The addresses %s and %s are daemons of different registries (namespace `%s`): nothing was claimed; name only daemons of one registry.",
				first.shown, d.shown, l.options.Namespace)}
		}
	}
	return nil
}

// idAt is the namespace's id at a daemon; empty where it has none; false where no answer tells.
func (l *lease) idAt(d *daemon) (id string, ok bool) {
	question := call{method: "GET", path: "/v1/" + l.options.Namespace, read: func(answer object) (err error) {
		id, err = answer.text("id")
		return err
	}}
	for _, pause := range standbyPauses {
		if !sleep(l.living, pause) {
			return "", false
		}
		_, failed, _ := l.transport.ask(l.living, d, question, longestRetry)
		if failed == nil || failed.Code != "NOT_FOUND" {
			return id, failed == nil
		}
	}
	return "", true
}

func (l *lease) send(ctx, again context.Context, method, path string, body object, receipt string, read func(object) error) (string, *failure) {
	return l.transport.send(ctx, again, call{method, l.base() + path, body, receipt, read})
}

func (l *lease) base() string { return "/v1/" + l.options.Namespace + "/leases" }

func (l *lease) path(t *ticks, call string) string {
	return "/" + strconv.FormatInt(t.workerID, 10) + call
}

func (l *lease) key() object { return object{"token": l.token, "fence": l.fence} }

// show publishes what the lease is, or is about to be: neither end of a window is ever lowered.
func (l *lease) show(t *ticks, from, until int64) {
	begin, end := t.window()
	next := Lease{WorkerID: t.workerID, Fence: l.fence, From: max(begin, from), Until: max(end, until)}
	if shown := l.snapshot.Load(); shown == nil || *shown != next {
		l.snapshot.Store(&next)
	}
}

// notesJump reports whether the wall clock has jumped since the last look.
func (l *lease) notesJump() bool {
	before := l.apart
	l.apart = readClocks()
	by := l.apart - before
	if by.Abs() < step {
		return false
	}
	l.hasJumped = l.hasJumped || by > 0
	l.turns.hasJumped = true
	return true
}

func (l *lease) ended() *Error {
	return refusal("LEASE_LOST", "The generator of namespace `%s` is closed; make a new one.", l.options.Namespace)
}

// reasonOf is why a lease was lost, in a word.
func reasonOf(failed *failure) string {
	switch reason := failed.Details["reason"]; reason {
	case "taken", "released", "forgotten", "cloned":
		return reason.(string)
	}
	return failed.Code
}

func isLoss(f *failure) bool { return f.Code == "LEASE_LOST" || f.Code == "OTHER_REGISTRY" }

// turns are random texts of one claim that renewals pass on, so that of two copies of this process the second one to renew is lost.
type turns struct {
	turn, next       string
	sent             []string
	isFromOpenWindow bool
	hasJumped        bool
}

// forRenewal draws the next turn. It is repeated as it is until an answer comes. But a copy that was made in between would repeat it, too: so
// another one is drawn where this may be one.
func (t *turns) forRenewal(isOpen bool) {
	isStale := t.hasJumped || t.isFromOpenWindow && !isOpen
	if t.next != "" && (!isStale || len(t.sent) >= mostSentTurns) {
		return
	}
	if t.next != "" {
		t.sent = append(t.sent, t.next)
	}
	t.next, t.isFromOpenWindow, t.hasJumped = fresh(), isOpen, false
}

func (t *turns) addTo(body object) {
	if t.turn != "" {
		body["turn"] = t.turn
	}
	if t.next != "" {
		body["nextTurn"] = t.next
	}
	if len(t.sent) > 0 {
		body["sentTurns"] = t.sent
	}
}

func (t *turns) acknowledge(turn string) {
	if turn != "" && turn == t.next {
		t.turn, t.next, t.sent = turn, "", nil
	}
}

func (u usage) addTo(body object) {
	if !u.isEmpty {
		body["lastTimestamp"], body["lastSequence"] = u.timestamp, u.sequence
	}
}

func readGrant(answer object, token string, borrows bool) (grant, error) {
	isShared, isFlag := answer["shared"].(bool)
	if answer["shared"] != nil && !isFlag {
		return grant{}, fmt.Errorf("`shared` is neither true nor false")
	}
	if isShared && !borrows {
		// Its window is used by others, too.
		return grant{}, refusal("CONFIG_INVALID", "This address lends a shared lease; ask for blocks of it with `borrow`, or name a daemon in its place.")
	}
	if other, ok := answer["token"]; ok && other != token {
		return grant{}, fmt.Errorf("it is a lease of another claim")
	}
	var read [2]int64
	for i, name := range []string{"workerId", "fence"} {
		var err error
		if read[i], err = answer.integer(name); err != nil {
			return grant{}, err
		}
	}
	from, until, renewAfter, err := readWindow(answer)
	if err != nil {
		return grant{}, err
	}
	text, err := answer.text("layout")
	if err != nil {
		return grant{}, err
	}
	layout, err := ParseLayout(text)
	if err != nil {
		return grant{}, fmt.Errorf("its layout: %w", errText(err))
	}
	if read[0] > layout.maxWorkerID || from > until {
		return grant{}, fmt.Errorf("worker ID %d does not fit %s, or `from` is behind `until`", read[0], layout)
	}
	return grant{read[0], read[1], from, until, renewAfter, layout, isShared}, nil
}

// errText is an error that is none of a daemon.
func errText(err error) error { return fmt.Errorf("%s", err) }

func readWindow(answer object) (from, until int64, renewAfter time.Duration, err error) {
	if from, err = answer.integer("from"); err != nil {
		return
	}
	if until, err = answer.integer("until"); err != nil {
		return
	}
	ms, err := answer.integer("renewAfterMs")
	return from, until, milliseconds(min(longestWindow, ms)), err
}

// readBlocks reads the bits of each span, of layouts with so many blocks.
func readBlocks(answer object, spans, blocks int64) ([]uint32, error) {
	list, ok := answer["blocks"].([]any)
	if !ok || int64(len(list)) > spans {
		return nil, fmt.Errorf("`blocks` is not a list of at most %d numbers", spans)
	}
	given := make([]uint32, len(list))
	for i, value := range list {
		number, _ := value.(json.Number)
		bits, err := strconv.ParseUint(string(number), 10, 32)
		if err != nil || bits>>blocks != 0 {
			return nil, fmt.Errorf("`blocks` has something else than numbers of %d bits", blocks)
		}
		given[i] = uint32(bits)
	}
	return given, nil
}

// quarantinePause is the time after which to repeat what a quarantine refused: an operator may end it early. The token spreads those that
// were refused together. 0: it was no quarantine.
func quarantinePause(f *failure, window time.Duration, token string) time.Duration {
	if f.Code != "QUARANTINE" {
		return 0
	}
	digits, _ := strconv.ParseUint(token[:8], 16, 32)
	share := float64(digits) / math.MaxUint32
	look := time.Duration(float64(window) * (0.15 + share*0.1))
	if f.RetryAfter > 0 {
		look = min(look, f.RetryAfter+time.Duration(share*0.05*float64(window)))
	}
	return max(shortestRetry, look)
}

// fresh draws 32 random hex digits. A machine that was copied while it ran repeats the random bytes of its kernel; the clocks tell the copies apart.
func fresh() string {
	var seed [16]byte
	if _, err := rand.Read(seed[:]); err != nil {
		// The clocks and the process tell these apart, too.
		seed = [16]byte{}
	}
	text := fmt.Sprintf("%x %d %d %d", seed, clock.Elapsed(), time.Now().UnixNano(), os.Getpid())
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// readClocks is by how much the wall clock is ahead of the monotonic one. Both are read again where the process was stopped in between.
func readClocks() time.Duration {
	best, least := time.Duration(0), time.Duration(math.MaxInt64)
	for try := 0; try < 10 && least >= 5*time.Millisecond; try++ {
		before := clock.Elapsed()
		wall := time.Duration(clock.Now())
		if apart := clock.Elapsed() - before; apart < least {
			best, least = wall-before-apart/2, apart
		}
	}
	return best
}
