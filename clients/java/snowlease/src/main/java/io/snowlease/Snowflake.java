package io.snowlease;

import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * IDs on a worker ID that is leased from a daemon, for all threads of a program.
 *
 * <p>The first ID claims the worker ID; a thread of its own renews the lease. Each ID is checked against the window of the lease. The end of the
 * program gives the worker ID back, and so does {@link #close}.
 *
 * <p>Its methods throw {@link UnavailableException} where there may be an ID later, {@link SnowleaseException} where not.
 */
public final class Snowflake implements AutoCloseable {
    /** Longest time between two looks for a renewal, another worker ID or a closed lease. */
    private static final long LOOK = TimeUnit.MILLISECONDS.toNanos(10);
    /** Before the end of a tick: a thread that sleeps for the rest of it wakes too late. */
    private static final long SHORT_LOOK = TimeUnit.MICROSECONDS.toNanos(50);
    private static final long SHORT_WAIT = 2;

    /** What a Snowflake does. */
    public enum State {
        /** Nothing is claimed yet. */
        NEW,
        CLAIMING,
        HELD,
        /** The lease was lost, and another worker ID is being claimed. */
        SWITCHING,
        /** The claim was refused. The next ID claims again. */
        FAILED,
        /** The lease was lost for good. */
        LOST,
        CLOSED;

        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    private final SnowflakeOptions.Checked options;
    private final WallClock clock;
    private volatile Holder holder;
    /** Of the holder; null: none yet. */
    private volatile Ticks ticks;

    /** From the environment: SNOWLEASE_REGISTRY, SNOWLEASE_NAMESPACE, SNOWLEASE_TOKEN or SNOWLEASE_TOKEN_FILE. */
    public Snowflake() {
        this(new SnowflakeOptions());
    }

    /** Asks no daemon. @param registry {@code http://HOST:PORT}: {@link SnowflakeOptions#registry}. @throws SnowleaseException CONFIG_INVALID. */
    public Snowflake(String registry) {
        this(new SnowflakeOptions().registry(registry));
    }

    /** Checks the options; asks no daemon. @throws SnowleaseException CONFIG_INVALID. */
    public Snowflake(SnowflakeOptions options) {
        this(options.check(), System::currentTimeMillis);
    }

    Snowflake(SnowflakeOptions.Checked options, WallClock clock) {
        this.options = options;
        this.clock = clock;
        holder = new Holder(options, options.layout, false, clock);
    }

    /**
     * An ID that no other generator makes, 1 to 2^63-1. Claims the worker ID at the first call. Waits up to {@code maxWait} for the clock, a
     * renewal or another worker ID; a thread that is interrupted waits no longer.
     */
    public long next() {
        Ticks now = ticks;
        if (now != null) {
            long id = now.take(clock);
            if (id > Ticks.NONE) return id;
        }
        return nextInTime();
    }

    /** The next ID as decimal text. */
    public String nextString() {
        return Long.toString(next());
    }

    /** The next ID as text. */
    public String nextString(Encoding encoding) {
        return encoding.encode(next());
    }

    /** Claims the worker ID now: for a check at the start of a program. Returns this Snowflake. */
    public Snowflake claim() {
        current().held();
        return this;
    }

    /** Gives the worker ID back; no ID is made from then on. The end of the program does the same. */
    @Override
    public void close() {
        Holder last;
        synchronized (this) {
            last = holder;
            // No thread replaces it any more.
            last.stop();
        }
        last.close();
    }

    /** What it does. */
    public State state() {
        return holder.state();
    }

    /** The lease as it is; null while none is held. The same object until something of it changes. */
    public Lease lease() {
        return holder.lease();
    }

    /** The bits of the IDs; null while neither an option nor a claim has told. */
    public Layout layout() {
        return holder.layout();
    }

    @Override
    public String toString() {
        Lease now = lease();
        return "Snowflake[" + options.namespace + (now == null ? "" : " worker " + now.workerId()) + " " + state() + "]";
    }

    private long nextInTime() {
        // What the claim takes does not count.
        Ticks now = ticksNow();
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(options.maxWait);
        for (;;) {
            long id = now.take(clock);
            if (id > Ticks.NONE) return id;
            SnowleaseException refusal = now.refusal(clock);
            if (refusal != null) {
                if (!refusal.isRetryable()) {
                    // The ticks of a claim that is replaced by now.
                    if (now == holder.ticks()) throw refusal;
                } else {
                    await(refusal, deadline);
                }
            }
            now = ticksNow();
        }
    }

    private static void await(SnowleaseException refusal, long deadline) {
        long wait = refusal.retryAfterMs();
        long pause = wait < 0 ? LOOK : Math.max(SHORT_LOOK, TimeUnit.MILLISECONDS.toNanos(wait));
        if (System.nanoTime() + pause - deadline > 0) throw refusal;
        if (Thread.currentThread().isInterrupted()) throw refusal;
        // Not longer: a lease that ends meanwhile is told at once.
        LockSupport.parkNanos(wait >= 0 && wait <= SHORT_WAIT ? SHORT_LOOK : Math.min(pause, LOOK));
    }

    private Ticks ticksNow() {
        Ticks now = current().held();
        if (ticks != now) ticks = now;
        return now;
    }

    private Holder current() {
        Holder now = holder;
        if (now.state() != State.FAILED) return now;
        synchronized (this) {
            if (holder.state() == State.FAILED) holder = new Holder(options, holder.layout(), false, clock);
            return holder;
        }
    }
}
