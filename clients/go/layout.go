package snowlease

import (
	"regexp"
	"strconv"
	"strings"
)

// Canonical notations by name.
var presets = map[string]string{
	"westid":         "timestamp:41,worker:10,sequence:12@1490346283706/1",
	"twitter":        "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1",
	"rollback":       "timestamp:41,machine:3,process:5,rollback:2,sequence:12@1580486400000/1",
	"uid":            "timestamp:28,worker:22,sequence:13@1463673600000/1000",
	"uid-datacenter": "timestamp:28,datacenter:5,worker:17,sequence:13@1463673600000/1000",
	"sonyflake":      "timestamp:39,sequence:8,worker:16@1409529600000/10",
	"discord":        "timestamp:42,worker:5,process:5,sequence:12@1420070400000/1",
	"instagram":      "timestamp:41,shard:13,sequence:10@1314220021721/1",
	"mastodon":       "timestamp:48,sequence:16@0/1",
	"safe53":         "timestamp:41,worker:5,sequence:7@1577836800000/1",
}

const presetNames = "westid, twitter, rollback, uid, uid-datacenter, sonyflake, discord, instagram, mastodon, safe53"

const (
	longestNotation = 1023
	mostBits        = 64
	lastEpoch       = 4_102_444_800_000
	lastDate        = 8_640_000_000_000_000
)

const (
	fieldText  = "[a-z][a-z0-9]{0,15}:[1-9][0-9]?"
	numberText = "(0|[1-9][0-9]{0,15})"
)

var notation = regexp.MustCompile("^(" + fieldText + "(?:," + fieldText + ")*)@" + numberText + "(?:/" + numberText + ")?(/wraps)?$")

// Layout says which bits of an ID are its timestamp, its worker ID and its sequence. It does not change.
type Layout struct {
	canonical             string
	epoch, tick           int64 // Unix ms; ms
	fields                []field
	totalBits, workerBits int
	sequenceBits          int
	maxWorkerID           int64
	maxSequence           int64
	maxRollback           int64
	maxTick               int64
	endOfLife             int64 // The first Unix ms that no longer fits.
	timestampShift        int
	sequenceShift         int
	rollbackShift         int
}

// A field is adjacent bits of an ID, shift of them below it.
type field struct {
	name        string
	bits, shift int
}

func (f field) of(id int64) int64 { return id >> f.shift & mask(f.bits) }

func (f field) isIdentity() bool {
	return f.name != "timestamp" && f.name != "rollback" && f.name != "sequence"
}

// Parts is what an ID is made of.
type Parts struct {
	// Timestamp is the begin of the ID's tick, Unix ms.
	Timestamp int64
	WorkerID  int64
	// Sequence is which ID of its tick it is, from 0.
	Sequence int64
	// Rollback is how often the clock went back, where the layout counts that.
	Rollback int64
	// Fields is what the worker ID consists of, by name.
	Fields map[string]int64
}

// ParseLayout reads the name of a preset (westid, twitter, uid, sonyflake, …) or a notation: name:bits from the top field down, @ and the epoch
// in Unix ms, / and the length of a tick in ms. Error: CONFIG_INVALID, also for a timestamp that wraps.
func ParseLayout(text string) (*Layout, error) {
	known, isPreset := presets[text]
	if !isPreset {
		known = text
	}
	match := notation.FindStringSubmatch(known[:min(len(known), longestNotation+1)])
	if match == nil {
		return nil, expected("layout", "to be a preset ("+presetNames+") or a notation like `"+presets["westid"]+"`", text)
	}
	l := &Layout{epoch: number(match[2]), tick: 1}
	if match[3] != "" {
		l.tick = number(match[3])
	}
	l.canonical = match[1] + "@" + strconv.FormatInt(l.epoch, 10) + "/" + strconv.FormatInt(l.tick, 10)
	pairs := strings.Split(match[1], ",")
	l.fields = make([]field, len(pairs))
	bits := map[string]int{}
	total := 0
	for at := len(pairs) - 1; at >= 0; at-- {
		name, width, _ := strings.Cut(pairs[at], ":")
		l.fields[at] = field{name, int(number(width)), total}
		switch name {
		case "timestamp":
			l.timestampShift = total
		case "sequence":
			l.sequenceShift = total
		case "rollback":
			l.rollbackShift = total
		default:
			l.workerBits += l.fields[at].bits
		}
		bits[name] = l.fields[at].bits
		total += l.fields[at].bits
	}
	// The top bit of 64 is the sign.
	sign := 0
	if total == mostBits {
		sign = 1
	}
	timestamp, sequence, rollback := bits["timestamp"]-sign, bits["sequence"], bits["rollback"]
	for _, rule := range []struct {
		is    string
		holds bool
	}{
		{"to have each name once", len(bits) == len(pairs)},
		{"to have a timestamp that does not wrap: this client makes no such IDs", match[4] == ""},
		{"to begin with `timestamp`, of 21 to 47 bits, or 22 to 48 where all are 64", l.fields[0].name == "timestamp" && 21 <= timestamp && timestamp <= 47},
		{"to have at most 64 bits", total <= mostBits},
		{"to have a `sequence` of 1 to 31 bits", 1 <= sequence && sequence <= 31},
		{"to have `rollback` directly above `sequence`", rollback == 0 || l.rollbackShift == l.sequenceShift+sequence},
		{"to have at most 8 bits of `rollback`, and 31 with the sequence", rollback <= 8 && rollback+sequence <= 31},
		{"to have at most 31 bits of worker ID", l.workerBits <= 31},
		{"to have an epoch up to 4102444800000", l.epoch <= lastEpoch},
		{"to have a tick of 1 to 60000 ms", 1 <= l.tick && l.tick <= 60_000},
	} {
		if !rule.holds {
			return nil, expected("layout", rule.is, text)
		}
	}
	l.totalBits, l.sequenceBits = total-sign, sequence
	l.maxWorkerID, l.maxSequence, l.maxRollback, l.maxTick = mask(l.workerBits), mask(sequence), mask(rollback), mask(timestamp)
	l.endOfLife = l.timeOf(l.maxTick + 1)
	if l.endOfLife > lastDate {
		return nil, expected("layout", "to end by 8640000000000000", text)
	}
	return l, nil
}

