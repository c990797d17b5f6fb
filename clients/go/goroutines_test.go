package snowlease

import (
	"math/rand"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Goroutines, ends and clocks: no ID comes twice.

const wideLayout = "timestamp:41,worker:5,sequence:17@1700000000000/1"

// together runs goroutines until each is done, and returns all of their IDs, in order: none comes twice, and those of each goroutine rise.
func together(t *testing.T, count int, work func() []int64) []int64 {
	t.Helper()
	made := make([][]int64, count)
	var group sync.WaitGroup
	for i := range made {
		i := i
		group.Add(1)
		go func() {
			defer group.Done()
			made[i] = work()
		}()
	}
	group.Wait()
	var all []int64
	for _, own := range made {
		for at := 1; at < len(own); at++ {
			if own[at] <= own[at-1] {
				t.Fatalf("%d came after %d", own[at], own[at-1])
			}
		}
		all = append(all, own...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	for at := 1; at < len(all); at++ {
		if all[at] == all[at-1] {
			t.Fatalf("%d came twice", all[at])
		}
	}
	return all
}

func TestEightGoroutinesShareOne(t *testing.T) {
	d := startDaemon(t)
	ids := snowflakeOf(t, d.url, Options{MaxWait: time.Minute})
	all := together(t, 8, func() (own []int64) {
		for len(own) < 20_000 {
			own = append(own, next(t, ids))
		}
		return own
	})
	if len(all) != 160_000 || len(d.claims()) != 1 {
		t.Error(len(all), d.claims())
	}
}

// windowFrom returns one that has begun, and lasts.
func windowFrom(t *testing.T, layout string, now int64, clocks *clocks) *window {
	t.Helper()
	return newWindow(parse(t, layout), Lease{3, 1, now - 1000, now + 600_000}, clocks, now)
}

// borrowedFrom returns a borrowed one, with a block of the spans from now on.
func borrowedFrom(t *testing.T, layout string, now int64, clocks *clocks) *window {
	t.Helper()
	w := newBorrowed(parse(t, layout), Lease{3, 1, now - 1000, now + 600_000}, clocks, now)
	asked := w.prefetch()
	given := make([]int64, asked.spans)
	for i := range given {
		given[i] = 1 << 7
	}
	w.blocks.answered(asked, given, nil)
	return w
}

// The end comes in the midst of goroutines: what it says was used covers each ID that any of them got.
func TestTheGiveBackCoversEachID(t *testing.T) {
	for round := 0; round < 50; round++ {
		w := windowFrom(t, wideLayout, time.Now().UnixMilli(), &systemClocks)
		var count atomic.Int64
		end := rand.Int63n(10_000)
		all := together(t, 4, func() (own []int64) {
			for {
				id := w.take()
				if id > none {
					own = append(own, id)
				} else if why := w.refusal(); why != nil && why.Code == "LEASE_LOST" {
					return own
				}
				if count.Add(1) == end+1 {
					w.end(refusal("LEASE_LOST", "over"))
				}
			}
		})
		used := w.usage()
		// Exactly: not one more, not one less.
		if highest, err := w.layout.Compose(Parts{Timestamp: used.timestamp, WorkerID: 3, Sequence: used.sequence}); err != nil || highest != all[len(all)-1] ||
			used.until != used.timestamp+1 {
			t.Fatalf("the newest ID is %d, and %+v was used: %v", all[len(all)-1], used, err)
		}
	}
}

// A renewal or a quarantine raises `from` in the midst of goroutines: from then on no ID of an earlier time comes, whatever they have read before.
func TestNoIDOfBeforeARaisedFromComesAfterIt(t *testing.T) {
	for _, begins := range []func(*testing.T, string, int64, *clocks) *window{windowFrom, borrowedFrom} {
		raiseAmidGoroutines(t, begins)
	}
}

func raiseAmidGoroutines(t *testing.T, begins func(*testing.T, string, int64, *clocks) *window) {
	var clock, raised atomic.Int64
	clock.Store(1_700_000_100_000)
	at := &clocks{func() time.Time { return time.UnixMilli(clock.Load()) }, systemClocks.elapsed}
	// Few sequences: a goroutine soon needs the next tick.
	w := begins(t, "timestamp:41,worker:5,sequence:6@1700000000000/1", clock.Load(), at)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := 0; i < 300; i++ {
			from := clock.Add(1) + 1
			if i%2 == 0 {
				w.renewed(from, 0)
			} else {
				w.giveUpBefore(from)
			}
			raised.Store(from)
			time.Sleep(50 * time.Microsecond)
			clock.Add(2)
		}
		w.end(refusal("LEASE_LOST", "over"))
	}()
	together(t, 3, func() (own []int64) {
		for {
			before := raised.Load()
			id := w.take()
			if id > none {
				own = append(own, id)
				if parts, _ := w.layout.Decompose(id); parts.Timestamp < before {
					t.Errorf("%d is of %d, and `from` was %d", id, parts.Timestamp, before)
					return own
				}
			} else if why := w.refusal(); why != nil && why.Code == "LEASE_LOST" {
				return own
			}
		}
	})
	<-over
}

// A reading of the clock holds for the rest of its tick. What a goroutine has at hand is worth nothing where the window has changed.
func TestAReadingThatHoldsDoesNotOutliveTheWindow(t *testing.T) {
	const wall = 1_800_000_000_000
	still := &clocks{func() time.Time { return time.UnixMilli(wall) }, func() time.Duration { return 0 }}
	for why, changes := range map[string]func(*window){
		"`from` rose":    func(w *window) { w.renewed(wall+1, 0) },
		"a quarantine":   func(w *window) { w.giveUpBefore(wall + 1) },
		"the claim ends": func(w *window) { w.end(refusal("LEASE_LOST", "lost")) },
	} {
		own, borrowed := windowFrom(t, wideLayout, wall, still), borrowedFrom(t, wideLayout, wall, still)
		for _, w := range []*window{own, borrowed} {
			if w.take() <= none {
				t.Fatal("no ID")
			}
			changes(w)
			if id := w.take(); id != none {
				t.Errorf("%s: it made %d", why, id)
			}
		}
	}
}

func TestAWallClockThatIsSetIsNoticedSoon(t *testing.T) {
	// A tick of a second, of which 5 ms have passed.
	wall, elapsed := time.UnixMilli(1_700_000_000_005), time.Duration(0)
	w := windowFrom(t, "uid", 1_700_000_000_000, &clocks{func() time.Time { return wall }, func() time.Duration { return elapsed }})
	w.take()
	wall = wall.Add(-time.Hour)
	elapsed = longestTrust - 1
	if w.take() <= none {
		t.Error("it read the clock again")
	}
	elapsed = longestTrust
	if id := w.take(); id != none {
		t.Error("it did not read the clock again", id)
	}
	if why := w.refusal(); why.Code != "CLOCK_ROLLBACK" {
		t.Error(why)
	}
	// To the end of a tick of 1 ms, of which 0.7 have passed.
	wall, elapsed = time.UnixMicro(1_800_000_000_000_700), 0
	w = windowFrom(t, wideLayout, 1_800_000_000_000, &clocks{func() time.Time { return wall }, func() time.Duration { return elapsed }})
	if holds := w.read().holds; holds != 300*time.Microsecond {
		t.Error(holds)
	}
}

func TestClosedInTheMidstOfGoroutines(t *testing.T) {
	for round := 0; round < 10; round++ {
		d := startDaemon(t)
		ids := snowflakeOf(t, d.url, Options{MaxWait: time.Minute})
		var count atomic.Int64
		all := together(t, 4, func() (own []int64) {
			for {
				id, err := ids.Next(background)
				if err != nil {
					if codeOf(err) != "LEASE_LOST" {
						t.Error(err)
					}
					return own
				}
				own = append(own, id)
				if count.Add(1) == 5000 {
					go ids.Close(background)
				}
			}
		})
		if err := ids.Close(background); err != nil {
			t.Fatal(err)
		}
		last, gave := partsOf(t, all[len(all)-1]), d.of("POST", "/release")[0]
		if gave.number("lastTimestamp") != last.Timestamp || gave.number("lastSequence") != last.Sequence {
			t.Error(gave, last)
		}
	}
}

func TestALeaseThatIsLostInTheMidstOfGoroutines(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(410, "LEASE_LOST", object{"details": object{"reason": "taken"}})
		}
		return granted(r, object{"workerId": 6 + len(d.claims()), "renewAfterMs": 50})
	})
	ids := snowflakeOf(t, d.url, Options{MaxWait: time.Minute})
	var made [4][]int64
	together(t, len(made), func() []int64 {
		own := map[int64]bool{}
		for len(d.claims()) < 5 {
			own[next(t, ids)] = true
		}
		var all []int64
		for id := range own {
			all = append(all, id)
		}
		sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
		return all
	})
	if len(tokensOf(d.claims())) != len(d.claims()) {
		t.Error("a token came twice", d.claims())
	}
}

