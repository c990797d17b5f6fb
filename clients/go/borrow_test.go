package snowlease

import (
	"fmt"
	"math/rand"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Shares of a lease that a daemon lends: what it answers, and many that borrow at once.

var borrowing = Options{Borrow: true, MaxWait: -1}

// lent is what a lender answers where nothing is wrong, but for `other` in a grant: these blocks of each span, as bits.
func lent(r request, bits int64, other object) answer {
	if isForBlocks(r) {
		given := make([]int64, r.number("spans"))
		for i := range given {
			given[i] = bits
		}
		return jsonAnswer(200, object{"blocks": given}, "")
	}
	if !isClaim(r) {
		return granted(r, other)
	}
	grant := object{"shared": true}
	for name, value := range other {
		grant[name] = value
	}
	return granted(r, grant)
}

func isForBlocks(r request) bool { return strings.HasSuffix(r.path, "/blocks") }

func isClaim(r request) bool { return strings.HasSuffix(r.path, "/leases") }

func (d *fakeDaemon) forBlocks() []request { return d.of("POST", "/blocks") }

func TestABorrowerTellsItsLenderNoUse(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer { return lent(r, 1<<3, object{"renewAfterMs": 50}) })
	ids := snowflakeOf(t, d.url+"?borrow=true", Options{})
	if parts := partsOf(t, next(t, ids)); parts.Sequence != 3*128 || parts.WorkerID != 7 {
		t.Error(parts)
	}
	eventually(t, func() bool { return len(d.renewals()) > 1 && len(d.forBlocks()) > 1 })
	if err := ids.Close(background); err != nil {
		t.Fatal(err)
	}
	for end, want := range map[string]string{
		"/leases":          "continues host now pid shared token",
		"/leases/7/blocks": "blocks fence first held spans token",
		"/leases/7":        "fence nextTurn now token",
	} {
		if got := namesOf(d.of("", end)[0].body); got != want {
			t.Errorf("%s has %s", end, got)
		}
	}
	for _, r := range d.all() {
		if r.receipt != "" || r.body["until"] != nil || r.body["lastTimestamp"] != nil || r.body["lastSequence"] != nil {
			t.Error(r)
		}
	}
	if gave := d.of("POST", "/release"); len(gave) != 1 || gave[0].text("turn") == "" || gave[0].number("now") == 0 {
		t.Error(gave)
	}
	all := d.forBlocks()
	first, last := all[0], all[len(all)-1]
	if first.body["turn"] != nil || last.text("turn") == "" || first.number("spans") != 80 || first.number("blocks") != 1 || first.number("held") != 0 {
		t.Error(first, last)
	}
	if d.claims()[0].body["shared"] != true {
		t.Error(d.claims())
	}
}

func TestWhoDoesNotAskBorrowsNothing(t *testing.T) {
	d := startDaemon(t)
	next(t, snowflakeOf(t, d.url+"?borrow=false", Options{}))
	if d.claims()[0].body["shared"] != nil || len(d.forBlocks()) > 0 {
		t.Error(d.all())
	}
}

func TestAGrantThatIsNotSharedIsGivenBack(t *testing.T) {
	d := startDaemon(t)
	var from int64
	d.answer(func(r request) answer {
		if isClaim(r) {
			from = time.Now().UnixMilli() - 5000
		}
		return granted(r, object{"from": from, "shared": false})
	})
	said := expectRefused(t, snowflakeOf(t, d.url, borrowing), "CONFIG_INVALID")
	if !strings.HasPrefix(said.Message, "The registry lends no lease of namespace `default`; start its daemon with `--lend`") {
		t.Error(said)
	}
	gave := d.of("POST", "/leases/7/release")
	if len(gave) != 1 || gave[0].number("until") != from || gave[0].body["lastTimestamp"] != nil || len(d.all()) != 2 {
		t.Error(d.all())
	}
}

