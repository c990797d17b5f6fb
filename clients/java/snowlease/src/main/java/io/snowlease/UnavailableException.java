package io.snowlease;

import java.util.Map;

/** There is no ID now; there may be one later. A service answers 503. */
public final class UnavailableException extends SnowleaseException {
    private static final long serialVersionUID = 1;

    UnavailableException(ErrorCode code, String message, long retryAfterMs, Map<String, Object> details) {
        super(code, message, retryAfterMs, details);
    }

    private UnavailableException(UnavailableException said) {
        super(said);
    }

    @Override
    SnowleaseException again() {
        return new UnavailableException(this);
    }
}
