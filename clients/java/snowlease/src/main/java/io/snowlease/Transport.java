package io.snowlease;

import java.io.IOException;
import java.security.cert.CertificateException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.net.ssl.SSLException;

/** Sends calls to the first daemon that answers. For one caller at a time. */
final class Transport {
    /** Pauses between two rounds of all daemons, ms: doubled each time. */
    private static final long FIRST_PAUSE = 20;
    private static final long LONGEST_PAUSE = 500;
    private static final long NEVER = Long.MAX_VALUE;
    private static final int LONGEST_DETAIL = 1000;
    private static final int LONGEST_CODE = 64;
    private static final int LONGEST_CAUSE = 200;
    private static final long LONGEST_WAIT = 1_000_000_000_000L;
    private static final Pattern RECEIPT = Pattern.compile("[\\x21-\\x7e]{1,1024}");
    private static final Map<Integer, ErrorCode> CODE_OF_STATUS = Map.of(
            401, ErrorCode.UNAUTHORIZED, 403, ErrorCode.FORBIDDEN, 404, ErrorCode.NOT_FOUND,
            410, ErrorCode.LEASE_LOST, 429, ErrorCode.RATE_LIMITED);
    /** Another daemon may know the token, or be of the version that the registry needs. */
    private static final Set<Integer> OTHERS_MAY_KNOW = Set.of(401, 403, 500);
    private static final Set<Integer> TRY_AGAIN = Set.of(408, 429, 503);
    private static final Set<String> SECRETS = Set.of("token", "turn", "nextTurn");

    /** Makes something of an answer. Throws IllegalArgumentException for one that is no daemon's. */
    interface Read<T> {
        T read(Map<String, Object> answer);
    }

    /** A call, to be asked of any daemon. */
    static final class Call<T> {
        final String method;
        final String path;
        final Map<String, Object> body;
        final String receipt;
        final Read<T> read;

        /** @param body null: none. @param receipt null: none. */
        Call(String method, String path, Map<String, Object> body, String receipt, Read<T> read) {
            this.method = method;
            this.path = path;
            this.body = body;
            this.receipt = receipt;
            this.read = read;
        }
    }

    /** What a daemon answered; or that the call was not applied, as far as is known, and another daemon, or the same one later, may apply it. */
    static final class Outcome<T> {
        final T value;
        /** null: none. */
        final String receipt;
        /** null: there is an answer. */
        final SnowleaseException error;
        /** A repetition fails, too, until an operator changes something. */
        final boolean isLasting;
        /** The error is the daemon's own answer. */
        final boolean isTold;

        private Outcome(T value, String receipt, SnowleaseException error, boolean isLasting, boolean isTold) {
            this.value = value;
            this.receipt = receipt;
            this.error = error;
            this.isLasting = isLasting;
            this.isTold = isTold;
        }

        private static <T> Outcome<T> failed(SnowleaseException error, boolean isLasting, boolean isTold) {
            return new Outcome<>(null, null, error, isLasting, isTold);
        }
    }

    final List<Daemon> daemons;
    private final String token;
    private final long timeout;
    /** The daemon that answered last is asked first. */
    private int favourite;

    /** @param token for addresses without a login; null: none. @param timeout of a call, over all daemons and repetitions, ns. */
    Transport(List<Daemon> daemons, String token, long timeout) {
        this.daemons = daemons;
        this.token = token;
        this.timeout = timeout;
    }

