package io.snowlease;

import static io.snowlease.SnowleaseException.expected;
import static io.snowlease.SnowleaseException.oneLine;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URLDecoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Duration;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.TrustManagerFactory;

/** The daemons of a registry, over HTTP: the first one that answers is believed. For one caller at a time. */
final class Daemons {
    private static final long FIRST_PAUSE_MS = 20;
    private static final long LONGEST_PAUSE_MS = 500;
    private static final int LONGEST_ANSWER = 256 * 1024;
    private static final double LONGEST_WAIT_MS = 1e12;
    private static final Set<String> SETTINGS = Set.of("namespace", "token", "tlsCa", "borrow");
    private static final Pattern RECEIPT = Pattern.compile("[\\x21-\\x7e]{1,1024}");
    private static final Pattern ADDRESS = Pattern.compile("https?://(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)(?::([1-9][0-9]{0,4}))?(/[!-~&&[^#\\\\]]*)?");
    private static final int LAST_PORT = 65_535;
    /** All daemons of a registry would answer these alike, though a wait may help. */
    private static final Set<String> FINAL = Set.of("WORKER_ID_HELD", "CLOCK_SKEW", "CLOCK_ROLLBACK");

    /** What is told where several daemons failed: the first of these. */
    enum Kind {
        /** The registry's own answer. */
        ANSWERED,
        /** What only an operator changes. */
        REFUSED,
        /** What may pass in no time. */
        BUSY,
        SILENT,
        /** The daemon serves another registry: told where each of them does. */
        ELSEWHERE
    }

    /** One daemon did not do what was asked; another one may. */
    static final class FailedException extends Exception {
        final Kind kind;
        final SnowleaseException error;

        FailedException(Kind kind, SnowleaseException error) {
            super(error);
            this.kind = kind;
            this.error = error;
        }
    }

    /** What an answer says, and its receipt; null: none. */
    static final class Answer<T> {
        final T value;
        final String receipt;

        Answer(T value, String receipt) {
            this.value = value;
            this.receipt = receipt;
        }
    }

    final List<String> addresses;
    /** From the URL's query: {@code namespace}, {@code token} and {@code borrow}. */
    final Map<String, String> settings;
    /** null: the JVM's own. */
    private final SSLContext tls;
    private HttpClient client;
    private String token;
    private long timeoutNs;
    private LongSupplier wall;
    /** The daemon that answered last is asked first. */
    private int favourite;
    /** Of the last call: the highest {@code now} that it sent, Unix ms, that of its last request, and when it sent this one, by {@link System#nanoTime}. */
    long highest;
    long clock;
    long sent;

    private Daemons(List<String> addresses, Map<String, String> settings, SSLContext tls) {
        this.addresses = addresses;
        this.settings = settings;
        this.tls = tls;
        client = connected();
    }

