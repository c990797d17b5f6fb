package snowlease

import (
	"strings"
	"testing"
)

func FuzzLayout(f *testing.F) {
	for _, text := range presets {
		f.Add(text, int64(1_700_000_000_000), int64(3), int64(2))
	}
	f.Add("timestamp:41,worker:10,sequence:13@0", int64(0), int64(0), int64(0))
	f.Add("timestamp:47,worker:1,sequence:16@0", int64(-1), int64(1<<62), int64(-1<<63))
	f.Add("timestamp:41,worker:99999999999999999999,sequence:12@0/0/wraps", int64(1), int64(1), int64(1))
	f.Fuzz(func(t *testing.T, text string, timestamp, workerID, sequence int64) {
		l, err := ParseLayout(text)
		if err != nil {
			if codeOf(err) != "CONFIG_INVALID" || strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatal(err)
			}
			return
		}
		if again := parse(t, l.String()); again.String() != l.String() || again.endOfLife != l.endOfLife {
			t.Fatalf("%s reads as %s", l, again)
		}
		id, err := l.Compose(Parts{Timestamp: timestamp, WorkerID: workerID, Sequence: sequence})
		if err != nil {
			return
		}
		parts, err := l.Decompose(id)
		if err != nil || id < 0 || parts.WorkerID != workerID || parts.Sequence != sequence || parts.Timestamp != l.timeOf(l.tickOf(timestamp)) {
			t.Fatalf("%d of %s is %+v: %v", id, l, parts, err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(`{"workerId":7,"fence":1,"from":1,"until":2,"renewAfterMs":5,"layout":"` + presets["westid"] + `","token":"t"}`)
	f.Add(`{"workerId":1e3,"fence":-0,"from":9007199254740993,"until":0.5,"renewAfterMs":null,"layout":[],"shared":"yes"}`)
	f.Add(`{"code":"LEASE_LOST","detail":"Gone.","retryAfterMs":1e308,"details":{"reason":"taken"}}`)
	f.Add(`{"code":"\u0000","detail":"\ud800"} `)
	f.Add("[[[{}]]]")
	f.Fuzz(func(t *testing.T, text string) {
		answer, err := readObject([]byte(text))
		if err != nil {
			return
		}
		h := &holder{token: "t", options: &Options{}}
		if given, err := h.readGrant(answer); err == nil &&
			(given.layout == nil || given.lease.WorkerID > given.layout.maxWorkerID || given.lease.From > given.lease.Until || given.renewAfter < 0) {
			t.Fatalf("%+v", given)
		}
		if given, err := readRenewal(answer); err == nil && (given.from < 0 || given.until < 0 || given.until >= 1<<53 || given.renewAfter < 0) {
			t.Fatalf("%+v", given)
		}
		if problem, err := readRefusal([]byte(text), 503, strings.ToUpper); err == nil && (problem.RetryAfter < 0 || strings.ContainsAny(problem.Error(), "\r\n")) {
			t.Fatalf("%#v", problem)
		}
	})
}

func FuzzBlocks(f *testing.F) {
	f.Add(`{"blocks":[1,0,4294967295]}`, int64(4), 32)
	f.Add(`{"blocks":[1e0,-0,0.5,"1",4294967296,[]]}`, int64(6), 2)
	f.Fuzz(func(t *testing.T, text string, spans int64, blocks int) {
		answer, err := readObject([]byte(text))
		if err != nil || blocks < 1 || blocks > 32 {
			return
		}
		given, err := readBlocks(answer, spans, int64(blocks))
		if err != nil {
			return
		}
		for _, bits := range given {
			if bits < 0 || bits>>blocks != 0 || int64(len(given)) > spans {
				t.Fatal(given)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add("base62", "1wyOGk7FBSM", 63)
	f.Add("base64url", "AAAAAAAAAAA=", 63)
	f.Add("base64sort", "-----------", 53)
	f.Add("hex", "ffffffffffffffff", 1)
	f.Fuzz(func(t *testing.T, name, text string, bits int) {
		encoding := Encoding(name)
		id, err := encoding.Decode(text, bits)
		if err != nil {
			return
		}
		short, _ := encoding.Encode(id)
		fixed, _ := encoding.EncodeFixed(id, bits)
		if text != short && text != fixed || id < 0 {
			t.Fatalf("%q is %d, which is %q or %q", text, id, short, fixed)
		}
	})
}

func FuzzRegistry(f *testing.F) {
	f.Add("http://user:secret@a:1/p?namespace=x&token=y,http://b")
	f.Add("unix:///run/a%2fb.sock?token=x")
	f.Add("https://[::1%25eth0]:443,b")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := readRegistry(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatal(err)
			}
			return
		}
		for _, d := range read.daemons {
			if !strings.HasPrefix(d.base, "http://") && !strings.HasPrefix(d.base, "https://") || strings.Contains(strings.SplitN(d.base, "/", 4)[2], "@") {
				t.Fatalf("%q asks %q", text, d.base)
			}
		}
	})
}
