package snowlease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What daemons answer: as they should, not at all, wrongly, and too late.

func workerOf(t *testing.T, id int64) int64 {
	t.Helper()
	parts, err := parse(t, testLayout).Decompose(id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return parts.WorkerID
}

func TestClaimsOnceAndGivesBackBehindTheLastID(t *testing.T) {
	d := newDaemon(t)
	ids := generatorOf(t, d.url, Options{})
	if ids.Lease() != nil || len(d.all()) > 0 {
		t.Fatal("it asked before the first ID")
	}
	seen, last := map[int64]bool{}, int64(0)
	for len(seen) < 10_000 {
		id := next(t, ids)
		if seen[id] || id < last {
			t.Fatal(id, last)
		}
		seen[id], last = true, id
	}
	if l := ids.Lease(); l == nil || l.WorkerID != 7 || l.Fence != 1 || l.Until-l.From != 70_000 || ids.Lease() != l {
		t.Fatal(l)
	}
	if err := ids.Close(background); err != nil {
		t.Fatal(err)
	}
	if _, err := ids.Next(background); codeOf(err) != "LEASE_LOST" || ids.Lease() != nil {
		t.Fatal(err, ids.Lease())
	}
	if all := d.all(); len(all) != 2 {
		t.Fatal(all)
	}
	claim, giveBack := d.claims()[0], d.of("POST", "/leases/7/release")[0]
	if claim.body["continues"] != false || len(claim.text("token")) != 32 {
		t.Error(claim)
	}
	parts, _ := parse(t, testLayout).Decompose(last, 0)
	if giveBack.number("lastTimestamp") != parts.Timestamp || giveBack.number("lastSequence") != parts.Sequence ||
		giveBack.number("until") != parts.Timestamp+1 {
		t.Error(giveBack, parts)
	}
	if giveBack.text("token") != claim.text("token") || giveBack.number("fence") != 1 || giveBack.receipt != "granted" {
		t.Error(giveBack)
	}
}

func TestGivesBackToAnOlderDaemon(t *testing.T) {
	for _, status := range []int{404, 405} {
		status, d := status, newDaemon(t)
		d.answer(func(r request) answer {
			if strings.HasSuffix(r.path, "/release") {
				return refusedWith(status, "NOT_FOUND", nil)
			}
			return granted(r, nil)
		})
		ids := generatorOf(t, d.url, Options{})
		next(t, ids)
		if err := ids.Close(background); err != nil || len(d.of("DELETE", "/leases/7")) != 1 {
			t.Error(err, d.all())
		}
	}
}

func TestWrongGrants(t *testing.T) {
	for _, wrong := range []object{
		{"workerId": 1024},
		{"workerId": -1},
		{"workerId": 7.5},
		{"workerId": true},
		{"workerId": "7"},
		{"workerId": nil},
		{"fence": 1 << 53},
		{"from": uint64(1) << 63},
		{"until": uint64(1) << 63},
		{"until": 1},
		{"until": 1e300},
		{"from": -1},
		{"shared": "yes"},
		{"renewAfterMs": "soon"},
		{"layout": "worker:1"},
		{"layout": 5},
		{"layout": "timestamp:41,worker:10,sequence:13@0"},
		{"token": strings.Repeat("0", 32)},
		{"token": 5},
	} {
		wrong := wrong
		t.Run(fmt.Sprint(wrong), func(t *testing.T) {
			d := newDaemon(t)
			d.answer(func(r request) answer { return granted(r, wrong) })
			expectUnavailable(t, generatorOf(t, d.url, Options{OperationTimeout: 60 * time.Millisecond}))
		})
	}
}

func TestASharedLeaseIsRefusedUnlessAskedFor(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer { return granted(r, object{"shared": true}) })
	expectRefused(t, generatorOf(t, d.url, Options{}), "CONFIG_INVALID")
}

func TestALeaseThatIsNotSharedIsGivenBackByABorrower(t *testing.T) {
	d := newDaemon(t)
	expectRefused(t, generatorOf(t, d.url+"?borrow=true", Options{}), "CONFIG_INVALID")
	if gave := d.of("POST", "/release"); len(gave) != 1 || gave[0].body["until"] == nil || gave[0].body["lastTimestamp"] != nil {
		t.Error(gave)
	}
}

