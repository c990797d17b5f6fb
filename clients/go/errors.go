package snowlease

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode"
)

const (
	longestValue = 60   // characters
	longestLine  = 1000 // bytes
	// The end of the year 9999, Unix ms: no later one has a usual text.
	lastTime = 253_402_300_800_000
)

// Error is why there is no ID, or why a value was refused. Find it with errors.As.
type Error struct {
	// Code is the code of the error, as the daemon names it, too: LEASE_EXPIRED, POOL_EXHAUSTED, …
	Code string
	// Message is one line without tokens: what happened, and what to do.
	Message string
	// Unavailable: a later call may get an ID, without any other change. A service answers 503.
	Unavailable bool
	// RetryAfter is after what time the same call may succeed; 0: that is not known, or waiting does not help.
	RetryAfter time.Duration
	// What a daemon said of a lost lease: why, and from when to when another holder may have used the same times, Unix ms; empty: nothing.
	reason string
	doubt  [2]int64
	// It lends no lease.
	lendsNone bool
	// After what time to look whether it has passed; 0: RetryAfter tells.
	look time.Duration
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// again is the same error for another caller, who may change it.
func (e *Error) again() *Error {
	same := *e
	return &same
}

func refusal(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: oneLine(fmt.Sprintf(format, args...))}
}

// unavailable is the error of what may pass. after: 0 where that is not known.
func unavailable(code string, after time.Duration, format string, args ...any) *Error {
	e := refusal(code, format, args...)
	e.Unavailable, e.RetryAfter = true, after
	return e
}

// expected is the error of a value that is not what it has to be.
func expected(name, rule string, value any) *Error {
	text := []rune(oneLine(fmt.Sprint(value)))
	if len(text) > longestValue {
		text = append(text[:longestValue-3], []rune("...")...)
	}
	return refusal("CONFIG_INVALID", "Expected `%s` %s, got `%s`.", name, rule, string(text))
}

var login = regexp.MustCompile(`(\w:/+)\S*@`)

// oneLine is the text without ends of lines, control characters and the passwords of URLs.
func oneLine(text string) string {
	if len(text) > longestLine {
		text = text[:longestLine]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.TrimSpace(login.ReplaceAllString(text, "$1***@"))
}

// timeText is Unix ms as messages show it.
func timeText(ms int64) string {
	if ms < 0 || ms >= lastTime {
		return fmt.Sprintf("%d ms (Unix)", ms)
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// milliseconds is that duration, or the longest one where it is longer.
func milliseconds(ms int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(min(max(ms, -most), most)) * time.Millisecond
}
