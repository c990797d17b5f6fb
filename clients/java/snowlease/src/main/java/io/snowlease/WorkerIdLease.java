package io.snowlease;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * A leased worker ID for a generator of another library. Where the IDs can come from a {@link Snowflake}, use that: it checks each ID.
 *
 * <p>The number is this program's alone <em>while the lease is held</em>, and the other generator does not look at that. So the program has to end it,
 * in {@code onEnd}. No check stands before the IDs that the other generator makes after a stop of the process (a paused container, a machine that
 * slept) that outlasts the window, or with a clock that is wrong: those may exist twice.
 *
 * <p>The worker ID is never given back early, since what was used of it is not known: it rests until its window has passed.
 */
public final class WorkerIdLease implements AutoCloseable {
    private static final long LOOK = TimeUnit.MILLISECONDS.toNanos(20);
    /** Before the end of the window, ms: the time that a program has to end its generator. A tenth of a window that is shorter than 10 s. */
    private static final long NOTICE = 1000;
    private static final int NOTICES = 10;

    private final Holder holder;
    private final Ticks ticks;
    private final Consumer<SnowleaseException> onEnd;
    private final long notice;
    private volatile boolean isClosed;

    private WorkerIdLease(Holder holder, Ticks ticks, Consumer<SnowleaseException> onEnd) {
        this.holder = holder;
        this.ticks = ticks;
        this.onEnd = onEnd;
        notice = Math.min(NOTICE, (ticks.until() - ticks.from()) / NOTICES);
        Thread watch = new Thread(this::watch, "snowlease watch");
        watch.setDaemon(true);
        watch.start();
    }

    /**
     * Claims a worker ID, and waits until its window is open.
     *
     * @param onEnd called once, by a thread of this library, when the lease is lost, and 1 s (at most a tenth of the window) before the window ends
     *     because no daemon renews it. It has to end the other generator at once, or the program. It is not called after {@link #close}.
     * @throws SnowleaseException CONFIG_INVALID for a wrong option, and what the registry refuses with.
     */
    public static WorkerIdLease claim(SnowflakeOptions options, Consumer<SnowleaseException> onEnd) {
        if (onEnd == null) throw SnowleaseException.invalid("Expected `onEnd`, got none: it has to end the generator that uses the worker ID.");
        SnowflakeOptions.Checked checked = options.check();
        if (checked.isBorrower) throw SnowleaseException.invalid("A borrowed lease has no worker ID of its own; leave out `borrow`, or use a Snowflake.");
        Holder holder = new Holder(checked, checked.layout, true, System::currentTimeMillis);
        try {
            Ticks ticks = holder.held();
            awaitOpen(ticks, checked.maxWait);
            return new WorkerIdLease(holder, ticks, onEnd);
        } catch (SnowleaseException refusal) {
            holder.close();
            throw refusal;
        }
    }

    private static void awaitOpen(Ticks ticks, long maxWait) {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(maxWait);
        for (;;) {
            SnowleaseException refusal = ticks.refusal(System::currentTimeMillis);
            if (refusal == null) return;
            if (!refusal.isRetryable() || System.nanoTime() - deadline > 0) throw refusal;
            if (Thread.currentThread().isInterrupted()) throw Holder.interrupted();
            LockSupport.parkNanos(LOOK);
        }
    }

    /** The worker ID. @throws SnowleaseException the reason, where the lease has ended. */
    public int workerId() {
        SnowleaseException ended = reason();
        if (ended != null) throw ended;
        return ticks.workerId;
    }

    /** The bits of the IDs of this namespace. */
    public Layout layout() {
        return ticks.layout;
    }

    /** The lease as it is; null when it has ended. */
    public Lease lease() {
        return reason() == null ? holder.lease() : null;
    }

    /** Ends the renewal: call it once the other generator makes no more IDs. */
    @Override
    public void close() {
        isClosed = true;
        holder.close();
    }

    private SnowleaseException reason() {
        SnowleaseException refusal = ticks.refusal(System::currentTimeMillis);
        if (refusal != null) return refusal;
        if (System.currentTimeMillis() < ticks.until() - notice) return null;
        String what = "The window of worker " + ticks.workerId + " ends at " + SnowleaseException.time(ticks.until()) + ", and no daemon renews it";
        return SnowleaseException.of(ErrorCode.LEASE_EXPIRED, what + "; make no more IDs with it.");
    }

    private void watch() {
        SnowleaseException reason = null;
        while (reason == null && !isClosed) {
            LockSupport.parkNanos(LOOK);
            reason = reason();
            // A clock that is set back makes no duplicates by itself; the other generator has to notice it.
            if (reason != null && (reason.code() == ErrorCode.CLOCK_ROLLBACK || reason.code() == ErrorCode.WINDOW_NOT_OPEN)) reason = null;
        }
        if (isClosed) return;
        // A renewal that comes late does not open it again: the number was given up.
        holder.stop();
        onEnd.accept(reason);
    }
}
