package snowlease

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What daemons answer: as they should, not at all, wrongly, and too late.

func partsOf(t *testing.T, id int64) Parts {
	t.Helper()
	parts, err := parse(t, testLayout).Decompose(id)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// errorOf is what Next refuses with.
func errorOf(t *testing.T, ids *Snowflake) *Error {
	t.Helper()
	id, err := ids.Next(background)
	var said *Error
	if !errors.As(err, &said) || strings.ContainsAny(err.Error(), "\r\n") {
		t.Fatal(id, err)
	}
	return said
}

func expectRefused(t *testing.T, ids *Snowflake, code string) *Error {
	t.Helper()
	said := errorOf(t, ids)
	if said.Code != code || said.Unavailable {
		t.Fatal(said)
	}
	return said
}

func expectUnavailable(t *testing.T, ids *Snowflake) *Error {
	t.Helper()
	said := errorOf(t, ids)
	if said.Code != "REGISTRY_UNAVAILABLE" || !said.Unavailable {
		t.Fatal(said)
	}
	return said
}

func tokensOf(claims []request) map[string]bool {
	tokens := map[string]bool{}
	for _, r := range claims {
		tokens[r.text("token")] = true
	}
	return tokens
}

// expectRefusedOnce has a daemon answer a claim so. It is asked again with the same token, and gets a good answer taken.
func expectRefusedOnce(t *testing.T, d *fakeDaemon, wrong func(request) answer) {
	t.Helper()
	d.answer(func(r request) answer {
		if len(d.claims()) == 1 && r.method == "POST" {
			return wrong(r)
		}
		return granted(r, nil)
	})
	next(t, snowflakeOf(t, d.url, Options{OperationTimeout: time.Hour}))
	if len(d.claims()) != 2 || len(tokensOf(d.claims())) != 1 {
		t.Error(d.claims())
	}
}

var impatient = Options{OperationTimeout: 60 * time.Millisecond}

func TestClaimsOnceAndGivesBackBehindTheLastID(t *testing.T) {
	d := startDaemon(t)
	ids := snowflakeOf(t, d.url, Options{})
	if ids.Lease() != nil || ids.Layout() != nil || len(d.all()) > 0 {
		t.Fatal("it asked before the first ID")
	}
	last := int64(0)
	for i := 0; i < 10_000; i++ {
		id := next(t, ids)
		if id <= last {
			t.Fatal(id, last)
		}
		last = id
	}
	if l := ids.Lease(); l == nil || l.WorkerID != 7 || l.Fence != 1 || l.Until-l.From != 70_000 {
		t.Fatal(l)
	}
	if err := ids.Close(background); err != nil {
		t.Fatal(err)
	}
	expectRefused(t, ids, "LEASE_LOST")
	if ids.Lease() != nil || ids.Close(background) != nil {
		t.Fatal(ids.Lease())
	}
	if all := d.all(); len(all) != 2 {
		t.Fatal(all)
	}
	claim, giveBack, parts := d.claims()[0], d.of("POST", "/leases/7/release")[0], partsOf(t, last)
	if claim.body["continues"] != false || len(claim.text("token")) != 32 {
		t.Error(claim)
	}
	if giveBack.number("lastTimestamp") != parts.Timestamp || giveBack.number("lastSequence") != parts.Sequence ||
		giveBack.number("until") != parts.Timestamp+1 {
		t.Error(giveBack, parts)
	}
	if giveBack.text("token") != claim.text("token") || giveBack.number("fence") != 1 || giveBack.receipt != "granted" {
		t.Error(giveBack)
	}
}

func TestGivesBackToAnOlderDaemon(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if strings.HasSuffix(r.path, "/release") {
			return refusedWith(404, "NOT_FOUND", nil)
		}
		return granted(r, nil)
	})
	ids := snowflakeOf(t, d.url, Options{})
	next(t, ids)
	if err := ids.Close(background); err != nil || len(d.of("DELETE", "/leases/7")) != 1 {
		t.Error(err, d.all())
	}
}

func TestCloseTellsThatNothingWasGivenBack(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if strings.HasSuffix(r.path, "/release") {
			return refusedWith(403, "FORBIDDEN", nil)
		}
		return granted(r, nil)
	})
	ids := snowflakeOf(t, d.url, Options{})
	next(t, ids)
	if err := ids.Close(background); codeOf(err) != "FORBIDDEN" {
		t.Error(err)
	}
}

func TestWrongGrants(t *testing.T) {
	for _, wrong := range []object{
		{"workerId": 1024}, {"workerId": -1}, {"workerId": 7.5}, {"workerId": true}, {"workerId": "7"}, {"workerId": nil},
		{"fence": int64(1) << 53}, {"from": uint64(1) << 63}, {"until": uint64(1) << 63}, {"until": 1}, {"until": 1e300}, {"from": -1},
		{"shared": "yes"}, {"renewAfterMs": "soon"}, {"layout": 5}, {"layout": "westid"}, {"token": strings.Repeat("0", 32)}, {"token": 5},
	} {
		wrong := wrong
		t.Run(fmt.Sprint(wrong), func(t *testing.T) {
			d := startDaemon(t)
			expectRefusedOnce(t, d, func(r request) answer { return granted(r, wrong) })
		})
	}
	// Times that are longer than a time.Duration.
	d := startDaemon(t)
	d.answer(func(r request) answer {
		return granted(r, object{"renewAfterMs": 10_000_000_000_000, "until": int64(1)<<53 - 1})
	})
	ids := snowflakeOf(t, d.url, Options{})
	next(t, ids)
	if due := holderOf(ids).due(milliseconds(10_000_000_000_000), 1<<53-1); time.Until(due) < 1000*time.Hour {
		t.Error(due)
	}
}

func TestASharedLeaseIsNotTakenForOneOfItsOwn(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer { return granted(r, object{"shared": true}) })
	expectRefused(t, snowflakeOf(t, d.url, Options{}), "CONFIG_INVALID")
}

