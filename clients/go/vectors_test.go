package snowlease

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// What every client has to do alike. These need no other files than layout.go, encoding.go, window.go, blocks.go and errors.go.

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

func toJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func expectEqual(t *testing.T, why string, got, want any) {
	t.Helper()
	if a, b := toJSON(t, got), toJSON(t, want); a != b {
		t.Errorf("%s:\n is %s\nnot %s", why, a, b)
	}
}

type fieldJSON struct {
	Name        string
	Bits, Shift int
}

func TestLayoutVectors(t *testing.T) {
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
	read := 0
	for _, given := range vectors.Layouts {
		if given.Wraps {
			if _, err := ParseLayout(given.Text); codeOf(err) != "CONFIG_INVALID" {
				t.Errorf("%s: %v", given.Text, err)
			}
			continue
		}
		read++
		l := parse(t, given.Text)
		got := given
		got.Fields = []fieldJSON{}
		for _, f := range l.fields {
			got.Fields = append(got.Fields, fieldJSON{f.name, f.bits, f.shift})
		}
		got.Canonical, got.Epoch, got.Tick = l.String(), l.epoch, l.tick
		got.MaxWorkerID, got.MaxSequence, got.MaxRollback, got.MaxTick = l.maxWorkerID, l.maxSequence, l.maxRollback, l.maxTick
		got.EndOfLife, got.TotalBits, got.WorkerBits = l.endOfLife, l.TotalBits(), l.workerBits
		expectEqual(t, given.Text, got, given)
	}
	if read < len(presets) || len(vectors.Refused) == 0 {
		t.Error("too few", read)
	}
	for _, given := range vectors.Refused {
		if _, err := ParseLayout(given.Text); codeOf(err) != given.Code {
			t.Errorf("%s: %v", given.Why, err)
		}
	}
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
				Timestamp int64
				Fields    map[string]int64
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
	read := 0
	for _, given := range vectors.IDs {
		l, err := ParseLayout(given.Layout)
		if err != nil {
			// It wraps.
			continue
		}
		read++
		id, err := l.Compose(given.parts())
		if err != nil || id != given.ID {
			t.Fatalf("%+v: %d, %v", given.partsJSON, id, err)
		}
		apart, err := l.Decompose(id)
		want := given.parts()
		want.Timestamp, want.Fields = given.Decoded.Timestamp, given.Decoded.Fields
		if err != nil {
			t.Error(err)
		}
		expectEqual(t, strconv.FormatInt(id, 10), apart, want)
		if len(given.Texts) != len(alphabets) || len(given.FixedTexts) != len(alphabets) {
			t.Error("text forms are missing", given.Texts, given.FixedTexts)
		}
		for encoding, text := range given.Texts {
			if made, err := encoding.Encode(id); made != text {
				t.Errorf("%s of %d is %s, not %s: %v", encoding, id, made, text, err)
			}
			if read, err := encoding.Decode(text, 63); read != id || err != nil {
				t.Errorf("%s %s is %d: %v", encoding, text, read, err)
			}
		}
		for encoding, text := range given.FixedTexts {
			if made, err := encoding.EncodeFixed(id, l.TotalBits()); made != text {
				t.Errorf("fixed %s of %d is %s, not %s: %v", encoding, id, made, text, err)
			}
			if read, err := encoding.Decode(text, l.TotalBits()); read != id || err != nil {
				t.Errorf("fixed %s %s is %d: %v", encoding, text, read, err)
			}
		}
	}
	if read == 0 || len(vectors.Refused) == 0 || len(vectors.RefusedTexts) == 0 {
		t.Error("too few")
	}
	for _, given := range vectors.Refused {
		if id, err := parse(t, given.Layout).Compose(given.parts()); codeOf(err) != given.Code {
			t.Errorf("%s: %d, %v", given.Why, id, err)
		}
	}
	for _, given := range vectors.RefusedTexts {
		if id, err := given.Encoding.Decode(given.Text, 63); codeOf(err) != given.Code {
			t.Errorf("%s, %s: %d, %v", given.Encoding, given.Why, id, err)
		}
	}
}

