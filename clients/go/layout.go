package snowlease

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Canonical notations by name. Their origins: docs/layouts.md.
var presets = map[string]string{
	"westid":         "timestamp:41,worker:10,sequence:12@1490346283706/1",
	"twitter":        "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1",
	"discord":        "timestamp:41,worker:5,process:5,sequence:12@1420070400000/1",
	"instagram":      "timestamp:40,shard:13,sequence:10@1314220021721/1",
	"rollback":       "timestamp:41,machine:3,process:5,rollback:2,sequence:12@1580486400000/1",
	"uid":            "timestamp:28,worker:22,sequence:13@1463673600000/1000",
	"uid-datacenter": "timestamp:28,datacenter:5,worker:17,sequence:13@1463673600000/1000",
	"sonyflake":      "timestamp:39,sequence:8,worker:16@1409529600000/10",
	"safe53":         "timestamp:41,worker:5,sequence:7@1577836800000/1",
	"scene":          "timestamp:21,worker:5,sequence:5@1490346283706/1/wraps",
}

var (
	notation  = regexp.MustCompile(`^([^:,@/]+:[0-9]+(?:,[^:,@/]+:[0-9]+)*)@([0-9]+)(?:/([0-9]+))?(/wraps)?$`)
	fieldName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)
	decimal   = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,15})$`)
)

const (
	lastEpoch = 4_102_444_800_000
	lastDate  = 8_640_000_000_000_000
)

// Layout says which bits of an ID are its timestamp, its worker ID and its sequence. It does not change.
type Layout struct {
	canonical                     string
	epoch, tick                   int64 // Unix ms; ms
	wraps                         bool
	fields                        []field
	totalBits, workerBits         int
	maxWorkerID, maxSequence      int64
	maxRollback, maxTick          int64
	endOfLife                     int64 // The first Unix ms that no longer fits.
	ticks                         int64 // A timestamp that wraps starts again after so many.
	timestampShift, sequenceShift int
	rollbackShift                 int
}

// A field is adjacent bits of an ID, shift of them below it.
type field struct {
	name        string
	bits, shift int
}

func (f field) isIdentity() bool {
	return f.name != "timestamp" && f.name != "rollback" && f.name != "sequence"
}

func (f field) of(id int64) int64 { return id >> f.shift & (1<<f.bits - 1) }

// Parts is what an ID is made of.
type Parts struct {
	// Timestamp is the start of the ID's tick, Unix ms.
	Timestamp int64
	WorkerID  int64
	Sequence  int64
	Rollback  int64
	// Fields has each identity field of the worker ID, by name.
	Fields map[string]int64
}

// ParseLayout reads a preset's name (westid, twitter, uid, sonyflake, safe53, …) or a notation: name:bits from the top field down, @ and the
// epoch in Unix ms, / and the length of a tick in ms, /wraps where the timestamp starts again. Errors: CONFIG_INVALID.
func ParseLayout(text string) (*Layout, error) {
	given := text
	if preset, ok := presets[text]; ok {
		text = preset
	}
	var parts []string
	if len(text) < 1024 {
		parts = notation.FindStringSubmatch(text)
	}
	if parts == nil {
		return nil, expected("layout", "to be a preset such as `westid` or a notation like `"+presets["westid"]+"`", given)
	}
	l := &Layout{wraps: parts[4] != "", tick: 1, timestampShift: -1}
	check := checks{}
	l.epoch = check.number("epoch", parts[2], 0, lastEpoch)
	if parts[3] != "" {
		l.tick = check.number("tick", parts[3], 1, 60_000)
	}
	bits := map[string]int64{}
	var names []string
	for _, pair := range strings.Split(parts[1], ",") {
		name, width, _ := strings.Cut(pair, ":")
		if !fieldName.MatchString(name) {
			check.add(expected("field name", "to match "+fieldName.String(), name))
		}
		if _, twice := bits[name]; twice {
			check.add(expected("fields", "to have every name once", parts[1]))
		}
		bits[name] = check.number(name+" bits", width, 1, 63)
		names = append(names, name)
		l.fields = append(l.fields, field{name: name, bits: int(bits[name])})
	}
	if check.err != nil {
		return nil, check.err
	}
	l.place()
	identity := int64(l.totalBits) - bits["timestamp"] - bits["rollback"] - bits["sequence"]
	check.within("total bits", int64(l.totalBits), 1, 63)
	check.within("identity bits", identity, 1, 31)
	check.within("rollback bits", bits["rollback"], 0, 8)
	check.within("sequence bits", bits["sequence"], 1, 31-bits["rollback"])
	check.within("timestamp bits", bits["timestamp"], 21, 45)
	if names[0] != "timestamp" {
		check.add(expected("fields", "to start with `timestamp`", parts[1]))
	}
	if bits["rollback"] > 0 && !strings.Contains(strings.Join(names, ","), "rollback,sequence") {
		check.add(expected("fields", "to have `rollback` directly above `sequence`", parts[1]))
	}
	if check.err != nil {
		return nil, check.err
	}
	l.workerBits = int(identity)
	l.maxWorkerID, l.maxSequence, l.maxRollback = 1<<identity-1, 1<<bits["sequence"]-1, 1<<bits["rollback"]-1
	l.ticks = 1 << bits["timestamp"]
	l.maxTick = l.ticks - 1
	if l.wraps {
		l.maxTick = (lastDate-l.epoch)/l.tick - 1
	}
	l.endOfLife = l.timeOf(l.maxTick + 1)
	if check.within("end of life", l.endOfLife, 1, lastDate); check.err != nil {
		return nil, check.err
	}
	l.canonical = fmt.Sprintf("%s@%d/%d%s", parts[1], l.epoch, l.tick, parts[4])
	return l, nil
}

// place tells each field the bits below it.
func (l *Layout) place() {
	for at := len(l.fields) - 1; at >= 0; at-- {
		f := &l.fields[at]
		f.shift = l.totalBits
		l.totalBits += f.bits
		switch f.name {
		case "timestamp":
			l.timestampShift = f.shift
		case "sequence":
			l.sequenceShift = f.shift
		case "rollback":
			l.rollbackShift = f.shift
		}
	}
}

// String returns the canonical notation: layouts with equal ones make equal IDs.
func (l *Layout) String() string { return l.canonical }

// TotalBits is how many bits an ID has, 1 to 63.
func (l *Layout) TotalBits() int { return l.totalBits }

// Compose makes the ID of parts; Timestamp may be any ms of the tick, and Fields is not read. Errors: CONFIG_INVALID, and LAYOUT_EXPIRED from
// the end of life on.
func (l *Layout) Compose(parts Parts) (int64, error) {
	check := checks{}
	check.within("timestamp", parts.Timestamp, l.epoch, 1<<53-1)
	if check.err == nil && parts.Timestamp >= l.endOfLife {
		check.err = expected("timestamp", fmt.Sprintf("to be before %d, the layout's end of life", l.endOfLife), parts.Timestamp)
		check.err.Code = "LAYOUT_EXPIRED"
	}
	check.within("worker ID", parts.WorkerID, 0, l.maxWorkerID)
	check.within("sequence", parts.Sequence, 0, l.maxSequence)
	check.within("rollback", parts.Rollback, 0, l.maxRollback)
	if check.err != nil {
		return 0, check.err
	}
	return l.encode(l.tickOf(parts.Timestamp), parts.WorkerID, parts.Sequence) | parts.Rollback<<l.rollbackShift, nil
}

// Decompose takes an ID apart. at: Unix ms near the time at which it was made, read only where the timestamp wraps. Errors: CONFIG_INVALID.
func (l *Layout) Decompose(id, at int64) (Parts, error) {
	check := checks{}
	check.within("ID", id, 0, 1<<l.totalBits-1)
	if l.wraps {
		check.within("at", at, l.epoch, lastDate)
	}
	if check.err != nil {
		return Parts{}, check.err
	}
	parts := Parts{Fields: map[string]int64{}}
	var tick int64
	for _, f := range l.fields {
		switch value := f.of(id); f.name {
		case "timestamp":
			tick = value
		case "sequence":
			parts.Sequence = value
		case "rollback":
			parts.Rollback = value
		default:
			parts.Fields[f.name] = value
			parts.WorkerID = parts.WorkerID<<f.bits | value
		}
	}
	if l.wraps {
		// Halves round up, as in the other clients.
		tick += max(0, floorDiv(2*(l.tickOf(at)-tick)+l.ticks, 2*l.ticks)) * l.ticks
	}
	parts.Timestamp = l.timeOf(tick)
	return parts, nil
}

// encode makes the ID of parts that the caller has checked.
func (l *Layout) encode(tick, workerID, sequence int64) int64 {
	id := tick&(l.ticks-1)<<l.timestampShift | sequence<<l.sequenceShift
	rest := l.workerBits
	for _, f := range l.fields {
		if f.isIdentity() {
			rest -= f.bits
			id |= (workerID >> rest & (1<<f.bits - 1)) << f.shift
		}
	}
	return id
}

// tickOf is the tick that contains this Unix ms; negative before the epoch.
func (l *Layout) tickOf(ms int64) int64 { return floorDiv(ms-l.epoch, l.tick) }

func (l *Layout) timeOf(tick int64) int64 { return l.epoch + tick*l.tick }

// firstWholeTick is the first tick that lies wholly at or after this Unix ms.
func (l *Layout) firstWholeTick(ms int64) int64 { return max(0, -floorDiv(l.epoch-ms, l.tick)) }

// checkTime refuses a time before the epoch with WINDOW_NOT_OPEN, and from the end of life on with LAYOUT_EXPIRED.
func (l *Layout) checkTime(ms int64) *Error {
	if ms < l.epoch {
		return refusal("WINDOW_NOT_OPEN", "The clock shows %s, and the layout begins at %s; set the clock if it is wrong, or wait.",
			timeText(ms), timeText(l.epoch)).after(milliseconds(l.epoch - ms))
	}
	if ms >= l.endOfLife {
		return refusal("LAYOUT_EXPIRED", "The timestamp bits of the layout ran out on %s; move to another layout.", timeText(l.endOfLife))
	}
	return nil
}

// checks keeps the first error.
type checks struct{ err *Error }

func (c *checks) add(err *Error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *checks) within(name string, value, first, last int64) {
	if value < first || value > last {
		c.add(expected(name, fmt.Sprintf("to be an integer from %d to %d", first, last), value))
	}
}

func (c *checks) number(name, text string, first, last int64) int64 {
	if !decimal.MatchString(text) {
		c.add(expected(name, fmt.Sprintf("to be an integer from %d to %d", first, last), text))
		return first
	}
	value, _ := strconv.ParseInt(text, 10, 64)
	c.within(name, value, first, last)
	return value
}

func floorDiv(a, b int64) int64 {
	quotient := a / b
	if a%b < 0 {
		quotient--
	}
	return quotient
}
