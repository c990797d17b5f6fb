package snowlease

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// Pauses between two rounds of all daemons: doubled each time.
	firstPause, longestPause = 20 * time.Millisecond, 500 * time.Millisecond
	longestAnswer            = 256 << 10 // bytes
	longestDetail            = 1000      // bytes
)

var codeOfStatus = map[int]string{401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND", 410: "LEASE_LOST", 429: "RATE_LIMITED", 500: "SCHEMA_INCOMPATIBLE"}

// object is a JSON object.
type object map[string]any

// call is one request, which may be repeated.
type call struct {
	method, path string
	body         object
	receipt      string
	// read takes what it needs of the answer. Its *Error is the outcome; with any other error, the answer is not a daemon's.
	read func(object) error
}

// failure says that a call was not applied, as far as is known; another daemon, or the same one later, may apply it.
type failure struct {
	*Error
	// A repetition fails, too, until an operator changes something.
	isLasting bool
	// It is the daemon's own answer.
	isTold bool
	status int
}

// transport sends calls to the first daemon that answers. For one goroutine.
type transport struct {
	daemons []*daemon
	token   string        // for addresses without a login
	timeout time.Duration // of a call, over all daemons and repetitions
	// The daemon that answered last is asked first.
	favourite int
}

// send returns the receipt of the answer, or what a daemon refused with: REGISTRY_UNAVAILABLE where none answered in time, OTHER_REGISTRY
// only where each daemon answered that. Once `again` has ended it repeats nothing.
func (t *transport) send(ctx, again context.Context, c call) (string, *failure) {
	deadline := time.Now().Add(t.timeout)
	var why *failure
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		var failures []*failure
		first, count := t.favourite, len(t.daemons)
		for asked := 0; asked < count; asked++ {
			at := (first + asked) % count
			// A silent daemon leaves the others their share of the time.
			share := time.Until(deadline) / time.Duration(count-asked)
			if share <= 0 || ctx.Err() != nil {
				break
			}
			receipt, failed, isOver := t.ask(ctx, t.daemons[at], c, share)
			if failed == nil {
				t.favourite = at
				return receipt, nil
			}
			if isOver {
				return "", failed
			}
			failures = append(failures, failed)
		}
		said := telling(failures, count)
		if said == nil {
			said = &failure{Error: t.late()}
		} else if said.isTold && said.Code == "REGISTRY_UNAVAILABLE" {
			why = said
		}
		wait, mayPass := passesIn(failures)
		wait = max(wait, pause)
		if !mayPass || time.Until(deadline) <= wait || !sleep(again, wait) {
			if why != nil && said.Code == "REGISTRY_UNAVAILABLE" {
				return "", why
			}
			return "", said
		}
	}
}

// ask asks one daemon, once. isOver: every other one would refuse, too.
func (t *transport) ask(ctx context.Context, d *daemon, c call, timeout time.Duration) (receipt string, failed *failure, isOver bool) {
	login := d.login
	if login == "" && t.token != "" {
		login = "Bearer " + t.token
	}
	own, _ := c.body["token"].(string)
	without := func(text string) string {
		for _, secret := range []string{t.token, login, strings.TrimPrefix(login, "Basic "), own} {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "***")
			}
		}
		return text
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, header, text, err := d.do(ctx, c, login)
	if err != nil {
		var certificate *tls.CertificateVerificationError
		isLasting, advice := errors.As(err, &certificate) || errors.Is(err, fs.ErrPermission), "check that it runs"
		if isLasting && certificate != nil || strings.Contains(err.Error(), "tls: ") {
			advice = "check `tlsCa`, `tlsCert` and `tlsKey`"
		}
		return "", unavailable(d, isLasting, "did not answer: %s; %s", without(err.Error()), advice), false
	}
	if status >= 200 && status < 300 {
		var answer object
		if answer, err = readObject(text); err == nil {
			err = c.read(answer)
		}
		var refused *Error
		if errors.As(err, &refused) {
			return "", &failure{Error: refused}, true
		}
		if err == nil {
			if receipt = header.Get("Snowlease-Receipt"); !isVisible(receipt) {
				receipt = ""
			}
			return receipt, nil, false
		}
	} else {
		var problem *Error
		if problem, err = readProblem(text, status, d.shown, without); err == nil {
			failed = &failure{Error: problem, isTold: true, status: status}
			switch status {
			// Another daemon may know the token, or be of the version that the registry needs.
			case 401, 403, 500:
				failed.isLasting = true
			case 408, 429, 503:
			default:
				failed.isLasting = problem.Code == "OTHER_REGISTRY"
				isOver = !failed.isLasting
			}
			return "", failed, isOver
		}
	}
	failed = unavailable(d, false, "gave an answer that is not a snowlease daemon's (%s, status %d: %.200s); check the address",
		c.method, status, without(err.Error()))
	failed.status = status
	return "", failed, false
}

