package io.snowlease;

import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;

/** Why there is no ID, or why a value was refused. Its message is one line, without passwords and tokens. */
public class SnowleaseException extends RuntimeException {
    static final long UNKNOWN = -1;

    private static final long serialVersionUID = 1;
    private static final Pattern CONTROL = Pattern.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]+");
    private static final Pattern LOGIN = Pattern.compile("([A-Za-z][\\w+.-]*:/+)\\S*@");
    private static final Pattern SECRET_PARAMETER =
            Pattern.compile("([?&]\\w*(?:password|token)=)[^&\\s`]*", Pattern.CASE_INSENSITIVE);
    private static final long LAST_SHOWN = 253_402_300_800_000L;

    private final ErrorCode code;
    private final long retryAfterMs;
    private final transient Map<String, Object> details;

    SnowleaseException(ErrorCode code, String message, long retryAfterMs, Map<String, Object> details) {
        super(code + ": " + oneLine(message));
        this.code = code;
        this.retryAfterMs = retryAfterMs;
        this.details = Collections.unmodifiableMap(new HashMap<>(details));
    }

    SnowleaseException(SnowleaseException said) {
        super(said.getMessage(), said);
        this.code = said.code;
        this.retryAfterMs = said.retryAfterMs;
        this.details = said.details;
    }

    /** What is wrong. */
    public ErrorCode code() {
        return code;
    }

    /** Whether the same call may succeed later without any other change: the exception is then an {@link UnavailableException}. */
    public boolean isRetryable() {
        return code.isRetryable();
    }

    /** After what time the same call may succeed; empty where that is not known, or waiting does not help. */
    public Optional<Duration> retryAfter() {
        return retryAfterMs < 0 ? Optional.empty() : Optional.of(Duration.ofMillis(retryAfterMs));
    }

    /** What else a daemon said, as JSON: strings, Long, Double, Boolean, lists, maps. */
    public Map<String, Object> details() {
        return details == null ? Collections.emptyMap() : details;
    }

    /** In ms; {@link #UNKNOWN} where that is not known. */
    long retryAfterMs() {
        return retryAfterMs;
    }

    /** The same for another caller, with a stack of its own. */
    SnowleaseException again() {
        return new SnowleaseException(this);
    }

    @Override
    public String toString() {
        return getMessage();
    }

    static SnowleaseException of(ErrorCode code, String message) {
        return of(code, message, UNKNOWN, Collections.emptyMap());
    }

    static SnowleaseException of(ErrorCode code, String message, long retryAfterMs) {
        return of(code, message, retryAfterMs, Collections.emptyMap());
    }

    /** An {@link UnavailableException} where the call may succeed later. */
    static SnowleaseException of(ErrorCode code, String message, long retryAfterMs, Map<String, Object> details) {
        return code.isRetryable()
                ? new UnavailableException(code, message, retryAfterMs, details)
                : new SnowleaseException(code, message, retryAfterMs, details);
    }

    static SnowleaseException invalid(String message) {
        return of(ErrorCode.CONFIG_INVALID, message);
    }

    /** CONFIG_INVALID for a value that is not what it has to be: for assigners. @param rule begins with "to". */
    public static SnowleaseException invalid(String name, String rule, String value) {
        return expected(name, rule, value);
    }

    /** For a value that is not what it has to be. */
    static SnowleaseException expected(String name, String rule, Object value) {
        return invalid("Expected `" + name + "` " + rule + ", got " + shown(value) + ".");
    }

    /** A rejected value for a message: a short text, then its type. */
    static String shown(Object value) {
        if (value == null) return "null";
        String text = String.valueOf(value);
        String type = value instanceof Number ? "number" : value.getClass().getSimpleName().toLowerCase(java.util.Locale.ROOT);
        return "`" + oneLine(text.length() <= 60 ? text : text.substring(0, 57) + "...") + "` (" + type + ")";
    }

    /** The text without line ends, control characters and the logins of URLs. */
    static String oneLine(String text) {
        String clean = LOGIN.matcher(CONTROL.matcher(text).replaceAll(" ")).replaceAll("$1***@");
        return SECRET_PARAMETER.matcher(clean).replaceAll("$1***").trim();
    }

    /** Unix ms as messages show it. */
    static String time(long ms) {
        return ms < 0 || ms >= LAST_SHOWN ? ms + " (Unix ms)" : Instant.ofEpochMilli(ms).toString();
    }
}
