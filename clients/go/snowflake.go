/*
Package snowlease makes Snowflake IDs on a worker ID that is leased from a Snowlease daemon, so that no two generators ever make the same one.

	ids, err := snowlease.New("http://127.0.0.1:7070", snowlease.Options{Namespace: "orders"})
	if err != nil {
		return err
	}
	defer ids.Close(context.Background())
	id, err := ids.Next(ctx)

A lease is a window of time. Each ID is checked against it, so no ID comes twice, whatever becomes of the clock, of the daemon, or of a process
that was stopped.
*/
package snowlease

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// The longest time between two looks for a renewal, or for another lease.
	look      = 10 * time.Millisecond
	aDay      = 24 * time.Hour
	waitAwake = time.Millisecond
	// Default of ClaimTimeout with Borrow.
	borrowTimeout = 15 * time.Second
)

var namespaceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// Options are how a Snowflake leases its worker ID. The zero value has all defaults.
type Options struct {
	// Namespace: default: the registry's ?namespace=, then the variable SNOWLEASE_NAMESPACE, then `default`.
	Namespace string
	// Token is for the daemon. Default: the registry's ?token=, then SNOWLEASE_TOKEN, then what is in the file SNOWLEASE_TOKEN_FILE.
	Token string
	// Layout is a preset or a notation: ParseLayout. Default: the namespace's.
	Layout string
	// Borrow shares the worker ID of a daemon with --lend with up to 23 other processes. Default: the registry's ?borrow=, or false: the worker ID
	// is this process's alone.
	Borrow bool
	// ClaimTimeout is how long a claim waits for a free worker ID, up to 1 day. Default: it does not wait; with Borrow 15 s, since the place of a
	// process that has ended stays taken for 10 s. A negative one: it does not wait.
	ClaimTimeout time.Duration
	// OperationTimeout is of one call, over all daemons, 1 ms to 1 day. Default: 5 s.
	OperationTimeout time.Duration
	// MaxWait is how long Next waits for the clock, for a renewal or for blocks of a borrowed lease, up to 1 day. Default: 500 ms; a negative one: it
	// does not wait.
	MaxWait time.Duration
	// Instance is a name for this process that the registry shows. Default: none.
	Instance string
	// Logger is told of a lost lease, and of IDs that may exist twice. Renewals wait for it: it must neither block nor call Close. Default:
	// slog.Default().
	Logger *slog.Logger
}

// Snowflake makes IDs, for all goroutines of a program. Make one with New.
//
// The first ID claims the worker ID; a goroutine renews the lease. After a loss the next ID claims another worker ID. Close gives it back, and ends
// that goroutine; nothing else does.
type Snowflake struct {
	options Options
	clocks  *clocks
	// Of the holder; nil: none yet.
	window atomic.Pointer[window]

	mu     sync.Mutex
	holder *holder
}

// New checks the options; it asks no daemon. registry: http://HOST:PORT, several with commas, https://… with ?tlsCa=FILE, or unix:PATH; where it
// is empty, the variable SNOWLEASE_REGISTRY. Error: CONFIG_INVALID.
func New(registry string, options Options) (*Snowflake, error) {
	return newSnowflake(registry, options, &systemClocks)
}

func newSnowflake(url string, o Options, clocks *clocks) (*Snowflake, error) {
	url = firstOf(url, os.Getenv("SNOWLEASE_REGISTRY"))
	if url == "" {
		return nil, refusal("CONFIG_INVALID", "Expected a registry, got none: name one, or set the variable SNOWLEASE_REGISTRY.")
	}
	read, err := readRegistry(url)
	if err != nil {
		return nil, err
	}
	o.Namespace = firstOf(o.Namespace, read.namespace, os.Getenv("SNOWLEASE_NAMESPACE"), "default")
	if !namespaceName.MatchString(o.Namespace) {
		return nil, expected("Namespace", "to match "+namespaceName.String(), o.Namespace)
	}
	if o.Borrow = o.Borrow || read.borrow; o.Borrow && len(read.daemons) > 1 {
		return nil, refusal("CONFIG_INVALID", "Expected `registry` to be one daemon's address, such as unix:/run/snowlease/daemon.sock, "+
			"since `borrow` asks to borrow its lease, got `%s`; name the daemon, or leave `borrow` out.", read.shown())
	}
	if o.Token, err = tokenOf(firstOf(o.Token, read.token, os.Getenv("SNOWLEASE_TOKEN"))); err != nil {
		return nil, err
	}
	var layout *Layout
	if o.Layout != "" {
		if layout, err = ParseLayout(o.Layout); err != nil {
			return nil, err
		}
	}
	if o.Borrow && o.ClaimTimeout == 0 {
		o.ClaimTimeout = borrowTimeout
	}
	o.ClaimTimeout = max(0, o.ClaimTimeout)
	if o.OperationTimeout == 0 {
		o.OperationTimeout = 5 * time.Second
	}
	if o.MaxWait == 0 {
		o.MaxWait = 500 * time.Millisecond
	}
	for _, limit := range []struct {
		name         string
		value, least time.Duration
	}{
		{"ClaimTimeout", o.ClaimTimeout, 0},
		{"OperationTimeout", o.OperationTimeout, time.Millisecond},
		{"MaxWait", max(0, o.MaxWait), 0},
	} {
		if limit.value < limit.least || limit.value > aDay {
			return nil, expected(limit.name, fmt.Sprintf("to be from %v to %v", limit.least, aDay), limit.value)
		}
	}
	s := &Snowflake{options: o, clocks: clocks}
	all := &daemons{all: read.daemons, token: o.Token, timeout: o.OperationTimeout, clocks: clocks}
	// A program may print a Snowflake.
	s.options.Token = ""
	s.holder = newHolder(&s.options, all, clocks, layout, nil)
	return s, nil
}

