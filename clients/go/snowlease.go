// Package snowlease makes Snowflake IDs on a worker ID that is leased from a Snowlease daemon, so that no two generators ever share one.
//
//	ids, err := snowlease.New("http://127.0.0.1:7070", snowlease.Options{Namespace: "orders"})
//	if err != nil {
//		return err
//	}
//	defer ids.Close(context.Background())
//	id, err := ids.Next(ctx)
//
// A lease is a window of time: an ID carries only a timestamp that lies in it, and that is checked for each ID. So no ID comes twice, whatever
// becomes of the clock, of the daemon, or of a process that was stopped.
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

	"github.com/snowlease/snowlease/clients/go/internal/clock"
)

// Options of a Generator. The zero value has all defaults.
type Options struct {
	// Namespace: default: the registry's ?namespace=, then SNOWLEASE_NAMESPACE, then `default`.
	Namespace string
	// Token is shown to the daemon. Default: the registry's ?token=, then SNOWLEASE_TOKEN, then what is in the file SNOWLEASE_TOKEN_FILE.
	Token string
	// Layout is a preset or a notation, as ParseLayout reads it. Default: the namespace's.
	Layout string
	// Window is how far a lease reaches ahead, 3 ms to a day. Default: what the daemon is set to.
	Window time.Duration
	// ClaimTimeout is how long a claim waits for a free worker ID. Default: it does not wait.
	ClaimTimeout time.Duration
	// OperationTimeout is for one operation, over all daemons. Default: 5 s.
	OperationTimeout time.Duration
	// MaxWait is how long Next waits for the clock, for a renewal or for another worker ID. Default: 500 ms; a negative one: it does not wait.
	MaxWait time.Duration
	// Host and Instance are what the registry shows of this process. Default: the host's name, and nothing.
	Host, Instance string
	// Borrow makes IDs on the lease of a daemon that runs with --lend, together with other processes of the machine, instead of on a lease of
	// this process alone. The registry's ?borrow=true says the same.
	Borrow bool
	// Logger is told of a lost lease, and of IDs that may exist twice. Default: slog.Default().
	Logger *slog.Logger
}

// Lease is what a worker ID is held with. It does not change.
type Lease struct {
	WorkerID int64
	// Fence rises with each claim of the worker ID.
	Fence int64
	// IDs carry only ticks that lie wholly in [From, Until), Unix ms.
	From, Until int64
}

// Generator makes IDs, for all goroutines of a process. A copy of the struct is of no use: pass the pointer.
type Generator struct {
	open     atomic.Pointer[tick]
	snapshot atomic.Pointer[Lease]
	layout   atomic.Pointer[Layout]
	options  Options
	registry *registry

	mu       sync.Mutex
	lease    *lease
	isClosed bool
}

// The longest pause between two looks for a renewal, or for another worker ID.
const look = 10 * time.Millisecond

var namespaceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)

// New makes a generator. It asks no daemon: the first ID claims the worker ID. registry: http://HOST:PORT, several with commas, https://… with
// ?tlsCa=, tlsCert= and tlsKey=, or unix:PATH; where it is empty, the variable SNOWLEASE_REGISTRY. Errors: CONFIG_INVALID.
//
// Close gives the worker ID back, and ends the generator's goroutine; nothing else does.
func New(registry string, options Options) (*Generator, error) {
	if registry == "" {
		registry = os.Getenv("SNOWLEASE_REGISTRY")
	}
	if registry == "" {
		return nil, refusal("CONFIG_INVALID", "Expected a registry, got none: name one, or set SNOWLEASE_REGISTRY.")
	}
	read, err := readRegistry(registry)
	if err != nil {
		return nil, err
	}
	g := &Generator{registry: read, options: options}
	o := &g.options
	o.Namespace = firstOf(o.Namespace, read.namespace, os.Getenv("SNOWLEASE_NAMESPACE"), "default")
	if !namespaceName.MatchString(o.Namespace) {
		return nil, expected("Namespace", "to match "+namespaceName.String(), o.Namespace)
	}
	if o.Token = firstOf(o.Token, read.token, os.Getenv("SNOWLEASE_TOKEN")); o.Token == "" {
		if o.Token, err = tokenOfFile(os.Getenv("SNOWLEASE_TOKEN_FILE")); err != nil {
			return nil, err
		}
	}
	if o.Token != "" && !isVisible(o.Token) {
		return nil, refusal("CONFIG_INVALID", "Expected `Token` to be 1 to 1024 visible ASCII characters, got another text.")
	}
	if o.Layout != "" {
		layout, err := ParseLayout(o.Layout)
		if err != nil {
			return nil, err
		}
		g.layout.Store(layout)
	}
	if o.Borrow = o.Borrow || read.borrow; o.Borrow && len(read.daemons) > 1 {
		return nil, refusal("CONFIG_INVALID", "Expected one daemon to borrow of, got %d; name the one that lends.", len(read.daemons))
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.OperationTimeout == 0 {
		o.OperationTimeout = 5 * time.Second
	}
	if o.MaxWait == 0 {
		o.MaxWait = 500 * time.Millisecond
	}
	if o.Host == "" {
		o.Host, _ = os.Hostname()
	}
	check := checks{}
	check.duration("Window", o.windowOr(time.Minute), 3*time.Millisecond)
	check.duration("ClaimTimeout", o.ClaimTimeout, 0)
	check.duration("OperationTimeout", o.OperationTimeout, time.Millisecond)
	check.duration("MaxWait", max(0, o.MaxWait), 0)
	for name, text := range map[string]string{"Host": o.Host, "Instance": o.Instance} {
		if len(text) > 255 {
			check.add(expected(name, "to be at most 255 bytes", text))
		}
	}
	if check.err != nil {
		return nil, check.err
	}
	// No tick yet: this one is never open.
	g.open.Store(&tick{})
	return g, nil
}

// Next makes an ID that no other generator makes, 1 to 2^63-1. The first call claims the worker ID. It waits up to MaxWait, or to the end of
// the context. The context bounds waiting alone: an ID that is at hand is returned, and a claim that is under way goes on for the next caller.
//
// Errors are an *Error that says why there is no ID, or wrap the context's.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	t := g.open.Load()
	if clock.Elapsed() < time.Duration(t.closes.Load()) {
		if id, ok := t.take(); ok {
			return id, nil
		}
	}
	return g.next(ctx)
}