    /**
     * Sends a call that may be repeated.
     *
     * @throws SnowleaseException what a daemon refused with; REGISTRY_UNAVAILABLE where none answered in time; OTHER_REGISTRY only where each
     *     daemon answered that.
     */
    <T> Outcome<T> call(Call<T> call) {
        long deadline = System.nanoTime() + timeout;
        long pause = FIRST_PAUSE;
        SnowleaseException why = null;
        for (;;) {
            List<Outcome<T>> failures = new ArrayList<>();
            int first = favourite;
            for (int asked = 0; asked < daemons.size(); asked++) {
                int at = (first + asked) % daemons.size();
                // A silent daemon leaves the others their share of the time.
                long share = (deadline - System.nanoTime()) / (daemons.size() - asked);
                if (share <= 0) break;
                Outcome<T> outcome = ask(daemons.get(at), call, share);
                if (outcome.error == null) {
                    favourite = at;
                    return outcome;
                }
                failures.add(outcome);
            }
            Outcome<T> failure = telling(failures);
            if (failure != null && failure.isTold && failure.error.code() == ErrorCode.REGISTRY_UNAVAILABLE) why = failure.error;
            long passes = passesIn(failures);
            long wait = Math.max(pause, passes);
            if (passes == NEVER || System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(wait) - deadline >= 0) {
                SnowleaseException error = failure == null ? late() : failure.error;
                throw error.code() == ErrorCode.REGISTRY_UNAVAILABLE && why != null ? why : error;
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(wait));
            pause = Math.min(2 * pause, LONGEST_PAUSE);
        }
    }

    /** Asks one daemon, once. @throws SnowleaseException what every other one would refuse with, too. */
    <T> Outcome<T> ask(Daemon daemon, Call<T> call, long nanos) {
        Map<String, String> headers = new HashMap<>();
        String login = daemon.login != null ? daemon.login : token == null ? null : "Bearer " + token;
        if (login != null) headers.put("authorization", login);
        if (call.receipt != null) headers.put("snowlease-receipt", call.receipt);
        List<String> secrets = secretsOf(call, login);
        Reply reply;
        try {
            String body = call.body == null ? null : Json.write(call.body);
            reply = daemon.ask(call.method, call.path, body, headers, System.nanoTime() + nanos);
        } catch (IOException cause) {
            String said = without(secrets, cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage());
            boolean isTls = cause instanceof SSLException;
            boolean isLasting = isTls && hasCause(cause, CertificateException.class) || said.contains("Permission denied");
            String advice = isTls ? "check `tlsCa`, `tlsCert` and `tlsKey`" : "check that it runs";
            return unavailable(daemon, "did not answer: " + cut(said, LONGEST_CAUSE) + "; " + advice, isLasting);
        }
        try {
            if (reply.status >= 200 && reply.status < 300) {
                Map<String, Object> answer = reply.body.length == 0 ? Collections.emptyMap() : Json.readObject(reply.body);
                String given = reply.header("snowlease-receipt");
                boolean isReceipt = given != null && RECEIPT.matcher(given).matches();
                return new Outcome<>(call.read.read(answer), isReceipt ? given : null, null, false, false);
            }
            return refused(daemon, reply.status, Json.readObject(reply.body), secrets);
        } catch (IllegalArgumentException cause) {
            String said = cut(call.method + ", status " + reply.status + ": " + without(secrets, String.valueOf(cause.getMessage())), LONGEST_CAUSE);
            return unavailable(daemon, "gave an answer that is not a snowlease daemon's (" + said + "); check the address", false);
        }
    }

    private static <T> Outcome<T> refused(Daemon daemon, int status, Map<String, Object> problem, List<String> secrets) {
        String name = Answers.text(problem.get("code"));
        String detail = cut(Answers.text(problem.get("detail")), LONGEST_DETAIL);
        ErrorCode code = ErrorCode.named(name);
        if (code == null) {
            ErrorCode byStatus = status < 500 ? ErrorCode.CONFIG_INVALID
                    : status == 500 ? ErrorCode.SCHEMA_INCOMPATIBLE : ErrorCode.REGISTRY_UNAVAILABLE;
            detail += " The daemon at " + daemon.shown + " calls it " + cut(name, LONGEST_CODE) + ", which only a newer version knows.";
            code = CODE_OF_STATUS.getOrDefault(status, byStatus);
        }
        Object wait = problem.get("retryAfterMs");
        boolean isWait = wait instanceof Number && ((Number) wait).doubleValue() >= 0 && ((Number) wait).doubleValue() < LONGEST_WAIT;
        Map<String, Object> details = new HashMap<>();
        if (problem.get("details") instanceof Map) {
            ((Map<?, ?>) problem.get("details")).forEach((member, value) -> details.put((String) member, cleaned(value, secrets)));
        }
        long retryAfter = isWait ? ((Number) wait).longValue() : SnowleaseException.UNKNOWN;
        SnowleaseException error = SnowleaseException.of(code, without(secrets, detail), retryAfter, details);
        if (OTHERS_MAY_KNOW.contains(status) || code == ErrorCode.OTHER_REGISTRY) return Outcome.failed(error, true, true);
        if (TRY_AGAIN.contains(status)) return Outcome.failed(error, false, true);
        throw error;
    }

