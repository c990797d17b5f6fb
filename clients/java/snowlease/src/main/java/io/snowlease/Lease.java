package io.snowlease;

/** A claim of a worker ID as it was when it was asked for. */
public final class Lease {
    private final int workerId;
    private final long fence;
    private final long from;
    private final long until;

    Lease(int workerId, long fence, long from, long until) {
        this.workerId = workerId;
        this.fence = fence;
        this.from = from;
        this.until = until;
    }

    /** The worker ID. */
    public int workerId() {
        return workerId;
    }

    /** The registry raises it with each claim. */
    public long fence() {
        return fence;
    }

    /** Each ID carries a time from here on, Unix ms. */
    public long from() {
        return from;
    }

    /** And before this one, Unix ms. */
    public long until() {
        return until;
    }

    @Override
    public String toString() {
        return "Lease[worker " + workerId + ", fence " + fence + ", from " + from + " until " + until + "]";
    }
}