func TestAGrantOfAnotherLayout(t *testing.T) {
	d := startDaemon(t)
	expectUnavailable(t, snowflakeOf(t, d.url, Options{Layout: "sonyflake", OperationTimeout: impatient.OperationTimeout}))
}

func TestALayoutThatThisClientDoesNotKnow(t *testing.T) {
	for _, layout := range []string{"worker:1", "timestamp:21,worker:5,sequence:5@1490346283706/1/wraps"} {
		layout, d := layout, startDaemon(t)
		d.answer(func(r request) answer { return granted(r, object{"layout": layout}) })
		if said := expectRefused(t, snowflakeOf(t, d.url, Options{}), "CONFIG_INVALID"); !strings.Contains(said.Message, layout) {
			t.Error(said)
		}
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
		"nested objects":             head(100_000) + strings.Repeat(`{"a":`, 20_000),
		"a huge number":              head(50_002) + "[" + strings.Repeat("9", 50_000) + "]",
		"not UTF-8":                  head(4) + "\"\xff\xfe\"",
		"cut off":                    head(1000) + `{"workerId":`,
		"too long":                   head(1_000_000) + strings.Repeat(" ", 1_000_000),
		"a wrong length":             "HTTP/1.1 201 X\r\ncontent-length: -5\r\n\r\n{}",
		"two lengths":                "HTTP/1.1 201 X\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
		"a wrong chunk":              "HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
		"endless chunks":             "HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\n" + strings.Repeat("1\r\n \r\n", 300_000),
		"many headers":               "HTTP/1.1 201 X\r\n" + strings.Repeat("x: y\r\n", 50_000) + "\r\n{}",
		"nothing but news":           strings.Repeat("HTTP/1.1 103 X\r\n\r\n", 50_000),
		"another protocol from here": "HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
		"a page":                     "HTTP/1.1 404 X\r\ncontent-length: 6\r\n\r\n<html>",
		"a problem of wrong types":   "HTTP/1.1 503 X\r\ncontent-length: 24\r\n\r\n" + `{"code":5,"detail":true}`,
	} {
		garbage := garbage
		t.Run(why, func(t *testing.T) {
			d := startDaemon(t)
			expectRefusedOnce(t, d, func(request) answer { return answer{text: garbage} })
		})
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	d, other := startDaemon(t), startDaemon(t)
	expectRefusedOnce(t, d, func(r request) answer {
		return answer{text: "HTTP/1.1 307 X\r\nlocation: " + other.url + r.path + "\r\ncontent-length: 0\r\n\r\n"}
	})
	if len(other.all()) > 0 {
		t.Error(other.all())
	}
}

func TestAnswersThatNeverEnd(t *testing.T) {
	for _, endless := range []answer{
		{head(1_000_000), " "}, {"HTTP/1.1 201 X\r\n", "x: y\r\n"}, {"", "HTTP/1.1 100 X\r\n\r\n"},
		{"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", " "},
	} {
		endless, d := endless, startDaemon(t)
		d.answer(func(request) answer { return endless })
		expectUnavailable(t, snowflakeOf(t, d.url, impatient))
	}
}

func TestAnAnswerInChunks(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		head, body, _ := strings.Cut(granted(r, nil).text, "\r\n\r\n")
		if body == "" {
			return answer{text: head + "\r\n\r\n"}
		}
		return answer{text: fmt.Sprintf("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\nx: y\r\n\r\n",
			body[:1], len(body)-1, body[1:])}
	})
	next(t, snowflakeOf(t, d.url, Options{}))
}

// silentAddress is that of a socket that accepts connections, and answers nothing.
func silentAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestADaemonThatIsSilent(t *testing.T) {
	for _, scheme := range []string{"http://", "https://"} {
		if said := expectUnavailable(t, snowflakeOf(t, scheme+silentAddress(t), impatient)); !strings.Contains(said.Message, "none came in time") {
			t.Error(said)
		}
	}
}

func TestASilentDaemonLeavesTimeToTheNextOne(t *testing.T) {
	d := startDaemon(t)
	next(t, snowflakeOf(t, "http://"+silentAddress(t)+","+d.url, Options{OperationTimeout: 2 * time.Second}))
}

// pausing has a daemon wait in each claim: it returns what is closed when one has come, and what lets them go on.
func pausing(d *fakeDaemon) (asked, goOn chan struct{}) {
	asked, goOn = make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.answer(func(r request) answer {
		if strings.HasSuffix(r.path, "/leases") {
			once.Do(func() { close(asked) })
			<-goOn
		}
		return granted(r, nil)
	})
	return asked, goOn
}

func TestAContextThatEndsEndsTheCallAlone(t *testing.T) {
	d := startDaemon(t)
	over, cancel := context.WithCancel(background)
	cancel()
	ids := snowflakeOf(t, d.url, Options{})
	if _, err := ids.Next(over); !errors.Is(err, context.Canceled) || codeOf(err) != "REGISTRY_UNAVAILABLE" || len(d.all()) > 0 {
		t.Fatal(err, d.all())
	}
	// The daemon answers when the caller has gone: the next caller gets the worker ID of that claim.
	asked, goOn := pausing(d)
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
}

// select picks any of the events that have come.
func TestAContextThatEndedDecidesNothingThatIsDecided(t *testing.T) {
	over, cancel := context.WithCancel(background)
	cancel()
	for i := 0; i < 50; i++ {
		d := startDaemon(t)
		ids := snowflakeOf(t, d.url, Options{})
		if err := ids.Claim(background); err != nil {
			t.Fatal(err)
		}
		if _, err := ids.Next(over); err != nil {
			t.Fatal(err)
		}
		if err := ids.Claim(over); err != nil {
			t.Fatal(err)
		}
		ids.Close(background)
		if err := ids.Close(over); err != nil {
			t.Fatal(err)
		}
		if _, err := ids.Next(over); codeOf(err) != "LEASE_LOST" {
			t.Fatal(err)
		}
	}
}