    /** The failure that says most: a daemon's answer says more than the silence of another one; null: there is none. */
    private <T> Outcome<T> telling(List<Outcome<T>> failures) {
        List<Outcome<T>> here = failures.stream().filter(failure -> failure.error.code() != ErrorCode.OTHER_REGISTRY).collect(Collectors.toList());
        if (here.isEmpty()) return failures.size() == daemons.size() ? failures.get(0) : null;
        Outcome<T> said = null;
        for (Outcome<T> failure : here) {
            if (failure.error.code() != ErrorCode.REGISTRY_UNAVAILABLE) said = failure;
        }
        if (said != null) return said;
        return here.stream().filter(failure -> failure.isTold).findFirst().orElse(here.get(0));
    }

    /** In how many ms one of the daemons may have another answer. */
    private static <T> long passesIn(List<Outcome<T>> failures) {
        long least = NEVER;
        for (Outcome<T> failure : failures) {
            if (failure.isLasting) continue;
            ErrorCode code = failure.error.code();
            // A full pool or a quarantine: the registry's word, and it is the same one behind all of them.
            if (code != ErrorCode.REGISTRY_UNAVAILABLE && code != ErrorCode.RATE_LIMITED) return NEVER;
            least = Math.min(least, Math.max(0, failure.error.retryAfterMs()));
        }
        return least;
    }

    private SnowleaseException late() {
        String where = daemons.stream().map(daemon -> daemon.shown).collect(Collectors.joining(", "));
        String what = "No daemon at " + where + " answered within " + TimeUnit.NANOSECONDS.toMillis(timeout) + " ms; check that one runs.";
        return SnowleaseException.of(ErrorCode.REGISTRY_UNAVAILABLE, what);
    }

    private static <T> Outcome<T> unavailable(Daemon daemon, String what, boolean isLasting) {
        Map<String, Object> details = isLasting ? Map.of("lasting", true) : Collections.emptyMap();
        String message = "The daemon at " + daemon.shown + " " + what + ".";
        return Outcome.failed(
                SnowleaseException.of(ErrorCode.REGISTRY_UNAVAILABLE, message, SnowleaseException.UNKNOWN, details), isLasting, false);
    }

    private List<String> secretsOf(Call<?> call, String login) {
        List<String> secrets = new ArrayList<>();
        if (token != null) secrets.add(token);
        if (login != null) secrets.add(login.substring(login.indexOf(' ') + 1));
        if (call.receipt != null) secrets.add(call.receipt);
        if (call.body != null) {
            for (String name : SECRETS) if (call.body.get(name) instanceof String) secrets.add((String) call.body.get(name));
        }
        return secrets;
    }

    private static Object cleaned(Object value, List<String> secrets) {
        return value instanceof String ? without(secrets, (String) value) : value;
    }

    private static String without(List<String> secrets, String text) {
        String clean = text;
        for (String secret : secrets) clean = clean.replace(secret, "***");
        return clean;
    }

    private static String cut(String text, int longest) {
        return text.length() <= longest ? text : text.substring(0, longest);
    }

    private static boolean hasCause(Throwable error, Class<?> type) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) if (type.isInstance(cause)) return true;
        return false;
    }
}
