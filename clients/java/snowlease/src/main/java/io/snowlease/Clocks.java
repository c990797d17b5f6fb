package io.snowlease;

import java.util.concurrent.TimeUnit;

/** Compares the wall clock with the monotonic one. */
final class Clocks {
    /** A larger difference between their progress is a jump, ns; a smaller one is the jitter of a busy machine. */
    private static final long STEP = TimeUnit.MILLISECONDS.toNanos(250);
    private static final long CLOSE = TimeUnit.MILLISECONDS.toNanos(5);
    private static final int MOST_READS = 10;

    private final WallClock clock;
    private long ahead;

    Clocks(WallClock clock) {
        this.clock = clock;
        ahead = read();
    }

    /** By how much the wall clock has jumped since the last look, ns; 0: not at all. */
    long jump() {
        long before = ahead;
        ahead = read();
        return Math.abs(ahead - before) < STEP ? 0 : ahead - before;
    }

    /** By how much the wall clock is ahead. Both are read again where the process was stopped in between. */
    private long read() {
        long best = 0;
        long least = Long.MAX_VALUE;
        for (int reads = 0; reads < MOST_READS && least >= CLOSE; reads++) {
            long before = System.nanoTime();
            long wall = clock.now();
            long apart = System.nanoTime() - before;
            if (apart >= least) continue;
            best = TimeUnit.MILLISECONDS.toNanos(wall) - before;
            least = apart;
        }
        return best;
    }
}
