package snowlease

// How far ahead of the clock blocks are taken, ms; how many spans are asked for where one is used up; and the most blocks and the shortest
// length of a span.
const (
	prefetchLength = 5000
	spansRequested = 4
	mostBlocks     = 32
	spanLength     = 64
)

// share is a borrower's part of a lease that a daemon lends: blocks of sequences, each for the ticks of one span. The lock of its ticks guards it.
type share struct {
	length int64 // ticks in a span
	count  int64 // blocks in a span
	size   int64 // sequences in a block
	ahead  int64 // spans that are prefetched behind the present one
	spans  map[int64]*held
	// The span behind the last one that was prefetched.
	next int64
	// A request for more, sent by the lease's goroutine; one at a time.
	want         chan blocksRequest
	isRequesting bool
}

// held has the blocks of one span.
type held struct {
	bits   uint32
	blocks []int64 // the first sequence of each, in the order in which they came
}

type blocksRequest struct {
	first, spans, blocks, held int64
}

func newShare(layout *Layout) *share {
	count, length := min(mostBlocks, layout.maxSequence+1), max(1, (spanLength+layout.tick-1)/layout.tick)
	return &share{
		length: length,
		count:  count,
		ahead:  max(1, (prefetchLength+length*layout.tick-1)/(length*layout.tick)),
		size:   (layout.maxSequence + 1) / count,
		spans:  map[int64]*held{},
		want:   make(chan blocksRequest, 1),
	}
}

func (s *share) spanOf(tick int64) int64 { return floorDiv(tick, s.length) }

// blocksOf returns the blocks of a tick's span.
func (s *share) blocksOf(tick int64) []int64 {
	if held := s.spans[s.spanOf(tick)]; held != nil {
		return held.blocks
	}
	return nil
}

// request asks for more blocks of a tick's span. It may be nil: a lease of one's own has no more.
func (s *share) request(tick int64) {
	if s == nil || s.isRequesting {
		return
	}
	count := int64(len(s.blocksOf(tick)))
	s.isRequesting = true
	s.want <- blocksRequest{first: s.spanOf(tick), spans: spansRequested, blocks: max(1, count), held: count}
}

// prefetch tells which blocks to take ahead of the clock, Unix ms; no spans: none.
func (t *ticks) prefetch(wall int64) blocksRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.share
	present := s.spanOf(max(0, t.layout.tickOf(wall)))
	for span := range s.spans {
		// The span of the newest tick is kept: its blocks count as used.
		if span < present && span != s.spanOf(t.last.number) {
			delete(s.spans, span)
		}
	}
	first := max(present, s.next)
	if s.next > present+s.ahead+1 {
		// The clock was set back.
		first = present
	}
	return blocksRequest{first: first, spans: present + s.ahead - first + 1, blocks: 1}
}

// put stores the blocks that were given, bits for each span, and returns the span behind the last one that has any.
func (t *ticks) put(first int64, given []uint32) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, next := t.share, first
	for i, bits := range given {
		span := first + int64(i)
		if bits == 0 {
			continue
		}
		next = span + 1
		if s.spans[span] == nil {
			s.spans[span] = &held{}
		}
		have := s.spans[span]
		for block := int64(0); block < s.count; block++ {
			// None twice, whatever a daemon answers.
			if bit := uint32(1) << block; bits&bit != 0 && have.bits&bit == 0 {
				have.bits |= bit
				// A tick that is open has its own view of this list, and keeps it.
				have.blocks = append(have.blocks[:len(have.blocks):len(have.blocks)], block*s.size)
			}
		}
	}
	return next
}

// prefetched notes how far blocks were taken ahead of the clock.
func (t *ticks) prefetched(next int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.share.next = next
}

// answered lets the next request be sent.
func (t *ticks) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.share.isRequesting = false
}
