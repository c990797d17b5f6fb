package io.snowlease;

import java.util.Collections;
import java.util.Map;

/** The parts of an ID. */
public final class IdParts {
    private final long timestamp;
    private final int workerId;
    private final int sequence;
    private final int rollback;
    private final Map<String, Integer> fields;

    IdParts(long timestamp, int workerId, int sequence, int rollback, Map<String, Integer> fields) {
        this.timestamp = timestamp;
        this.workerId = workerId;
        this.sequence = sequence;
        this.rollback = rollback;
        this.fields = Collections.unmodifiableMap(fields);
    }

    /** Unix ms of the begin of its tick. */
    public long timestamp() {
        return timestamp;
    }

    /** The worker ID. */
    public int workerId() {
        return workerId;
    }

    /** Which ID of its tick it is, from 0. */
    public int sequence() {
        return sequence;
    }

    /** How often the clock went back, where the layout counts that. */
    public int rollback() {
        return rollback;
    }

    /** What the worker ID consists of, by name, from the top. */
    public Map<String, Integer> fields() {
        return fields;
    }

    @Override
    public String toString() {
        return "IdParts[" + SnowleaseException.time(timestamp) + ", worker " + workerId + ", sequence " + sequence + "]";
    }
}
