package io.snowlease;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What daemons answer: as they should, not at all, wrongly, and too late. */
@Timeout(60)
class AnswersTest {
    private static final Layout LAYOUT = Layout.parse(FakeDaemon.LAYOUT);

    private final FakeDaemon daemon = new FakeDaemon();
    private final FakeDaemon other = new FakeDaemon();
    private final List<Snowflake> made = new ArrayList<>();

    @AfterEach
    void end() throws IOException {
        daemon.answer = FakeDaemon::granted;
        other.answer = FakeDaemon::granted;
        for (Snowflake ids : made) ids.close();
        daemon.close();
        other.close();
    }

    private SnowflakeOptions options() {
        return new SnowflakeOptions().registry(daemon.url());
    }

    private Snowflake make(SnowflakeOptions options) {
        Snowflake ids = new Snowflake(options);
        made.add(ids);
        return ids;
    }

    private static SnowflakeOptions impatient(SnowflakeOptions options) {
        return options.operationTimeout(Duration.ofMillis(100));
    }

    private static SnowleaseException refusalOf(Snowflake ids) {
        return assertThrows(SnowleaseException.class, ids::next);
    }

    private static void assertUnavailable(Snowflake ids) {
        SnowleaseException refusal = refusalOf(ids);
        assertEquals("REGISTRY_UNAVAILABLE", refusal.code(), refusal.getMessage());
        assertTrue(refusal instanceof UnavailableException);
        assertFalse(refusal.getMessage().matches("(?s).*[\r\n].*"));
    }

    static void until(BooleanSupplier holds) throws InterruptedException {
        while (!holds.getAsBoolean()) Thread.sleep(5);
    }

    private static Set<Object> tokensOf(List<FakeDaemon.Request> requests) {
        return requests.stream().map(request -> request.body.get("token")).collect(Collectors.toSet());
    }

    private static Map<String, Object> with(Object... pairs) {
        Map<String, Object> map = new HashMap<>();
        for (int at = 0; at < pairs.length; at += 2) map.put((String) pairs[at], pairs[at + 1]);
        return map;
    }

    @Test
    void claimsOnceAndGivesBackBehindTheLastId() {
        Snowflake ids = make(options());
        assertNull(ids.lease());
        assertEquals(0, daemon.requests.size());
        long[] all = new long[10_000];
        for (int at = 0; at < all.length; at++) all[at] = ids.next();
        assertEquals(all.length, Arrays.stream(all).distinct().count());
        assertTrue(Arrays.equals(all, Arrays.stream(all).sorted().toArray()));
        Lease lease = ids.lease();
        assertEquals(7, lease.workerId());
        assertEquals(1, lease.fence());
        ids.close();
        assertEquals("LEASE_LOST", refusalOf(ids).code());
        assertNull(ids.lease());
        assertEquals(2, daemon.requests.size());
        FakeDaemon.Request claim = daemon.requests.get(0);
        FakeDaemon.Request release = daemon.requests.get(1);
        assertEquals(false, claim.body.get("continues"));
        assertTrue(((String) claim.body.get("token")).matches("[0-9a-f]{32}"));
        IdParts last = LAYOUT.decompose(all[all.length - 1]);
        assertEquals(last.timestamp(), release.body.get("lastTimestamp"));
        assertEquals((long) last.sequence(), release.body.get("lastSequence"));
        assertEquals(last.timestamp() + 1, release.body.get("until"));
        assertEquals(claim.body.get("token"), release.body.get("token"));
        assertEquals("granted", release.receipt);
        assertTrue(release.isRelease());
    }

    @Test
    void anOlderDaemonIsGivenBackByDelete() {
        daemon.answer = request -> request.isRelease() ? FakeDaemon.refused(404, "NOT_FOUND") : FakeDaemon.granted(request);
        Snowflake ids = make(options());
        ids.next();
        ids.close();
        assertEquals(1, daemon.of("DELETE").size());
        assertEquals("/v1/default/leases/7", daemon.of("DELETE").get(0).path);
    }

