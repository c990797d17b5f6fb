package snowlease

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/snowlease/snowlease/clients/go/internal/clock"
)

var background = context.Background()

// What every client has to do alike: clients/vectors.

func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("../vectors/" + name + ".json")
	if os.IsNotExist(err) {
		t.Skip("clients/vectors is not beside this module")
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func codeOf(err error) string {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

func parse(t *testing.T, text string) *Layout {
	t.Helper()
	layout, err := ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	return layout
}

func TestLayoutVectors(t *testing.T) {
	type fieldJSON struct {
		Name        string
		Bits, Shift int
	}
	var vectors struct {
		Layouts []struct {
			Text, Canonical                                    string
			Epoch, Tick, MaxWorkerID, MaxSequence, MaxRollback int64
			MaxTick, EndOfLife                                 int64
			Wraps                                              bool
			TotalBits, WorkerBits                              int
			Fields                                             []fieldJSON
		}
		Refused []struct{ Why, Text, Code string }
	}
	readVectors(t, "layouts", &vectors)
	for _, given := range vectors.Layouts {
		l := parse(t, given.Text)
		fields := []fieldJSON{}
		for _, f := range l.fields {
			fields = append(fields, fieldJSON{f.name, f.bits, f.shift})
		}
		got := given
		got.Canonical, got.Epoch, got.Tick, got.Wraps, got.Fields = l.String(), l.epoch, l.tick, l.wraps, fields
		got.MaxWorkerID, got.MaxSequence, got.MaxRollback, got.MaxTick = l.maxWorkerID, l.maxSequence, l.maxRollback, l.maxTick
		got.EndOfLife, got.TotalBits, got.WorkerBits = l.endOfLife, l.TotalBits(), l.workerBits
		if a, b := toJSON(t, got), toJSON(t, given); a != b {
			t.Errorf("%s\n is %s\nnot %s", given.Text, a, b)
		}
	}
	for _, given := range vectors.Refused {
		if _, err := ParseLayout(given.Text); codeOf(err) != given.Code {
			t.Errorf("%s: %v", given.Why, err)
		}
	}
}

func toJSON(t *testing.T, value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type partsJSON struct {
	Layout                                  string
	Timestamp, WorkerID, Sequence, Rollback int64
}

func (p partsJSON) parts() Parts {
	return Parts{Timestamp: p.Timestamp, WorkerID: p.WorkerID, Sequence: p.Sequence, Rollback: p.Rollback}
}

func TestIDVectors(t *testing.T) {
	var vectors struct {
		IDs []struct {
			partsJSON
			ID      int64 `json:",string"`
			Decoded struct {
				Timestamp, At int64
				Fields        map[string]int64
			}
			Texts, FixedTexts map[Encoding]string
		}
		Refused []struct {
			partsJSON
			Why, Code string
		}
		RefusedTexts []struct {
			Encoding        Encoding
			Why, Text, Code string
		}
	}
	readVectors(t, "ids", &vectors)
	for _, given := range vectors.IDs {
		l := parse(t, given.Layout)
		id, err := l.Compose(given.parts())
		if err != nil || id != given.ID {
			t.Fatalf("%+v: %d, %v", given.partsJSON, id, err)
		}
		apart, err := l.Decompose(id, given.Decoded.At)
		want := given.parts()
		want.Timestamp, want.Fields = given.Decoded.Timestamp, given.Decoded.Fields
		if err != nil || toJSON(t, apart) != toJSON(t, want) {
			t.Errorf("%d is %+v, not %+v: %v", id, apart, want, err)
		}
		for encoding, text := range given.Texts {
			if made, err := encoding.Encode(id); made != text {
				t.Errorf("%s of %d is %s, not %s: %v", encoding, id, made, text, err)
			}
			if read, err := encoding.Decode(text, l.TotalBits()); read != id {
				t.Errorf("%s %s is %d: %v", encoding, text, read, err)
			}
		}
		for encoding, text := range given.FixedTexts {
			if made, err := encoding.EncodeFixed(id, l.TotalBits()); made != text {
				t.Errorf("fixed %s of %d is %s, not %s: %v", encoding, id, made, text, err)
			}
			if read, err := encoding.Decode(text, l.TotalBits()); read != id {
				t.Errorf("fixed %s %s is %d: %v", encoding, text, read, err)
			}
		}
	}
	for _, given := range vectors.Refused {
		l := parse(t, given.Layout)
		if id, err := l.Compose(given.parts()); codeOf(err) != given.Code {
			t.Errorf("%s: %d, %v", given.Why, id, err)
		}
	}
	for _, given := range vectors.RefusedTexts {
		if id, err := given.Encoding.Decode(given.Text, 63); codeOf(err) != given.Code {
			t.Errorf("%s, %s: %d, %v", given.Encoding, given.Why, id, err)
		}
	}
}

func TestWindowVectors(t *testing.T) {
	var vectors struct {
		Windows []struct {
			Why, Layout         string
			From, Until         int64
			FirstTick, LastTick *int64
		}
	}
	readVectors(t, "windows", &vectors)
	for _, given := range vectors.Windows {
		l := parse(t, given.Layout)
		usable := func(number int64) bool {
			wall := l.timeOf(number)
			_, err := newTicks(l, 1, given.From, given.Until, min(wall, given.From), new(atomic.Pointer[tick])).take(moment{wall: wall})
			return err == nil
		}
		if given.FirstTick == nil {
			around := l.tickOf(given.From)
			for tick := max(0, around-2); tick < around+4; tick++ {
				if usable(tick) {
					t.Errorf("%s: tick %d", given.Why, tick)
				}
			}
			continue
		}
		first, last := *given.FirstTick, *given.LastTick
		if !usable(first) || !usable(last) || usable(first-1) || usable(last+1) {
			t.Errorf("%s: from %d to %d", given.Why, first, last)
		}
	}
}

type refusedJSON struct {
	Code         string
	RetryAfterMs int64
}

type usageJSON struct{ Until, LastTimestamp, LastSequence *int64 }

// A generator whose claims and clock a script gives, and which waits for nothing.
type scripted struct {
	*Generator
	wall  int64
	lease *lease
}

func newScripted(t *testing.T) *scripted {
	s := &scripted{Generator: &Generator{options: Options{MaxWait: -1}}, lease: &lease{}}
	s.open.Store(&tick{})
	s.Generator.lease = s.lease
	setClock(t, func() int64 { return atomic.LoadInt64(&s.wall) })
	distrustTicks(t)
	return s
}

func (s *scripted) grant(layout *Layout, workerID, from, until, wall int64, borrows bool) *ticks {
	given := newTicks(layout, workerID, from, until, wall, &s.open)
	if borrows {
		given.share = newShare(layout)
	}
	s.lease.ticks.Store(given)
	return given
}

// next is Next as users call it, against what a step expects.
func (s *scripted) next(t *testing.T, id string, refused *refusedJSON) {
	t.Helper()
	made, err := s.Next(background)
	if refused == nil {
		if err != nil || strconv.FormatInt(made, 10) != id {
			t.Errorf("at %d: %d, %v; not %s", s.wall, made, err, id)
		}
		return
	}
	var said *Error
	if !errors.As(err, &said) || said.Code != refused.Code || said.RetryAfter != milliseconds(refused.RetryAfterMs) {
		t.Errorf("at %d: %d, %v; not %+v", s.wall, made, err, *refused)
	}
}

func TestClockVectors(t *testing.T) {
	var vectors struct {
		Scripts []struct {
			Why, Layout string
			Grant       struct{ Clock, WorkerID, From, Until int64 }
			Steps       []struct {
				Clock, From, Until int64
				Do, ID             string
				Refused            *refusedJSON
				Sends, Gives       *usageJSON
			}
		}
	}
	readVectors(t, "clocks", &vectors)
	for _, script := range vectors.Scripts {
		t.Run(script.Why, func(t *testing.T) {
			s, given := newScripted(t), script.Grant
			held := s.grant(parse(t, script.Layout), given.WorkerID, given.From, given.Until, given.Clock, false)
			isHeld := true
			for _, step := range script.Steps {
				atomic.StoreInt64(&s.wall, step.Clock)
				if step.Sends != nil {
					expectUsage(t, held.usage(), *step.Sends, false)
				}
				switch step.Do {
				case "next":
					s.next(t, step.ID, step.Refused)
				case "renewed":
					held.renewed(step.From, step.Until)
				case "quarantine":
					held.giveUpBefore(step.Clock)
				case "lost":
					isHeld = false
					held.end(refusal("LEASE_LOST", "lost"))
				case "close":
					held.end(refusal("LEASE_LOST", "closed"))
					if isHeld != (step.Gives != nil) {
						t.Errorf("gives back: %v", isHeld)
					} else if isHeld {
						expectUsage(t, held.usage(), *step.Gives, true)
					}
				default:
					t.Fatal(step.Do)
				}
			}
		})
	}
}

func expectUsage(t *testing.T, used usage, want usageJSON, withUntil bool) {
	t.Helper()
	got := usageJSON{}
	if withUntil {
		got.Until = &used.until
	}
	if !used.isEmpty {
		got.LastTimestamp, got.LastSequence = &used.timestamp, &used.sequence
	}
	if a, b := toJSON(t, got), toJSON(t, want); a != b {
		t.Errorf("used %s, not %s", a, b)
	}
}

func TestBlockVectors(t *testing.T) {
	type requestJSON struct{ First, Spans, Blocks, Held int64 }
	type grantJSON struct{ Clock, WorkerID, Fence, From, Until int64 }
	var vectors struct {
		Layouts []struct {
			Text                            string
			Ticks, Blocks, Sequences, Ahead int64
			Spans                           []struct{ At, Span int64 }
		}
		Scripts []struct {
			Why, Layout string
			Grant       grantJSON
			Steps       []struct {
				grantJSON
				Do, ID  string
				Refused *refusedJSON
				Wants   *requestJSON
				First   int64
				Blocks  []uint32
			}
		}
	}
	readVectors(t, "blocks", &vectors)
	for _, given := range vectors.Layouts {
		l := parse(t, given.Text)
		s := newShare(l)
		if s.length != given.Ticks || s.count != given.Blocks || s.size != given.Sequences || s.ahead != given.Ahead {
			t.Errorf("%s: %+v", given.Text, s)
		}
		for _, at := range given.Spans {
			if span := s.spanOf(l.tickOf(at.At)); span != at.Span {
				t.Errorf("%s: %d is in span %d, not %d", given.Text, at.At, span, at.Span)
			}
		}
	}
	for _, script := range vectors.Scripts {
		t.Run(script.Why, func(t *testing.T) {
			l, s, given := parse(t, script.Layout), newScripted(t), script.Grant
			held, fence := s.grant(l, given.WorkerID, given.From, given.Until, given.Clock, true), given.Fence
			// Of each request without an answer: whose it is, and whether it is a prefetch.
			type asked struct {
				of         *ticks
				fence      int64
				isPrefetch bool
			}
			var waiting []asked
			if script.Steps[0].Do == "given" {
				waiting = append(waiting, asked{held, fence, true})
			}
			for _, step := range script.Steps {
				atomic.StoreInt64(&s.wall, step.Clock)
				var wants *requestJSON
				switch step.Do {
				case "next":
					s.next(t, step.ID, step.Refused)
					select {
					case r := <-held.share.want:
						wants = &requestJSON{r.first, r.spans, r.blocks, r.held}
						waiting = append(waiting, asked{held, fence, false})
					default:
					}
				case "prefetch":
					if r := held.prefetch(step.Clock); r.spans > 0 {
						wants = &requestJSON{r.first, r.spans, r.blocks, r.held}
						waiting = append(waiting, asked{held, fence, true})
					}
				case "given", "silent":
					if len(waiting) == 0 {
						t.Fatal("nothing was asked")
					}
					of := waiting[0]
					waiting = waiting[1:]
					if step.Do == "given" {
						if of.fence != step.Fence {
							t.Fatalf("the request was one of fence %d", of.fence)
						}
						// As in takeBlocks: an answer goes to the claim that asked.
						if next := of.of.put(step.First, step.Blocks); of.isPrefetch {
							of.of.prefetched(next)
						}
					}
					if !of.isPrefetch {
						of.of.answered()
					}
				case "renewed":
					held.renewed(step.From, step.Until)
				case "lost", "close":
					held.end(refusal("LEASE_LOST", "lost"))
				case "granted":
					held, fence = s.grant(l, step.WorkerID, step.From, step.Until, step.Clock, true), step.Fence
				default:
					t.Fatal(step.Do)
				}
				if a, b := toJSON(t, wants), toJSON(t, step.Wants); a != b {
					t.Errorf("at %d, %s: wants %s, not %s", step.Clock, step.Do, a, b)
				}
			}
		})
	}
}

// setClock sets the wall clock of all generators for a test, Unix ms.
func setClock(t *testing.T, now func() int64) {
	t.Helper()
	before := clock.Now
	clock.Now = func() int64 { return now() * int64(time.Millisecond) }
	t.Cleanup(func() { clock.Now = before })
}

// distrustTicks has hours pass between two looks at the monotonic clock, so that each ID looks at the wall clock.
func distrustTicks(t *testing.T) {
	t.Helper()
	before := clock.Elapsed
	var looks atomic.Int64
	clock.Elapsed = func() time.Duration { return time.Duration(looks.Add(1)) * time.Hour }
	t.Cleanup(func() { clock.Elapsed = before })
}
