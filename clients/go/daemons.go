package snowlease

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// Pauses between two rounds of all daemons: doubled each time.
	firstPause, longestPause = 20 * time.Millisecond, 500 * time.Millisecond
	longestAnswer            = 256 << 10 // bytes
	longestHead              = 64 << 10  // bytes
	longestWait              = 1e12      // ms
	longestHeader            = 1024      // bytes
)

// What is told where several daemons failed: the first of these.
type kind int

const (
	// The registry's own answer.
	answered kind = iota
	// What only an operator changes.
	refused
	// What may pass in no time.
	busy
	silent
	// The daemon serves another registry: told where each of them does.
	elsewhere
	// All daemons of a registry would answer alike.
	final
)

var (
	visible = regexp.MustCompile(`^[!-~]+$`)
	decimal = regexp.MustCompile(`^(?:0|[1-9][0-9]{0,15})$`)
	secrets = []string{"token", "turn", "nextTurn"}
)

// object is a JSON object. Its numbers are json.Number.
type object map[string]any

// call is a request that may be repeated.
type call struct {
	method, path string
	// The fields of the request at this reading of the wall clock, Unix ms. nil: there is none.
	body    func(now int64) object
	receipt string
	// read takes what it needs of the answer. Its *Error is the outcome; with any other error, the answer is none of a daemon's. nil: it needs nothing.
	read func(object) error
}

// daemon is one address.
type daemon struct {
	shown string
	base  string // of the URLs of its calls
	http  *http.Transport
}

// daemons are those of a registry: the first one that answers is believed. For one caller at a time.
type daemons struct {
	all     []*daemon
	token   string
	timeout time.Duration // of a call, over all daemons and repetitions
	clocks  *clocks
	// The one that answered last is asked first.
	favourite int
	// Of the last call: the highest `now` that it sent, Unix ms, that of its last request, and when it sent this one.
	highest, clock int64
	sent           time.Time
}

// A transport dials in a context that does not end with the request. So each request carries its own one along, under this key.
type ownContext struct{}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// newDaemon makes one that is reached by dial, with TLS where that is not nil.
func newDaemon(shown, base string, dial dialer, secure *tls.Config) *daemon {
	bounded := func(dial dialer) dialer {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			return dial(ctx.Value(ownContext{}).(context.Context), network, address)
		}
	}
	return &daemon{shown, base, &http.Transport{
		// A proxy of the environment would get the tokens.
		Proxy:          nil,
		DialContext:    bounded(dial),
		DialTLSContext: bounded((&tls.Dialer{Config: secure}).DialContext),
		// A daemon that is stopped or gone would leave a dead connection behind, and calls are rare.
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: longestHead,
	}}
}

// call returns the receipt of the answer, or what a daemon refused with: REGISTRY_UNAVAILABLE where none answered in time, OTHER_REGISTRY only
// where each daemon answered that. ctx ends it at once; once `repeating` has ended, it asks no other daemon, and none again.
func (d *daemons) call(ctx, repeating context.Context, c call, atMost time.Duration) (string, *Error) {
	end := time.Now().Add(min(atMost, d.timeout))
	d.highest = math.MinInt64
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		var told *Error
		toldKind, wait := final, time.Duration(math.MaxInt64)
		first, count := d.favourite, len(d.all)
		for asked := 0; asked < count; asked++ {
			if asked > 0 && repeating.Err() != nil {
				return "", told
			}
			at := first
			if asked > first {
				at = asked
			} else if asked > 0 {
				at = asked - 1
			}
			// A silent daemon leaves the others their share of the time.
			share := time.Until(end) / time.Duration(count-asked)
			receipt, failed, kind := d.ask(ctx, d.all[at], c, share)
			if failed == nil {
				d.favourite = at
				return receipt, nil
			}
			switch kind {
			case final:
				d.favourite = at
				return "", failed
			case answered:
				d.favourite = at
			case busy, silent:
				wait = min(wait, failed.RetryAfter)
			}
			if kind < toldKind {
				told, toldKind = failed, kind
			}
		}
		mayPass := toldKind != answered && wait != math.MaxInt64
		wait = max(wait, pause)
		if !mayPass || time.Until(end) <= wait || !sleep(repeating, wait) {
			return "", told
		}
	}
}

// ask asks one daemon, once. Where it failed, it tells in what way.
func (d *daemons) ask(ctx context.Context, one *daemon, c call, atMost time.Duration) (receipt string, failed *Error, how kind) {
	d.clock, d.sent = d.clocks.ms(), time.Now()
	d.highest = max(d.highest, d.clock)
	var body object
	if c.body != nil {
		body = c.body(d.clock)
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	ctx = context.WithValue(ctx, ownContext{}, ctx)
	status, head, text, err := d.exchange(ctx, one, c, body)
	hidden := d.hiding(c, body)
	if err == nil && (status < 200 || status > 299) {
		if failed, err = readRefusal(text, status, hidden); err == nil {
			return "", failed, kindOf(failed, status)
		}
	} else if err == nil {
		var answer object
		if answer, err = readObject(text); err == nil && c.read != nil {
			err = c.read(answer)
		}
		if err == nil {
			if receipt = head.Get("Snowlease-Receipt"); !isVisible(receipt) {
				receipt = ""
			}
			return receipt, nil, final
		}
		if errors.As(err, &failed) {
			// It quotes the answer.
			failed.Message = hidden(failed.Message)
			return "", failed, final
		}
	}
	return "", unheard(one, status, hidden, err), silent
}

// exchange sends the request and reads the whole answer, however slowly it comes, to the end of its context.
func (d *daemons) exchange(ctx context.Context, one *daemon, c call, body object) (int, http.Header, []byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, c.method, one.base+c.path, content)
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header.Set("Accept", "application/json")
	for name, value := range map[string]string{"Authorization": bearer(d.token), "Snowlease-Receipt": c.receipt} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	// Not by a client: that would follow redirects.
	response, err := one.http.RoundTrip(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 {
		// Behind that is another protocol.
		return response.StatusCode, nil, nil, errors.New("it is no answer")
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer+1))
	if err == nil && len(text) > longestAnswer {
		err = fmt.Errorf("it has more than %d bytes", longestAnswer)
	}
	return response.StatusCode, response.Header, text, err
}

