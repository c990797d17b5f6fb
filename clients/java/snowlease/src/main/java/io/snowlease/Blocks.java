package io.snowlease;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReferenceArray;

/**
 * The blocks that were borrowed for one claim. Time is cut into spans of ticks, and the sequences of each tick into blocks: those of a block that was
 * borrowed for a span are this process's alone, in each tick of that span.
 *
 * <p>The blocks of a span are only ever added behind the others, so that the n-th sequence of its ticks stays the same one for each thread.
 */
final class Blocks {
    /** Behind each sequence: none is borrowed. */
    static final long NONE = Long.MAX_VALUE;

    private static final int MOST = 32;
    /** Of a span, at least; ms. */
    private static final long SPAN = 64;
    /** How far ahead of the clock to borrow, ms. */
    private static final long AHEAD = 5000;
    private static final int SPANS_WANTED = 4;
    /** For spans of 65 s at least, before later ones take their slots: a lender gives 8 s ahead of its clock at most, and that may be set back. */
    private static final int SLOTS = 1024;

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

        Map<String, Object> fields() {
            return new HashMap<>(Map.of("first", first, "spans", spans, "blocks", blocks, "held", held));
        }
    }

    /** What is held of one span. Immutable. */
    private static final class Span {
        static final Span EMPTY = new Span(-1, 0, new int[0]);

        final long number;
        /** The blocks as bits. */
        final long bits;
        /** The first sequence of each, in the order in which they came. */
        final int[] begins;

        Span(long number, long bits, int[] begins) {
            this.number = number;
            this.bits = bits;
            this.begins = begins;
        }
    }

    /** Ticks of a span. */
    final long ticks;
    /** Blocks of a tick. */
    final int count;
    /** How many spans ahead of the present one are prefetched. */
    final int ahead;
    /** Sequences of a block, as a power of two. */
    final int blockBits;
    private final Layout layout;
    private final Runnable wake;
    private final AtomicReferenceArray<Span> held = new AtomicReferenceArray<>(SLOTS);
    /** Behind the last span of which a prefetch got a block. Of the thread that asks. */
    private long nextSpan;
    /** What a caller lacks; null: nothing. */
    private volatile Request wanted;
    /** Why the last request got no answer; null: it did. */
    private volatile SnowleaseException trouble;

    /** @param wake is run where a caller wants more. */
    Blocks(Layout layout, Runnable wake) {
        this.layout = layout;
        this.wake = wake;
        ticks = Math.max(1, (SPAN + layout.tick - 1) / layout.tick);
        count = (int) Math.min(MOST, layout.maxSequence + 1L);
        blockBits = Long.numberOfTrailingZeros((layout.maxSequence + 1L) / count);
        long length = ticks * layout.tick;
        ahead = (int) Math.max(1, (AHEAD + length - 1) / length);
    }

    /** The sequence that a tick has after so many others; {@link #NONE}: none. */
    long sequence(long tick, long taken) {
        int[] begins = of(tick / ticks).begins;
        long at = taken >>> blockBits;
        return at < begins.length ? begins[(int) at] + (taken & (1L << blockBits) - 1) : NONE;
    }

    private Span of(long span) {
        Span found = held.get(slotOf(span));
        return found != null && found.number == span ? found : Span.EMPTY;
    }

    private static int slotOf(long span) {
        return (int) (span & SLOTS - 1);
    }

    /** A caller found no sequence in this tick. Asks for more, unless that is on its way. */
    void want(long tick) {
        synchronized (this) {
            if (wanted != null) return;
            long span = tick / ticks;
            int own = of(span).begins.length;
            wanted = new Request(span, SPANS_WANTED, Math.max(1, own), own);
        }
        wake.run();
    }

    /** What a caller lacks; null: nothing. */
    Request wanted() {
        return wanted;
    }

    /** Why the last request got no answer; null: it did. */
    SnowleaseException trouble() {
        return trouble;
    }

    /** What to ask for ahead of this time, Unix ms; null: nothing. */
    Request prefetch(long clock) {
        long present = Math.max(0, Math.floorDiv(layout.tickOf(clock), ticks));
        // A clock that was set back has no blocks there.
        long first = nextSpan > present + ahead + 1 ? present : Math.max(present, nextSpan);
        long spans = present + ahead + 1 - first;
        return spans <= 0 ? null : new Request(first, (int) spans, 1, 0);
    }

    /** The blocks of each span that an answer gives, as bits. @throws IllegalArgumentException for those that are none of the request. */
    long[] read(Request request, Map<String, Object> answer) {
        Object given = answer.get("blocks");
        if (!(given instanceof List) || ((List<?>) given).size() > request.spans) {
            throw new IllegalArgumentException("its `blocks` is no list of " + request.spans + " at most");
        }
        long all = (1L << count) - 1;
        return ((List<?>) given).stream().mapToLong(bits -> {
            if (bits instanceof Long && (Long) bits >= 0 && (Long) bits <= all) return (Long) bits;
            throw new IllegalArgumentException("its `blocks` has other values than integers from 0 to " + all);
        }).toArray();
    }

    /** A request is answered with the blocks of each span, as bits. Returns whether any is new. By one thread. */
    boolean given(Request request, long[] blocks) {
        boolean isMore = false;
        long behind = request.first;
        for (int at = 0; at < blocks.length; at++) {
            if (blocks[at] == 0) continue;
            behind = request.first + at + 1;
            isMore |= add(request.first + at, blocks[at]);
        }
        if (request != wanted) nextSpan = behind;
        answered(request, null);
        return isMore;
    }

    /** A request ended with an error; its blocks, if there were any, are lost. */
    void failed(Request request, SnowleaseException cause) {
        answered(request, cause);
    }

    private void answered(Request request, SnowleaseException cause) {
        trouble = cause;
        if (request == wanted) wanted = null;
    }

    private boolean add(long number, long blocks) {
        Span before = of(number);
        // A block that is held already would make its IDs twice.
        long more = blocks & ~before.bits;
        if (more == 0) return false;
        int end = before.begins.length;
        int[] begins = Arrays.copyOf(before.begins, end + Long.bitCount(more));
        for (long rest = more; rest != 0; rest &= rest - 1) begins[end++] = Long.numberOfTrailingZeros(rest) << blockBits;
        held.set(slotOf(number), new Span(number, before.bits | more, begins));
        return true;
    }
}
