package snowlease

import (
	"fmt"
	"sync"
	"time"
)

const (
	leastSpan      = 64   // ms
	mostBlockBits  = 5    // 32 blocks
	prefetchLength = 5000 // ms
	spansWanted    = 4
	// When to look whether blocks came.
	lookForBlocks = 3 * time.Millisecond
)

// division is how the ticks of a layout are divided into spans, and the sequences of each tick into blocks.
type division struct {
	ticks  int64 // of a span
	blocks int64 // of a tick
	// A block has 1<<sizeBits sequences.
	sizeBits int
	ahead    int64 // so many spans behind the present one are prefetched
}

func divisionOf(l *Layout) division {
	bits, ticks := min(mostBlockBits, l.sequenceBits), max(1, (leastSpan+l.tick-1)/l.tick)
	length := ticks * l.tick
	return division{ticks, 1 << bits, l.sequenceBits - bits, max(1, (prefetchLength+length-1)/length)}
}

func (d *division) spanOf(tick int64) int64 { return floorDiv(tick, d.ticks) }

// blocks are those that a borrower holds, of one claim. A block of a span is its alone, in each tick of that span.
type blocks struct {
	division
	// The request of a caller that found no sequence, for the goroutine of the lease.
	wanted chan blocksRequest

	mu sync.Mutex
	// By span: the first sequence of each block, in the order in which they came. What a caller has read of it does not change.
	held map[int64][]int64
	// The span behind the last one of which the last prefetch got a block.
	next int64
	// A request of a caller is on its way.
	isWanting bool
	// Why the last request failed; nil: it did not.
	trouble *Error
}

// blocksRequest asks for so many blocks of each of so many spans.
type blocksRequest struct {
	first, spans, blocks, held int64
	isPrefetch                 bool
}

func newBlocks(layout *Layout) *blocks {
	return &blocks{division: divisionOf(layout), wanted: make(chan blocksRequest, 1), held: map[int64][]int64{}}
}

// of returns the blocks of a tick. Later ones come behind them.
func (b *blocks) of(tick int64) []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[b.spanOf(tick)]
}

// refusal is why a tick has no sequence behind so many, and asks for more blocks, if no such request is on its way; nil: it has one by now. ends: in
// what time the tick ends.
func (b *blocks) refusal(tick, taken int64, ends time.Duration) *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	span := b.spanOf(tick)
	count := int64(len(b.held[span]))
	if taken < count<<b.sizeBits {
		return nil
	}
	if !b.isWanting {
		b.isWanting = true
		b.wanted <- blocksRequest{first: span, spans: spansWanted, blocks: max(1, count), held: count}
	}
	what := fmt.Sprintf("Each of the %d borrowed sequences of this tick is used", count<<b.sizeBits)
	if count == 0 && b.trouble == nil {
		what = "The daemon has given no block of this tick: others have them all, or this clock is ahead of its own by more than 8 s"
	}
	e := unavailable("SEQUENCE_EXHAUSTED", ends, "%s; try again in %d ms.", what, ends.Milliseconds())
	if b.trouble != nil {
		e.Message += " The last request for more failed: " + b.trouble.Error()
	}
	// The next tick helps only where there is a block.
	if e.look = lookForBlocks; count > 0 {
		e.look = min(e.look, ends)
	}
	return e
}

// prefetch returns the request for a block of each of the next spans, of which there may be none, and forgets spans that have passed long ago, for a
// process that makes no IDs for years. present: the tick of the wall clock. newest: that of the newest ID, whose blocks stay.
func (b *blocks) prefetch(present, newest int64) blocksRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, last := b.spanOf(max(0, present)), b.spanOf(newest)
	for span := range b.held {
		if span < now-2*b.ahead && span != last {
			delete(b.held, span)
		}
	}
	first := max(now, b.next)
	if b.next > now+b.ahead+1 {
		// The clock was set back.
		first = now
	}
	return blocksRequest{first: first, spans: now + b.ahead + 1 - first, blocks: 1, isPrefetch: true}
}

// answered stores what a request brought: the blocks of each span, as bits; or why it failed. Returns whether it brought anything new.
func (b *blocks) answered(asked blocksRequest, given []int64, failed *Error) (isNews bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble = failed
	if !asked.isPrefetch {
		b.isWanting = false
	} else if failed == nil {
		b.next = asked.first
	}
	for i, bits := range given {
		span := asked.first + int64(i)
		if bits != 0 && asked.isPrefetch {
			b.next = span + 1
		}
		for block := int64(0); block < b.blocks; block++ {
			if bits>>block&1 == 1 && b.put(span, block<<b.sizeBits) {
				isNews = true
			}
		}
	}
	return isNews
}

func (b *blocks) put(span, first int64) bool {
	have := b.held[span]
	for _, known := range have {
		// Twice, it would make its IDs twice.
		if known == first {
			return false
		}
	}
	b.held[span] = append(have, first)
	return true
}

// sequence returns the sequence that comes after so many of these blocks; behind the last one the layout has none such.
func (b *blocks) sequence(held []int64, index int64) int64 {
	at := index >> b.sizeBits
	if at >= int64(len(held)) {
		return b.blocks << b.sizeBits
	}
	return held[at] + index&mask(b.sizeBits)
}