func TestGrantOfAnotherLayout(t *testing.T) {
	d := newDaemon(t)
	expectRefused(t, generatorOf(t, d.url, Options{Layout: "sonyflake"}), "SCHEMA_INCOMPATIBLE")
}

func expectRefused(t *testing.T, ids *Generator, code string) {
	t.Helper()
	id, err := ids.Next(background)
	var said *Error
	if !errors.As(err, &said) || said.Code != code || said.Retryable() || strings.ContainsAny(err.Error(), "\r\n") {
		t.Fatal(id, err)
	}
}

func expectUnavailable(t *testing.T, ids *Generator) {
	t.Helper()
	id, err := ids.Next(background)
	var said *Error
	if !errors.As(err, &said) || said.Code != "REGISTRY_UNAVAILABLE" || !said.Retryable() || strings.ContainsAny(err.Error(), "\r\n") {
		t.Fatal(id, err)
	}
}

func head(length int) string {
	return fmt.Sprintf("HTTP/1.1 201 X\r\ncontent-length: %d\r\n\r\n", length)
}

func TestGarbage(t *testing.T) {
	for why, garbage := range map[string]string{
		"nothing":                    "",
		"no HTTP":                    strings.Repeat("\x00\xff", 100),
		"an endless line":            "HTTP/1.1 200 " + strings.Repeat("x", 200_000),
		"another protocol":           "SSH-2.0-OpenSSH_9\r\n",
		"no JSON":                    head(5) + "hello",
		"a list":                     head(2) + "[]",
		"two objects":                head(5) + "{} {}",
		"more behind it":             head(3) + "{}}",
		"NaN":                        head(16) + `{"workerId":NaN}`,
		"nested":                     head(100_000) + strings.Repeat("[", 100_000),
		"a huge number":              head(50_002) + "[" + strings.Repeat("9", 50_000) + "]",
		"not UTF-8":                  head(4) + "\"\xff\xfe\"",
		"cut off":                    head(1000) + `{"workerId":`,
		"too long":                   head(1_000_000) + strings.Repeat(" ", 1_000_000),
		"a wrong length":             "HTTP/1.1 201 X\r\ncontent-length: -5\r\n\r\n{}",
		"a wrong chunk":              "HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
		"many headers":               "HTTP/1.1 201 X\r\n" + strings.Repeat("x: y\r\n", 50_000) + "\r\n{}",
		"nothing but news":           strings.Repeat("HTTP/1.1 103 X\r\n\r\n", 50_000),
		"elsewhere":                  "HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
		"another protocol from here": "HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
		"a page":                     "HTTP/1.1 404 X\r\ncontent-length: 6\r\n\r\n<html>",
		"a problem of wrong types":   "HTTP/1.1 503 X\r\ncontent-length: 24\r\n\r\n" + `{"code":5,"detail":true}`,
	} {
		garbage := garbage
		t.Run(why, func(t *testing.T) {
			d := newDaemon(t)
			d.answer(func(request) answer { return answer{text: garbage} })
			expectUnavailable(t, generatorOf(t, d.url, Options{OperationTimeout: 60 * time.Millisecond}))
		})
	}
}

func TestAnswersThatNeverEnd(t *testing.T) {
	for _, endless := range []answer{{head(1_000_000), " "}, {"HTTP/1.1 201 X\r\n", "x: y\r\n"}, {"", "HTTP/1.1 100 X\r\n\r\n"}} {
		endless, d := endless, newDaemon(t)
		d.answer(func(request) answer { return endless })
		expectUnavailable(t, generatorOf(t, d.url, Options{OperationTimeout: 200 * time.Millisecond}))
	}
}

// silent returns the address of a socket that accepts connections, and answers nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return "http://" + listener.Addr().String()
}

func TestADaemonThatIsSilent(t *testing.T) {
	expectUnavailable(t, generatorOf(t, silent(t), Options{OperationTimeout: 200 * time.Millisecond}))
}

func TestASilentDaemonLeavesTimeToTheNextOne(t *testing.T) {
	d := newDaemon(t)
	next(t, generatorOf(t, silent(t)+","+d.url, Options{OperationTimeout: 2 * time.Second}))
}