    private HttpClient connected() {
        // A proxy of the JVM's settings would get the tokens.
        HttpClient.Builder builder = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).proxy(HttpClient.Builder.NO_PROXY);
        return (tls == null ? builder : builder.sslContext(tls)).build();
    }

    /**
     * Reads a registry URL: {@code http://HOST:PORT} or {@code https://…}, several of them separated by commas. Its query takes
     * {@code namespace}, {@code token}, {@code borrow}, and with https {@code tlsCa}, a PEM file.
     *
     * @throws SnowleaseException CONFIG_INVALID.
     */
    static Daemons of(String text) {
        int mark = text.indexOf('?');
        String listed = mark < 0 ? text : text.substring(0, mark);
        // All before an `@` may be a password.
        String shown = text.contains("@") ? "***" : listed;
        boolean isSecure = listed.startsWith("https://");
        if (!isSecure && !listed.startsWith("http://")) throw expected("registry", "to be a daemon's: http://HOST:PORT or https://HOST:PORT", shown);
        Map<String, String> settings = new HashMap<>();
        for (String pair : mark < 0 ? new String[0] : text.substring(mark + 1).split("&", -1)) {
            String[] parts = pair.split("=", 2);
            if (!SETTINGS.contains(parts[0]) || parts.length < 2 || settings.put(parts[0], decoded(parts[1], shown)) != null) {
                throw expected("registry", "to have in its query only namespace, token, borrow and tlsCa, each once", shown);
            }
        }
        if (!Set.of("true", "false").contains(settings.getOrDefault("borrow", "false"))) {
            throw expected("registry", "to have in its query no other `borrow` than true or false", shown);
        }
        String ca = settings.remove("tlsCa");
        if (ca != null && !isSecure) throw expected("registry", "to name a certificate only with https:", shown);
        List<String> addresses = new ArrayList<>();
        for (String part : listed.split(",", -1)) {
            String address = part.contains("://") ? part : (isSecure ? "https://" : "http://") + part;
            Matcher match = ADDRESS.matcher(address);
            boolean isAddress = match.matches() && address.startsWith("https:") == isSecure
                    && (match.group(2) == null || Integer.parseInt(match.group(2)) <= LAST_PORT) && isUsable(address);
            if (!isAddress) {
                throw expected("registry", "to be a list of addresses like http://HOST:PORT, separated by commas, without users and passwords", shown);
            }
            addresses.add(address.replaceAll("/+$", ""));
        }
        return new Daemons(addresses, settings, ca == null ? null : trusting(ca));
    }

    /** Whether the client takes it: it refuses some names, such as one with `_`. */
    private static boolean isUsable(String address) {
        try {
            return HttpRequest.newBuilder(URI.create(address)) != null;
        } catch (IllegalArgumentException cause) {
            return false;
        }
    }

    private static String decoded(String text, String shown) {
        try {
            return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException cause) {
            throw expected("registry", "to have in its query no `%` but before two hexadecimal digits", shown);
        }
    }

    private static SSLContext trusting(String file) {
        try (InputStream pem = Files.newInputStream(Paths.get(file))) {
            KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            for (Certificate one : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                store.setCertificateEntry(String.valueOf(store.size()), one);
            }
            TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            return context;
        } catch (IOException | GeneralSecurityException | IllegalArgumentException cause) {
            throw expected("tlsCa", "to be a file with certificates in PEM (" + cause.getClass().getSimpleName() + ")", file);
        }
    }

    /** @param timeoutNs of a call, over all daemons and repetitions. */
    void use(String newToken, long newTimeoutNs, LongSupplier newWall) {
        token = newToken;
        timeoutNs = newTimeoutNs;
        wall = newWall;
    }

    /**
     * Sends a call that may be repeated. Throws what a daemon refused with; REGISTRY_UNAVAILABLE where none answered in time; OTHER_REGISTRY only
     * where each daemon answered that.
     *
     * @param body the request's fields but {@code now}, from that: the wall clock's time, Unix ms.
     * @param read throws a RuntimeException for an answer that is none of a daemon's.
     */
    <T> Answer<T> call(String method, String path, LongFunction<Map<String, Object>> body, Function<Map<String, Object>, T> read, String receipt, long atMostNs) {
        long end = System.nanoTime() + Math.min(atMostNs, timeoutNs);
        long pause = FIRST_PAUSE_MS;
        int count = addresses.size();
        highest = Long.MIN_VALUE;
        for (;;) {
            FailedException told = null;
            long again = Long.MAX_VALUE;
            int first = favourite;
            for (int asked = 0; asked < count; asked++) {
                int at = asked == 0 ? first : asked <= first ? asked - 1 : asked;
                try {
                    // A silent daemon leaves the others their share of the time.
                    Answer<T> answer = ask(addresses.get(at), method, path, body, read, receipt, (end - System.nanoTime()) / (count - asked));
                    favourite = at;
                    return answer;
                } catch (FailedException failed) {
                    if (told == null || failed.kind.compareTo(told.kind) < 0) told = failed;
                    if (failed.kind == Kind.ANSWERED) favourite = at;
                    if (failed.kind == Kind.BUSY || failed.kind == Kind.SILENT) again = Math.min(again, Math.max(0, failed.error.retryAfterMs()));
                } catch (SnowleaseException refused) {
                    favourite = at;
                    throw refused;
                }
            }
            long wait = Math.max(pause, again);
            if (told.kind == Kind.ANSWERED || again == Long.MAX_VALUE || end - System.nanoTime() <= TimeUnit.MILLISECONDS.toNanos(wait)) throw told.error;
            try {
                Thread.sleep(wait);
            } catch (InterruptedException cause) {
                // Nobody has a reason to interrupt the thread of a lease: it goes on.
                continue;
            }
            pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
        }
    }

    /** Asks one daemon, once. Throws a SnowleaseException with which every other one would refuse, too. @param body null: a GET. */
    <T> Answer<T> ask(String address, String method, String path, LongFunction<Map<String, Object>> body, Function<Map<String, Object>, T> read, String receipt,
            long atMostNs) throws FailedException {
        clock = wall.getAsLong();
        highest = Math.max(highest, clock);
        sent = System.nanoTime();
        Map<String, Object> told = new HashMap<>();
        if (body != null) {
            told.putAll(body.apply(clock));
            told.put("now", clock);
        }
        int status = 0;
        Map<String, Object> answer;
        SnowleaseException error;
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(address + path)).header("accept", "application/json");
            // Of its head: what comes behind that has the deadline below.
            request.timeout(Duration.ofNanos(Math.max(1, atMostNs)));
            if (token != null) request.header("authorization", "Bearer " + token);
            if (receipt != null) request.header("snowlease-receipt", receipt);
            if (body != null) request.header("content-type", "application/json");
            request.method(method, body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(Json.write(told)));
            HttpResponse<byte[]> response = exchange(request.build(), atMostNs);
            status = response.statusCode();
            byte[] bytes = response.body();
            answer = bytes.length == 0 ? Map.of() : Json.readObject(bytes);
            if (status >= 200 && status < 300) {
                String given = response.headers().firstValue("snowlease-receipt").orElse("");
                return new Answer<>(read(read, answer, told, receipt), RECEIPT.matcher(given).matches() ? given : null);
            }
            error = refusal(status, answer, text -> without(told, receipt, text));
        } catch (SnowleaseException cause) {
            throw cause;
        } catch (InterruptedException | ExecutionException | TimeoutException | RuntimeException cause) {
            boolean isOver = cause instanceof RejectedExecutionException || String.valueOf(cause.getMessage()).contains("selector manager closed");
            if (isOver) client = connected();
            throw new FailedException(Kind.SILENT, unheard(address, status, cause, told, receipt));
        }
        if (error.code().equals("OTHER_REGISTRY")) throw new FailedException(Kind.ELSEWHERE, error);
        if (status == 401 || status == 403 || status == 500) throw new FailedException(Kind.REFUSED, error);
        if (!(error instanceof UnavailableException) || FINAL.contains(error.code())) throw error;
        boolean isBusy = error.code().equals("REGISTRY_UNAVAILABLE") || error.code().equals("RATE_LIMITED");
        throw new FailedException(isBusy ? Kind.BUSY : Kind.ANSWERED, error);
    }

    private <T> T read(Function<Map<String, Object>, T> read, Map<String, Object> answer, Map<String, Object> told, String receipt) {
        try {
            return read.apply(answer);
        } catch (SnowleaseException cause) {
            // It quotes the answer.
            throw new SnowleaseException(cause.code(), without(told, receipt, cause.getMessage().substring(cause.code().length() + 2)));
        }
    }

    private static SnowleaseException refusal(int status, Map<String, Object> answer, UnaryOperator<String> hidden) {
        if (!(answer.get("code") instanceof String) || !(answer.get("detail") instanceof String)) {
            throw new IllegalArgumentException("it is no problem of a daemon");
        }
        String code = oneLine(hidden.apply((String) answer.get("code")));
        String detail = oneLine(hidden.apply((String) answer.get("detail")));
        Object given = answer.get("retryAfterMs");
        double wait = given instanceof Number ? ((Number) given).doubleValue() : -1;
        long retryAfter = wait >= 0 && wait < LONGEST_WAIT_MS ? (long) Math.ceil(wait) : -1;
        Map<String, Object> details = new HashMap<>();
        if (answer.get("details") instanceof Map) ((Map<?, ?>) answer.get("details")).forEach((name, value) -> {
            details.put((String) name, value instanceof String ? hidden.apply((String) value) : value);
        });
        boolean mayPass = status == 408 || status == 429 || status == 503;
        return mayPass ? new UnavailableException(code, detail, retryAfter, details) : new SnowleaseException(code, detail, retryAfter, details);
    }

    private SnowleaseException unheard(String address, int status, Exception cause, Map<String, Object> told, String receipt) {
        Throwable root = cause instanceof ExecutionException ? cause.getCause() : cause;
        String why = cause instanceof TimeoutException ? "none came in time" : root.getMessage();
        if (why == null) why = root.getClass().getSimpleName() + (root.getCause() == null ? "" : ", " + root.getCause());
        String advice = root instanceof SSLException ? "check `tlsCa`" : "check that it runs, and the address";
        return new UnavailableException("REGISTRY_UNAVAILABLE", "The daemon at " + address + " gave no answer to rely on ("
                + (status == 0 ? "" : "HTTP " + status + ": ") + oneLine(without(told, receipt, why)) + "); " + advice + ".");
    }

    /** The text without what only the daemon may know. */
    private String without(Map<String, Object> told, String receipt, String text) {
        List<Object> secrets = new ArrayList<>();
        secrets.add(token);
        secrets.add(receipt);
        for (String name : List.of("token", "turn", "nextTurn")) secrets.add(told.get(name));
        if (told.get("sentTurns") instanceof List) secrets.addAll((List<?>) told.get("sentTurns"));
        String rest = text;
        for (Object secret : secrets) if (secret != null) rest = rest.replace((String) secret, "***");
        return rest;
    }

    private HttpResponse<byte[]> exchange(HttpRequest request, long atMostNs) throws InterruptedException, ExecutionException, TimeoutException {
        if (atMostNs <= 0) throw new TimeoutException();
        Bounded body = new Bounded();
        try {
            // To the end of the answer, however slowly it comes.
            return client.sendAsync(request, head -> body).get(atMostNs, TimeUnit.NANOSECONDS);
        } finally {
            body.cancel();
        }
    }

    /** A body of bounded size. */
    private static final class Bounded implements HttpResponse.BodySubscriber<byte[]> {
        private final CompletableFuture<byte[]> whole = new CompletableFuture<>();
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private volatile Flow.Subscription subscription;
        private volatile boolean isCancelled;

        void cancel() {
            isCancelled = true;
            if (subscription != null) subscription.cancel();
        }

        @Override
        public CompletionStage<byte[]> getBody() {
            return whole;
        }

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription = given;
            if (isCancelled) given.cancel();
            else given.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(List<ByteBuffer> parts) {
            for (ByteBuffer part : parts) {
                byte[] some = new byte[part.remaining()];
                part.get(some);
                bytes.write(some, 0, some.length);
            }
            if (bytes.size() <= LONGEST_ANSWER) return;
            subscription.cancel();
            whole.completeExceptionally(new IOException("it has more than " + LONGEST_ANSWER + " bytes"));
        }

        @Override
        public void onError(Throwable cause) {
            whole.completeExceptionally(cause);
        }

        @Override
        public void onComplete() {
            whole.complete(bytes.toByteArray());
        }
    }
}