func TestAClockThatGoesBackIsTold(t *testing.T) {
	d := startDaemon(t)
	var by atomic.Int64
	ids := snowflakeAt(t, d.url, Options{MaxWait: 50 * time.Millisecond}, behind(&by))
	next(t, ids)
	by.Store(30_000)
	var err error
	for err == nil {
		// What is left of the tick that it has read.
		_, err = ids.Next(background)
	}
	if said := errorOf(t, ids); said.Code != "CLOCK_ROLLBACK" || said.RetryAfter <= 29*time.Second || !said.Unavailable {
		t.Fatal(said)
	}
	by.Store(0)
	next(t, ids)
}

func TestAClockThatGoesBackALittleIsWaitedFor(t *testing.T) {
	d := startDaemon(t)
	var by atomic.Int64
	ids := snowflakeAt(t, d.url, Options{MaxWait: time.Minute}, behind(&by))
	last := next(t, ids)
	by.Store(50)
	for i := 0; i < 10_000; i++ {
		id := next(t, ids)
		if id <= last {
			t.Fatal(id, last)
		}
		last = id
	}
}

func TestAGoroutineThatStoodStillOnceItHadReadTheClockIsNotToldOfASetback(t *testing.T) {
	d := startDaemon(t)
	var late atomic.Int64
	at := &clocks{func() time.Time { return time.Now().Add(-milliseconds(late.Swap(0))) }, systemClocks.elapsed}
	ids := snowflakeAt(t, d.url, Options{MaxWait: -1}, at)
	for i := 0; i < 20; i++ {
		for late.Store(250); late.Load() != 0; {
			if _, err := ids.Next(background); err != nil && codeOf(err) != "SEQUENCE_EXHAUSTED" {
				t.Fatal(err)
			}
		}
	}
}

