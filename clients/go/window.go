package snowlease

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// No ID now.
	none = 0
	// Another goroutine was first, or the ID was 0.
	again = -1
	// The state of a claim that has ended.
	ended = -1
	// A wall clock that is set is noticed after so long at the latest.
	longestTrust = 10 * time.Millisecond
)

// clocks are where the time comes from: the wall clock, and the time since some moment by the monotonic clock.
type clocks struct {
	wall    func() time.Time
	elapsed func() time.Duration
}

var began = time.Now()

var systemClocks = clocks{time.Now, func() time.Duration { return time.Since(began) }}

// ms is the wall clock's time, Unix ms.
func (c *clocks) ms() int64 { return c.wall().UnixMilli() }

// Lease is a claim of a worker ID as it was when it was asked for.
type Lease struct {
	WorkerID int64
	// Fence: the registry raises it with each claim.
	Fence int64
	// Each ID carries a time from From on and before Until, Unix ms.
	From, Until int64
}

/*
window is the window [from, until) of one claim, tick by tick: which IDs its holder may still make.

One number, the state, has the newest tick and how many of its sequences are taken. An ID is taken by one compare-and-set of it, and by nothing
else. So whatever changes the state, such as a raised `from` or the end of the claim, decides for each goroutine in the middle of take whether
its ID still counts; and the state that an end finds covers each ID that any goroutine got or will get.

Of a borrowed lease the state counts the sequences of the blocks of the tick, in the order in which these came: more may come behind them, but the
same count always means the same sequence.
*/
type window struct {
	layout          *Layout
	workerID, fence int64
	clocks          *clocks
	worker          int64 // What each ID has of it.
	timestampShift  int
	sequenceShift   int
	maxSequence     int64
	countBits       int
	countMask       int64
	lastTick        int64
	// Of a borrowed lease; nil: each sequence is this holder's.
	blocks *blocks
	// The wall clock as it was read last.
	seen atomic.Pointer[reading]
	// The first tick that ends behind the window, or behind the life of the layout. It only grows.
	endTick atomic.Int64
	// The highest clock at which an ID was possible, Unix ms. Only tells what a refusal is: a write that is lost costs nothing.
	newestClock atomic.Int64

	// On a cache line of its own: it is written for each ID, and what stands above is read for each.
	_ [64]byte
	// The newest tick, or the first whole tick of the window where that is later, and in the low bits how many of its sequences are taken. It
	// only grows, until it is `ended`.
	state atomic.Int64
	_     [64]byte

	mu          sync.Mutex
	from, until int64 // Unix ms
	// The newest state with a sequence taken, from before `from` was raised behind it, or before the end; -1: none.
	usedBefore int64
	why        *Error
	// Why the last renewal failed; nil: it did not.
	trouble *Error
}

// A reading of the wall clock holds until a moment of the monotonic clock: to the end of its tick, but not longer than longestTrust.
type reading struct {
	ms, tick int64
	holds    time.Duration
	blocks   []int64 // of the tick, of a borrowed lease: those that there were at that time
}

// usage is what a holder used: its newest tick, Unix ms, with the highest sequence in it, and the end of what it used. timestamp -1: no ID.
type usage struct {
	until, timestamp, sequence int64
}

// newBorrowed makes the window of a share of a lease. Its holder has no blocks yet.
func newBorrowed(layout *Layout, lease Lease, clocks *clocks, granted int64) *window {
	w := newWindow(layout, lease, clocks, granted)
	w.blocks = newBlocks(layout)
	return w
}