func TestAContextThatEndsEndsTheCallAlone(t *testing.T) {
	d := newDaemon(t)
	ended, cancel := context.WithCancel(background)
	cancel()
	ids := generatorOf(t, d.url, Options{})
	if _, err := ids.Next(ended); !errors.Is(err, context.Canceled) || len(d.all()) > 0 {
		t.Fatal(err, d.all())
	}
	// The daemon answers when the caller has gone: the next caller gets the worker ID of that claim.
	asked, goOn := make(chan struct{}), make(chan struct{})
	d.answer(func(r request) answer {
		if strings.HasSuffix(r.path, "/leases") {
			close(asked)
			<-goOn
		}
		return granted(r, nil)
	})
	waiting, cancel := context.WithCancel(background)
	failed := make(chan error)
	go func() {
		_, err := ids.Next(waiting)
		failed <- err
	}()
	<-asked
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(goOn)
	next(t, ids)
	if len(d.claims()) != 1 {
		t.Error(d.all())
	}
	if err := ids.Close(background); err != nil {
		t.Error(err)
	}
}

func TestCloseWaitsNoLongerThanItsContext(t *testing.T) {
	ids := generatorOf(t, silent(t), Options{OperationTimeout: time.Hour})
	failed := make(chan error)
	go func() {
		_, err := ids.Next(background)
		failed <- err
	}()
	eventually(func() bool { return leaseOf(ids) != nil })
	short, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if err := ids.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := <-failed; codeOf(err) != "LEASE_LOST" {
		t.Error(err)
	}
	// The goroutine ends with it.
	<-leaseOf(ids).done
}

func leaseOf(ids *Generator) *lease {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return ids.lease
}

func TestCloseDuringAClaimGivesItBack(t *testing.T) {
	d := newDaemon(t)
	asked, goOn := make(chan struct{}), make(chan struct{})
	d.answer(func(r request) answer {
		if strings.HasSuffix(r.path, "/leases") {
			close(asked)
			<-goOn
		}
		return granted(r, nil)
	})
	ids := generatorOf(t, d.url, Options{})
	go ids.Next(background)
	<-asked
	closed := make(chan error)
	go func() { closed <- ids.Close(background) }()
	<-leaseOf(ids).stopping.Done()
	close(goOn)
	if err := <-closed; err != nil || len(d.of("POST", "/leases/7/release")) != 1 {
		t.Error(err, d.all())
	}
}

func TestALostAnswerIsAskedForAgainWithTheSameToken(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		if len(d.all()) < 3 {
			return answer{}
		}
		return granted(r, nil)
	})
	next(t, generatorOf(t, d.url, Options{}))
	if claims := d.claims(); len(claims) != 3 || len(tokensOf(claims)) != 1 {
		t.Error(claims)
	}
}

func tokensOf(claims []request) map[string]bool {
	tokens := map[string]bool{}
	for _, r := range claims {
		tokens[r.text("token")] = true
	}
	return tokens
}

func TestAClaimAfterOneThatFailedHasAnotherToken(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(request) answer { return refusedWith(503, "POOL_EXHAUSTED", object{"retryAfterMs": 41_000}) })
	ids := generatorOf(t, d.url, Options{})
	_, err := ids.Next(background)
	var said *Error
	if !errors.As(err, &said) || said.Code != "POOL_EXHAUSTED" || said.RetryAfter != 41*time.Second {
		t.Fatal(err)
	}
	d.answer(func(r request) answer { return granted(r, nil) })
	next(t, ids)
	if claims := d.claims(); len(tokensOf(claims)) != 2 {
		t.Error(claims)
	}
}

func TestLeaseLostInAnswerToAClaim(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		if len(d.all()) < 3 {
			return refusedWith(410, "LEASE_LOST", object{"details": object{"reason": "forgotten"}})
		}
		return granted(r, nil)
	})
	next(t, generatorOf(t, d.url, Options{}))
	if claims := d.claims(); len(tokensOf(claims)) != 3 {
		t.Error(claims)
	}
}

func TestWaitsForAWorkerIDAsLongAsItMay(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		if len(d.all()) < 3 {
			return refusedWith(503, "POOL_EXHAUSTED", object{"retryAfterMs": 30_000})
		}
		return granted(r, nil)
	})
	next(t, generatorOf(t, d.url, Options{ClaimTimeout: time.Minute}))
	if claims := d.claims(); len(claims) != 3 || len(tokensOf(claims)) != 1 {
		t.Error(claims)
	}
}