func TestADaemonThatLendsNothing(t *testing.T) {
	d := startDaemon(t)
	lendsNone := refusedWith(400, "CONFIG_INVALID", object{"details": object{"lends": false}})
	d.answer(func(request) answer { return lendsNone })
	expectRefused(t, snowflakeOf(t, d.url, Options{Borrow: true}), "CONFIG_INVALID")
	if len(d.all()) != 1 {
		t.Error(d.all())
	}
	// In the place of one that did, it may be followed by another one that does.
	for why, instead := range map[string]func(request) answer{
		"it refuses": func(request) answer { return lendsNone }, "it grants": func(r request) answer { return granted(r, nil) },
	} {
		instead, d := instead, startDaemon(t)
		var lends atomic.Bool
		d.answer(func(r request) answer {
			switch {
			case r.method == "PATCH" && len(d.claims()) == 1:
				return refusedWith(410, "LEASE_LOST", nil)
			case isClaim(r) && len(d.claims()) > 1 && !lends.Load():
				return instead(r)
			}
			return lent(r, 1, object{"renewAfterMs": 50})
		})
		ids := snowflakeOf(t, d.url, Options{Borrow: true})
		next(t, ids)
		eventually(t, func() bool { return ids.Lease() == nil })
		if said := errorOf(t, ids); said.Code != "CONFIG_INVALID" || !said.Unavailable {
			t.Error(why, said)
		}
		lends.Store(true)
		next(t, ids)
		if len(tokensOf(d.claims())) != 3 {
			t.Error(d.claims())
		}
	}
}

func TestWaitsForAPlaceAsLongAsItMay(t *testing.T) {
	for code, status := range map[string]int{"RATE_LIMITED": 429, "LEASE_EXPIRED": 503} {
		code, status, d := code, status, startDaemon(t)
		d.answer(func(r request) answer {
			if len(d.all()) < 3 {
				return refusedWith(status, code, object{"retryAfterMs": 100})
			}
			return lent(r, 1, nil)
		})
		ids := snowflakeOf(t, d.url, Options{Borrow: true, OperationTimeout: 50 * time.Millisecond})
		if err := ids.Claim(background); err != nil || len(tokensOf(d.claims())) != 1 {
			t.Error(err, d.claims())
		}
	}
	for registry, wait := range map[string]time.Duration{"http://a": 0, "http://a?borrow=true": borrowTimeout} {
		if ids := snowflakeOf(t, registry, Options{}); ids.options.ClaimTimeout != wait {
			t.Error(registry, ids.options.ClaimTimeout)
		}
		if ids := snowflakeOf(t, registry, Options{ClaimTimeout: time.Second}); ids.options.ClaimTimeout != time.Second {
			t.Error(registry, ids.options.ClaimTimeout)
		}
	}
}

func TestSeveralDaemonsLendNothing(t *testing.T) {
	for _, one := range []struct {
		registry string
		borrow   bool
	}{{"http://a,http://b?borrow=true&token=secret", false}, {"http://a,http://b?borrow=false", true}} {
		_, err := New(one.registry, Options{Borrow: one.borrow})
		if codeOf(err) != "CONFIG_INVALID" || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "to be one daemon's address") ||
			!strings.Contains(err.Error(), "`http://a, http://b`") {
			t.Error(err)
		}
	}
	if ids := snowflakeOf(t, "http://a?borrow=false", Options{Borrow: true}); !ids.options.Borrow {
		t.Error("the option asks")
	}
}

func TestFalseBlocks(t *testing.T) {
	for _, wrong := range []any{
		nil, 5, "1", object{"0": 1}, []any{-1}, []any{1.5}, []any{"1"}, []any{nil}, []any{true}, []any{[]any{1}}, []any{1, int64(1) << 4}, []any{1e300},
		make([]int, 81),
	} {
		wrong := wrong
		t.Run(toJSON(t, wrong), func(t *testing.T) {
			expectNoBlocks(t, jsonAnswer(200, object{"blocks": wrong}, ""), "gave no answer to rely on")
		})
	}
	for why, garbage := range map[string]string{"nothing": "", "no JSON": head(5) + "hello", "a list": head(2) + "[]", "a page": "HTTP/1.1 404 X\r\ncontent-length: 6\r\n\r\n<html>"} {
		garbage := garbage
		t.Run(why, func(t *testing.T) { expectNoBlocks(t, answer{text: garbage}, "gave no answer to rely on") })
	}
}

func TestRefusedBlocksAreTheCause(t *testing.T) {
	expectNoBlocks(t, refusedWith(429, "RATE_LIMITED", object{"detail": "24 borrow it.", "retryAfterMs": 7000}), "RATE_LIMITED: 24 borrow it.")
	expectNoBlocks(t, refusedWith(404, "NOT_FOUND", nil), "NOT_FOUND: No.")
}