// newWindow makes that of a claim. granted: the wall clock at the grant, Unix ms.
func newWindow(layout *Layout, lease Lease, clocks *clocks, granted int64) *window {
	w := &window{
		layout:         layout,
		workerID:       lease.WorkerID,
		fence:          lease.Fence,
		clocks:         clocks,
		worker:         layout.encode(0, lease.WorkerID, 0),
		timestampShift: layout.timestampShift,
		sequenceShift:  layout.sequenceShift,
		maxSequence:    layout.maxSequence,
		// One more than the sequences have: each of them may be taken.
		countBits:  layout.sequenceBits + 1,
		countMask:  mask(layout.sequenceBits + 1),
		from:       lease.From,
		until:      lease.Until,
		usedBefore: -1,
	}
	// Where timestamp and sequence have all 63 bits, the second half of the layout's life does not fit the state.
	w.lastTick = min(layout.maxTick, mask(mostBits-1)>>w.countBits)
	w.newestClock.Store(granted)
	w.endTick.Store(w.endTickOf(lease.Until))
	w.state.Store(w.floorOf(lease.From))
	w.seen.Store(&reading{})
	return w
}

func (w *window) lease() *Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &Lease{w.workerID, w.fence, w.from, w.until}
}

// take returns an ID of the tick of the wall clock; none: refusal says why.
func (w *window) take() int64 {
	now := w.seen.Load()
	// Holds yet?
	if w.clocks.elapsed() >= now.holds {
		now = w.read()
	}
	for {
		id := w.takeOf(w.state.Load(), now)
		if id > none {
			return id
		}
		if id == none {
			break
		}
	}
	for {
		// Now the state first: what another goroutine put into it by then is not ahead of this one's clock.
		before := w.state.Load()
		if id := w.takeOf(before, w.read()); id != again {
			return id
		}
	}
}

// takeOf takes the next sequence of a tick, if the state is still this one.
func (w *window) takeOf(before int64, now *reading) int64 {
	if before < 0 {
		return none
	}
	newest := before >> w.countBits
	// The check of the window. Its begin is part of the state, which it raises.
	if now.tick < newest || now.tick >= w.endTick.Load() {
		return none
	}
	if now.ms > w.newestClock.Load() {
		w.newestClock.Store(now.ms)
	}
	taken := int64(0)
	if now.tick == newest {
		taken = before & w.countMask
	}
	sequence := taken
	if w.blocks != nil {
		sequence = w.blocks.sequence(now.blocks, taken)
	}
	if sequence > w.maxSequence {
		return none
	}
	if !w.state.CompareAndSwap(before, now.tick<<w.countBits+taken+1) {
		return again
	}
	if id := now.tick<<w.timestampShift | w.worker | sequence<<w.sequenceShift; id != 0 {
		return id
	}
	// 0 is never an ID.
	return again
}

// read reads the wall clock.
func (w *window) read() *reading {
	// The monotonic clock first: where the process is stopped in between, the reading holds no longer.
	elapsed := w.clocks.elapsed()
	wall := w.clocks.wall()
	ms := wall.UnixMilli()
	tick := w.layout.tickOf(ms)
	left := milliseconds(min(w.layout.timeOf(tick+1)-ms, longestTrust.Milliseconds())) - time.Duration(wall.Nanosecond()%int(time.Millisecond))
	now := &reading{ms: ms, tick: tick, holds: elapsed + left}
	if w.blocks != nil {
		now.blocks = w.blocks.of(tick)
	}
	w.seen.Store(now)
	return now
}

// refusal is why there is no ID at this time, as clients/vectors/README.md says, in that order; nil: there may be one by now.
func (w *window) refusal() *Error {
	before := w.state.Load()
	wall := w.clocks.ms()
	w.mu.Lock()
	defer w.mu.Unlock()
	if before < 0 {
		return w.why.again()
	}
	l := w.layout
	if wall < l.epoch {
		return unavailable("WINDOW_NOT_OPEN", milliseconds(l.epoch-wall),
			"The clock shows %s, and the layout begins at %s; correct the clock if it is wrong, or wait.", timeText(wall), timeText(l.epoch))
	}
	if end := l.timeOf(w.lastTick + 1); wall >= end {
		return expired(end)
	}
	tick, newest := l.tickOf(wall), before>>w.countBits
	switch {
	case tick < newest:
		return w.tooEarly(wall, l.timeOf(newest))
	case tick >= w.endTick.Load():
		e := unavailable("LEASE_EXPIRED", 0, "The window of worker %d ended at %s and the clock shows %s; IDs go on when a renewal succeeds.",
			w.workerID, timeText(w.until), timeText(wall))
		if w.trouble != nil {
			e.Message += " The last one did not: " + w.trouble.Error()
		}
		return e
	}
	taken := int64(0)
	if tick == newest {
		taken = before & w.countMask
	}
	wait := l.timeOf(tick+1) - wall
	if w.blocks != nil {
		return w.blocks.refusal(tick, taken, milliseconds(wait))
	}
	if taken <= w.maxSequence {
		return nil
	}
	return unavailable("SEQUENCE_EXHAUSTED", milliseconds(wait), "Each of the %d sequences of this tick is used; try again in %d ms.", w.maxSequence+1, wait)
}