func TestAContextEndsAWaitForTheClock(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer { return granted(r, object{"from": time.Now().UnixMilli() + 30_000}) })
	ids := snowflakeOf(t, d.url, Options{MaxWait: time.Hour})
	short, cancel := context.WithTimeout(background, 30*time.Millisecond)
	defer cancel()
	if _, err := ids.Next(short); !errors.Is(err, context.DeadlineExceeded) || codeOf(err) != "WINDOW_NOT_OPEN" {
		t.Error(err)
	}
}

func TestCloseWaitsNoLongerThanItsContextAndTheGiveBackGoesOn(t *testing.T) {
	d := startDaemon(t)
	asked, goOn := pausing(d)
	ids := snowflakeOf(t, d.url, Options{OperationTimeout: time.Hour})
	failed := make(chan error)
	go func() {
		_, err := ids.Next(background)
		failed <- err
	}()
	<-asked
	short, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if err := ids.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := <-failed; codeOf(err) != "LEASE_LOST" {
		t.Error(err)
	}
	close(goOn)
	if err := ids.Close(background); err != nil || len(d.of("POST", "/release")) != 1 {
		t.Error(err, d.all())
	}
}

func TestCloseDuringAClaimGivesItBack(t *testing.T) {
	d := startDaemon(t)
	asked, goOn := pausing(d)
	ids := snowflakeOf(t, d.url, Options{})
	go ids.Next(background)
	<-asked
	closed := make(chan error)
	go func() { closed <- ids.Close(background) }()
	<-holderOf(ids).stopping.Done()
	close(goOn)
	if err := <-closed; err != nil || len(d.of("POST", "/leases/7/release")) != 1 {
		t.Error(err, d.all())
	}
}

func TestCloseDuringARenewalDoesNotWaitForIt(t *testing.T) {
	d := startDaemon(t)
	over := make(chan struct{})
	defer close(over)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			<-over
		}
		return granted(r, object{"renewAfterMs": 50, "until": 8_000_000_000_000})
	})
	ids := snowflakeOf(t, d.url, Options{OperationTimeout: time.Hour})
	next(t, ids)
	eventually(t, func() bool { return len(d.renewals()) > 0 })
	if err := ids.Close(background); err != nil {
		t.Fatal(err)
	}
	// A renewal that is open: the registry may know its turn, or not.
	if gave := d.of("POST", "/release")[0]; gave.text("nextTurn") != d.renewals()[0].text("nextTurn") {
		t.Error(gave)
	}
}

func TestAfterAClaimThatFailedOrNoneCloseAsksNothing(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer { return refusedWith(503, "POOL_EXHAUSTED", nil) })
	for _, asks := range []int{1, 0} {
		ids, before := snowflakeOf(t, d.url, Options{}), len(d.all())
		if asks > 0 {
			errorOf(t, ids)
		}
		over, cancel := context.WithCancel(background)
		cancel()
		if err := ids.Close(over); err != nil {
			t.Error(err)
		}
		expectRefused(t, ids, "LEASE_LOST")
		if len(d.all())-before != asks {
			t.Error(d.all())
		}
	}
}

func TestALostAnswerIsAskedForAgainWithTheSameToken(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if len(d.all()) < 3 {
			return answer{}
		}
		return granted(r, nil)
	})
	next(t, snowflakeOf(t, d.url, Options{}))
	if claims := d.claims(); len(claims) != 3 || len(tokensOf(claims)) != 1 {
		t.Error(claims)
	}
}

func TestAClaimAfterOneThatFailedHasAnotherToken(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(request) answer { return refusedWith(503, "POOL_EXHAUSTED", object{"retryAfterMs": 41_000}) })
	ids := snowflakeOf(t, d.url, Options{})
	if said := errorOf(t, ids); said.Code != "POOL_EXHAUSTED" || said.RetryAfter != 41*time.Second || !said.Unavailable {
		t.Fatal(said)
	}
	d.answer(func(r request) answer { return granted(r, nil) })
	next(t, ids)
	if claims := d.claims(); len(tokensOf(claims)) != 2 {
		t.Error(claims)
	}
}

func TestLeaseLostInAnswerToAClaim(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if len(d.all()) < 3 {
			return refusedWith(410, "LEASE_LOST", object{"details": object{"reason": "forgotten"}})
		}
		return granted(r, nil)
	})
	next(t, snowflakeOf(t, d.url, Options{}))
	if claims := d.claims(); len(tokensOf(claims)) != 3 {
		t.Error(claims)
	}
}

func TestWaitsForAWorkerIDAsLongAsItMay(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if len(d.all()) < 3 {
			return refusedWith(503, "POOL_EXHAUSTED", object{"retryAfterMs": 30_000})
		}
		return granted(r, nil)
	})
	next(t, snowflakeOf(t, d.url, Options{ClaimTimeout: time.Minute}))
	if claims := d.claims(); len(claims) != 3 || len(tokensOf(claims)) != 1 {
		t.Error(claims)
	}
}

func TestTheNextDaemonIsAsked(t *testing.T) {
	one, other := startDaemon(t), startDaemon(t)
	one.answer(func(r request) answer {
		if r.method == "POST" {
			return refusedWith(503, "REGISTRY_UNAVAILABLE", nil)
		}
		return granted(r, nil)
	})
	other.answer(func(r request) answer { return granted(r, object{"renewAfterMs": 50}) })
	next(t, snowflakeOf(t, one.url+","+other.url, Options{}))
	if a, b := one.claims(), other.claims(); len(a) != 1 || len(b) != 1 || a[0].text("token") != b[0].text("token") {
		t.Error(a, b)
	}
	// From then on it is asked first.
	eventually(t, func() bool { return len(other.renewals()) > 2 })
	if len(one.renewals()) > 0 {
		t.Error(one.renewals())
	}
}