// expectNoBlocks answers requests for blocks of 4 a tick so: there is no ID until one is answered well.
func expectNoBlocks(t *testing.T, wrong answer, why string) {
	t.Helper()
	d := startDaemon(t)
	var isWell atomic.Bool
	d.answer(func(r request) answer {
		if isForBlocks(r) && !isWell.Load() {
			return wrong
		}
		return lent(r, 1<<2, object{"layout": "timestamp:41,worker:10,sequence:2@1490346283706/1"})
	})
	ids := snowflakeOf(t, d.url, Options{Borrow: true, MaxWait: 100 * time.Millisecond})
	if err := ids.Claim(background); err != nil || len(d.forBlocks()) != 1 {
		t.Fatal("it was repeated", err, d.all())
	}
	if said := errorOf(t, ids); said.Code != "SEQUENCE_EXHAUSTED" || !said.Unavailable || !strings.Contains(said.Message, why) ||
		strings.Contains(said.Message, d.claims()[0].text("token")) {
		t.Error(said)
	}
	// Not at each tick.
	if count := len(d.forBlocks()); count > 8 {
		t.Error(count)
	}
	isWell.Store(true)
	eventually(t, func() bool {
		id, err := ids.Next(background)
		return err == nil && id&3 == 2
	})
}

func TestABlockThatComesTwiceIsOne(t *testing.T) {
	d := startDaemon(t)
	var clock atomic.Int64
	clock.Store(time.Now().UnixMilli())
	d.answer(func(r request) answer { return lent(r, 1|1<<31, nil) })
	ids := snowflakeAt(t, d.url, borrowing, still(&clock))
	made := map[int64]bool{}
	for len(d.forBlocks()) < 5 {
		id, err := ids.Next(background)
		if err != nil {
			if codeOf(err) != "SEQUENCE_EXHAUSTED" {
				t.Fatal(err)
			}
			continue
		}
		if made[id] {
			t.Fatalf("%d came twice", id)
		}
		made[id] = true
	}
	if len(made) != 256 {
		t.Error(len(made))
	}
}

func TestACallerIsServedWhenBlocksCome(t *testing.T) {
	d := startDaemon(t)
	now := time.Now().UnixMilli()
	layout := fmt.Sprintf("timestamp:21,sequence:8,worker:31@%d/60000", now-600_000)
	d.answer(func(r request) answer {
		if isForBlocks(r) && len(d.forBlocks()) < 3 {
			return lent(r, 0, nil)
		}
		// The next tick is up to a minute away.
		return lent(r, 2, object{"layout": layout, "from": now - 120_000, "until": now + 600_000})
	})
	next(t, snowflakeOf(t, d.url, Options{Borrow: true, MaxWait: 20 * time.Second}))
	if all := d.forBlocks(); len(all) != 3 || all[2].number("spans") != 4 || all[2].number("blocks") != 1 {
		t.Error(all)
	}
}

func TestACallerWithoutBlocksWaitsAsleep(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer { return lent(r, 0, nil) })
	var looks atomic.Int64
	ids := snowflakeAt(t, d.url, Options{Borrow: true, MaxWait: 100 * time.Millisecond}, &clocks{func() time.Time { looks.Add(1); return time.Now() }, systemClocks.elapsed})
	if said := errorOf(t, ids); said.Code != "SEQUENCE_EXHAUSTED" || looks.Load() > 1000 {
		t.Error(said, looks.Load())
	}
}

func TestBlocksWithoutALeaseLeadToARenewal(t *testing.T) {
	for _, isLost := range []bool{false, true} {
		isLost, d := isLost, startDaemon(t)
		d.answer(func(r request) answer {
			switch {
			case isForBlocks(r) && len(d.renewals()) == 0, r.method == "PATCH" && isLost && len(d.claims()) == 1:
				return refusedWith(410, "LEASE_LOST", object{"details": object{"reason": "released"}})
			case isClaim(r) && len(d.claims()) > 1:
				return lent(r, 1, object{"workerId": 8})
			}
			return lent(r, 1, nil)
		})
		begun := time.Now()
		id := next(t, snowflakeOf(t, d.url, Options{Borrow: true, MaxWait: time.Minute}))
		if worker := partsOf(t, id).WorkerID; isLost != (worker == 8) || len(d.renewals()) != 1 || time.Since(begun) > 10*time.Second {
			t.Error(worker, d.all())
		}
	}
}

