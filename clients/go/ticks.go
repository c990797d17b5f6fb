package snowlease

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/snowlease/snowlease/clients/go/internal/clock"
)

// A tick hands out the sequences of one tick, each once. It is made inside the window, and goroutines share it without a lock.
type tick struct {
	number     int64
	begin, end int64 // Unix ms
	base       int64 // the ID of sequence 0
	shift      int
	limit      int64 // how many sequences there are
	// Of a borrower: the first sequence of each block, in the order in which the blocks came. nil: all sequences, in order.
	blocks    []int64
	blockSize int64
	used      int64 // once it is sealed
	// Until when the wall clock need not be read again, by the monotonic clock, ns: while it shows this tick, and at most `longestTrust`.
	closes atomic.Int64
	// What follows is written for each ID, and what stands above is read for each: they are kept on cache lines of their own.
	_     [64]byte
	taken atomic.Int64
}

const (
	// A tick of which so many sequences are taken is sealed.
	sealed = 1 << 62
	// A wall clock that is set is noticed after so long at the latest.
	longestTrust = 10 * time.Millisecond
)

// A moment is a reading of both clocks: of the monotonic one first, so that a process that is stopped in between trusts its tick no longer.
type moment struct {
	elapsed time.Duration
	wall    int64 // Unix ms
	rest    int64 // ns of that ms
}

func now() moment {
	elapsed, wall := clock.Elapsed(), clock.Now()
	return moment{elapsed, wall / int64(time.Millisecond), wall % int64(time.Millisecond)}
}

// trust lets goroutines take of the tick without a look at the wall clock, which showed it at this moment.
func (t *tick) trust(at moment) {
	left := milliseconds(t.end-at.wall) - time.Duration(at.rest)
	t.closes.Store(int64(at.elapsed + min(left, longestTrust)))
}

// take returns an ID that was not taken before; false where there is none.
func (t *tick) take() (int64, bool) {
	for {
		at := t.taken.Add(1) - 1
		if at >= t.limit {
			return 0, false
		}
		if t.blocks != nil {
			at = t.blocks[at/t.blockSize] + at%t.blockSize
		}
		// 0 is never an ID.
		if id := t.base | at<<t.shift; id != 0 {
			return id, true
		}
	}
}

// seal ends the tick for all goroutines in one step, and returns how many sequences were taken by then.
func (t *tick) seal() int64 {
	if taken := t.taken.Swap(sealed); taken < sealed {
		t.used = min(taken, t.limit)
	}
	return t.used
}

// count is how many sequences are taken.
func (t *tick) count() int64 {
	if taken := t.taken.Load(); taken < sealed {
		return min(taken, t.limit)
	}
	return t.used
}

/*
ticks is what the holder of one claim may use: a window [from, until) of one worker ID, tick by tick.

Goroutines take IDs without its lock, of the newest tick, while the lock's owner may end the claim, raise `from`, or tell the registry what was
used. Three rules keep that right:

  - A tick is made under the lock, after the check of the window, and `until` is never lowered. So each ID of it lies in the window, whatever
    any clock shows: for how long goroutines take of it decides only how late an ID's timestamp is, less than one tick.
  - Before a newer tick is made, and before `from` is raised over a tick or the claim ends, the tick is sealed: one atomic step, after which no
    goroutine takes anything of it, however long ago it looked at window and clock. What a goroutine got before that step, and what it will
    only now return to its caller, was counted by it.
  - What was used is read after the seal. So a give-back names a tick and a sequence behind which no ID of this claim was or will be made.
*/
type ticks struct {
	layout   *Layout
	workerID int64
	// The tick that goroutines take of.
	open *atomic.Pointer[tick]
	// Of a borrower.
	share *share

	mu          sync.Mutex
	from, until int64 // Unix ms
	newestClock int64 // the highest wall clock at which there was a grant or an ID
	last        *tick
	why         *Error
}

// usage is what a holder used: its newest tick, Unix ms, with the highest sequence in it, and the end of what it used.
type usage struct {
	until               int64
	timestamp, sequence int64
	isEmpty             bool
}