func TestTheNextDaemonIsAsked(t *testing.T) {
	one, other := newDaemon(t), newDaemon(t)
	one.answer(func(r request) answer {
		if r.method == "POST" {
			return refusedWith(503, "REGISTRY_UNAVAILABLE", nil)
		}
		return granted(r, nil)
	})
	next(t, generatorOf(t, one.url+","+other.url, Options{}))
	if a, b := one.claims(), other.claims(); len(a) != 1 || len(b) != 1 || a[0].text("token") != b[0].text("token") {
		t.Error(a, b)
	}
}

func TestWhatWaitingDoesNotHelp(t *testing.T) {
	for code, status := range map[string]int{"UNAUTHORIZED": 401, "FORBIDDEN": 403, "SCHEMA_INCOMPATIBLE": 500, "CONFIG_INVALID": 400, "TEAPOT": 418} {
		status, code, d := status, code, newDaemon(t)
		d.answer(func(request) answer { return refusedWith(status, code, nil) })
		want := code
		if code == "TEAPOT" {
			want = "CONFIG_INVALID"
		}
		expectRefused(t, generatorOf(t, d.url, Options{}), want)
		if len(d.all()) != 1 {
			t.Error(code, d.all())
		}
	}
}

func TestNoMessageHoldsAToken(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		detail := "Bad secret-of-mine\r\nand " + r.text("token") + " at http://user:password@host/"
		return refusedWith(400, "CONFIG_INVALID", object{"detail": detail})
	})
	_, err := generatorOf(t, d.url, Options{Token: "secret-of-mine"}).Next(background)
	said := fmt.Sprintf("%v %+v %#v", err, err, err)
	for _, secret := range []string{"secret-of-mine", d.all()[0].text("token"), "password", "\n", "\r"} {
		if strings.Contains(said, secret) {
			t.Errorf("%q in %s", secret, said)
		}
	}
	if d.all()[0].authorization != "Bearer secret-of-mine" {
		t.Error(d.all())
	}
}

func TestALostLeaseIsReplacedWithAnotherToken(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" && strings.HasSuffix(r.path, "/7") {
			return refusedWith(410, "LEASE_LOST", object{"details": object{"reason": "taken"}})
		}
		if len(d.claims()) < 2 {
			return granted(r, object{"renewAfterMs": 50})
		}
		return granted(r, object{"workerId": 8})
	})
	ids := generatorOf(t, d.url, Options{MaxWait: time.Minute})
	seen := map[int64]bool{}
	for worker := int64(7); worker == 7; {
		id := next(t, ids)
		worker = workerOf(t, id)
		if seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
	if l := ids.Lease(); l == nil || l.WorkerID != 8 {
		t.Error(l)
	}
	claims := d.claims()
	if len(tokensOf(claims)) != 2 {
		t.Error(claims)
	}
	// A registry that went back in time learns from it what it forgot.
	if claims[1].receipt != "granted" || claims[1].text("layout") != testLayout {
		t.Error(claims[1])
	}
	if len(d.of("POST", "/leases/7/release")) > 0 {
		t.Error("a lost lease was given back")
	}
}