func TestAFullTickIsWaitedFor(t *testing.T) {
	d := startDaemon(t)
	var clock atomic.Int64
	clock.Store(time.Now().UnixMilli())
	at := &clocks{func() time.Time { return time.UnixMilli(clock.Load()) }, systemClocks.elapsed}
	ids := snowflakeAt(t, d.url, Options{MaxWait: -1}, at)
	for i := 0; i < 4096; i++ {
		next(t, ids)
	}
	if said := errorOf(t, ids); said.Code != "SEQUENCE_EXHAUSTED" || said.RetryAfter != time.Millisecond || !said.Unavailable {
		t.Error(said)
	}
	clock.Add(1)
	next(t, ids)
}

func TestForms(t *testing.T) {
	ids := snowflakeOf(t, startDaemon(t).url, Options{})
	for encoding := range alphabets {
		text, err := ids.NextString(background, encoding)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := encoding.Decode(text, 63); err != nil || partsOf(t, id).WorkerID != 7 {
			t.Errorf("%s: %s is %d: %v", encoding, text, id, err)
		}
	}
	for _, unknown := range []Encoding{"base99", ""} {
		if _, err := ids.NextString(background, unknown); codeOf(err) != "CONFIG_INVALID" {
			t.Error(err)
		}
	}
	if ids.Layout().String() != testLayout {
		t.Error(ids.Layout())
	}
}

func BenchmarkNext(b *testing.B) {
	layout, err := ParseLayout(wideLayout)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now().UnixMilli()
	lease := Lease{3, 1, now, now + 86_400_000}
	own, borrowed := newWindow(layout, lease, &systemClocks, now), newBorrowed(layout, lease, &systemClocks, now)
	// Each block, for two minutes.
	all := make([]int64, 120_000/leastSpan)
	for i := range all {
		all[i] = mask(32)
	}
	borrowed.blocks.answered(blocksRequest{first: borrowed.blocks.spanOf(layout.tickOf(now)), isPrefetch: true}, all, nil)
	for name, w := range map[string]*window{"own": own, "borrowed": borrowed} {
		b.Run(name, func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					for w.take() <= none {
					}
				}
			})
		})
	}
}