// String returns the canonical notation: layouts with equal ones make equal IDs.
func (l *Layout) String() string { return l.canonical }

// TotalBits is how many bits an ID has, 1 to 63.
func (l *Layout) TotalBits() int { return l.totalBits }

// Compose makes the ID of parts. Timestamp may be any ms of the tick; Fields is not read. Errors: CONFIG_INVALID; LAYOUT_EXPIRED from the end of
// life on.
func (l *Layout) Compose(parts Parts) (int64, error) {
	for _, part := range []struct {
		name               string
		value, first, last int64
	}{
		{"Timestamp", parts.Timestamp, l.epoch, lastDate},
		{"WorkerID", parts.WorkerID, 0, l.maxWorkerID},
		{"Sequence", parts.Sequence, 0, l.maxSequence},
		{"Rollback", parts.Rollback, 0, l.maxRollback},
	} {
		if err := within(part.name, part.value, part.first, part.last); err != nil {
			return 0, err
		}
	}
	if parts.Timestamp >= l.endOfLife {
		return 0, expired(l.endOfLife)
	}
	return l.encode(l.tickOf(parts.Timestamp), parts.WorkerID, parts.Sequence) | parts.Rollback<<l.rollbackShift, nil
}

// Decompose takes an ID apart. Error: CONFIG_INVALID for one that does not fit.
func (l *Layout) Decompose(id int64) (Parts, error) {
	if err := within("id", id, 0, mask(l.totalBits)); err != nil {
		return Parts{}, err
	}
	parts := Parts{Fields: map[string]int64{}}
	for _, f := range l.fields {
		switch value := f.of(id); f.name {
		case "timestamp":
			parts.Timestamp = l.timeOf(value)
		case "sequence":
			parts.Sequence = value
		case "rollback":
			parts.Rollback = value
		default:
			parts.Fields[f.name] = value
			parts.WorkerID = parts.WorkerID<<f.bits | value
		}
	}
	return parts, nil
}

// encode makes the ID of parts that the caller has checked.
func (l *Layout) encode(tick, workerID, sequence int64) int64 {
	id := tick<<l.timestampShift | sequence<<l.sequenceShift
	rest := l.workerBits
	for _, f := range l.fields {
		if f.isIdentity() {
			rest -= f.bits
			id |= (workerID >> rest & mask(f.bits)) << f.shift
		}
	}
	return id
}

// tickOf is the tick that contains this time, Unix ms; negative before the epoch.
func (l *Layout) tickOf(ms int64) int64 { return floorDiv(ms-l.epoch, l.tick) }

// timeOf is the begin of a tick, Unix ms.
func (l *Layout) timeOf(tick int64) int64 { return l.epoch + tick*l.tick }

// firstWholeTick is the first tick that lies wholly at or after this time, Unix ms.
func (l *Layout) firstWholeTick(ms int64) int64 { return max(0, -floorDiv(l.epoch-ms, l.tick)) }

func expired(end int64) *Error {
	return refusal("LAYOUT_EXPIRED", "The timestamp bits of the layout ran out on %s; move to another layout in another namespace.", timeText(end))
}

func mask(bits int) int64 { return 1<<bits - 1 }

// number is that of digits that are known to be few.
func number(digits string) int64 {
	value, _ := strconv.ParseInt(digits, 10, 64)
	return value
}

func floorDiv(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}

func within(name string, value, first, last int64) error {
	if value < first || value > last {
		return expected(name, "to be an integer from "+strconv.FormatInt(first, 10)+" to "+strconv.FormatInt(last, 10), value)
	}
	return nil
}