func TestAnAnswerOfAnEarlierClaimIsDropped(t *testing.T) {
	d := startDaemon(t)
	sent := make(chan struct{})
	d.answer(func(r request) answer {
		switch {
		case isForBlocks(r) && r.number("fence") == 1:
			// The next claim has its blocks by then.
			eventually(t, func() bool { return len(d.claims()) == 2 && len(d.forBlocks()) > 1 })
			defer close(sent)
			return lent(r, 1<<5, nil)
		case r.method == "PATCH" && len(d.claims()) == 1:
			return refusedWith(410, "LEASE_LOST", nil)
		}
		return lent(r, 1<<2, object{"fence": len(d.claims()), "until": time.Now().UnixMilli() + 600})
	})
	ids := snowflakeOf(t, d.url, Options{Borrow: true, MaxWait: time.Minute})
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if parts := partsOf(t, next(t, ids)); parts.Sequence/128 != 2 {
			t.Fatal("an ID of a block of the claim before", parts)
		}
		if isOver(sent) {
			end = time.Now().Add(min(time.Until(end), 50*time.Millisecond))
			sent = make(chan struct{})
		}
	}
	if len(d.claims()) != 2 {
		t.Error(len(d.claims()))
	}
}

func TestACloseWhoseLenderHasGoneFailsNowhere(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if strings.HasSuffix(r.path, "/release") {
			return refusedWith(410, "LEASE_LOST", nil)
		}
		return lent(r, 1, nil)
	})
	ids := snowflakeOf(t, d.url, borrowing)
	next(t, ids)
	if err := ids.Close(background); err != nil || len(d.of("POST", "/release")) != 1 {
		t.Error(err, d.all())
	}
}

func TestBlocksThatHavePassedAreForgotten(t *testing.T) {
	for _, makes := range []bool{false, true} {
		clock := &scriptedClock{ms: 1_800_000_000_000}
		w := newBorrowed(parse(t, testLayout), Lease{3, 1, clock.ms, clock.ms + 1_000_000}, clock.clocks(), clock.ms)
		for second := 0; second < 500; second++ {
			asked := w.prefetch()
			given := make([]int64, asked.spans)
			for i := range given {
				given[i] = 1
			}
			w.blocks.answered(asked, given, nil)
			if makes && w.take() <= none {
				t.Fatal(w.refusal())
			}
			// 5 s ahead, and 10 s behind.
			if held := len(w.blocks.held); held > 260 {
				t.Fatal(held)
			}
			clock.ms += 1000
		}
	}
}

func TestPrefetchesFromThePresentWhereTheClockWasSetBack(t *testing.T) {
	clock := &scriptedClock{ms: 1_800_000_000_000}
	w := borrowedFrom(t, testLayout, clock.ms, clock.clocks())
	for _, step := range []struct{ by, first, spans int64 }{{0, 80, 0}, {-64, -1, 80}, {-3_600_000, -56_251, 80}} {
		clock.ms += step.by
		present := w.blocks.spanOf(w.layout.tickOf(1_800_000_000_000))
		if asked := w.prefetch(); asked.first != present+step.first || asked.spans != step.spans {
			t.Errorf("%+v is not %+v", asked, step)
		}
	}
}

// What is taken of a tick counts the sequences of its blocks: their order must not change, whatever becomes of the clock, and whatever the lender gives.
func TestTheBlocksOfTheNewestIDAreKept(t *testing.T) {
	clock := &scriptedClock{ms: 1_800_000_000_000}
	w := borrowedFrom(t, fewLayout, clock.ms, clock.clocks())
	now := clock.ms
	made := map[int64]bool{w.take(): true}
	clock.ms += 60_000
	w.prefetch()
	clock.ms = now
	w.blocks.answered(blocksRequest{first: w.blocks.spanOf(w.layout.tickOf(now)), isPrefetch: true}, []int64{1<<3 | 1<<7}, nil)
	for id := w.take(); id > none; id = w.take() {
		if made[id] {
			t.Fatalf("%d came twice", id)
		}
		made[id] = true
	}
	if len(made) != 4 {
		t.Error(len(made))
	}
}

// Blocks of 2 IDs: they are soon used up.
const fewLayout = "timestamp:41,worker:10,sequence:6@1490346283706/1"

// lender gives each block once, of one claim after the other.
type lender struct {
	mu    sync.Mutex
	fence int64
	free  map[[2]int64][]int64 // by fence and span
	owner map[[3]int64]string  // by fence, span and block: the token
}