func (w *window) tooEarly(wall, opens int64) *Error {
	wait := opens - wall
	if newest := w.newestClock.Load(); wall < newest {
		return unavailable("CLOCK_ROLLBACK", milliseconds(wait),
			"The clock was set back by %d ms, to before what worker %d may use again; it is usable in %d ms: wait, or ask another server.",
			newest-wall, w.workerID, wait)
	}
	return unavailable("WINDOW_NOT_OPEN", milliseconds(wait), "The window of worker %d opens at %s, in %d ms; wait, or correct the clock if it is wrong.",
		w.workerID, timeText(opens), wait)
}

// renewed raises both ends of the window, and lowers neither.
func (w *window) renewed(from, until int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = nil
	w.raise(from)
	if until > w.until {
		w.until = until
		w.endTick.Store(w.endTickOf(until))
	}
}

// notRenewed takes down why a renewal failed. Returns whether the one before did not fail in the same way.
func (w *window) notRenewed(why *Error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	isNews := w.trouble == nil || w.trouble.Code != why.Code
	w.trouble = why
	return isNews
}

// giveUpBefore: a quarantine refused a renewal of this clock, Unix ms. The registry may have granted the times before it to others.
func (w *window) giveUpBefore(clock int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.raise(min(clock, w.until))
}

// prefetch is the request for blocks of the next spans.
func (w *window) prefetch() blocksRequest {
	return w.blocks.prefetch(w.layout.tickOf(w.clocks.ms()), w.state.Load()>>w.countBits)
}

// usage is what was used so far. Of a borrowed lease its lender knows that.
func (w *window) usage() usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.state.Load()
	if !w.isUsed(last) {
		last = w.usedBefore
	}
	if last < 0 {
		return usage{w.from, -1, -1}
	}
	timestamp := w.layout.timeOf(last >> w.countBits)
	return usage{max(w.from, timestamp+w.layout.tick), timestamp, last&w.countMask - 1}
}

// end ends this claim: there is no ID from now on, and this is why. The first reason stays.
func (w *window) end(why *Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why != nil {
		return
	}
	w.why = why
	if last := w.state.Swap(ended); w.isUsed(last) {
		w.usedBefore = last
	}
}

func (w *window) isUsed(state int64) bool {
	taken := state & w.countMask
	return state >= 0 && taken > 0 && taken < w.countMask
}

// raise raises `from`: no ID of a state before that from now on.
func (w *window) raise(from int64) {
	if from <= w.from {
		return
	}
	w.from = from
	floor := w.floorOf(from)
	for {
		before := w.state.Load()
		if before < 0 || before >= floor {
			return
		}
		if w.state.CompareAndSwap(before, floor) {
			if w.isUsed(before) {
				w.usedBefore = before
			}
			return
		}
	}
}

// floorOf is the state in which nothing from this Unix ms on is taken. Behind the life of the layout there is none: its last tick then has no
// sequence.
func (w *window) floorOf(ms int64) int64 {
	first := w.layout.firstWholeTick(ms)
	if first > w.lastTick {
		return w.lastTick<<w.countBits | w.countMask
	}
	return first << w.countBits
}

func (w *window) endTickOf(ms int64) int64 { return min(w.layout.tickOf(ms), w.lastTick+1) }