func TestTellsOfALostLeaseAndOfIDsThatMayExistTwice(t *testing.T) {
	for _, details := range []object{
		{"reason": "taken", "doubt": object{"from": 1_700_000_000_000, "until": 4_000_000_000_000}},
		{"reason": "cloned"},
		{"reason": "released", "doubt": object{"from": "x"}},
	} {
		details, d := details, newDaemon(t)
		d.answer(func(r request) answer {
			if r.method == "PATCH" && strings.HasSuffix(r.path, "/7") {
				return refusedWith(410, "LEASE_LOST", object{"details": details, "detail": "Lost by " + r.text("token")})
			}
			if len(d.claims()) > 1 {
				return granted(r, object{"workerId": 8})
			}
			return granted(r, object{"renewAfterMs": 50})
		})
		var lines lockedBuffer
		ids := generatorOf(t, d.url, Options{Logger: slog.New(slog.NewTextHandler(&lines, nil)), Namespace: "orders"})
		next(t, ids)
		eventually(func() bool {
			return ids.Lease() != nil && ids.Lease().WorkerID == 8 && strings.Contains(lines.String(), "takes the place")
		})
		said, isDoubtful := lines.String(), details["reason"] != "released"
		for _, part := range []string{"level=WARN", "namespace=orders", "worker=7", "reason=" + fmt.Sprint(details["reason"]), "worker=8 lost=7"} {
			if !strings.Contains(said, part) {
				t.Errorf("no %s in %s", part, said)
			}
		}
		if strings.Contains(said, "level=ERROR") != isDoubtful || strings.Contains(said, d.claims()[0].text("token")) {
			t.Error(said)
		}
		// What is before the last request that was answered was this holder's alone.
		from := d.claims()[0].number("now")
		if isDoubtful && !strings.Contains(said, "from="+timeText(from)) {
			t.Error(from, said)
		}
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestALeaseThatCannotBeReplacedEnds(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(410, "LEASE_LOST", nil)
		}
		if len(d.claims()) > 1 {
			return refusedWith(403, "FORBIDDEN", nil)
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := generatorOf(t, d.url, Options{MaxWait: time.Minute})
	for {
		if _, err := ids.Next(background); err != nil {
			if codeOf(err) != "FORBIDDEN" {
				t.Error(err)
			}
			break
		}
	}
	if err := ids.Close(background); err != nil || len(d.of("POST", "/release")) > 0 {
		t.Error(err, d.all())
	}
}

func TestOtherRegistryEndsALeaseOnlyWhereEachDaemonSaysSo(t *testing.T) {
	one, other := newDaemon(t), newDaemon(t)
	elsewhere := func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(409, "OTHER_REGISTRY", nil)
		}
		return granted(r, object{"renewAfterMs": 50})
	}
	one.answer(elsewhere)
	other.answer(func(r request) answer { return granted(r, object{"renewAfterMs": 50}) })
	ids := generatorOf(t, one.url+","+other.url, Options{})
	next(t, ids)
	eventually(func() bool { return len(other.renewals()) > 2 })
	if len(one.claims()) != 1 || len(one.renewals()) == 0 {
		t.Error(one.all())
	}
	other.answer(elsewhere)
	eventually(func() bool { return len(one.claims())+len(other.claims()) > 1 })
	if tokens := tokensOf(append(one.claims(), other.claims()...)); len(tokens) < 2 {
		t.Error(tokens)
	}
}

func TestDaemonsOfTwoRegistriesAreRefused(t *testing.T) {
	one, other := newDaemon(t), newDaemon(t)
	other.answer(func(r request) answer {
		if r.method == "GET" {
			return jsonAnswer(200, object{"id": "two"}, "")
		}
		return granted(r, nil)
	})
	ids := generatorOf(t, one.url+","+other.url, Options{})
	_, err := ids.Next(background)
	if codeOf(err) != "CONFIG_INVALID" || !strings.Contains(err.Error(), "different registries") || len(one.of("POST", "/release")) != 1 {
		t.Error(err, one.all())
	}
}