func TestABusyDaemonIsAskedAgainAfterTheTimeItNames(t *testing.T) {
	for status, code := range map[int]string{503: "REGISTRY_UNAVAILABLE", 429: "RATE_LIMITED"} {
		status, code, d := status, code, startDaemon(t)
		var first, second time.Time
		d.answer(func(r request) answer {
			switch len(d.all()) {
			case 1:
				first = time.Now()
				return refusedWith(status, code, object{"retryAfterMs": 300})
			case 2:
				second = time.Now()
			}
			return granted(r, nil)
		})
		next(t, snowflakeOf(t, d.url, Options{OperationTimeout: time.Hour}))
		if waited := second.Sub(first); waited < 300*time.Millisecond || len(tokensOf(d.claims())) != 1 {
			t.Error(code, waited, d.all())
		}
	}
}

func TestAnAnswerOfTheRegistryIsNotAskedForAgain(t *testing.T) {
	busy, full := startDaemon(t), startDaemon(t)
	busy.answer(func(request) answer { return refusedWith(503, "REGISTRY_UNAVAILABLE", nil) })
	full.answer(func(request) answer { return refusedWith(503, "POOL_EXHAUSTED", nil) })
	ids := snowflakeOf(t, busy.url+","+full.url, Options{})
	if said := errorOf(t, ids); said.Code != "POOL_EXHAUSTED" || len(busy.all()) != 1 || len(full.all()) != 1 {
		t.Error(said, busy.all(), full.all())
	}
}

func TestAClaimThatTookAsLongAsTheClocksSeemToDifferIsRepeated(t *testing.T) {
	for _, took := range []time.Duration{longestRenewal + 50*time.Millisecond, 0} {
		took, d := took, startDaemon(t)
		d.answer(func(r request) answer {
			if len(d.all()) > 1 {
				return granted(r, nil)
			}
			time.Sleep(took)
			return refusedWith(503, "CLOCK_SKEW", nil)
		})
		ids := snowflakeOf(t, d.url, Options{})
		if took > 0 {
			next(t, ids)
		} else if said := errorOf(t, ids); said.Code != "CLOCK_SKEW" {
			t.Error(said)
		}
	}
}

func TestNoMoreDaemonsAreAskedOnceItIsClosed(t *testing.T) {
	one, other := startDaemon(t), startDaemon(t)
	asked, goOn := make(chan struct{}), make(chan struct{})
	one.answer(func(r request) answer {
		close(asked)
		<-goOn
		return answer{}
	})
	ids := snowflakeOf(t, one.url+","+other.url, Options{OperationTimeout: time.Hour})
	go ids.Next(background)
	<-asked
	over, cancel := context.WithCancel(background)
	cancel()
	ids.Close(over)
	close(goOn)
	if err := ids.Close(background); err != nil || len(other.all()) > 0 {
		t.Error(err, other.all())
	}
}

func TestWhatWaitingDoesNotHelp(t *testing.T) {
	for code, status := range map[string]int{"UNAUTHORIZED": 401, "FORBIDDEN": 403, "SCHEMA_INCOMPATIBLE": 500, "CONFIG_INVALID": 400, "TEAPOT": 418} {
		status, code, d := status, code, startDaemon(t)
		d.answer(func(request) answer { return refusedWith(status, code, nil) })
		expectRefused(t, snowflakeOf(t, d.url, Options{}), code)
		if len(d.all()) != 1 {
			t.Error(code, d.all())
		}
	}
}

func TestNoMessageHoldsASecret(t *testing.T) {
	for _, at := range []string{"refusal", "grant"} {
		at, d := at, startDaemon(t)
		d.answer(func(r request) answer {
			text := "Bad secret\"of<mine\r\nand " + r.text("token") + " at http://user:password@host/"
			if at == "grant" {
				return granted(r, object{"layout": text})
			}
			return refusedWith(400, "CONFIG_INVALID", object{"detail": text, "details": object{"said": text}})
		})
		ids := snowflakeOf(t, d.url, Options{Token: "secret\"of<mine"})
		_, err := ids.Next(background)
		said := fmt.Sprintf("%v %+v %#v %v %+v %#v", err, err, err, ids, ids, ids)
		for _, secret := range []string{"of<mine", d.all()[0].text("token"), "\n", "\r"} {
			if codeOf(err) != "CONFIG_INVALID" || strings.Contains(said, secret) {
				t.Errorf("%q in %s", secret, said)
			}
		}
		if strings.Contains(err.Error(), "password") || d.all()[0].authorization != "Bearer secret\"of<mine" {
			t.Error(err, d.all())
		}
	}
}

func TestATokenThatIsPartOfAnAnswerDoesNotSpoilIt(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(request) answer { return refusedWith(401, "UNAUTHORIZED", nil) })
	expectRefused(t, snowflakeOf(t, d.url, Options{Token: "code"}), "UNAUTHORIZED")
}

func TestALongMessageIsCut(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		return refusedWith(400, strings.Repeat("X", 80_000), object{"detail": strings.Repeat("a:/", 40_000)})
	})
	if _, err := snowflakeOf(t, d.url, Options{}).Next(background); len(err.Error()) > 2100 || !strings.HasPrefix(err.Error(), "XXX") {
		t.Error(err)
	}
}

