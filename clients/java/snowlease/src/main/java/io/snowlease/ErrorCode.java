package io.snowlease;

/** The closed set of what may be wrong. */
public enum ErrorCode {
    CONFIG_INVALID(false),
    POOL_EXHAUSTED(true),
    WORKER_ID_HELD(true),
    LEASE_LOST(false),
    LEASE_EXPIRED(true),
    WINDOW_NOT_OPEN(true),
    CLOCK_SKEW(true),
    CLOCK_ROLLBACK(true),
    SEQUENCE_EXHAUSTED(true),
    QUARANTINE(true),
    OTHER_REGISTRY(false),
    LAYOUT_MISMATCH(false),
    LAYOUT_EXPIRED(false),
    SCHEMA_INCOMPATIBLE(false),
    REGISTRY_UNAVAILABLE(true),
    DRIVER_MISSING(false),
    NOT_FOUND(false),
    UNAUTHORIZED(false),
    FORBIDDEN(false),
    RATE_LIMITED(true);

    private final boolean isRetryable;

    ErrorCode(boolean isRetryable) {
        this.isRetryable = isRetryable;
    }

    /** Whether the same call may succeed later without any other change. */
    public boolean isRetryable() {
        return isRetryable;
    }

    /** The code of this name, or null. */
    static ErrorCode named(String name) {
        for (ErrorCode code : values()) {
            if (code.name().equals(name)) return code;
        }
        return null;
    }
}