// Next makes an ID that no other generator makes, 1 to 2^63-1. It claims the worker ID at the first call and after a loss, up to ClaimTimeout where
// none is free, and waits up to MaxWait for the clock or for its daemon. ctx bounds waiting alone: an ID that is at hand is returned, and a claim that is under way goes on for the next caller.
//
// An error is an *Error; where ctx ended, it wraps that of ctx, too.
func (s *Snowflake) Next(ctx context.Context) (int64, error) {
	if w := s.window.Load(); w != nil {
		if id := w.take(); id > none {
			return id, nil
		}
	}
	return s.nextInTime(ctx)
}

// NextString makes the next ID as text.
func (s *Snowflake) NextString(ctx context.Context, encoding Encoding) (string, error) {
	// Before an ID is used up.
	if _, err := encoding.Encode(0); err != nil {
		return "", err
	}
	id, err := s.Next(ctx)
	if err != nil {
		return "", err
	}
	return encoding.Encode(id)
}

// Claim claims the worker ID now, for a check at the start of a program.
func (s *Snowflake) Claim(ctx context.Context) error {
	_, err := s.held(ctx)
	return err
}

// Close ends the Snowflake: no ID is made from then on. It gives the worker ID back, and waits for that up to the end of ctx; behind that the
// give-back goes on, for a call or two of OperationTimeout. Where it fails, the worker ID rests until its window has passed.
func (s *Snowflake) Close(ctx context.Context) error { return s.closed().wait(ctx) }

// closed closes the last holder, which no other one follows from here on.
func (s *Snowflake) closed() *holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder.close()
	return s.holder
}

// Lease returns the claim whose IDs Next makes now; nil before the first one, after a loss, and once it is closed. With Options.Borrow its worker ID
// is not this process's alone: its lender and other borrowers make IDs on it, too.
func (s *Snowflake) Lease() *Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder.lease()
}

// String tells the namespace and the worker ID.
func (s *Snowflake) String() string {
	if l := s.Lease(); l != nil {
		return fmt.Sprintf("Snowflake of namespace %s on worker %d", s.options.Namespace, l.WorkerID)
	}
	return fmt.Sprintf("Snowflake of namespace %s without a worker ID", s.options.Namespace)
}

// Layout returns the bits of the IDs; nil while neither an option nor a claim has told.
func (s *Snowflake) Layout() *Layout {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder.knownLayout()
}

func (s *Snowflake) nextInTime(ctx context.Context) (int64, error) {
	w, err := s.held(ctx)
	// What the claim took does not count.
	end := time.Now().Add(s.options.MaxWait)
	for ; err == nil; w, err = s.held(ctx) {
		if id := w.take(); id > none {
			return id, nil
		}
		if refused := w.refusal(); refused != nil {
			if err = s.wait(ctx, refused, end); err != nil {
				return 0, err
			}
		}
	}
	return 0, err
}

// wait waits for what a refusal names, but not to its end: a lease that ends meanwhile is told at once.
func (s *Snowflake) wait(ctx context.Context, refused *Error, end time.Time) error {
	pause := refused.RetryAfter
	if refused.look > 0 {
		pause = refused.look
	}
	if pause == 0 {
		pause = look
	}
	if !refused.Unavailable || pause > time.Until(end) {
		return refused
	}
	if refused.look > 0 {
		// Not awake: the daemon that gives blocks may need this processor.
		sleep(ctx, pause)
	} else if pause > waitAwake {
		sleep(ctx, min(pause-waitAwake, look))
	} else {
		// A timer would sleep through the next tick.
		for wall, over := s.clocks.ms(), time.Now().Add(pause); s.clocks.ms() == wall && time.Now().Before(over) && ctx.Err() == nil; {
			runtime.Gosched()
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w (%w)", refused, err)
	}
	return nil
}

// held returns the window of the present worker ID, and claims one where there is none.
func (s *Snowflake) held(ctx context.Context) (*window, error) {
	w, err := s.current().held(ctx)
	if err == nil && s.window.Load() != w {
		s.window.Store(w)
	}
	return w, err
}

// current returns the holder of the present lease, or of the one to claim.
func (s *Snowflake) current() *holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder.hasEnded() {
		s.holder = newHolder(&s.options, s.holder.daemons, s.clocks, nil, s.holder)
	}
	return s.holder
}

// tokenOf checks a token; where it is empty, that of the file which the environment names.
func tokenOf(token string) (string, error) {
	if file := os.Getenv("SNOWLEASE_TOKEN_FILE"); token == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", refusal("CONFIG_INVALID", "The file of SNOWLEASE_TOKEN_FILE cannot be read (%v); correct its path or its rights.", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if token != "" && !isVisible(token) {
		return "", refusal("CONFIG_INVALID", "Expected `Token` to be 1 to 1024 visible ASCII characters, got another text.")
	}
	return token, nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