func TestALostLeaseIsReplacedWithAnotherToken(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" && strings.HasSuffix(r.path, "/7") {
			return refusedWith(410, "LEASE_LOST", object{"details": object{"reason": "taken"}})
		}
		if len(d.claims()) < 2 {
			return granted(r, object{"renewAfterMs": 50})
		}
		return granted(r, object{"workerId": 8})
	})
	ids := snowflakeOf(t, d.url, Options{MaxWait: time.Minute})
	for last, worker := int64(0), int64(7); worker == 7; {
		id := next(t, ids)
		worker = partsOf(t, id).WorkerID
		if id <= last && worker == 7 {
			t.Fatal(id)
		}
		last = id
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

func TestAReceiptOfAnotherRegistryIsLeftOut(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" || r.method == "POST" && r.receipt != "" {
			return refusedWith(409, "OTHER_REGISTRY", nil)
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := snowflakeOf(t, d.url, Options{MaxWait: time.Minute})
	eventually(t, func() bool {
		next(t, ids)
		return len(d.claims()) > 2
	})
	if claims := d.claims(); claims[1].receipt != "granted" || claims[2].receipt != "" {
		t.Error(claims)
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

func TestTellsOfALostLeaseAndOfIDsThatMayExistTwice(t *testing.T) {
	for _, details := range []object{
		{"reason": "taken", "doubt": object{"from": 1_700_000_000_000, "until": 4_000_000_000_000}},
		{"reason": "cloned"},
		{"reason": "released", "doubt": object{"from": "x"}},
		{"reason": "secret-of-mine"},
	} {
		details, d := details, startDaemon(t)
		d.answer(func(r request) answer {
			// Two renewals are answered: what is before the second is this holder's alone, but where a copy may have heard the answer, too.
			if r.method == "PATCH" && strings.HasSuffix(r.path, "/7") && len(d.renewals()) > 2 {
				return refusedWith(410, "LEASE_LOST", object{"details": details, "detail": "Lost by " + r.text("token")})
			}
			if len(d.claims()) > 1 {
				return granted(r, object{"workerId": 8})
			}
			return granted(r, object{"renewAfterMs": 50})
		})
		var lines lockedBuffer
		ids := snowflakeOf(t, d.url, Options{Logger: slog.New(slog.NewTextHandler(&lines, nil)), Namespace: "orders", Token: "secret-of-mine"})
		next(t, ids)
		eventually(t, func() bool {
			ids.Next(background)
			return strings.Contains(lines.String(), "takes the place")
		})
		said, claim := lines.String(), d.claims()[0]
		want := fmt.Sprintf("level=WARN msg=\"Worker 7 of namespace `orders` was lost (%s); the next ID claims another one.\"", details["reason"])
		switch details["reason"] {
		case "taken":
			want = "level=ERROR msg=\"Worker 7 of namespace `orders` was lost (taken). Its IDs from " + timeText(d.renewals()[1].number("now")) +
				" to 2096-10-02T07:06:40.000Z may exist twice.\""
		case "cloned":
			want = "level=ERROR msg=\"Worker 7 of namespace `orders` was lost (cloned). Its IDs from " + timeText(d.renewals()[0].number("now")) + " to "
		case "secret-of-mine":
			want = "level=WARN msg=\"Worker 7 of namespace `orders` was lost (LEASE_LOST); the next ID claims another one.\""
		}
		if !strings.Contains(said, want) || !strings.Contains(said, "level=WARN msg=\"Worker 8 of namespace `orders` takes the place of worker 7.\"") {
			t.Errorf("no %s in %s", want, said)
		}
		if strings.Count(said, "\n") != 2 || strings.Contains(said, claim.text("token")) || strings.Contains(said, "secret") {
			t.Error(said)
		}
	}
}

func TestALossAtTheGiveBackIsToldWhereIDsMayExistTwice(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if strings.HasSuffix(r.path, "/release") {
			return refusedWith(410, "LEASE_LOST", object{"details": object{"reason": "taken", "doubt": object{"from": 0, "until": 4_000_000_000_000}}})
		}
		return granted(r, nil)
	})
	var lines lockedBuffer
	ids := snowflakeOf(t, d.url, Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	next(t, ids)
	if err := ids.Close(background); codeOf(err) != "LEASE_LOST" || !strings.Contains(lines.String(), "may exist twice") {
		t.Error(err, lines.String())
	}
}

func TestALeaseThatCannotBeReplaced(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(410, "LEASE_LOST", nil)
		}
		if len(d.claims()) > 1 {
			return refusedWith(403, "FORBIDDEN", nil)
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := snowflakeOf(t, d.url, Options{MaxWait: time.Minute})
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
	one, other := startDaemon(t), startDaemon(t)
	elsewhere := func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(409, "OTHER_REGISTRY", nil)
		}
		return granted(r, object{"renewAfterMs": 50})
	}
	one.answer(elsewhere)
	other.answer(func(r request) answer { return granted(r, object{"renewAfterMs": 50}) })
	ids := snowflakeOf(t, one.url+","+other.url, Options{MaxWait: time.Minute})
	next(t, ids)
	eventually(t, func() bool { return len(other.renewals()) > 2 })
	if len(one.claims()) != 1 || len(one.renewals()) == 0 {
		t.Error(one.all())
	}
	other.answer(elsewhere)
	eventually(t, func() bool {
		next(t, ids)
		return len(one.claims())+len(other.claims()) > 1
	})
	if tokens := tokensOf(append(one.claims(), other.claims()...)); len(tokens) < 2 {
		t.Error(tokens)
	}
}

func TestDaemonsOfTwoRegistriesAreRefused(t *testing.T) {
	for _, otherID := range []answer{jsonAnswer(200, object{"id": "two"}, ""), refusedWith(404, "NOT_FOUND", nil)} {
		otherID, one, other := otherID, startDaemon(t), startDaemon(t)
		other.answer(func(r request) answer {
			if r.method == "GET" {
				return otherID
			}
			return granted(r, nil)
		})
		said := expectRefused(t, snowflakeOf(t, one.url+","+other.url, Options{}), "CONFIG_INVALID")
		if !strings.Contains(said.Message, "different registries") || len(one.of("POST", "/release")) != 1 {
			t.Error(said, one.all())
		}
	}
}

func TestANamespaceThatAnotherDaemonShowsLate(t *testing.T) {
	one, other := startDaemon(t), startDaemon(t)
	other.answer(func(r request) answer {
		if r.method == "GET" && len(other.of("GET", "")) < 3 {
			return refusedWith(404, "NOT_FOUND", nil)
		}
		return granted(r, nil)
	})
	next(t, snowflakeOf(t, one.url+","+other.url, Options{}))
}