    @TestFactory
    Stream<DynamicTest> aWrongGrant() {
        List<Map<String, Object>> wrong = List.of(
                with("workerId", 1024), with("workerId", -1), with("workerId", 7.5), with("workerId", true), with("workerId", "7"),
                with("workerId", null), with("fence", 1L << 53), with("from", Math.pow(2, 64)), with("until", 1L << 53), with("until", 1),
                with("until", 1e300), with("from", -1), with("renewAfterMs", "soon"), with("layout", 5),
                with("layout", "westid"), with("token", "0".repeat(32)), with("shared", "no"));
        return wrong.stream().map(given -> DynamicTest.dynamicTest(given.toString(), () -> {
            daemon.answer = request -> FakeDaemon.granted(request, given);
            assertUnavailable(make(impatient(options())));
        }));
    }

    @Test
    void aSharedLeaseIsNotTakenForOneOfItsOwn() {
        daemon.answer = request -> FakeDaemon.granted(request, with("shared", true));
        SnowleaseException refusal = refusalOf(make(options()));
        assertEquals("CONFIG_INVALID", refusal.code());
        assertFalse(refusal instanceof UnavailableException);
    }

    @Test
    void aGrantOfAnotherLayout() {
        assertUnavailable(make(impatient(options()).layout("sonyflake")));
        assertUnavailable(make(impatient(options()).workerId(8)));
    }

    @Test
    void aDaemonThatRepeatsATokenInAGrant() {
        daemon.answer = request -> FakeDaemon.granted(request, with("layout", request.body.get("token") + " secret-of-mine"));
        SnowleaseException refusal = refusalOf(make(options().token("secret-of-mine")));
        assertEquals("CONFIG_INVALID", refusal.code());
        for (Throwable cause = refusal; cause != null; cause = cause.getCause()) {
            assertFalse(cause.getMessage().contains((String) daemon.requests.get(0).body.get("token")), cause.getMessage());
            assertFalse(cause.getMessage().contains("secret-of-mine"), cause.getMessage());
        }
    }

    @Test
    void aLongMessageCostsNoMoreThanAShortOne() {
        daemon.answer = request -> FakeDaemon.refused(400, "CONFIG_INVALID", with("detail", "a:/".repeat(80_000)));
        assertTrue(refusalOf(make(options())).getMessage().length() < 1100);
    }

