package snowlease

import (
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Goroutines that make IDs while the claim ends, is renewed, or gets blocks: what they got is compared with what the registry is told.

const goroutines = 4

// makers run goroutines that make IDs until they are stopped, and collect all of them.
type makers struct {
	*scripted
	t     *testing.T
	stop  atomic.Bool
	group sync.WaitGroup
	made  [goroutines][]int64
	count atomic.Int64
}

func newMakers(t *testing.T, layout *Layout, borrows bool) (*makers, *ticks) {
	m := &makers{scripted: newScripted(t), t: t}
	setClock(t, func() int64 { return time.Now().UnixMilli() })
	now := time.Now().UnixMilli()
	held := m.grant(layout, 7, now-1000, now+600_000, now, borrows)
	return m, held
}

func (m *makers) start() {
	m.stop.Store(false)
	for i := range m.made {
		i := i
		m.group.Add(1)
		go func() {
			defer m.group.Done()
			for !m.stop.Load() {
				if id, err := m.Next(background); err == nil {
					m.made[i] = append(m.made[i], id)
					m.count.Add(1)
				}
			}
		}()
	}
}

// all stops the goroutines and returns what they made: none twice, and each goroutine's in order, but where blocks come in any order.
func (m *makers) all() []int64 {
	m.t.Helper()
	m.stop.Store(true)
	m.group.Wait()
	var all []int64
	seen := map[int64]bool{}
	for _, own := range m.made {
		last := int64(0)
		for _, id := range own {
			if seen[id] || id <= last && m.lease.ticks.Load().share == nil {
				m.t.Fatalf("%d came twice, or after %d", id, last)
			}
			seen[id], last = true, id
		}
		all = append(all, own...)
	}
	return all
}

// Of a goroutine that was stopped in the middle of Next, and goes on much later: what it has at hand is over.
func TestATickThatIsNoLongerTheNewestGivesNothing(t *testing.T) {
	layout := parse(t, "timestamp:38,worker:5,sequence:9@1700000000000/1")
	const wall = 1_800_000_000_000
	for why, follows := range map[string]func(*ticks){
		"a newer tick":   func(held *ticks) { held.take(moment{wall: wall + 1}) },
		"`from` rose":    func(held *ticks) { held.renewed(wall+1, 0) },
		"a quarantine":   func(held *ticks) { held.giveUpBefore(wall + 1) },
		"the claim ends": func(held *ticks) { held.end(refusal("LEASE_LOST", "lost")) },
		"more blocks": func(held *ticks) {
			for id := int64(1); id > 0; id, _ = held.take(moment{wall: wall}) {
			}
			held.put(held.share.spanOf(layout.tickOf(wall)), []uint32{6})
			held.take(moment{wall: wall})
		},
	} {
		s := newScripted(t)
		held := s.grant(layout, 7, wall-1000, wall+1000, wall, why == "more blocks")
		if held.share != nil {
			held.put(held.share.spanOf(layout.tickOf(wall)), []uint32{1})
		}
		if _, err := held.take(moment{wall: wall}); err != nil {
			t.Fatal(err)
		}
		kept := s.open.Load()
		follows(held)
		if kept.taken.Load() < sealed {
			t.Errorf("%s: it is not sealed", why)
		}
		if id, ok := kept.take(); ok {
			t.Errorf("%s: it made %d", why, id)
		}
	}
}

func TestWhatAGiveBackTellsCoversEachID(t *testing.T) {
	layout := parse(t, "timestamp:38,worker:5,sequence:9@1700000000000/1")
	made := 0
	for round := 0; round < 50; round++ {
		m, held := newMakers(t, layout, false)
		m.start()
		eventually(func() bool { return m.count.Load() > int64(round%50)*100 })
		held.end(refusal("LEASE_LOST", "closed"))
		used := held.usage()
		highest := int64(0)
		for _, id := range m.all() {
			highest = max(highest, id)
			made++
		}
		last, err := layout.Decompose(highest, 0)
		if err != nil || last.Timestamp != used.timestamp || last.Sequence != used.sequence || used.until != last.Timestamp+1 {
			t.Fatalf("the newest ID is %+v, and used is %+v", last, used)
		}
	}
	if made == 0 {
		t.Error("nothing was made")
	}
}

func TestNothingIsMadeBeforeARaisedFrom(t *testing.T) {
	layout := parse(t, "timestamp:38,worker:5,sequence:9@1700000000000/1")
	m, held := newMakers(t, layout, false)
	m.start()
	var used []usage
	var raised []int64
	for len(raised) < 40 {
		before := m.count.Load()
		// To a time that the clock does not show yet: until then, what was used stays what it is.
		from := time.Now().UnixMilli() + 2
		held.renewed(from, 0)
		used, raised = append(used, held.usage()), append(raised, from)
		eventually(func() bool { return m.count.Load() > before+100 })
	}
	all := m.all()
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	for i, from := range raised {
		if used[i].timestamp >= from {
			// The goroutine of this test was late: others had begun at the new `from` already.
			continue
		}
		last := layout.encode(layout.tickOf(used[i].timestamp), 7, used[i].sequence)
		at := sort.Search(len(all), func(at int) bool { return all[at] > last })
		if at < len(all) && all[at] < layout.encode(layout.tickOf(from), 7, 0) {
			t.Fatalf("%d was made after `from` had risen to %d, when %+v was used", all[at], from, used[i])
		}
	}
}

func TestBlocksThatComeWhileGoroutinesMakeIDs(t *testing.T) {
	layout := parse(t, "timestamp:38,worker:5,sequence:10@1700000000000/1")
	m, held := newMakers(t, layout, true)
	m.start()
	given := map[int64]uint32{}
	for round, idle := 0, 0; round < 100 && idle < 100; {
		select {
		case r := <-held.share.want:
			idle = 0
			round++
			blocks := make([]uint32, r.spans)
			for i := range blocks {
				span := r.first + int64(i)
				// The next free one, from the top or from the bottom.
				for block := 0; block < 32; block++ {
					bit := uint32(1) << block
					if round%2 == 0 {
						bit = 1 << (31 - block)
					}
					if given[span]&bit == 0 {
						blocks[i] = bit
						given[span] |= bit
						break
					}
				}
			}
			held.put(r.first, blocks)
			held.answered()
		case <-time.After(10 * time.Millisecond):
			idle++
		}
	}
	held.end(refusal("LEASE_LOST", "closed"))
	all := m.all()
	if len(all) == 0 {
		t.Fatal("nothing was made")
	}
	for _, id := range all {
		parts, _ := layout.Decompose(id, 0)
		span := held.share.spanOf(layout.tickOf(parts.Timestamp))
		if given[span]>>(parts.Sequence/held.share.size)&1 == 0 {
			t.Fatalf("%+v is of a block that was not given", parts)
		}
	}
}

func TestAClockThatGoesBackIsTold(t *testing.T) {
	d := newDaemon(t)
	var behind atomic.Int64
	setClock(t, func() int64 { return time.Now().UnixMilli() - behind.Load() })
	ids := generatorOf(t, d.url, Options{MaxWait: 50 * time.Millisecond})
	next(t, ids)
	behind.Store(30_000)
	// Goroutines may take what is left of an open tick.
	var err error
	for err == nil {
		_, err = ids.Next(background)
	}
	if codeOf(err) != "CLOCK_ROLLBACK" || err.(*Error).RetryAfter <= 29*time.Second || !err.(*Error).Retryable() {
		t.Fatal(err)
	}
	behind.Store(0)
	next(t, ids)
}

func TestAClockThatGoesBackALittleIsWaitedFor(t *testing.T) {
	d := newDaemon(t)
	var behind atomic.Int64
	setClock(t, func() int64 { return time.Now().UnixMilli() - behind.Load() })
	ids := generatorOf(t, d.url, Options{MaxWait: time.Minute})
	first := next(t, ids)
	behind.Store(50)
	if second := next(t, ids); second <= first {
		t.Error(first, second)
	}
}

func TestAGoroutineThatStoodStillOnceItHadReadTheClockIsNotToldOfASetback(t *testing.T) {
	d := newDaemon(t)
	var late atomic.Int64
	setClock(t, func() int64 { return time.Now().UnixMilli() - late.Swap(0) })
	ids := generatorOf(t, d.url, Options{MaxWait: 50 * time.Millisecond})
	for i := 0; i < 20; i++ {
		next(t, ids)
		late.Store(250)
		for late.Load() != 0 {
			next(t, ids)
		}
	}
}

func TestForms(t *testing.T) {
	ids := generatorOf(t, newDaemon(t).url, Options{})
	for _, encoding := range []Encoding{"", Decimal, Hex, Base36, Base62, Base64URL, Crockford32, Base62Sort, Base64Sort} {
		text, err := ids.NextString(background, encoding)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := encoding.Decode(text, 63); err != nil || workerOf(t, id) != 7 {
			t.Errorf("%s: %s is %d: %v", encoding, text, id, err)
		}
	}
	if _, err := ids.NextString(background, "base99"); codeOf(err) != "CONFIG_INVALID" {
		t.Error(err)
	}
	if ids.Layout().String() != testLayout {
		t.Error(ids.Layout())
	}
}

func BenchmarkNext(b *testing.B) {
	layout, err := ParseLayout("timestamp:41,worker:5,sequence:17@1700000000000/1")
	if err != nil {
		b.Fatal(err)
	}
	s := &scripted{Generator: &Generator{options: Options{MaxWait: time.Minute}}, lease: &lease{}}
	s.open.Store(&tick{})
	s.Generator.lease = s.lease
	now := time.Now().UnixMilli()
	s.grant(layout, 7, now, now+longestWindow, now, false)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := s.Next(background); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