func TestTurnsAndReceipts(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		// The answer to every second renewal is lost.
		if r.method == "PATCH" && len(d.renewals())%2 == 1 {
			return answer{}
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := snowflakeOf(t, d.url, Options{})
	next(t, ids)
	eventually(t, func() bool { return len(d.renewals()) >= 6 })
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

func TestATurnThatACopyMayHaveSentIsDrawnAgain(t *testing.T) {
	h := &holder{clocks: &systemClocks}
	h.drawTurn(1000, 2000)
	first := h.nextTurn
	if h.drawTurn(1999, 2000); h.nextTurn != first || h.sentTurns != nil {
		t.Error("drawn twice in an open window")
	}
	h.drawTurn(2000, 2000)
	second := h.nextTurn
	if second == first || len(h.sentTurns) != 1 || h.sentTurns[0] != first {
		t.Error("not drawn at the end of the window", h.sentTurns)
	}
	// Drawn in a window that was closed by then: no copy made before may have it.
	if h.drawTurn(3000, 2000); h.nextTurn != second {
		t.Error("drawn twice in a closed window")
	}
	kept := h.sentTurns
	for i := 0; i < 20; i++ {
		h.jumpedSinceTurn = true
		h.drawTurn(3000, 2000)
	}
	if len(h.sentTurns) != mostSentTurns || len(kept) != 1 || kept[0] != first {
		t.Error("not the newest", h.sentTurns, kept)
	}
}

func TestATurnThatWasNotSentIsNone(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return granted(r, object{"renewAfterMs": 50, "turn": "of another holder", "until": 8_000_000_000_000})
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := snowflakeOf(t, d.url, Options{})
	next(t, ids)
	eventually(t, func() bool { return len(d.renewals()) > 2 })
	for _, r := range d.renewals() {
		if r.body["turn"] != nil || r.text("nextTurn") != d.renewals()[0].text("nextTurn") || r.receipt != "granted" {
			t.Error(r)
		}
	}
	if ids.Lease().Until >= 8_000_000_000_000 {
		t.Error(ids.Lease())
	}
}

func TestGoesOnToTheEndOfTheWindowAndNoFurther(t *testing.T) {
	d := startDaemon(t)
	var clock atomic.Int64
	clock.Store(time.Now().UnixMilli())
	until := clock.Load() + 1000
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(503, "REGISTRY_UNAVAILABLE", nil)
		}
		return granted(r, object{"until": until, "renewAfterMs": 50})
	})
	ids := snowflakeAt(t, d.url, Options{MaxWait: -1}, still(&clock))
	next(t, ids)
	clock.Store(until - 1)
	if at := partsOf(t, next(t, ids)).Timestamp; at != until-1 {
		t.Error(at)
	}
	clock.Store(until)
	if said := errorOf(t, ids); said.Code != "LEASE_EXPIRED" || !said.Unavailable {
		t.Fatal(said)
	}
	// A renewal reopens it.
	d.answer(func(r request) answer { return granted(r, nil) })
	eventually(t, func() bool {
		_, err := ids.Next(background)
		return err == nil
	})
}

func TestAnExpiredWindowTellsWhyItWasNotRenewed(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(401, "UNAUTHORIZED", nil)
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	var lines lockedBuffer
	var clock atomic.Int64
	clock.Store(time.Now().UnixMilli())
	ids := snowflakeAt(t, d.url, Options{MaxWait: -1, Logger: slog.New(slog.NewTextHandler(&lines, nil))}, still(&clock))
	next(t, ids)
	clock.Add(100_000)
	eventually(t, func() bool {
		_, err := ids.Next(background)
		return codeOf(err) == "LEASE_EXPIRED" && len(d.renewals()) > 2
	})
	if said := errorOf(t, ids); !strings.HasSuffix(said.Message, " The last one did not: UNAUTHORIZED: No.") || !said.Unavailable {
		t.Error(said)
	}
	// Once, not for each renewal.
	if said := lines.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "Worker 7 of namespace `default` is not renewed: UNAUTHORIZED: No.") {
		t.Error(said)
	}
}

func TestAWrongRenewalChangesNothing(t *testing.T) {
	for _, wrong := range []object{{"until": uint64(1) << 63}, {"until": "x"}, {"from": nil}, {"turn": 5}, {"turn": ""}, {"renewAfterMs": -1}, {"from": int64(1)<<53 - 1, "until": 1}} {
		wrong := wrong
		t.Run(fmt.Sprint(wrong), func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t)
			d.answer(func(r request) answer {
				if r.method == "PATCH" {
					return granted(r, wrong)
				}
				return granted(r, object{"renewAfterMs": 50})
			})
			ids := snowflakeOf(t, d.url, Options{OperationTimeout: 100 * time.Millisecond, ClaimTimeout: time.Minute})
			next(t, ids)
			held := *ids.Lease()
			eventually(t, func() bool { return len(d.renewals()) > 3 })
			if *ids.Lease() != held {
				t.Error(ids.Lease())
			}
			next(t, ids)
		})
	}
}

func TestQuarantineGivesUpTheTimesBefore(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			return refusedWith(503, "QUARANTINE", object{"retryAfterMs": 60_000})
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := snowflakeOf(t, d.url, Options{MaxWait: time.Minute})
	next(t, ids)
	eventually(t, func() bool { return len(d.renewals()) > 0 })
	asked := d.renewals()[0].number("now")
	eventually(t, func() bool { return ids.Lease().From >= asked })
	if parts := partsOf(t, next(t, ids)); parts.Timestamp < asked {
		t.Error(parts, asked)
	}
}

// A registry that was asked twice in one call may have granted the times before the later one of both clocks.
func TestQuarantineGivesUpTheTimesBeforeTheHighestClockItWasTold(t *testing.T) {
	d := startDaemon(t)
	var by atomic.Int64
	d.answer(func(r request) answer {
		if r.method == "PATCH" && len(d.renewals()) == 1 {
			by.Store(200)
			return answer{}
		}
		if r.method == "PATCH" {
			return refusedWith(503, "QUARANTINE", nil)
		}
		return granted(r, object{"renewAfterMs": 50})
	})
	ids := snowflakeAt(t, d.url, Options{MaxWait: time.Minute}, behind(&by))
	next(t, ids)
	eventually(t, func() bool { return len(d.renewals()) > 1 })
	first, second := d.renewals()[0].number("now"), d.renewals()[1].number("now")
	eventually(t, func() bool { return ids.Lease().From >= second })
	if from := ids.Lease().From; second >= first || from != first {
		t.Error(first, second, from)
	}
}

