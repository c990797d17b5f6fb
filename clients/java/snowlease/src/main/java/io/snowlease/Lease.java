package io.snowlease;

/** A lease as it is at one time: a worker ID, and the times that its holder may put into IDs. Immutable. */
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

    public int workerId() {
        return workerId;
    }

    /** The registry raises it with each claim of the worker ID. */
    public long fence() {
        return fence;
    }

    /** Unix ms: the begin of the window. */
    public long from() {
        return from;
    }

    /** Unix ms: the end of the window, which is not part of it. */
    public long until() {
        return until;
    }

    @Override
    public String toString() {
        return "Lease[worker " + workerId + ", fence " + fence + ", " + from + " to " + until + "]";
    }
}
