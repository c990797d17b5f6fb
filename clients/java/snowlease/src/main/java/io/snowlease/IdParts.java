package io.snowlease;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** The parts of an ID. Immutable. */
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
        this.fields = Collections.unmodifiableMap(new LinkedHashMap<>(fields));
    }

    /** Unix ms of the start of the ID's tick. */
    public long timestamp() {
        return timestamp;
    }

    public int workerId() {
        return workerId;
    }

    public int sequence() {
        return sequence;
    }

    /** 0 where the layout has no rollback bits. */
    public int rollback() {
        return rollback;
    }

    /** Each identity field of the worker ID, by name, from the top. */
    public Map<String, Integer> fields() {
        return fields;
    }

    @Override
    public String toString() {
        return "IdParts[timestamp=" + timestamp + ", workerId=" + workerId + ", sequence=" + sequence + ", fields=" + fields + "]";
    }
}