// NextString makes the next ID as text.
func (g *Generator) NextString(ctx context.Context, encoding Encoding) (string, error) {
	// Before an ID is used up.
	if _, err := encoding.Encode(0); err != nil {
		return "", err
	}
	id, err := g.Next(ctx)
	if err != nil {
		return "", err
	}
	return encoding.Encode(id)
}

// Claim claims the worker ID now, for a check at the start of a program.
func (g *Generator) Claim(ctx context.Context) error {
	_, err := g.held(ctx)
	return err
}

// Lease returns what the worker ID is held with; nil: none is. It is the same pointer until something of it changes.
func (g *Generator) Lease() *Lease { return g.snapshot.Load() }

// Layout returns the bits of the IDs; nil while neither an option nor a claim has told.
func (g *Generator) Layout() *Layout { return g.layout.Load() }

// Close ends the generator: no ID is made from then on. It gives the worker ID back, and waits for the answer up to the end of the context.
// Where it returns an error, the worker ID rests until its window has passed.
func (g *Generator) Close(ctx context.Context) error {
	g.mu.Lock()
	g.isClosed = true
	l := g.lease
	g.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.close(ctx)
}

func (g *Generator) next(ctx context.Context) (int64, error) {
	var end time.Time
	for {
		t, err := g.held(ctx)
		if err != nil {
			return 0, err
		}
		at := now()
		id, refused := t.take(at)
		if refused == nil {
			return id, nil
		}
		// Other goroutines may have gone on since this one read the clock: for it alone the clock looks set back.
		if late := milliseconds(clock.Ms() - at.wall); refused.RetryAfter > 0 && late >= refused.RetryAfter && ctx.Err() == nil {
			continue
		}
		if end.IsZero() {
			// What the claim took does not count.
			end = time.Now().Add(g.options.MaxWait)
		}
		wait := refused.RetryAfter
		if wait == 0 {
			wait = look
		}
		if !refused.Retryable() || time.Now().Add(wait).After(end) {
			return 0, refused
		}
		// Not longer: a lease that ends meanwhile is told at once.
		if !pause(ctx, min(wait, look)) {
			return 0, fmt.Errorf("snowlease: %w; %w", ctx.Err(), refused)
		}
	}
}

// pause waits; false: the context ended. The next ms is waited for awake: a timer would sleep through half of it.
func pause(ctx context.Context, wait time.Duration) bool {
	if wait > time.Millisecond {
		return sleep(ctx, wait)
	}
	for wall, begun := clock.Ms(), time.Now(); clock.Ms() == wall && time.Since(begun) < wait; {
		if ctx.Err() != nil {
			return false
		}
		runtime.Gosched()
	}
	return ctx.Err() == nil
}

// held returns the ticks of the present worker ID, and claims one where there is none.
func (g *Generator) held(ctx context.Context) (*ticks, error) {
	g.mu.Lock()
	if g.lease == nil || g.lease.hasFailed() {
		switch {
		case g.isClosed:
			g.mu.Unlock()
			return nil, refusal("LEASE_LOST", "The generator of namespace `%s` is closed; make a new one.", g.options.Namespace)
		case ctx.Err() != nil:
			g.mu.Unlock()
			return nil, fmt.Errorf("snowlease: no worker ID was claimed: %w", ctx.Err())
		}
		g.lease = newLease(g)
	}
	l := g.lease
	g.mu.Unlock()
	return l.held(ctx)
}

func (o *Options) windowOr(other time.Duration) time.Duration {
	if o.Window != 0 {
		return o.Window
	}
	return other
}

func (c *checks) duration(name string, value, least time.Duration) {
	if value < least || value > 24*time.Hour {
		c.add(expected(name, fmt.Sprintf("to be from %v to 24h", least), value))
	}
}

// isVisible tells whether a text is 1 to 1024 visible ASCII characters, which are no danger in a header.
func isVisible(text string) bool {
	return len(text) >= 1 && len(text) <= 1024 && strings.IndexFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e }) < 0
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func tokenOfFile(path string) (string, *Error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", refusal("CONFIG_INVALID", "The file of SNOWLEASE_TOKEN_FILE cannot be read: %v.", err)
	}
	return strings.TrimSpace(string(text)), nil
}