func TestTurnsAndReceipts(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		// The answer to every second renewal is lost.
		if r.method == "PATCH" && len(d.renewals())%2 == 1 {
			return answer{}
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := generatorOf(t, d.url, Options{})
	next(t, ids)
	eventually(func() bool { return len(d.renewals()) >= 6 })
	renewals := d.renewals()[:6]
	drawn := map[string]bool{}
	for i, r := range renewals {
		drawn[r.text("nextTurn")] = true
		first := renewals[i-i%2]
		if r.text("turn") != first.text("turn") || r.text("nextTurn") != first.text("nextTurn") {
			t.Errorf("renewal %d changed its turns: %v", i, r)
		}
		if i >= 2 && r.text("turn") != renewals[i-i%2-1].text("nextTurn") {
			t.Errorf("renewal %d does not name the turn of the answer: %v", i, r)
		}
		receipt := "renewed"
		if i < 2 {
			receipt = "granted"
		}
		if r.receipt != receipt || r.body["lastTimestamp"] == nil {
			t.Errorf("renewal %d: %v", i, r)
		}
	}
	if renewals[0].body["turn"] != nil || len(drawn) != 3 {
		t.Error(renewals)
	}
}

func TestGoesOnToTheEndOfTheWindowAndNoFurther(t *testing.T) {
	d := newDaemon(t)
	until := time.Now().UnixMilli() + 400
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(503, "REGISTRY_UNAVAILABLE", nil)
		}
		return granted(r, object{"until": until, "renewAfterMs": 50})
	})
	ids := generatorOf(t, d.url, Options{MaxWait: -1})
	layout := parse(t, testLayout)
	for {
		id, err := ids.Next(background)
		if code := codeOf(err); code == "LEASE_EXPIRED" {
			break
		} else if code == "SEQUENCE_EXHAUSTED" {
			continue
		}
		if parts, _ := layout.Decompose(id, 0); err != nil || parts.Timestamp >= until {
			t.Fatal(id, err)
		}
	}
	// A renewal reopens it.
	d.answer(func(r request) answer { return granted(r, nil) })
	eventually(func() bool {
		_, err := ids.Next(background)
		return err == nil
	})
}

func TestAWrongRenewalChangesNothing(t *testing.T) {
	for _, wrong := range []object{{"until": uint64(1) << 63}, {"until": "x"}, {"from": nil}, {"turn": 5}, {"renewAfterMs": -1}} {
		wrong, d := wrong, newDaemon(t)
		d.answer(func(r request) answer {
			if r.method == "PATCH" {
				return granted(r, wrong)
			}
			return granted(r, object{"renewAfterMs": 50})
		})
		ids := generatorOf(t, d.url, Options{OperationTimeout: 500 * time.Millisecond, Window: 500 * time.Millisecond})
		next(t, ids)
		held := ids.Lease()
		eventually(func() bool { return len(d.renewals()) > 3 })
		if ids.Lease() != held {
			t.Error(wrong, ids.Lease())
		}
		next(t, ids)
	}
}

func TestQuarantineGivesUpTheTimesBefore(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(503, "QUARANTINE", object{"retryAfterMs": 60_000})
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := generatorOf(t, d.url, Options{MaxWait: time.Minute})
	next(t, ids)
	eventually(func() bool { return len(d.renewals()) > 0 })
	asked := d.renewals()[0].number("now")
	eventually(func() bool { return ids.Lease().From >= asked })
	if parts, _ := parse(t, testLayout).Decompose(next(t, ids), 0); parts.Timestamp < asked {
		t.Error(parts, asked)
	}
}

func TestRefusedRegistries(t *testing.T) {
	t.Setenv("SNOWLEASE_REGISTRY", "")
	for _, registry := range []string{
		"", "redis://127.0.0.1", "http://", "http:///path", "http://host:0", "http://host:99999", "http://host:", "http://a b", "http://a,,b",
		"ftp://a", "http://a#x", "http://user:secret@a?window=3s", "http://:secret@[::1", "http://ä", "http://a\\b", "unix:", "unix:~/x",
		"unix://host/x", "unix:/" + strings.Repeat("x", 107), "unix:/a%00b", "unix:/a?tlsCa=/x", "http://a?tlsCa=/x", "https://a?tlsCa=/does/not/exist",
		"https://a?tlsKey=/does/not/exist", "http://a\r\nx: y", "http://a?borrow=yes", "http://a?token=secret&token=secret", "http://a?token",
	} {
		_, err := New(registry, Options{})
		if codeOf(err) != "CONFIG_INVALID" || strings.Contains(err.Error(), "secret") || strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%q: %v", registry, err)
		}
	}
}

func TestRefusedOptions(t *testing.T) {
	for _, options := range []Options{
		{Namespace: "A"}, {Token: "a b"}, {Layout: "x"}, {Window: 1}, {Window: 25 * time.Hour}, {ClaimTimeout: -1}, {OperationTimeout: -1},
		{MaxWait: 25 * time.Hour}, {Instance: strings.Repeat("x", 256)},
	} {
		if _, err := New("http://127.0.0.1:1", options); codeOf(err) != "CONFIG_INVALID" {
			t.Errorf("%+v: %v", options, err)
		}
	}
}