func newTicks(layout *Layout, workerID, from, until, wall int64, open *atomic.Pointer[tick]) *ticks {
	nothing := &tick{number: -1}
	nothing.seal()
	return &ticks{layout: layout, workerID: workerID, open: open, from: from, until: until, newestClock: wall, last: nothing}
}

// take returns an ID of the wall clock's tick, or refuses as clients/vectors/README.md says, in that order.
func (t *ticks) take(at moment) (int64, *Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wall := at.wall
	if t.why != nil {
		return 0, t.why
	}
	layout := t.layout
	if err := layout.checkTime(wall); err != nil {
		return 0, err
	}
	number := layout.tickOf(wall)
	if first := max(t.last.number, layout.firstWholeTick(t.from)); number < first {
		return 0, t.tooEarly(wall, layout.timeOf(first))
	}
	if layout.timeOf(number+1) > t.until {
		return 0, refusal("LEASE_EXPIRED", "The window of worker %d ended at %s and the clock shows %s; IDs go on when a renewal succeeds.",
			t.workerID, timeText(t.until), timeText(wall))
	}
	t.newestClock = max(t.newestClock, wall)
	if number == t.last.number {
		t.last.trust(at)
		if id, ok := t.last.take(); ok {
			return id, nil
		}
	}
	if next := t.following(number); next != nil {
		id, ok := next.take()
		next.trust(at)
		t.last = next
		t.open.Store(next)
		if ok {
			return id, nil
		}
	}
	t.share.request(number)
	wait := layout.timeOf(number+1) - wall
	return 0, refusal("SEQUENCE_EXHAUSTED", "Each sequence of this tick that may be used here is used; try again in %d ms.", wait).
		after(milliseconds(wait))
}

// following seals the last tick and returns the one that follows it, or the same one with the blocks that came meanwhile; nil: there is none.
func (t *ticks) following(number int64) *tick {
	layout := t.layout
	next := &tick{
		number: number,
		begin:  layout.timeOf(number),
		end:    layout.timeOf(number + 1),
		base:   layout.encode(number, t.workerID, 0),
		shift:  layout.sequenceShift,
		limit:  layout.maxSequence + 1,
	}
	if t.share != nil {
		next.blocks, next.blockSize = t.share.blocksOf(number), t.share.size
		next.limit = int64(len(next.blocks)) * next.blockSize
	}
	if number > t.last.number && next.limit > 0 {
		t.last.seal()
		return next
	}
	if number == t.last.number && next.limit > t.last.limit {
		next.taken.Store(t.last.seal())
		return next
	}
	return nil
}

// renewed raises both ends of the window, and lowers neither.
func (t *ticks) renewed(from, until int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = max(t.until, until)
	if from > t.from {
		t.from = from
		if t.last.begin < from {
			t.last.seal()
		}
	}
}

// giveUpBefore follows a quarantine, which refused a renewal of this clock: the registry may have granted the times before it to others.
func (t *ticks) giveUpBefore(wall int64) {
	_, until := t.window()
	t.renewed(min(wall, until), until)
}

// window returns from and until, Unix ms.
func (t *ticks) window() (int64, int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.from, t.until
}

// usage is what was used so far.
func (t *ticks) usage() usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.number < 0 {
		return usage{until: t.from, isEmpty: true}
	}
	return usage{until: max(t.from, t.last.end), timestamp: t.last.begin, sequence: max(0, t.last.count()-1)}
}

// end ends the claim: there is no ID from now on, and this is why.
func (t *ticks) end(why *Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.why = why
	t.last.seal()
}

func (t *ticks) tooEarly(wall, opens int64) *Error {
	wait := opens - wall
	code, what := "WINDOW_NOT_OPEN", refusal("", "The window of worker %d opens at %s, in %d ms; wait, or correct the clock if it is wrong.",
		t.workerID, timeText(opens), wait)
	if wall < t.newestClock {
		code, what = "CLOCK_ROLLBACK", refusal("",
			"The clock was set back by %d ms, to before what worker %d may use again; it is usable in %d ms: wait, or ask another server.",
			t.newestClock-wall, t.workerID, wait)
	}
	what.Code = code
	return what.after(time.Duration(wait) * time.Millisecond)
}
