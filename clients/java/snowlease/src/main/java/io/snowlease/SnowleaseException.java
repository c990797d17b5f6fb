package io.snowlease;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/** Why there is no ID, or why a value was refused. The message is one line without tokens, and begins with the code. */
public class SnowleaseException extends RuntimeException {
    private static final int LONGEST_VALUE = 60;
    private static final int LONGEST_LINE = 1000;
    private static final long NOT_KNOWN = -1;

    private final String code;
    private final long retryAfterMs;
    private final transient Map<String, Object> details;

    SnowleaseException(String code, String message, long retryAfterMs, Map<String, Object> details) {
        super(code + ": " + message);
        this.code = code;
        this.retryAfterMs = retryAfterMs;
        this.details = details;
    }

    SnowleaseException(String code, String message) {
        this(code, message, NOT_KNOWN, Map.of());
    }

    /** The error of a value that is not what it has to be. */
    static SnowleaseException expected(String name, String rule, Object value) {
        String text = oneLine(String.valueOf(value));
        String shown = text.length() <= LONGEST_VALUE ? text : text.substring(0, LONGEST_VALUE - 3) + "...";
        return new SnowleaseException("CONFIG_INVALID", "Expected `" + name + "` " + rule + ", got `" + shown + "`.");
    }

    /** The code of the error, as the daemon names it too. */
    public final String code() {
        return code;
    }

    /** After what time the same call may succeed; empty where that is not known, or waiting does not help. */
    public final Optional<Duration> retryAfter() {
        return retryAfterMs < 0 ? Optional.empty() : Optional.of(Duration.ofMillis(retryAfterMs));
    }

    /** ms; negative: not known. */
    final long retryAfterMs() {
        return retryAfterMs;
    }

    /** What else a daemon said. */
    final Object detail(String name) {
        return details == null ? null : details.get(name);
    }

    /** The same error for another caller, with a stack of its own. */
    SnowleaseException again() {
        SnowleaseException same = new SnowleaseException(code, getMessage().substring(code.length() + 2), retryAfterMs, details);
        same.initCause(this);
        return same;
    }

    /** The text without ends of lines, control characters and the passwords of URLs. */
    static String oneLine(String text) {
        // Cut first: the second pattern takes the square of the length.
        String some = text.length() <= LONGEST_LINE ? text : text.substring(0, LONGEST_LINE);
        return some.replaceAll("[\\p{Cntrl}\\x{80}-\\x{9f}\\x{2028}\\x{2029}\\p{Cs}]+", " ").replaceAll("(\\w:/+)\\S*@", "$1***@").trim();
    }

    /** Unix ms as messages show it. */
    static String time(long ms) {
        return Instant.ofEpochMilli(ms).toString();
    }
}
