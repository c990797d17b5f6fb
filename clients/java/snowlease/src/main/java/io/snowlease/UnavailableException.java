package io.snowlease;

import java.util.Map;

/** There is no ID now; a later call may get one. A service answers 503. */
public final class UnavailableException extends SnowleaseException {
    UnavailableException(String code, String message, long retryAfterMs, Map<String, Object> details) {
        super(code, message, retryAfterMs, details);
    }

    UnavailableException(String code, String message, long retryAfterMs) {
        super(code, message, retryAfterMs, Map.of());
    }

    UnavailableException(String code, String message) {
        super(code, message);
    }

    @Override
    SnowleaseException again() {
        SnowleaseException same = new UnavailableException(code(), getMessage().substring(code().length() + 2), retryAfterMs(), Map.of());
        same.initCause(this);
        return same;
    }
}