// A clock that a script sets. On the monotonic one an hour passes from look to look, so that no reading holds.
type scriptedClock struct{ ms, looks int64 }

func (c *scriptedClock) clocks() *clocks {
	return &clocks{
		func() time.Time { return time.UnixMilli(c.ms) },
		func() time.Duration {
			c.looks++
			return time.Duration(c.looks) * time.Hour
		},
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
	if len(vectors.Windows) == 0 {
		t.Error("too few")
	}
	for _, given := range vectors.Windows {
		l, err := ParseLayout(given.Layout)
		if err != nil {
			continue
		}
		isUsable := func(tick int64) bool {
			clock := &scriptedClock{ms: l.timeOf(tick)}
			return newWindow(l, Lease{1, 1, given.From, given.Until}, clock.clocks(), given.From).take() > none
		}
		if given.FirstTick == nil {
			around := l.tickOf(given.From)
			for tick := max(0, around-2); tick < around+4; tick++ {
				if isUsable(tick) {
					t.Errorf("%s: tick %d", given.Why, tick)
				}
			}
			continue
		}
		first, last := *given.FirstTick, *given.LastTick
		if !isUsable(first) || !isUsable(last) || isUsable(first-1) || isUsable(last+1) {
			t.Errorf("%s: from %d to %d", given.Why, first, last)
		}
	}
}

type usageJSON struct{ Until, LastTimestamp, LastSequence *int64 }

func usageOf(used usage, withUntil bool) usageJSON {
	var given usageJSON
	if withUntil {
		given.Until = &used.until
	}
	if used.timestamp >= 0 {
		given.LastTimestamp, given.LastSequence = &used.timestamp, &used.sequence
	}
	return given
}

type nextJSON struct {
	ID      string
	Refused *struct {
		Code         string
		RetryAfterMs int64
	}
}

func expectNext(t *testing.T, step int, w *window, want nextJSON) {
	t.Helper()
	id := w.take()
	if want.Refused == nil {
		if strconv.FormatInt(id, 10) != want.ID {
			t.Errorf("step %d: %d, not %s", step, id, want.ID)
		}
	} else if why := w.refusal(); id != none || why == nil || why.Code != want.Refused.Code || why.RetryAfter != milliseconds(want.Refused.RetryAfterMs) {
		t.Errorf("step %d: %d, %+v; not %+v", step, id, why, *want.Refused)
	}
}

func TestClockVectors(t *testing.T) {
	var vectors struct {
		Scripts []struct {
			Why, Layout string
			Grant       struct{ Clock, WorkerID, From, Until int64 }
			Steps       []struct {
				nextJSON
				Clock, From, Until int64
				Do                 string
				Sends, Gives       *usageJSON
			}
		}
	}
	readVectors(t, "clocks", &vectors)
	if len(vectors.Scripts) == 0 {
		t.Error("too few")
	}
	for _, script := range vectors.Scripts {
		t.Run(script.Why, func(t *testing.T) {
			l, err := ParseLayout(script.Layout)
			if err != nil {
				t.Skip("a layout that wraps")
			}
			given := script.Grant
			clock := &scriptedClock{ms: given.Clock}
			w := newWindow(l, Lease{given.WorkerID, 1, given.From, given.Until}, clock.clocks(), given.Clock)
			isHeld := true
			for at, step := range script.Steps {
				clock.ms = step.Clock
				if step.Sends != nil {
					expectEqual(t, "sends", usageOf(w.usage(), false), *step.Sends)
				}
				switch step.Do {
				case "next":
					expectNext(t, at, w, step.nextJSON)
				case "renewed":
					w.renewed(step.From, step.Until)
				case "quarantine":
					w.giveUpBefore(step.Clock)
				case "lost":
					isHeld = false
					w.end(refusal("LEASE_LOST", "lost"))
				case "close":
					w.end(refusal("LEASE_LOST", "closed"))
					if isHeld != (step.Gives != nil) {
						t.Errorf("gives back: %v", isHeld)
					} else if isHeld {
						expectEqual(t, "gives", usageOf(w.usage(), true), *step.Gives)
					}
				default:
					t.Fatal(step.Do)
				}
			}
		})
	}
}

func TestBlockLayoutVectors(t *testing.T) {
	var vectors struct {
		Layouts []struct {
			Text                            string
			Ticks, Blocks, Sequences, Ahead int64
			Spans                           []struct{ At, Span int64 }
		}
	}
	readVectors(t, "blocks", &vectors)
	if len(vectors.Layouts) == 0 {
		t.Error("too few")
	}
	for _, given := range vectors.Layouts {
		l := parse(t, given.Text)
		d := divisionOf(l)
		got := []int64{d.ticks, d.blocks, 1 << d.sizeBits, d.ahead}
		expectEqual(t, given.Text, got, []int64{given.Ticks, given.Blocks, given.Sequences, given.Ahead})
		for _, at := range given.Spans {
			if span := d.spanOf(l.tickOf(at.At)); span != at.Span {
				t.Errorf("%s: %d is in span %d, not %d", given.Text, at.At, span, at.Span)
			}
		}
	}
}

type wantsJSON struct{ First, Spans, Blocks, Held int64 }

func TestBlockVectors(t *testing.T) {
	type grantJSON struct{ Clock, WorkerID, Fence, From, Until int64 }
	var vectors struct {
		Scripts []struct {
			Why, Layout string
			Grant       grantJSON
			Steps       []struct {
				grantJSON
				nextJSON
				Do     string
				Wants  *wantsJSON
				First  int64
				Blocks []int64
			}
		}
	}
	readVectors(t, "blocks", &vectors)
	if len(vectors.Scripts) == 0 {
		t.Error("too few")
	}
	for _, script := range vectors.Scripts {
		t.Run(script.Why, func(t *testing.T) {
			l, clock := parse(t, script.Layout), &scriptedClock{ms: script.Grant.Clock}
			begin := func(given grantJSON) *window {
				return newBorrowed(l, Lease{given.WorkerID, given.Fence, given.From, given.Until}, clock.clocks(), clock.ms)
			}
			w := begin(script.Grant)
			// Those without an answer, with the claim to which they belong.
			type openRequest struct {
				of    *window
				asked blocksRequest
			}
			var open []openRequest
			send := func(asked blocksRequest) *wantsJSON {
				open = append(open, openRequest{w, asked})
				return &wantsJSON{asked.first, asked.spans, asked.blocks, asked.held}
			}
			if script.Steps[0].Do == "given" {
				send(w.prefetch())
			}
			for at, step := range script.Steps {
				clock.ms = step.Clock
				var wants *wantsJSON
				switch step.Do {
				case "next":
					expectNext(t, at, w, step.nextJSON)
					select {
					case asked := <-w.blocks.wanted:
						wants = send(asked)
					default:
					}
				case "prefetch":
					if asked := w.prefetch(); asked.spans > 0 {
						wants = send(asked)
					}
				case "given":
					if open[0].of.fence != step.Fence || open[0].asked.first != step.First {
						t.Errorf("step %d: %+v is not what is answered", at, open[0])
					}
					open[0].of.blocks.answered(open[0].asked, step.Blocks, nil)
					open = open[1:]
				case "silent":
					open[0].of.blocks.answered(open[0].asked, nil, unavailable("REGISTRY_UNAVAILABLE", 0, "silent"))
					open = open[1:]
				case "renewed":
					w.renewed(step.From, step.Until)
				case "lost":
					w.end(unavailable("LEASE_EXPIRED", 0, "lost"))
				case "granted":
					w = begin(step.grantJSON)
				case "close":
					w.end(refusal("LEASE_LOST", "closed"))
				default:
					t.Fatal(step.Do)
				}
				expectEqual(t, fmt.Sprintf("step %d wants", at), wants, step.Wants)
			}
		})
	}
}
