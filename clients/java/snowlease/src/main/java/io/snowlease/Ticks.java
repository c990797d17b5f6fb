package io.snowlease;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.function.Supplier;

/**
 * A window [from, until) of one claim, tick by tick: which IDs its holder may still make.
 *
 * <p>One number, {@link #state}, has the newest tick and how many of its sequences are taken. An ID is taken by one compare-and-set of it, and
 * by nothing else. So whatever changes the state, such as a raised {@code from} or the end of the claim, decides for each thread in the
 * middle of {@link #take} whether its ID still counts; and the state that an end finds covers each ID that any thread got or will get.
 */
final class Ticks {
    /** No ID now. */
    static final long NONE = 0;

    /** Another thread was first, or the ID was 0: try again. */
    private static final long AGAIN = -1;
    private static final long ENDED = -1;
    private static final VarHandle STATE;

    static {
        try {
            STATE = MethodHandles.lookup().findVarHandle(Ticks.class, "state", long.class);
        } catch (ReflectiveOperationException cause) {
            throw new ExceptionInInitializerError(cause);
        }
    }

    /** What a holder used: its newest tick (Unix ms), the highest sequence in it, and the end of what it used, Unix ms. */
    static final class Usage {
        final long until;
        /** -1: no ID was made. */
        final long timestamp;
        final long sequence;

        Usage(long until, long timestamp, long sequence) {
            this.until = until;
            this.timestamp = timestamp;
            this.sequence = sequence;
        }
    }

    final Layout layout;
    final int workerId;
    /** Of a shared window; null: the whole window is this holder's. */
    final Blocks blocks;
    private final long epoch;
    private final long tick;
    private final long tickMask;
    private final int timestampShift;
    private final int sequenceShift;
    private final long worker;
    private final long maxSequence;
    private final int countBits;
    private final long countMask;

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

    /**
     * @param clock the wall clock at the grant; all times are Unix ms.
     * @throws SnowleaseException CONFIG_INVALID for a layout that wraps and leaves no room to count.
     */
    Ticks(Layout layout, int workerId, long from, long until, long clock, Blocks blocks) {
        this.layout = layout;
        this.workerId = workerId;
        this.blocks = blocks;
        epoch = layout.epoch;
        tick = layout.tick;
        tickMask = layout.tickMask;
        timestampShift = layout.timestampShift;
        sequenceShift = layout.sequenceShift;
        worker = layout.encode(0, workerId, 0, 0);
        maxSequence = layout.maxSequence;
        // One more than the sequences have: each of them may be taken.
        countBits = layout.sequenceBits + 1;
        countMask = (1L << countBits) - 1;
        if (layout.maxTick > Long.MAX_VALUE >>> countBits) {
            throw SnowleaseException.invalid("This client leases no worker ID of " + layout + ", whose timestamp wraps; use another client.");
        }
        newestClock = clock;
        this.from = from;
        this.until = until;
        endTick = endTickOf(until);
        state = floorOf(from);
    }

    /** An ID of the tick of the wall clock; {@link #NONE}: {@link #refusal} says why. */
    long take(WallClock clock) {
        long wall = clock.now();
        long id;
        // The clock first, so that other threads have little time to be in between.
        do id = take(state, wall); while (id == AGAIN);
        if (id != NONE) return id;
        do {
            // Now the state first: what another thread put into it by then is not ahead of this thread's clock.
            long before = state;
            id = take(before, clock.now());
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
        long sequence = blocks == null ? taken : blocks.sequenceOf(now, taken);
        if (sequence > maxSequence) return NONE;
        if (!STATE.compareAndSet(this, before, (now << countBits) + taken + 1)) return AGAIN;
        long id = (now & tickMask) << timestampShift | worker | sequence << sequenceShift;
        // 0 is never an ID.
        return id == 0 ? AGAIN : id;
    }

    /** Why there is no ID at this time, as {@code clients/vectors/README.md} says, in that order; null: there may be one by now. */
    SnowleaseException refusal(WallClock clock) {
        long before = state;
        long wall = clock.now();
        if (before < 0) return why.get();
        if (wall < epoch) {
            String times = "The clock shows " + SnowleaseException.time(wall) + ", and the layout begins at " + SnowleaseException.time(epoch);
            return SnowleaseException.of(ErrorCode.WINDOW_NOT_OPEN, times + "; set the clock if it is wrong, or wait.", epoch - wall);
        }
        if (wall >= layout.endOfLife) return layout.expired();
        long now = layout.tickOf(wall);
        long newest = before >>> countBits;
        if (now < newest) return tooEarly(wall, layout.timeOf(newest));
        if (now >= endTick) {
            String what = "The window of worker " + workerId + " ended at " + SnowleaseException.time(until) + " and the clock shows "
                    + SnowleaseException.time(wall);
            return SnowleaseException.of(ErrorCode.LEASE_EXPIRED, what + "; IDs go on when a renewal succeeds.");
        }
        long taken = now == newest ? before & countMask : 0;
        if ((blocks == null ? taken : blocks.sequenceOf(now, taken)) <= maxSequence) return null;
        if (blocks != null) blocks.want(now);
        long wait = layout.timeOf(now + 1) - wall;
        String full = blocks == null
                ? "Each of the " + (maxSequence + 1) + " sequences of this tick is used"
                : "Each sequence of this tick that was borrowed is used, and more are asked for";
        return SnowleaseException.of(ErrorCode.SEQUENCE_EXHAUSTED, full + "; try again in " + wait + " ms.", wait);
    }

    private SnowleaseException tooEarly(long wall, long opens) {
        long wait = opens - wall;
        if (wall < newestClock) {
            String back = "The clock was set back by " + (newestClock - wall) + " ms, to before what worker " + workerId + " may use again";
            return SnowleaseException.of(ErrorCode.CLOCK_ROLLBACK,
                    back + "; it is usable in " + wait + " ms: wait, or ask another server.", wait);
        }
        String what = "The window of worker " + workerId + " opens at " + SnowleaseException.time(opens) + ", in " + wait + " ms";
        return SnowleaseException.of(ErrorCode.WINDOW_NOT_OPEN, what + "; wait, or correct the clock if it is wrong.", wait);
    }

    long from() {
        return from;
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
        return first > layout.maxTick ? layout.maxTick << countBits | countMask : first << countBits;
    }

    private long endTickOf(long ms) {
        return Math.min(layout.tickOf(ms), layout.maxTick + 1);
    }
}