func TestAQuarantineIsAskedAgainOftenButNotByAllAtOnce(t *testing.T) {
	pauses := map[time.Duration]bool{}
	for i := 0; i < 100; i++ {
		for _, told := range []time.Duration{0, time.Hour, time.Second} {
			pause := quarantinePause(&Error{RetryAfter: told}, time.Minute)
			if pause < told && told < time.Hour || pause < 9*time.Second && told != time.Second || pause > 15*time.Second {
				t.Error(told, pause)
			}
			pauses[pause] = true
		}
	}
	if len(pauses) < 100 || quarantinePause(&Error{}, 0) != shortestRenewal {
		t.Error(len(pauses))
	}
}

func TestASilentRenewalLeavesTimeForTwoMore(t *testing.T) {
	d := startDaemon(t)
	over := make(chan struct{})
	defer close(over)
	d.answer(func(r request) answer {
		if r.method == "PATCH" {
			<-over
		}
		return granted(r, object{"until": time.Now().UnixMilli() + 600, "renewAfterMs": 50})
	})
	ids := snowflakeOf(t, d.url, Options{OperationTimeout: time.Hour})
	ids.Claim(background)
	eventually(t, func() bool { return len(d.renewals()) > 2 })
}

func TestRenewsAtOnceAfterTheClockJumped(t *testing.T) {
	for _, jump := range []int64{-10_000, 10_000} {
		d := startDaemon(t)
		d.answer(func(r request) answer {
			return granted(r, object{"renewAfterMs": 3_600_000, "until": 8_000_000_000_000})
		})
		var by atomic.Int64
		ids := snowflakeAt(t, d.url, Options{}, behind(&by))
		next(t, ids)
		by.Store(jump)
		eventually(t, func() bool { return len(d.renewals()) > 0 })
	}
}

func TestRefusedRegistries(t *testing.T) {
	t.Setenv("SNOWLEASE_REGISTRY", "")
	for _, registry := range []string{
		"", "redis://127.0.0.1", "http://", "http:///path", "http://host:0", "http://host:99999", "http://host:", "http://a b", "http://a,,b",
		"ftp://a", "http://a#x", "http://user:secret@a", "http://a?window=3s", "http://:secret@[::1", "http://ä", "http://a\\b", "unix:", "unix:~/x",
		"unix:/", "unix://host/x", "unix:/" + strings.Repeat("x", 107), "unix:/a%00b", "unix:/a?tlsCa=/x", "http://a?tlsCa=/x",
		"https://a?tlsCa=/does/not/exist", "https://a?tlsKey=/does/not/exist", "http://a\r\nx: y", "http://a?token=b@secret&foo=1", "http://user:sec\nret@a", "http://u:secr?et@a", "http://a?borrow=yes", "http://a?borrow", "http://a?borrow=", "http://a?borrow=true&borrow=true", "http://a,b?borrow=true",
		"http://a?token=secret&token=secret", "http://a?token", "http://a,https://b", "http://[::::]]", "http://a/%zz",
	} {
		_, err := New(registry, Options{})
		if codeOf(err) != "CONFIG_INVALID" || strings.Contains(err.Error(), "sec") || strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%q: %v", registry, err)
		}
	}
}