func (l *lender) answer(r request) answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	isOfThis := r.number("fence") == l.fence
	switch {
	case isClaim(r):
		return lent(r, 0, object{"fence": l.fence, "workerId": l.fence, "renewAfterMs": 50, "layout": fewLayout})
	case !strings.Contains(r.path, "/release") && !isOfThis:
		return refusedWith(410, "LEASE_LOST", object{"details": object{"reason": "taken"}})
	case !isForBlocks(r):
		return granted(r, object{"renewAfterMs": 50})
	}
	given := make([]int64, r.number("spans"))
	for i := range given {
		at := [2]int64{l.fence, r.number("first") + int64(i)}
		if l.free[at] == nil {
			for _, block := range rand.Perm(32) {
				l.free[at] = append(l.free[at], int64(block))
			}
		}
		for count := r.number("blocks"); count > 0 && len(l.free[at]) > 1; count-- {
			block := l.free[at][0]
			l.free[at] = l.free[at][1:]
			l.owner[[3]int64{at[0], at[1], block}] = r.text("token")
			given[i] |= 1 << block
		}
	}
	if rand.Intn(10) == 0 {
		// It is lost.
		return answer{}
	}
	return jsonAnswer(200, object{"blocks": given}, "")
}

func TestBorrowersOfOneLeaseMakeNoIDTwice(t *testing.T) {
	d, l := startDaemon(t), &lender{fence: 1, free: map[[2]int64][]int64{}, owner: map[[3]int64]string{}}
	d.answer(l.answer)
	over := time.Now().Add(3 * time.Second)
	var group sync.WaitGroup
	tokens := make([]map[string]bool, 4)
	var mu sync.Mutex
	made := map[int64]int{}
	for i := range tokens {
		i, ids := i, snowflakeOf(t, d.url, Options{Borrow: true, MaxWait: 200 * time.Millisecond, Instance: fmt.Sprint(i)})
		for goroutine := 0; goroutine < 3; goroutine++ {
			group.Add(1)
			go func() {
				defer group.Done()
				own := map[int64]bool{}
				for time.Now().Before(over) {
					if id, err := ids.Next(background); err == nil {
						if own[id] {
							t.Errorf("%d came twice", id)
							return
						}
						own[id] = true
					} else if code := codeOf(err); code != "SEQUENCE_EXHAUSTED" && code != "LEASE_EXPIRED" {
						t.Error(err)
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for id := range own {
					if _, isThere := made[id]; isThere {
						t.Errorf("%d came twice", id)
					}
					made[id] = i
				}
			}()
		}
	}
	for fence := int64(2); time.Now().Before(over); fence++ {
		time.Sleep(500 * time.Millisecond)
		l.mu.Lock()
		l.fence = fence
		l.mu.Unlock()
	}
	group.Wait()
	for i := range tokens {
		tokens[i] = map[string]bool{}
		for _, r := range d.claims() {
			if r.text("instance") == fmt.Sprint(i) {
				tokens[i][r.text("token")] = true
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	workers, layout := map[int64]bool{}, parse(t, fewLayout)
	for id, i := range made {
		parts, _ := layout.Decompose(id)
		workers[parts.WorkerID] = true
		if by := l.owner[[3]int64{parts.WorkerID, layout.tickOf(parts.Timestamp) / 64, parts.Sequence / 2}]; !tokens[i][by] {
			t.Fatalf("%+v is of a block of another one", parts)
		}
	}
	if len(made) < 1000 || len(workers) < 2 {
		t.Error(len(made), workers)
	}
}

// Blocks come, and the claim ends, in the midst of goroutines that take all there is.
func TestBlocksThatComeAmidGoroutines(t *testing.T) {
	for round := 0; round < 30; round++ {
		var clock atomic.Int64
		clock.Store(1_800_000_000_000)
		at := &clocks{func() time.Time { return time.UnixMilli(clock.Load()) }, systemClocks.elapsed}
		w := newBorrowed(parse(t, "timestamp:41,worker:5,sequence:10@1700000000000/1"), Lease{3, 1, clock.Load(), clock.Load() + 600_000}, at, clock.Load())
		go func() {
			for i, block := range rand.Perm(32) {
				// The second time they are none.
				for range [2]int{} {
					w.blocks.answered(blocksRequest{first: w.blocks.spanOf(w.layout.tickOf(clock.Load())), isPrefetch: true}, []int64{1 << block, 1 << block}, nil)
				}
				time.Sleep(20 * time.Microsecond)
				if i%4 == 3 {
					clock.Add(1)
				}
			}
			w.end(refusal("LEASE_LOST", "over"))
		}()
		all := together(t, 3, func() (own []int64) {
			for {
				if id := w.take(); id > none {
					own = append(own, id)
				} else if why := w.refusal(); why != nil && why.Code == "LEASE_LOST" {
					// The blocks come in any order.
					sort.Slice(own, func(a, b int) bool { return own[a] < own[b] })
					return own
				}
			}
		})
		if len(all) < 1000 {
			t.Error(len(all))
		}
	}
}