// isVisible tells of visible ASCII characters, which are no danger in a header.
func isVisible(text string) bool { return len(text) <= longestHeader && visible.MatchString(text) }

func bearer(token string) string {
	if token == "" {
		return ""
	}
	return "Bearer " + token
}

// hiding returns what hides in a text that which only the daemon may know.
func (d *daemons) hiding(c call, body object) func(string) string {
	known := []string{d.token, c.receipt}
	for _, name := range secrets {
		text, _ := body[name].(string)
		known = append(known, text)
	}
	sent, _ := body["sentTurns"].([]string)
	return func(text string) string {
		for _, secret := range append(known, sent...) {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "***")
			}
		}
		return text
	}
}

func kindOf(e *Error, status int) kind {
	switch e.Code {
	case "OTHER_REGISTRY":
		return elsewhere
	case "WORKER_ID_HELD", "CLOCK_SKEW", "CLOCK_ROLLBACK":
		return final
	}
	switch {
	case status == 401 || status == 403 || status == 500:
		return refused
	case !e.Unavailable:
		return final
	case e.Code == "REGISTRY_UNAVAILABLE" || e.Code == "RATE_LIMITED":
		return busy
	}
	return answered
}

func unheard(one *daemon, status int, hidden func(string) string, err error) *Error {
	why := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		why = "none came in time"
	}
	if status != 0 {
		why = "HTTP " + strconv.Itoa(status) + ": " + why
	}
	advice := "check that it runs, and the address"
	var authority x509.UnknownAuthorityError
	var certificate *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		advice = "check `tlsCa`"
	case errors.As(err, &certificate):
		advice = "check its certificate, and the name in the address"
	case errors.As(err, &header):
		advice = "it speaks no TLS there: http://, or another port"
	case errors.Is(err, fs.ErrPermission):
		advice = "check the rights of the socket"
	}
	return unavailable("REGISTRY_UNAVAILABLE", 0, "The daemon at %s gave no answer to rely on (%s); %s.", one.shown, oneLine(hidden(why)), advice)
}

// readRefusal reads a problem of a daemon. hidden hides secrets.
func readRefusal(text []byte, status int, hidden func(string) string) (*Error, error) {
	answer, err := readObject(text)
	if err != nil {
		return nil, err
	}
	code, isCode := answer["code"].(string)
	detail, isText := answer["detail"].(string)
	if !isCode || !isText {
		return nil, errors.New("it is no problem of a daemon")
	}
	e := &Error{Code: oneLine(hidden(code)), Message: oneLine(hidden(detail)), Unavailable: status == 408 || status == 429 || status == 503}
	if wait, isNumber := answer["retryAfterMs"].(json.Number); isNumber {
		if ms, err := wait.Float64(); err == nil && ms >= 0 && ms < longestWait {
			e.RetryAfter = time.Duration(ms * float64(time.Millisecond))
		}
	}
	details, _ := answer["details"].(map[string]any)
	switch reason, _ := details["reason"].(string); reason {
	case "taken", "released", "forgotten", "cloned":
		e.reason = reason
	}
	e.lendsNone = details["lends"] == false
	doubt, _ := details["doubt"].(map[string]any)
	from, noFrom := object(doubt).integer("from")
	until, noUntil := object(doubt).integer("until")
	if noFrom == nil && noUntil == nil {
		e.doubt = [2]int64{from, until}
	}
	return e, nil
}

func readObject(text []byte) (object, error) {
	if len(text) == 0 {
		return object{}, nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	// 2^53 and above, and fractions, stay what they are.
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	found, isObject := value.(map[string]any)
	if _, err := decoder.Token(); !isObject || err != io.EOF {
		return nil, errors.New("it is no JSON object")
	}
	return found, nil
}

// integer reads an integer from 0 to 2^53-1, in plain digits.
func (o object) integer(name string) (int64, error) {
	if value := wholeOf(o[name]); value >= 0 {
		return value, nil
	}
	return 0, fmt.Errorf("its `%s` is no integer from 0 to 2^53-1", name)
}

// wholeOf is an integer from 0 to 2^53-1 in plain digits; -1: it is none.
func wholeOf(value any) int64 {
	text, _ := value.(json.Number)
	if whole := number(string(text)); decimal.MatchString(string(text)) && whole < 1<<53 {
		return whole
	}
	return -1
}

// text reads a text that is not empty.
func (o object) text(name string) (string, error) {
	if text, _ := o[name].(string); text != "" {
		return text, nil
	}
	return "", fmt.Errorf("its `%s` is no text", name)
}

// sleep waits; false: the context ended.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
