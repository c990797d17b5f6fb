package io.snowlease;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;

/**
 * IDs on a worker ID that is leased from a daemon, for all threads of a program.
 *
 * <p>The first ID claims the worker ID; a thread of its own renews the lease. Each ID is checked against the window of the lease. After a loss the
 * next ID claims another worker ID. The end of the program gives it back, and so does {@link #close}.
 *
 * <p>Its methods throw {@link UnavailableException} where there may be an ID later, {@link SnowleaseException} where not.
 */
public final class Snowflake implements AutoCloseable {
    /** Longest time between two looks for a renewal or another lease, ns. */
    private static final long LOOK = TimeUnit.MILLISECONDS.toNanos(10);
    /** The same for blocks of a borrowed lease. */
    private static final long BLOCKS_LOOK = TimeUnit.MILLISECONDS.toNanos(1);
    /** Before the end of a tick: a thread that sleeps for the rest of it wakes too late. */
    private static final long SHORT_LOOK = TimeUnit.MICROSECONDS.toNanos(50);
    private static final long SHORT_WAIT = 2;
    /** For blocks: so many looks may be short. */
    private static final int SHORT_LOOKS = 40;

    private final SnowflakeOptions.Checked options;
    private final LongSupplier clock;
    private volatile Holder holder;
    /** Of the holder; null: none yet. */
    private volatile Window window;

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
        this(new SnowflakeOptions.Checked(options, System::getenv, System::currentTimeMillis));
    }

    Snowflake(SnowflakeOptions.Checked options) {
        this.options = options;
        clock = options.clock;
        holder = new Holder(options, null);
    }

    /**
     * An ID that no other generator makes, 1 to 2^63-1. Claims the worker ID at the first call. Waits up to {@code maxWait} for the clock, a
     * renewal or borrowed blocks; a thread that is interrupted waits no longer.
     */
    public long next() {
        Window now = window;
        if (now != null) {
            long id = now.take(clock);
            if (id > Window.NONE) return id;
        }
        return nextInTime();
    }

    /** The next ID as decimal text: JavaScript cannot read 63 bits from a number. */
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

    /**
     * The same for another generator that takes the worker ID as a number: it has to be this process's alone. Returns this Snowflake.
     *
     * @throws SnowleaseException CONFIG_INVALID where this Snowflake borrows.
     */
    public Snowflake claimWhole() {
        if (!options.borrows) return claim();
        throw new SnowleaseException("CONFIG_INVALID", "Expected no `borrow` for a worker ID that another generator uses: it would use all of its times,"
                + " and so would those who share it with it; leave `borrow` out to lease one of its own.");
    }

    /** Gives the worker ID back; no ID is made from then on. */
    @Override
    public void close() {
        Holder last;
        synchronized (this) {
            last = holder;
            // No other one follows from here on.
            last.stop();
        }
        last.close();
    }

    /** The claim whose IDs {@link #next} makes now; null before the first one, after a loss, and once it is closed. */
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
        return "Snowflake[" + options.namespace + (now == null ? ", without a worker ID" : ", worker " + now.workerId()) + "]";
    }

    private long nextInTime() {
        Window now = windowNow();
        // What the claim took does not count.
        long deadline = System.nanoTime() + options.maxWait.toNanos();
        for (int looks = 1;; looks++) {
            long id = now.take(clock);
            if (id > Window.NONE) return id;
            SnowleaseException refusal = now.refusal(clock);
            if (refusal != null) {
                if (!(refusal instanceof UnavailableException)) throw refusal;
                await(refusal, now.blocks != null && refusal.code().equals("SEQUENCE_EXHAUSTED") ? looks : 0, deadline);
            }
            now = windowNow();
        }
    }

    /** @param looksForBlocks how often this thread has looked for blocks; 0: it waits for something else. */
    private static void await(SnowleaseException refusal, int looksForBlocks, long deadline) {
        long wait = refusal.retryAfterMs();
        long pause = wait < 0 ? LOOK : Math.max(SHORT_LOOK, TimeUnit.MILLISECONDS.toNanos(wait));
        // They may come before the next tick does; or late, and the thread that asks for them needs the processor then.
        if (looksForBlocks > 0) pause = Math.min(LOOK, BLOCKS_LOOK * Math.max(1, looksForBlocks - SHORT_LOOKS));
        boolean isShort = wait >= 0 && wait <= SHORT_WAIT && looksForBlocks <= SHORT_LOOKS;
        if (pause > deadline - System.nanoTime() || Thread.currentThread().isInterrupted()) throw refusal;
        // Not longer: a lease that ends meanwhile is told at once.
        LockSupport.parkNanos(isShort ? SHORT_LOOK : Math.min(pause, LOOK));
    }

    private Window windowNow() {
        Window now = current().held();
        if (window != now) window = now;
        return now;
    }

    /** The holder of the present lease, or of the one to claim. */
    private Holder current() {
        Holder now = holder;
        if (!now.hasEnded()) return now;
        synchronized (this) {
            if (holder.hasEnded()) holder = new Holder(options, holder);
            return holder;
        }
    }
}
