package io.snowlease;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentSkipListMap;

/**
 * The blocks that were borrowed of a shared window: of each span of ticks, those sequences that are this process's alone. The blocks of a span
 * are only ever added behind the others, so that the n-th sequence of a tick stays the same one.
 */
final class Blocks {
    private static final int MOST = 32;
    private static final long SPAN_LENGTH = 64;
    private static final long AHEAD = 5000;
    private static final int SPANS_WANTED = 4;
    private static final int MOST_HELD = 512;
    private static final int[] NOTHING = {};

    /** Asks for so many blocks of each of some spans, of which so many are held. */
    static final class Request {
        final long first;
        final int spans;
        final int blocks;
        final int held;

        Request(long first, int spans, int blocks, int held) {
            this.first = first;
            this.spans = spans;
            this.blocks = blocks;
            this.held = held;
        }
    }

    final long ticks;
    final int perSpan;
    final long sequences;
    final int ahead;
    private final Layout layout;
    private final Runnable wake;
    private final ConcurrentSkipListMap<Long, int[]> held = new ConcurrentSkipListMap<>();
    /** Behind the last span of which a prefetch got a block. */
    private long nextSpan;
    /** What a caller lacked, until it is answered. */
    private volatile Request wanted;

    /** @param wake called where a caller wants more blocks. */
    Blocks(Layout layout, Runnable wake) {
        this.layout = layout;
        this.wake = wake;
        ticks = Math.max(1, (SPAN_LENGTH + layout.tick - 1) / layout.tick);
        perSpan = (int) Math.min(MOST, layout.maxSequence + 1L);
        sequences = (layout.maxSequence + 1L) / perSpan;
        long length = layout.tick * ticks;
        ahead = (int) Math.max(1, (AHEAD + length - 1) / length);
    }

    long spanOf(long tick) {
        return tick / ticks;
    }

    /** The sequence that a tick has after so many others; behind each sequence where there is none. */
    long sequenceOf(long tick, long taken) {
        int[] blocks = held.getOrDefault(spanOf(tick), NOTHING);
        long at = taken / sequences;
        return at < blocks.length ? blocks[(int) at] * sequences + taken % sequences : Long.MAX_VALUE;
    }

    /** A caller has no sequence left in this tick. */
    void want(long tick) {
        synchronized (this) {
            if (wanted != null) return;
            int own = held.getOrDefault(spanOf(tick), NOTHING).length;
            wanted = new Request(spanOf(tick), SPANS_WANTED, Math.max(1, own), own);
        }
        wake.run();
    }

    /** What a caller waits for; null: nothing. */
    Request wanted() {
        return wanted;
    }

    /** What to ask for at this time, Unix ms; null: nothing. */
    synchronized Request prefetch(long wall) {
        long present = Math.max(0, Math.floorDiv(layout.tickOf(wall), ticks));
        // A clock that was set back has no blocks there, and takes them again.
        long first = nextSpan > present + ahead + 1 ? present : Math.max(present, nextSpan);
        long spans = present + ahead - first + 1;
        return spans <= 0 ? null : new Request(first, (int) spans, 1, 0);
    }

    /** A request is answered with the blocks of each span, as bits. Returns whether there were any. */
    synchronized boolean given(Request request, List<Long> bits) {
        long last = -1;
        for (int at = 0; at < bits.size() && at < request.spans; at++) {
            long more = bits.get(at);
            if (more == 0) continue;
            last = request.first + at;
            add(last, more);
        }
        if (request == wanted) wanted = null;
        else if (last >= 0) nextSpan = last + 1;
        // The oldest are of no use any more. Not all that are behind this request: the clock may have gone ahead, and come back.
        while (held.size() > MOST_HELD) held.pollFirstEntry();
        return last >= 0;
    }

    /** A request got no answer: its blocks are lost. */
    void unanswered(Request request) {
        if (request == wanted) wanted = null;
    }

    private void add(long span, long bits) {
        int[] before = held.getOrDefault(span, NOTHING);
        int[] after = Arrays.copyOf(before, before.length + Long.bitCount(bits));
        int at = before.length;
        for (int block = 0; block < perSpan; block++) {
            if ((bits >>> block & 1) == 1) after[at++] = block;
        }
        held.put(span, after);
    }
}