func TestBorrowsOfOneDaemonAlone(t *testing.T) {
	if _, err := New("http://a,http://b?borrow=true", Options{}); codeOf(err) != "CONFIG_INVALID" {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	for text, shown := range map[string]string{
		"http://a:1":                    "http://a:1",
		"http://user:secret@a:1/path/":  "http://***@a:1/path",
		"HTTP://a,b:2,http://[::1]:3/x": "http://a http://b:2 http://[::1]:3/x",
		"unix:/run/a%20b.sock":          "unix:/run/a b.sock",
		"unix:///run/a.sock":            "unix:/run/a.sock",
		"unix:a.sock":                   "unix:a.sock",
	} {
		read, err := readRegistry(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var all []string
		for _, d := range read.daemons {
			all = append(all, d.shown)
		}
		if got := strings.Join(all, " "); got != shown {
			t.Errorf("%s: %s", text, got)
		}
	}
	read, err := readRegistry("http://user:se%20cret@a:1/p?namespace=x&token=y&borrow=true")
	if err != nil || read.daemons[0].login != "Basic dXNlcjpzZSBjcmV0" || read.namespace != "x" || read.token != "y" || !read.borrow ||
		read.daemons[0].base != "http://a:1/p" {
		t.Error(read, err)
	}
}

func TestEnvironment(t *testing.T) {
	d := newDaemon(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SNOWLEASE_REGISTRY", d.url)
	t.Setenv("SNOWLEASE_NAMESPACE", "orders")
	t.Setenv("SNOWLEASE_TOKEN", "")
	t.Setenv("SNOWLEASE_TOKEN_FILE", file)
	// Nothing of the environment sends the calls elsewhere.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	ids := generatorOf(t, "", Options{})
	next(t, ids)
	ids.Close(background)
	for i, path := range []string{"/v1/orders/leases", "/v1/orders/leases/7/release"} {
		if r := d.all()[i]; r.path != path || r.authorization != "Bearer of-a-file" {
			t.Error(r)
		}
	}
	t.Setenv("SNOWLEASE_TOKEN_FILE", file+".none")
	if _, err := New("", Options{}); codeOf(err) != "CONFIG_INVALID" {
		t.Error(err)
	}
}

func TestRequestsHaveTheDocumentedFields(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer { return granted(r, object{"renewAfterMs": 50}) })
	ids := generatorOf(t, d.url, Options{Window: 30 * time.Second, Instance: "me", Layout: "westid"})
	next(t, ids)
	eventually(func() bool { return len(d.renewals()) > 0 })
	ids.Close(background)
	for end, want := range map[string]string{
		"/leases":   "continues host instance layout now pid token windowMs",
		"/leases/7": "fence lastSequence lastTimestamp nextTurn now token windowMs",
	} {
		if got := namesOf(d.of("", end)[0].body); got != want {
			t.Errorf("%s has %s", end, got)
		}
	}
	gave := d.of("", "/release")[0]
	for _, name := range []string{"token", "fence", "now", "until", "lastTimestamp", "lastSequence"} {
		if gave.body[name] == nil {
			t.Error(name, gave)
		}
	}
	claim := d.claims()[0]
	if claim.number("windowMs") != 30_000 || time.Now().UnixMilli()-claim.number("now") > 60_000 {
		t.Error(claim)
	}
}

func namesOf(body map[string]any) string {
	var names []string
	for name := range body {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}

func TestBorrowing(t *testing.T) {
	d := newDaemon(t)
	var mu sync.Mutex
	claimed, answered, isLost := 0, 0, false
	d.answer(func(r request) answer {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasSuffix(r.path, "/blocks"):
			if claimed == 1 && answered > 3 {
				isLost = true
				return refusedWith(410, "LEASE_LOST", nil)
			}
			answered++
			// All blocks of each span, also a second time: what it has is not used twice.
			blocks := []uint32{}
			for i := int64(0); i < r.number("spans"); i++ {
				blocks = append(blocks, ^uint32(0)>>(answered%2))
			}
			return jsonAnswer(200, object{"blocks": blocks}, "")
		case strings.HasSuffix(r.path, "/leases"):
			claimed++
			return granted(r, object{"shared": true, "fence": claimed, "workerId": 6 + claimed})
		case r.method == "PATCH" && isLost && claimed == 1:
			return refusedWith(410, "LEASE_LOST", nil)
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := generatorOf(t, d.url, Options{Borrow: true, MaxWait: time.Minute})
	seen := map[int64]bool{}
	for ids.Lease() == nil || ids.Lease().Fence < 2 {
		for range [5000]int{} {
			if id := next(t, ids); !seen[id] {
				seen[id] = true
			} else {
				t.Fatal("twice:", id)
			}
		}
	}
	ids.Close(background)
	claims := d.claims()
	if len(tokensOf(claims)) != 2 || claims[0].body["shared"] != true {
		t.Error(claims)
	}
	gave := d.of("", "/release")
	if len(gave) != 1 || gave[0].body["until"] != nil || gave[0].body["lastTimestamp"] != nil {
		t.Error(gave)
	}
	if first := d.of("", "/blocks")[0]; namesOf(first.body) != "blocks fence first held spans token" || first.number("spans") != 80 {
		t.Error(first)
	}
}

func TestWrongBlocks(t *testing.T) {
	for _, wrong := range []any{nil, 5, []any{-1}, []any{1.5}, []any{1 << 32}, []any{"1"}, []any{nil}, []any{0, 4}, make([]int, 257)} {
		wrong, d := wrong, newDaemon(t)
		d.answer(func(r request) answer {
			if strings.HasSuffix(r.path, "/blocks") {
				return jsonAnswer(200, object{"blocks": wrong}, "")
			}
			return granted(r, object{"shared": true, "layout": "timestamp:41,worker:10,sequence:1@1490346283706/1"})
		})
		expectUnavailable(t, generatorOf(t, d.url, Options{Borrow: true, OperationTimeout: 60 * time.Millisecond}))
	}
}

func TestABlockThatIsGivenTwiceIsOne(t *testing.T) {
	s := newScripted(t)
	held := s.grant(parse(t, testLayout), 7, 1_800_000_000_000, 1_800_000_060_000, 1_800_000_000_000, true)
	held.put(5, []uint32{2, 1})
	held.put(5, []uint32{7, 1})
	if got := fmt.Sprint(held.share.spans[5].blocks, held.share.spans[6].blocks); got != "[128 0 256] [0]" {
		t.Error(got)
	}
}

func TestATurnThatWasNotSentIsNone(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return granted(r, object{"renewAfterMs": 50, "turn": "of another holder"})
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := generatorOf(t, d.url, Options{})
	next(t, ids)
	eventually(func() bool { return len(d.renewals()) > 2 })
	for _, r := range d.renewals() {
		if r.body["turn"] != nil || r.text("nextTurn") != d.renewals()[0].text("nextTurn") {
			t.Error(r)
		}
	}
}

func TestAGrantThatIsTooLong(t *testing.T) {
	d := newDaemon(t)
	d.answer(func(r request) answer { return granted(r, object{"more": strings.Repeat("x", longestAnswer)}) })
	expectUnavailable(t, generatorOf(t, d.url, Options{OperationTimeout: 60 * time.Millisecond}))
}

func TestAfterAJumpAheadNothingIsToldOfWhatWasUsed(t *testing.T) {
	d := newDaemon(t)
	var ahead atomic.Int64
	setClock(t, func() int64 { return time.Now().UnixMilli() + ahead.Load() })
	ids := generatorOf(t, d.url, Options{})
	next(t, ids)
	ahead.Store(10_000)
	if err := ids.Close(background); err != nil {
		t.Fatal(err)
	}
	gave := d.of("", "/release")[0]
	if gave.body["until"] != nil || gave.body["lastTimestamp"] != nil || gave.body["token"] == nil {
		t.Error(gave)
	}
}

func TestRenewsInTimeForTwoMoreTries(t *testing.T) {
	now := time.Now()
	for _, given := range []struct {
		renewAfter time.Duration
		window     int64
		due        time.Duration
	}{{20 * time.Second, 60_000, 20 * time.Second}, {50 * time.Second, 60_000, 20 * time.Second}, {0, 60_000, shortestRetry}, {time.Second, -5, shortestRetry}} {
		if due := new(lease).due(now, given.renewAfter, given.window).Sub(now); due != given.due {
			t.Errorf("%+v: %v", given, due)
		}
	}
}
