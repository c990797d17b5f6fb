package io.snowlease;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * The window [from, until) of one claim, tick by tick: which IDs its holder may still make.
 *
 * <p>One number, {@link #state}, has the newest tick and how many of its sequences are taken. An ID is taken by one compare-and-set of it, and
 * by nothing else. So whatever changes the state, such as a raised {@code from} or the end of the claim, decides for each thread in the
 * middle of {@link #take} whether its ID still counts; and the state that an end finds covers each ID that any thread got or will get.
 *
 * <p>Of a borrowed lease the count is that of the sequences of {@link #blocks} in their order, which is the same for each thread.
 */
final class Window {
    /** No ID now. */
    static final long NONE = 0;

    /** Another thread was first, or the ID was 0: try again. */
    private static final long AGAIN = -1;
    private static final long ENDED = -1;
    private static final VarHandle STATE;

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(Window.class, "state", long.class);
        } catch (ReflectiveOperationException cause) {
            throw new ExceptionInInitializerError(cause);
        }
    }

    /** What a holder used. */
    static final class Usage {
        /** The end of it, Unix ms. */
        final long until;
        /** Its newest tick, Unix ms; -1: no ID was made. */
        final long timestamp;
        /** The highest sequence in that. */
        final long sequence;

        Usage(long until, long timestamp, long sequence) {
            this.until = until;
            this.timestamp = timestamp;
            this.sequence = sequence;
        }
    }

    final Layout layout;
    final int workerId;
    final long fence;
    /** What is borrowed of a worker ID that others use, too; null: all of it is this process's. */
    final Blocks blocks;
    private final long epoch;
    private final long tick;
    private final int timestampShift;
    private final int sequenceShift;
    private final long worker;
    private final long maxSequence;
    private final int countBits;
    private final long countMask;
    private final long lastTick;

    /**
     * The newest tick, or the first whole tick of the window where that is later, and in the low bits how many of its sequences are taken.
     * It only grows, until it is {@link #ENDED}.
     */
    private volatile long state;
    /** The first tick that ends behind the window, or behind the life of the layout. It only grows. */
    private volatile long endTick;
    private volatile long from;
    private volatile long until;
    /** The highest clock at which an ID was possible. Only tells what a refusal is: a write that is lost costs nothing. */
    private long newestClock;
    /** The newest state with a sequence taken, from before `from` was raised behind it, or before the end; -1: none. */
    private long usedBefore = -1;
    private volatile Supplier<SnowleaseException> why;
    /** Why the last renewal failed; null: it did not. */
    volatile SnowleaseException trouble;

    /** @param clock the wall clock at the grant; all times are Unix ms. */
    Window(Layout layout, Lease lease, long clock) {
        this(layout, lease, clock, null);
    }

    /** The same for a borrowed lease. */
    Window(Layout layout, Lease lease, long clock, Blocks blocks) {
        this.layout = layout;
        this.blocks = blocks;
        workerId = lease.workerId();
        fence = lease.fence();
        epoch = layout.epoch;
        tick = layout.tick;
        timestampShift = layout.timestampShift();
        sequenceShift = layout.sequenceShift();
        worker = layout.encode(0, workerId, 0, 0);
        maxSequence = layout.maxSequence;
        // One more than the sequences have: each of them may be taken.
        countBits = layout.sequenceBits + 1;
        countMask = (1L << countBits) - 1;
        // Where timestamp and sequence have all 63 bits, the second half of the layout's life does not fit the state.
        lastTick = Math.min(layout.maxTick, Long.MAX_VALUE >>> countBits);
        newestClock = clock;
        from = lease.from();
        until = lease.until();
        endTick = endTickOf(until);
        state = floorOf(from);
    }

    Lease lease() {
        return new Lease(workerId, fence, from, until);
    }

    /** An ID of the tick of the wall clock; {@link #NONE}: {@link #refusal} says why. */
    long take(LongSupplier clock) {
        long wall = clock.getAsLong();
        long id;
        // The clock first, so that other threads have little time to be in between.
        do id = take(state, wall); while (id == AGAIN);
        if (id != NONE) return id;
        do {
            // Now the state first: what another thread put into it by then is not ahead of this thread's clock.
            long before = state;
            id = take(before, clock.getAsLong());
        } while (id == AGAIN);
        return id;
    }

    private long take(long before, long wall) {
        if (before < 0) return NONE;
        long now = tick == 1 ? wall - epoch : Math.floorDiv(wall - epoch, tick);
        long newest = before >>> countBits;
        // The check of the window. Its begin is part of the state, which it raises.
        if (now < newest || now >= endTick) return NONE;
        if (wall > newestClock) newestClock = wall;
        long taken = now == newest ? before & countMask : 0;
        long sequence = sequence(now, taken);
        if (sequence > maxSequence) return NONE;
        if (!STATE.compareAndSet(this, before, (now << countBits) + taken + 1)) return AGAIN;
        long id = now << timestampShift | worker | sequence << sequenceShift;
        // 0 is never an ID.
        return id == 0 ? AGAIN : id;
    }

    /** The sequence that a tick has after so many others; behind the highest one where there is none. */
    private long sequence(long now, long taken) {
        return blocks == null ? taken : blocks.sequence(now, taken);
    }

    /**
     * Why there is no ID at this time, as {@code clients/vectors/README.md} says, in that order; null: there may be one by now. Asks for more blocks where
     * these were all used.
     */
    SnowleaseException refusal(LongSupplier clock) {
        long before = state;
        long wall = clock.getAsLong();
        if (before < 0) return why.get();
        if (wall < epoch) {
            String times = "The clock shows " + SnowleaseException.time(wall) + ", and the layout begins at " + SnowleaseException.time(epoch);
            return new UnavailableException("WINDOW_NOT_OPEN", times + "; correct the clock if it is wrong, or wait.", epoch - wall);
        }
        if (wall >= layout.timeOf(lastTick + 1)) return Layout.expired(layout.timeOf(lastTick + 1));
        long now = layout.tickOf(wall);
        long newest = before >>> countBits;
        if (now < newest) return tooEarly(wall, layout.timeOf(newest));
        if (now >= endTick) {
            String what = "The window of worker " + workerId + " ended at " + SnowleaseException.time(until) + " and the clock shows "
                    + SnowleaseException.time(wall) + "; IDs go on when a renewal succeeds.";
            SnowleaseException last = trouble;
            return new UnavailableException("LEASE_EXPIRED", last == null ? what : what + " The last one did not: " + last.getMessage());
        }
        if (sequence(now, now > newest ? 0 : before & countMask) <= maxSequence) return null;
        long wait = layout.timeOf(now + 1) - wall;
        if (blocks != null) return noBlock(now, wait);
        String full = "Each of the " + (maxSequence + 1) + " sequences of this tick is used; try again in " + wait + " ms.";
        return new UnavailableException("SEQUENCE_EXHAUSTED", full, wait);
    }

    private SnowleaseException noBlock(long now, long wait) {
        blocks.want(now);
        SnowleaseException last = blocks.trouble();
        String none = "The daemon has given no block of this tick: others have them all, or this clock is ahead of its own by more than 8 s";
        String what = (last == null && blocks.sequence(now, 0) == Blocks.NONE ? none : "Each borrowed sequence of this tick is used")
                + "; try again in " + wait + " ms.";
        String why = last == null ? "" : " The last request for more failed: " + last.getMessage();
        return new UnavailableException("SEQUENCE_EXHAUSTED", what + why, wait);
    }

    private SnowleaseException tooEarly(long wall, long opens) {
        long wait = opens - wall;
        if (wall < newestClock) {
            String back = "The clock was set back by " + (newestClock - wall) + " ms, to before what worker " + workerId + " may use again";
            return new UnavailableException("CLOCK_ROLLBACK", back + "; it is usable in " + wait + " ms: wait, or ask another server.", wait);
        }
        String what = "The window of worker " + workerId + " opens at " + SnowleaseException.time(opens) + ", in " + wait + " ms";
        return new UnavailableException("WINDOW_NOT_OPEN", what + "; wait, or correct the clock if it is wrong.", wait);
    }

    long until() {
        return until;
    }

    /** A renewal was answered. Raises both ends of the window, and lowers neither. */
    synchronized void renewed(long newFrom, long newUntil) {
        if (newFrom > from) {
            from = newFrom;
            raise(floorOf(newFrom));
        }
        if (newUntil > until) {
            until = newUntil;
            endTick = endTickOf(newUntil);
        }
    }

    /** A quarantine refused a renewal of this clock, Unix ms: the registry may have granted the times before it to others. */
    void giveUpBefore(long clock) {
        renewed(Math.min(clock, until), until);
    }

    /** What was used so far. */
    synchronized Usage usage() {
        return usageOf(state);
    }

    /** Ends this claim: there is no ID from now on, but {@code why}. Returns what was used; null if it had ended. */
    synchronized Usage end(Supplier<SnowleaseException> reason) {
        if (state == ENDED) return null;
        why = reason;
        long last = (long) STATE.getAndSet(this, ENDED);
        if (isUsed(last)) usedBefore = last;
        return usageOf(ENDED);
    }

    private Usage usageOf(long last) {
        long used = isUsed(last) ? last : usedBefore;
        if (used < 0) return new Usage(from, -1, -1);
        long timestamp = layout.timeOf(used >>> countBits);
        return new Usage(Math.max(from, timestamp + tick), timestamp, (used & countMask) - 1);
    }

    private boolean isUsed(long last) {
        long taken = last & countMask;
        return last >= 0 && taken > 0 && taken < countMask;
    }

    /** No ID of a state before this one from now on. */
    private void raise(long floor) {
        for (;;) {
            long before = state;
            if (before < 0 || before >= floor) return;
            if (!STATE.compareAndSet(this, before, floor)) continue;
            if (isUsed(before)) usedBefore = before;
            return;
        }
    }

    /** The state in which nothing from this Unix ms on is taken. Behind the life of the layout there is none; its last tick then has no sequence. */
    private long floorOf(long ms) {
        long first = layout.firstWholeTick(ms);
        return first > lastTick ? lastTick << countBits | countMask : first << countBits;
    }

    private long endTickOf(long ms) {
        return Math.min(layout.tickOf(ms), lastTick + 1);
    }
}
