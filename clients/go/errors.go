package snowlease

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// Error says why there is no ID, or why a value was refused. Find it with errors.As.
type Error struct {
	// Code is one of a closed set, such as LEASE_EXPIRED. docs/errors.md lists them all.
	Code string
	// Message is one line: what happened, and what to do. It holds no password and no token.
	Message string
	// RetryAfter is the time after which the same call may succeed. 0: not known, or waiting does not help.
	RetryAfter time.Duration
	// Details is what else a daemon said, with numbers as json.Number.
	Details map[string]any
}

// Error returns the code and the message, in one line.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Retryable reports whether the same call may succeed later without any other change. A service answers 503.
func (e *Error) Retryable() bool { return retryable[e.Code] }

var retryable = map[string]bool{
	"CONFIG_INVALID":       false,
	"POOL_EXHAUSTED":       true,
	"WORKER_ID_HELD":       true,
	"LEASE_LOST":           false,
	"LEASE_EXPIRED":        true,
	"WINDOW_NOT_OPEN":      true,
	"CLOCK_SKEW":           true,
	"CLOCK_ROLLBACK":       true,
	"SEQUENCE_EXHAUSTED":   true,
	"QUARANTINE":           true,
	"OTHER_REGISTRY":       false,
	"LAYOUT_MISMATCH":      false,
	"LAYOUT_EXPIRED":       false,
	"SCHEMA_INCOMPATIBLE":  false,
	"REGISTRY_UNAVAILABLE": true,
	"DRIVER_MISSING":       false,
	"NOT_FOUND":            false,
	"UNAUTHORIZED":         false,
	"FORBIDDEN":            false,
	"RATE_LIMITED":         true,
}

func refusal(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: oneLine(fmt.Sprintf(format, args...))}
}

func (e *Error) after(wait time.Duration) *Error {
	e.RetryAfter = wait
	return e
}

// expected is the error of a value that is not what it has to be.
func expected(name, rule string, value any) *Error {
	return refusal("CONFIG_INVALID", "Expected `%s` %s, got %s.", name, rule, shown(value))
}

func shown(value any) string {
	text := fmt.Sprint(value)
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:57]) + "..."
	}
	return "`" + oneLine(text) + "`"
}

var (
	login           = regexp.MustCompile(`([A-Za-z][\w+.-]*:/+)\S*@`)
	secretParameter = regexp.MustCompile("(?i)([?&]\\w*(?:password|token)=)[^&\\s`]*")
)

// oneLine is the text without line ends, control characters and the logins of URLs.
func oneLine(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	text = login.ReplaceAllString(text, "$1***@")
	return strings.TrimSpace(secretParameter.ReplaceAllString(text, "$1***"))
}

func timeText(ms int64) string {
	if ms < 0 || ms >= 253_402_300_800_000 {
		return fmt.Sprintf("%d (Unix ms)", ms)
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