// do sends the request and reads the whole answer, however slowly it comes, to the end of its context.
func (d *daemon) do(ctx context.Context, c call, login string) (int, http.Header, []byte, error) {
	var body io.Reader
	if c.body != nil {
		text, err := json.Marshal(c.body)
		if err != nil {
			return 0, nil, nil, err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, c.method, d.base+c.path, body)
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if login != "" {
		request.Header.Set("Authorization", login)
	}
	if c.receipt != "" {
		request.Header.Set("Snowlease-Receipt", c.receipt)
	}
	response, err := d.http.RoundTrip(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, longestAnswer+1))
	if err == nil && len(text) > longestAnswer {
		err = fmt.Errorf("its answer has more than %d bytes", longestAnswer)
	}
	return response.StatusCode, response.Header, text, err
}

func (t *transport) late() *Error {
	var where []string
	for _, d := range t.daemons {
		where = append(where, d.shown)
	}
	return refusal("REGISTRY_UNAVAILABLE", "No daemon at %s answered within %v; check that one runs.", strings.Join(where, ", "), t.timeout)
}

func unavailable(d *daemon, isLasting bool, format string, args ...any) *failure {
	what := fmt.Sprintf(format, args...)
	return &failure{Error: refusal("REGISTRY_UNAVAILABLE", "The daemon at %s %s.", d.shown, what), isLasting: isLasting}
}

// telling is the failure that says most: a daemon's answer says more than the silence of another one. nil: too few were asked to tell.
func telling(failures []*failure, asked int) *failure {
	var refused, told, here *failure
	for _, f := range failures {
		if f.Code == "OTHER_REGISTRY" {
			continue
		}
		if here == nil {
			here = f
		}
		if told == nil && f.isTold {
			told = f
		}
		if f.Code != "REGISTRY_UNAVAILABLE" {
			refused = f
		}
	}
	switch {
	case refused != nil:
		return refused
	case told != nil:
		return told
	case here == nil && len(failures) == asked:
		return failures[0]
	}
	return here
}

// passesIn tells in what time one of the daemons may have another answer; false: not within a call.
func passesIn(failures []*failure) (time.Duration, bool) {
	least, mayPass := time.Duration(math.MaxInt64), false
	for _, f := range failures {
		if f.isLasting {
			continue
		}
		// A full pool or a quarantine: the registry's word, and it is the same one behind all of them.
		if f.Code != "REGISTRY_UNAVAILABLE" && f.Code != "RATE_LIMITED" {
			return 0, false
		}
		least, mayPass = min(least, f.RetryAfter), true
	}
	return least, mayPass
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
	found, ok := value.(map[string]any)
	if _, err := decoder.Token(); !ok || err != io.EOF {
		return nil, errors.New("it is no JSON object")
	}
	return found, nil
}

func readProblem(text []byte, status int, shown string, without func(string) string) (*Error, error) {
	answer, err := readObject(text)
	if err != nil {
		return nil, err
	}
	code, isCode := answer["code"].(string)
	detail, isText := answer["detail"].(string)
	if !isCode || !isText {
		return nil, errors.New("it is no problem with `code` and `detail`")
	}
	if _, ok := retryable[code]; !ok {
		detail = fmt.Sprintf("%s The daemon at %s calls it %.64s, which only a newer version knows.", detail, shown, code)
		if code, ok = codeOfStatus[status]; !ok && status < 500 {
			code = "CONFIG_INVALID"
		} else if !ok {
			code = "REGISTRY_UNAVAILABLE"
		}
	}
	problem := refusal(code, "%.*s", longestDetail, without(detail))
	if wait, ok := answer["retryAfterMs"].(json.Number); ok {
		if ms, err := wait.Float64(); err == nil && ms >= 0 && ms < 1e12 {
			problem.RetryAfter = time.Duration(ms * float64(time.Millisecond))
		}
	}
	problem.Details, _ = answer["details"].(map[string]any)
	return problem, nil
}

// integer reads an integer from 0 to 2^53-1, in plain digits.
func (o object) integer(name string) (int64, error) {
	number, _ := o[name].(json.Number)
	if decimal.MatchString(string(number)) {
		if value, err := strconv.ParseInt(string(number), 10, 64); err == nil && value < 1<<53 {
			return value, nil
		}
	}
	return 0, fmt.Errorf("`%s` is not an integer from 0 to 2^53-1", name)
}

// text reads a text that is not empty.
func (o object) text(name string) (string, error) {
	if text, ok := o[name].(string); ok && text != "" {
		return text, nil
	}
	return "", fmt.Errorf("`%s` is not a text", name)
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