    @Test
    void anInterruptOfItsThreadChangesNothing() {
        daemon.answer = request -> FakeDaemon.granted(request, with("renewAfterMs", 50));
        Snowflake ids = make(options());
        ids.next();
        int renewals = daemon.of("PATCH").size();
        for (int times = 0; times < 20; times++) {
            Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().equals("snowlease default")).forEach(Thread::interrupt);
            java.util.concurrent.locks.LockSupport.parkNanos(5_000_000);
        }
        assertTrue(ids.next() > 0);
        assertTimeoutPreemptively(Duration.ofSeconds(50), () -> until(() -> daemon.of("PATCH").size() > renewals + 2));
    }

    @Test
    void noProxyGetsATokenOrAnAnswer() {
        ProxySelector before = ProxySelector.getDefault();
        ProxySelector.setDefault(ProxySelector.of(new InetSocketAddress("127.0.0.1", 1)));
        try {
            assertTrue(make(options()).next() > 0);
        } finally {
            ProxySelector.setDefault(before);
        }
    }

    @Test
    void noWaitIsLongerThanItMay() {
        daemon.answer = request -> FakeDaemon.granted(request,
                with("layout", "timestamp:48,sequence:16@0/1", "workerId", 0, "from", 100_000_000_000_000L, "until", 100_000_000_060_000L));
        assertEquals("WINDOW_NOT_OPEN", refusalOf(make(options().maxWait(Duration.ZERO))).code());
    }

    @Test
    void aLayoutThatThisClientDoesNotKnow() {
        for (String layout : List.of("worker:1", "timestamp:21,worker:5,sequence:5@1490346283706/1/wraps")) {
            daemon.answer = request -> FakeDaemon.granted(request, with("layout", layout));
            SnowleaseException refusal = refusalOf(make(options()));
            assertEquals("CONFIG_INVALID", refusal.code());
            assertTrue(refusal.getMessage().contains(layout), refusal.getMessage());
        }
    }

    @TestFactory
    Stream<DynamicTest> garbage() {
        Map<String, String> garbage = new LinkedHashMap<>();
        garbage.put("nothing", "");
        garbage.put("no HTTP", "\0\u00ff".repeat(100));
        garbage.put("an endless line", "HTTP/1.1 200 " + "x".repeat(200_000));
        garbage.put("endless headers", "HTTP/1.1 200 X\r\n" + "a: b\r\n".repeat(100_000));
        garbage.put("another protocol", "SSH-2.0-OpenSSH_9\r\n");
        garbage.put("no JSON", head(5) + "hello");
        garbage.put("a list", head(2) + "[]");
        garbage.put("NaN", head(16) + "{\"workerId\":NaN}");
        garbage.put("nested", head(100_000) + "[".repeat(100_000));
        garbage.put("nested objects", head(100_000) + "{\"a\":".repeat(20_000));
        garbage.put("a huge number", head(50_002) + "[" + "9".repeat(50_000) + "]");
        garbage.put("not UTF-8", head(4) + "\"\u00ff\u00fe\"");
        garbage.put("cut off", head(1000) + "{\"workerId\":");
        garbage.put("too long", head(1_000_000) + " ".repeat(1_000_000));
        garbage.put("a wrong length", "HTTP/1.1 201 X\r\ncontent-length: -5\r\n\r\n{}");
        garbage.put("two lengths", "HTTP/1.1 201 X\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}");
        garbage.put("a wrong chunk", "HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n");
        garbage.put("endless chunks", "HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\n" + "1\r\n \r\n".repeat(100_000));
        garbage.put("elsewhere", "HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
        garbage.put("a page", "HTTP/1.1 404 X\r\ncontent-length: 6\r\n\r\n<html>");
        garbage.put("a problem of wrong types", "HTTP/1.1 503 X\r\ncontent-length: 24\r\n\r\n{\"code\":5,\"detail\":true}");
        return garbage.entrySet().stream().map(given -> DynamicTest.dynamicTest(given.getKey(), () -> {
            daemon.answer = request -> FakeDaemon.raw(given.getValue());
            assertUnavailable(make(impatient(options())));
        }));
    }

    private static String head(int length) {
        return "HTTP/1.1 201 X\r\ncontent-length: " + length + "\r\n\r\n";
    }

    @Test
    void anAnswerThatNeverEnds() {
        daemon.answer = request -> FakeDaemon.slow(head(1_000_000) + " ".repeat(100_000));
        assertUnavailable(make(impatient(options())));
    }

    @Test
    void aDaemonThatIsSilent() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 5, InetAddress.getByName("127.0.0.1"))) {
            assertUnavailable(make(impatient(options()).registry("http://127.0.0.1:" + silent.getLocalPort())));
            assertUnavailable(make(impatient(options()).registry("https://127.0.0.1:" + silent.getLocalPort())));
        }
    }

    @Test
    void anAnswerInChunks() {
        daemon.answer = request -> {
            String whole = new String(FakeDaemon.granted(request).bytes, java.nio.charset.StandardCharsets.ISO_8859_1);
            String body = whole.substring(whole.indexOf("\r\n\r\n") + 4);
            if (body.isEmpty()) return FakeDaemon.raw(whole);
            String rest = Integer.toHexString(body.length() - 1);
            return FakeDaemon.raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n" + body.charAt(0) + "\r\n"
                    + rest + ";x=y\r\n" + body.substring(1) + "\r\n0\r\nx: y\r\n\r\n");
        };
        assertTrue(make(options()).next() > 0);
    }

    @Test
    void aLostAnswerIsAskedForAgainWithTheSameToken() {
        daemon.answer = request -> daemon.requests.size() < 3 ? FakeDaemon.silent() : FakeDaemon.granted(request);
        make(options()).next();
        assertEquals(3, daemon.requests.size());
        assertEquals(1, tokensOf(daemon.requests).size());
    }

    @Test
    void aClaimAfterOneThatFailedHasAnotherToken() {
        daemon.answer = request -> FakeDaemon.refused(503, "POOL_EXHAUSTED", with("retryAfterMs", 41_000));
        Snowflake ids = make(options());
        SnowleaseException refusal = refusalOf(ids);
        assertEquals("POOL_EXHAUSTED", refusal.code());
        assertEquals(Duration.ofSeconds(41), refusal.retryAfter().get());
        daemon.answer = FakeDaemon::granted;
        ids.next();
        assertEquals(2, tokensOf(daemon.claims()).size());
    }

    @Test
    void oneThatIsClosedAfterItFailedClaimsNothing() {
        daemon.answer = request -> FakeDaemon.refused(503, "POOL_EXHAUSTED");
        Snowflake ids = make(options());
        refusalOf(ids);
        ids.close();
        daemon.answer = FakeDaemon::granted;
        assertEquals("LEASE_LOST", refusalOf(ids).code());
        assertEquals(1, daemon.requests.size());
    }

    @Test
    void oneThatIsClosedBeforeItsFirstIdAsksNothing() {
        Snowflake ids = make(options());
        ids.close();
        assertEquals("LEASE_LOST", refusalOf(ids).code());
        assertEquals(0, daemon.requests.size());
    }

    /** A Snowflake whose wall clock is ahead of the monotonic one by so many ms. */
    private Snowflake ahead(AtomicLong by) {
        Snowflake ids = new Snowflake(new SnowflakeOptions.Checked(options(), name -> null, () -> System.currentTimeMillis() + by.get()));
        made.add(ids);
        return ids;
    }

    @Test
    void aClockThatWasSetBackAmidAClaimStopsNoRenewal() throws InterruptedException {
        AtomicLong by = new AtomicLong(3_600_000);
        daemon.answer = request -> {
            if (daemon.requests.size() > 1) return FakeDaemon.granted(request, with("renewAfterMs", 50));
            by.set(0);
            return FakeDaemon.silent();
        };
        ahead(by).next();
        until(() -> daemon.of("PATCH").size() > 2);
    }

    @Test
    void whatMayBeACopyClaimsWithAnotherToken() {
        AtomicLong by = new AtomicLong();
        daemon.answer = request -> {
            if (daemon.requests.size() > 2) return FakeDaemon.granted(request);
            by.addAndGet(10_000);
            return FakeDaemon.silent();
        };
        Snowflake ids = ahead(by);
        ids.next();
        ids.close();
        assertEquals(3, tokensOf(daemon.claims()).size());
        // The last one was drawn after the jumps.
        assertTrue(daemon.releases().get(0).body.containsKey("until"));
    }

    @Test
    void whatMayBeACopyGivesBackWithoutTheEndOfItsUse() throws InterruptedException {
        for (String amid : List.of("POST", "PATCH")) {
            daemon.requests.clear();
            AtomicLong by = new AtomicLong();
            daemon.answer = request -> {
                // The machine was copied while this was on its way.
                if (daemon.of(amid).size() == 1 && request == daemon.of(amid).get(0)) by.addAndGet(10_000);
                return FakeDaemon.granted(request, with("renewAfterMs", 50));
            };
            Snowflake ids = ahead(by);
            ids.next();
            until(() -> daemon.of("PATCH").size() > 1);
            ids.close();
            assertFalse(daemon.releases().get(0).body.containsKey("until"));
            assertFalse(daemon.releases().get(0).body.containsKey("lastTimestamp"));
        }
    }

    @Test
    void anExpiredWindowTellsWhyItWasNotRenewed() throws InterruptedException {
        daemon.answer = request -> request.method.equals("PATCH") ? FakeDaemon.refused(401, "UNAUTHORIZED")
                : FakeDaemon.granted(request, with("until", System.currentTimeMillis() + 300, "renewAfterMs", 50));
        Snowflake ids = make(options().maxWait(Duration.ZERO));
        ids.next();
        until(() -> daemon.of("PATCH").size() > 2 && !hasId(ids));
        String said = refusalOf(ids).getMessage();
        assertTrue(said.matches("LEASE_EXPIRED: .* The last one did not: UNAUTHORIZED: No\\."), said);
    }

    @Test
    void waitsForAWorkerIdAsLongAsItMay() {
        daemon.answer = request -> daemon.requests.size() < 3
                ? FakeDaemon.refused(503, "POOL_EXHAUSTED", with("retryAfterMs", 30_000)) : FakeDaemon.granted(request);
        make(options().claimTimeout(Duration.ofSeconds(60))).next();
        assertEquals(1, tokensOf(daemon.requests).size());
    }

    @Test
    void theNextDaemonIsAsked() {
        daemon.answer = request -> request.isClaim() ? FakeDaemon.refused(503, "REGISTRY_UNAVAILABLE") : FakeDaemon.granted(request);
        make(options().registry(daemon.url() + "," + other.url())).next();
        assertEquals(1, daemon.claims().size());
        assertEquals(tokensOf(daemon.claims()), tokensOf(other.claims()));
    }

    @TestFactory
    Stream<DynamicTest> whatWaitingDoesNotHelp() {
        Map<Integer, String> refusals = Map.of(401, "UNAUTHORIZED", 403, "FORBIDDEN", 500, "SCHEMA_INCOMPATIBLE", 400, "CONFIG_INVALID", 418, "TEAPOT");
        return refusals.entrySet().stream().map(given -> DynamicTest.dynamicTest(given.getValue(), () -> {
            daemon.requests.clear();
            daemon.answer = request -> FakeDaemon.refused(given.getKey(), given.getValue());
            SnowleaseException refusal = refusalOf(make(options()));
            assertFalse(refusal instanceof UnavailableException);
            assertEquals(given.getValue(), refusal.code());
            assertEquals(1, daemon.requests.size());
        }));
    }

    @Test
    void noMessageHoldsAToken() {
        daemon.answer = request -> FakeDaemon.refused(400, "CONFIG_INVALID", with(
                "detail", "Bad secret\"of<mine\r\nand " + request.body.get("token") + " at http://user:password@host/",
                "details", with("said", "secret\"of<mine")));
        Snowflake ids = make(options().token("secret\"of<mine"));
        SnowleaseException refusal = refusalOf(ids);
        assertEquals("Bearer secret\"of<mine", daemon.requests.get(0).authorization);
        StringBuilder said = new StringBuilder(ids + " " + refusal.detail("said"));
        for (Throwable cause = refusal; cause != null; cause = cause.getCause()) said.append(cause).append(cause.getMessage());
        for (String secret : List.of("of<mine", (String) daemon.requests.get(0).body.get("token"), "password", "\n", "\r")) {
            assertFalse(said.toString().contains(secret), said.toString());
        }
    }

    @Test
    void aLostLeaseIsReplacedWithAnotherToken() {
        daemon.answer = request -> {
            if (request.path.endsWith("/7") && request.method.equals("PATCH")) {
                return FakeDaemon.refused(410, "LEASE_LOST", with("details", with("reason", "taken")));
            }
            int claims = daemon.claims().size();
            return FakeDaemon.granted(request, with("workerId", 6 + claims, "renewAfterMs", claims < 2 ? 50 : 20_000));
        };
        Snowflake ids = make(options().maxWait(Duration.ofSeconds(60)));
        Set<Long> all = new HashSet<>();
        long count = 0;
        long last = 0;
        while (last == 0 || LAYOUT.decompose(last).workerId() == 7) {
            last = ids.next();
            all.add(last);
            count++;
        }
        assertEquals(count, all.size());
        assertEquals(8, ids.lease().workerId());
        List<FakeDaemon.Request> claims = daemon.claims();
        assertEquals(2, tokensOf(claims).size());
        // A registry that went back in time learns from it what it forgot.
        assertEquals("granted", claims.get(1).receipt);
        assertEquals(FakeDaemon.LAYOUT, claims.get(1).body.get("layout"));
        assertEquals(0, daemon.releases().size());
    }

    @Test
    void theOperatorIsToldOfALossAndOfIdsThatMayExistTwice() throws InterruptedException {
        List<LogRecord> told = new CopyOnWriteArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                told.add(record);
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        Logger logger = Logger.getLogger("snowlease");
        logger.addHandler(handler);
        try {
            long end = System.currentTimeMillis() + 30_000;
            daemon.answer = request -> {
                if (request.path.endsWith("/7") && request.method.equals("PATCH")) {
                    Map<String, Object> doubt = with("from", 1000L, "until", end);
                    return FakeDaemon.refused(410, "LEASE_LOST", with("details", with("reason", "forgotten", "doubt", doubt)));
                }
                int claims = daemon.claims().size();
                return FakeDaemon.granted(request, with("workerId", 6 + claims, "renewAfterMs", claims < 2 ? 50 : 20_000));
            };
            Snowflake ids = make(options().maxWait(Duration.ofSeconds(60)));
            ids.next();
            until(() -> hasId(ids) && told.size() >= 2);
        } finally {
            logger.removeHandler(handler);
        }
        SimpleFormatter formatter = new SimpleFormatter();
        List<String> lines = told.stream().map(formatter::formatMessage).collect(Collectors.toList());
        // What the daemon names, but for the time before the last request that was answered: these IDs are this holder's alone.
        long claimed = (Long) daemon.claims().get(0).body.get("now");
        assertTrue(lines.get(0).startsWith("Worker 7 of namespace `default` was lost (forgotten). Its IDs from " + SnowleaseException.time(claimed) + " to "), lines.get(0));
        assertEquals(Level.SEVERE, told.get(0).getLevel());
        assertEquals("Worker 8 of namespace `default` takes the place of worker 7.", lines.get(1));
    }

    @Test
    void otherRegistryEndsALeaseOnlyWhereEachDaemonSaysSo() throws InterruptedException {
        daemon.answer = request -> request.method.equals("PATCH") ? FakeDaemon.refused(409, "OTHER_REGISTRY") : FakeDaemon.granted(request, with("renewAfterMs", 50));
        other.answer = request -> FakeDaemon.granted(request, with("renewAfterMs", 50));
        Snowflake ids = make(options().registry(daemon.url() + "," + other.url()));
        ids.next();
        until(() -> other.of("PATCH").size() > 2);
        assertTrue(daemon.of("PATCH").size() > 0);
        assertEquals(1, daemon.claims().size());
        other.answer = daemon.answer;
        until(() -> hasId(ids) && daemon.claims().size() + other.claims().size() > 1);
        Set<Object> tokens = tokensOf(daemon.claims());
        tokens.addAll(tokensOf(other.claims()));
        assertTrue(tokens.size() > 1);
    }

    @Test
    void daemonsOfTwoRegistriesAreRefused() {
        other.answer = request -> request.method.equals("GET") ? FakeDaemon.json(200, with("id", "two"), null) : FakeDaemon.granted(request);
        SnowleaseException refusal = refusalOf(make(options().registry(daemon.url() + "," + other.url())));
        assertEquals("CONFIG_INVALID", refusal.code());
        assertTrue(refusal.getMessage().contains("different registries"));
        assertEquals(1, daemon.releases().size());
    }

    @Test
    void turnsAndReceipts() throws InterruptedException {
        daemon.answer = request -> request.method.equals("PATCH") && daemon.of("PATCH").size() % 2 == 1
                // The answer to every second renewal is lost.
                ? FakeDaemon.silent() : FakeDaemon.granted(request, with("renewAfterMs", 50));
        Snowflake ids = make(options());
        ids.next();
        until(() -> daemon.of("PATCH").size() >= 6);
        List<FakeDaemon.Request> renewals = daemon.of("PATCH").subList(0, 6);
        List<List<Object>> turns = renewals.stream()
                .map(request -> Arrays.asList(request.body.get("turn"), request.body.get("nextTurn"))).collect(Collectors.toList());
        for (int at = 0; at < 6; at += 2) assertEquals(turns.get(at), turns.get(at + 1));
        assertNull(turns.get(0).get(0));
        assertEquals(turns.get(0).get(1), turns.get(2).get(0));
        assertEquals(turns.get(2).get(1), turns.get(4).get(0));
        assertEquals(3, turns.stream().map(pair -> pair.get(1)).distinct().count());
        assertEquals(List.of("granted", "granted", "renewed", "renewed", "renewed", "renewed"),
                renewals.stream().map(request -> request.receipt).collect(Collectors.toList()));
        assertTrue(renewals.stream().allMatch(request -> request.body.containsKey("lastTimestamp")));
    }

    @Test
    void goesOnToTheEndOfTheWindowAndNoFurther() throws InterruptedException {
        daemon.answer = request -> request.method.equals("PATCH") ? FakeDaemon.refused(503, "REGISTRY_UNAVAILABLE")
                : FakeDaemon.granted(request, with("until", System.currentTimeMillis() + 400, "renewAfterMs", 50));
        Snowflake ids = make(options().maxWait(Duration.ZERO));
        List<Long> all = new ArrayList<>();
        SnowleaseException refusal = null;
        while (refusal == null || refusal.code().equals("SEQUENCE_EXHAUSTED")) {
            try {
                all.add(ids.next());
                Thread.sleep(1);
            } catch (UnavailableException refused) {
                refusal = refused;
            }
        }
        assertEquals("LEASE_EXPIRED", refusal.code());
        long end = ids.lease().until();
        assertTrue(all.stream().allMatch(id -> LAYOUT.decompose(id).timestamp() < end));
        // A renewal reopens it.
        daemon.answer = FakeDaemon::granted;
        until(() -> hasId(ids));
        assertTrue(ids.lease().until() > end);
    }

    static boolean hasId(Snowflake ids) {
        try {
            return ids.next() > 0;
        } catch (UnavailableException refusal) {
            return false;
        }
    }

    @TestFactory
    Stream<DynamicTest> aWrongRenewalChangesNothing() {
        List<Map<String, Object>> wrong = List.of(with("until", Math.pow(2, 64)), with("until", "x"), with("from", null), with("turn", 5), with("renewAfterMs", -1),
                with("from", 1L << 52, "until", 1));
        return wrong.stream().map(given -> DynamicTest.dynamicTest(given.toString(), () -> {
            daemon.requests.clear();
            daemon.answer = request -> {
                Map<String, Object> all = with("renewAfterMs", 50);
                if (request.method.equals("PATCH")) all.putAll(given);
                return FakeDaemon.granted(request, all);
            };
            Snowflake ids = make(impatient(options()));
            until(() -> hasId(ids));
            Lease lease = ids.lease();
            until(() -> daemon.of("PATCH").size() > 3);
            assertEquals(lease.until(), ids.lease().until());
            ids.next();
        }));
    }

    @Test
    void renewsAThirdOfTheWayToTheEndAtTheLatest() throws InterruptedException {
        daemon.answer = request -> FakeDaemon.granted(request, with("until", System.currentTimeMillis() + 600, "renewAfterMs", 3_600_000));
        make(options()).next();
        until(() -> daemon.of("PATCH").size() > 2);
    }

    @Test
    void quarantineGivesUpTheTimesBefore() throws InterruptedException {
        daemon.answer = request -> request.method.equals("PATCH") ? FakeDaemon.refused(503, "QUARANTINE", with("retryAfterMs", 60_000))
                : FakeDaemon.granted(request, with("renewAfterMs", 50));
        Snowflake ids = make(options().maxWait(Duration.ofSeconds(60)));
        ids.next();
        until(() -> !daemon.of("PATCH").isEmpty());
        long asked = (Long) daemon.of("PATCH").get(0).body.get("now");
        until(() -> ids.lease().from() >= asked);
        assertTrue(LAYOUT.decompose(ids.next()).timestamp() >= asked);
    }

    @Test
    void errorsCanBeSerialized() throws Exception {
        SnowleaseException error = new UnavailableException("POOL_EXHAUSTED", "All: taken.", 2000, Map.of("a", 1));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        new ObjectOutputStream(bytes).writeObject(error);
        SnowleaseException again = (SnowleaseException) new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray())).readObject();
        assertEquals(error.getMessage(), again.getMessage());
        assertEquals(error.code(), again.code());
        assertEquals(error.retryAfter(), again.retryAfter());
        assertNull(again.detail("a"));
    }

    @TestFactory
    Stream<DynamicTest> aRefusedRegistry() {
        return Stream.of("", "redis://127.0.0.1", "http://", "http:///path", "http://host:0", "http://host:99999", "http://a b", "http://a,,b",
                "ftp://a", "http://a#x", "http://user:secret@a?window=3s", "http://:secret@[::1", "http://user:sec?secret@host", "http://a?token=b@secret&foo=1", "http://user:x\nsecret@a", "http://my_daemon:7070", "http://a/#x", "http://a/%zz", "http://a..b", "unix:", "unix:~/x", "unix://host/x",
                "unix:/" + "x".repeat(107), "http://a?tlsCa=/x", "https://a?tlsCa=/does/not/exist", "http://a\r\nx: y", "http://a?borrow=yes",
                "http://a?token=%zz", "http://a?token", "http://a?namespace=x&namespace=y", "https://a?tlsKey=/does/not/exist", "http://h\u00f6st",
                "unix:/a%00b")
                .map(url -> DynamicTest.dynamicTest("registry " + url.replaceAll("\\p{Cntrl}", " "), () -> {
                    SnowleaseException refusal = assertThrows(SnowleaseException.class, () -> new SnowflakeOptions.Checked(new SnowflakeOptions().registry(url), name -> null, System::currentTimeMillis));
                    assertEquals("CONFIG_INVALID", refusal.code());
                    assertFalse(refusal.getMessage().matches("(?s).*(secret|[\r\n]).*"), refusal.getMessage());
                }));
    }

    @TestFactory
    Stream<DynamicTest> aRefusedOption() {
        SnowflakeOptions[] wrong = {
            options().namespace("A"), options().token("a b"), options().layout("x"), options().maxWait(Duration.ofMillis(-1)),
            options().claimTimeout(Duration.ofDays(2)), options().operationTimeout(null), options().workerId(-1), options().layout("westid").workerId(1024),
        };
        return Arrays.stream(wrong).map(given -> DynamicTest.dynamicTest("option", () -> {
            SnowleaseException refusal = assertThrows(SnowleaseException.class, () -> new Snowflake(given));
            assertEquals("CONFIG_INVALID", refusal.code());
        }));
    }

    @Test
    void aRefusedTokenIsNotShown() {
        SnowleaseException refusal = assertThrows(SnowleaseException.class, () -> new Snowflake(options().token("of me")));
        assertFalse(refusal.getMessage().contains("of me"), refusal.getMessage());
    }

    @Test
    void theEnvironment(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("token"), "of-a-file\n");
        Map<String, String> environment = Map.of(
                "SNOWLEASE_REGISTRY", daemon.url(), "SNOWLEASE_NAMESPACE", "orders", "SNOWLEASE_TOKEN_FILE", file.toString());
        try (Snowflake ids = new Snowflake(new SnowflakeOptions.Checked(new SnowflakeOptions(), environment::get, System::currentTimeMillis))) {
            ids.next();
        }
        assertEquals(Set.of("/v1/orders/leases", "/v1/orders/leases/7/release"),
                daemon.requests.stream().map(request -> request.path).collect(Collectors.toSet()));
        assertEquals("Bearer of-a-file", daemon.requests.get(0).authorization);
    }

    @Test
    void requestsAreJsonOfTheDocumentedFields() throws InterruptedException {
        daemon.answer = request -> FakeDaemon.granted(request, with("renewAfterMs", 50));
        Snowflake ids = make(options().instance("me \u00fc").layout("westid").workerId(7));
        ids.next();
        until(() -> !daemon.of("PATCH").isEmpty());
        ids.close();
        assertEquals(Set.of("token", "now", "host", "pid", "continues", "instance", "layout", "workerId"), daemon.claims().get(0).body.keySet());
        assertEquals("me \u00fc", daemon.claims().get(0).body.get("instance"));
        assertTrue(daemon.of("PATCH").get(0).body.keySet().containsAll(Set.of("token", "fence", "now", "nextTurn", "lastTimestamp", "lastSequence")));
        assertTrue(daemon.releases().get(0).body.keySet().containsAll(Set.of("token", "fence", "now", "until", "lastTimestamp", "lastSequence")));
    }

    @Test
    void closesAtExitUnlessItIsToldNotTo() throws Exception {
        for (boolean closes : new boolean[] {true, false}) {
            daemon.requests.clear();
            String[] command = {Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-cp", System.getProperty("java.class.path"),
                Leaver.class.getName(), daemon.url(), String.valueOf(closes)};
            assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor());
            assertEquals(1, daemon.claims().size());
            assertEquals(closes ? 1 : 0, daemon.releases().size());
        }
    }

    /** A program that ends without a close: `Leaver REGISTRY CLOSES_AT_EXIT`. */
    static final class Leaver {
        public static void main(String[] arguments) {
            new Snowflake(new SnowflakeOptions().registry(arguments[0]).closesAtExit(Boolean.parseBoolean(arguments[1]))).next();
        }
    }

    @Test
    void anInterruptedThreadWaitsNoLongerAndStaysInterrupted() {
        daemon.answer = request -> FakeDaemon.granted(request, with("from", System.currentTimeMillis() + 30_000));
        Snowflake ids = make(options().maxWait(Duration.ofHours(1))).claim();
        Thread.currentThread().interrupt();
        assertEquals("WINDOW_NOT_OPEN", refusalOf(ids).code());
        assertTrue(Thread.interrupted());
    }

}