// No dial and no handshake goes on behind the end of its call.
func TestNothingStaysBehindOfADaemonThatIsSilent(t *testing.T) {
	address := silentAddress(t)
	d := &daemons{timeout: 20 * time.Millisecond, clocks: &systemClocks}
	for _, scheme := range []string{"http://", "https://"} {
		read, err := readRegistry(scheme + address)
		if err != nil {
			t.Fatal(err)
		}
		d.all = append(d.all, read.daemons...)
	}
	before := runtime.NumGoroutine()
	for i := 0; i < 5; i++ {
		d.call(background, background, call{method: "GET"}, time.Hour)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
}

func TestRefusedOptions(t *testing.T) {
	for _, options := range []Options{
		{Namespace: "A"}, {Token: "a b"}, {Layout: "x"}, {ClaimTimeout: 25 * time.Hour}, {OperationTimeout: -1},
		{OperationTimeout: 1}, {MaxWait: 25 * time.Hour},
	} {
		if _, err := New("http://127.0.0.1:1", options); codeOf(err) != "CONFIG_INVALID" || strings.Contains(err.Error(), "a b") {
			t.Errorf("%+v: %v", options, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for text, shown := range map[string]string{
		"http://a:1":                    "http://a:1",
		"http://a:1/path/":              "http://a:1/path",
		"http://a,b:2,http://[::1]:3/x": "http://a http://b:2 http://[::1]:3/x",
		"unix:/run/a%20b.sock":          "unix:/run/a b.sock",
		"unix:///run/a.sock":            "unix:/run/a.sock",
		"unix:a.sock":                   "unix:a.sock",
	} {
		read, err := readRegistry(text + "?namespace=x&token=y%2B")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var all []string
		for _, d := range read.daemons {
			all = append(all, d.shown)
		}
		if got := strings.Join(all, " "); got != shown || read.namespace != "x" || read.token != "y+" {
			t.Errorf("%s: %s, %+v", text, got, read)
		}
	}
}

func TestASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	d := serveDaemon(t, listener)
	next(t, snowflakeOf(t, "unix:"+strings.ReplaceAll(path, " ", "%20"), Options{}))
	if len(d.claims()) != 1 {
		t.Error(d.all())
	}
	if said := expectUnavailable(t, snowflakeOf(t, "unix:/does/not/exist", impatient)); !strings.Contains(said.Message, "unix:/does/not/exist") {
		t.Error(said)
	}
}

func TestEnvironment(t *testing.T) {
	d := startDaemon(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SNOWLEASE_REGISTRY", d.url)
	t.Setenv("SNOWLEASE_NAMESPACE", "orders")
	t.Setenv("SNOWLEASE_TOKEN", "")
	t.Setenv("SNOWLEASE_TOKEN_FILE", file)
	ids := snowflakeOf(t, "", Options{})
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

// A proxy of the environment would get the tokens. Go asks none for a loopback address anyway, so this looks at the setting.
func TestNoProxyIsAsked(t *testing.T) {
	read, err := readRegistry("http://a")
	if err != nil || read.daemons[0].http.Proxy != nil {
		t.Error(err)
	}
}

func TestRequestsHaveTheDocumentedFields(t *testing.T) {
	d := startDaemon(t)
	d.answer(func(r request) answer { return granted(r, object{"renewAfterMs": 50}) })
	ids := snowflakeOf(t, d.url, Options{Instance: "me ü", Layout: "westid"})
	next(t, ids)
	eventually(t, func() bool { return len(d.renewals()) > 0 })
	ids.Close(background)
	for _, r := range d.all() {
		// A daemon that is gone would leave a dead connection behind.
		if !r.closes {
			t.Error(r)
		}
	}
	for end, want := range map[string]string{
		"/leases":   "continues host instance layout now pid token",
		"/leases/7": "fence lastSequence lastTimestamp nextTurn now token",
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
	if d.claims()[0].text("instance") != "me ü" {
		t.Error(d.claims())
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

func TestAGrantThatIsTooLong(t *testing.T) {
	expectRefusedOnce(t, startDaemon(t), func(r request) answer { return granted(r, object{"more": strings.Repeat("x", longestAnswer)}) })
}

func TestWhatMayBeACopyClaimsWithAnotherToken(t *testing.T) {
	d := startDaemon(t)
	var by atomic.Int64
	d.answer(func(r request) answer {
		if len(d.all()) > 2 {
			return granted(r, nil)
		}
		by.Add(-10_000)
		return answer{}
	})
	ids := snowflakeAt(t, d.url, Options{}, behind(&by))
	next(t, ids)
	if err := ids.Close(background); err != nil {
		t.Fatal(err)
	}
	// The last one was drawn after the jumps.
	if gave := d.of("", "/release")[0]; len(tokensOf(d.claims())) != 3 || gave.body["until"] == nil {
		t.Error(d.all())
	}
}

func TestWhatMayBeACopyGivesBackWithoutTheEndOfItsUse(t *testing.T) {
	for _, amid := range []string{"POST", "PATCH", ""} {
		amid, d := amid, startDaemon(t)
		var by atomic.Int64
		d.answer(func(r request) answer {
			// The machine was copied while this was on its way.
			if r.method == amid && len(d.of(amid, "")) == 1 {
				by.Store(-10_000)
			}
			return granted(r, object{"renewAfterMs": 50})
		})
		ids := snowflakeAt(t, d.url, Options{}, behind(&by))
		next(t, ids)
		eventually(t, func() bool { return len(d.renewals()) > 1 })
		if amid == "" {
			by.Store(-10_000)
		}
		if err := ids.Close(background); err != nil {
			t.Fatal(err)
		}
		if gave := d.of("", "/release")[0]; gave.body["until"] != nil || gave.body["lastTimestamp"] != nil || gave.body["token"] == nil {
			t.Error(amid, gave)
		}
	}
}

func TestAClockThatWasSetBackAmidAClaimStopsNoRenewal(t *testing.T) {
	d := startDaemon(t)
	var by atomic.Int64
	by.Store(-3_600_000)
	d.answer(func(r request) answer {
		if len(d.all()) > 1 {
			return granted(r, object{"renewAfterMs": 50})
		}
		by.Store(0)
		return answer{}
	})
	next(t, snowflakeAt(t, d.url, Options{}, behind(&by)))
	eventually(t, func() bool { return len(d.renewals()) > 2 })
}

func TestRenewsInTimeForTwoMoreTries(t *testing.T) {
	now := time.Now()
	h := &holder{daemons: &daemons{clock: 1_000_000, sent: now}}
	for _, given := range []struct {
		renewAfter time.Duration
		window     int64
		due        time.Duration
	}{
		{20 * time.Second, 60_000, 20 * time.Second}, {50 * time.Second, 60_000, 20 * time.Second},
		{0, 60_000, shortestRenewal}, {time.Second, -5, shortestRenewal},
	} {
		if due := h.due(given.renewAfter, 1_000_000+given.window).Sub(now); due != given.due {
			t.Errorf("%+v: %v", given, due)
		}
	}
}

func TestCertificates(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificates := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	both := append(certificates, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	file := filepath.Join(t.TempDir(), "all.pem")
	if err := os.WriteFile(file, both, 0o600); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(both, both)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(both)
	settings := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", settings)
	if err != nil {
		t.Fatal(err)
	}
	d := serveDaemon(t, listener)
	address := strings.Replace(d.url, "http:", "https:", 1)
	next(t, snowflakeOf(t, address+"?tlsCa="+file+"&tlsCert="+file, Options{}))
	next(t, snowflakeOf(t, address+"?tlsCa="+file+"&tlsCert="+file+"&tlsKey="+file, Options{}))
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go http.Serve(plain, nil)
	for registry, advice := range map[string]string{
		address:                            "check `tlsCa`",
		address + "?tlsCa=" + file:         "certificate required",
		"https://" + plain.Addr().String(): "speaks no TLS",
		strings.Replace(address, "127.0.0.1", "localhost", 1) + "?tlsCa=" + file: "check its certificate, and the name",
	} {
		read, err := readRegistry(registry)
		if err != nil {
			t.Fatal(err)
		}
		asking := &daemons{clocks: &systemClocks}
		if _, said, _ := asking.ask(background, read.daemons[0], call{method: "GET"}, time.Minute); said == nil || !strings.Contains(said.Message, advice) {
			t.Error(advice, said)
		}
	}
}
