package io.snowlease;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/** A worker ID that others use, too: no ID without a block of its own. */
@Timeout(60)
class BorrowTest {
    /** 64 sequences a ms: blocks of 2. */
    private static final Layout SMALL = Layout.parse("timestamp:41,worker:10,sequence:6@1700000000000/1");
    private static final int SPAN = 64;
    private static final int BLOCKS = 32;

    private final FakeDaemon daemon = new FakeDaemon();
    private final List<Snowflake> made = new ArrayList<>();
    /** What was lent, as `fence/span/block`, and to which token. */
    private final Map<String, Object> lent = new ConcurrentHashMap<>();
    private volatile long fence = 1;

    @AfterEach
    void end() throws IOException {
        daemon.answer = this::lending;
        for (Snowflake ids : made) ids.close();
        daemon.close();
    }

    private SnowflakeOptions options() {
        return new SnowflakeOptions().registry(daemon.url() + "?borrow=true").maxWait(Duration.ZERO).claimTimeout(Duration.ZERO);
    }

    private Snowflake make(SnowflakeOptions options) {
        Snowflake ids = new Snowflake(options);
        made.add(ids);
        return ids;
    }

    private static Map<String, Object> with(Object... pairs) {
        Map<String, Object> map = new HashMap<>();
        for (int at = 0; at < pairs.length; at += 2) map.put((String) pairs[at], pairs[at + 1]);
        return map;
    }

    private FakeDaemon.Answer granted(FakeDaemon.Request request, Object... other) {
        long now = fence;
        Map<String, Object> all = with("layout", SMALL.toString(), "workerId", 6 + now, "fence", now, "shared", true);
        all.putAll(with(other));
        if (request.method.equals("PATCH")) all.keySet().removeAll(Set.of("layout", "workerId", "fence", "shared"));
        return FakeDaemon.granted(request, all);
    }

    private static FakeDaemon.Answer blocks(Object blocks) {
        return FakeDaemon.json(200, with("blocks", blocks), null);
    }

    /** The same blocks for each span that is asked for. */
    private static FakeDaemon.Answer each(FakeDaemon.Request request, long blocks) {
        return blocks(Collections.nCopies(((Long) request.body.get("spans")).intValue(), blocks));
    }

    /** As a daemon that lends: no block twice. */
    private FakeDaemon.Answer lending(FakeDaemon.Request request) {
        return request.isBlocks() ? lent(request) : granted(request);
    }

    private synchronized FakeDaemon.Answer lent(FakeDaemon.Request request) {
        long of = (Long) request.body.get("fence");
        if (of != fence) return FakeDaemon.refused(410, "LEASE_LOST");
        List<Long> all = new ArrayList<>();
        for (long span = (Long) request.body.get("first"); all.size() < (Long) request.body.get("spans"); span++) {
            long bits = 0;
            // Not in their order.
            for (int at = 0; at < BLOCKS && Long.bitCount(bits) < (Long) request.body.get("blocks"); at++) {
                int block = (int) (at * 13 + span) % BLOCKS;
                if (lent.putIfAbsent(of + "/" + span + "/" + block, request.body.get("token")) == null) bits |= 1L << block;
            }
            all.add(bits);
        }
        return blocks(all);
    }

    private static SnowleaseException refusalOf(Snowflake ids) {
        return assertThrows(SnowleaseException.class, ids::next);
    }

    private static void until(java.util.function.BooleanSupplier holds) throws InterruptedException {
        AnswersTest.until(holds);
    }

    /** As `lent` names it. */
    private static String blockOf(long id) {
        IdParts parts = SMALL.decompose(id);
        return parts.workerId() - 6 + "/" + SMALL.tickOf(parts.timestamp()) / SPAN + "/" + parts.sequence() / (64 / BLOCKS);
    }

    /** IDs, with pauses, until so many were made. */
    private static void take(Snowflake ids, int count, Set<Long> all) {
        for (int at = 0; at < count; ) {
            try {
                if (!all.add(ids.next())) throw new AssertionError("an ID came twice");
                at++;
            } catch (UnavailableException refusal) {
                LockSupport.parkNanos(50_000);
            }
            if (at % 20 == 0) LockSupport.parkNanos(500_000);
        }
    }

    /** Programs that share a worker ID, with threads each, compete for a layout that is too small for them. Some end, and all lose the lease once. */
    @Test
    void noTwoBorrowersMakeOneId() throws InterruptedException {
        daemon.answer = request -> request.method.equals("PATCH") && !request.body.get("fence").equals(fence)
                ? FakeDaemon.refused(410, "LEASE_LOST", with("details", with("reason", "taken"))) : lending(request);
        Set<Long> all = ConcurrentHashMap.newKeySet();
        List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        for (int program = 0; program < 4; program++) {
            Snowflake ids = make(options().maxWait(Duration.ofMillis(100)).claimTimeout(Duration.ofSeconds(30)));
            boolean ends = program == 0;
            for (int at = 0; at < 3; at++) {
                Thread thread = new Thread(() -> take(ids, ends ? 2000 : 4000, all));
                thread.setUncaughtExceptionHandler((who, cause) -> failures.add(cause));
                threads.add(thread);
                thread.start();
            }
        }
        until(() -> all.size() > 5000);
        fence = 2;
        for (Thread thread : threads) thread.join();
        assertEquals(List.of(), failures);
        assertEquals(3 * 2000 + 9 * 4000, all.size());
        for (long id : all) assertTrue(lent.containsKey(blockOf(id)));
        assertTrue(daemon.claims().size() > 4);
    }

    /** Each program has those IDs alone whose block was given to its own claim. */
    @Test
    void aBorrowerUsesItsOwnBlocksAlone() {
        daemon.answer = this::lending;
        for (int program = 0; program < 3; program++) {
            Snowflake ids = make(options().maxWait(Duration.ofSeconds(20)));
            int before = daemon.claims().size();
            ids.claim();
            Object token = daemon.claims().get(before).body.get("token");
            for (int at = 0; at < 500; at++) assertEquals(token, lent.get(blockOf(ids.next())));
        }
    }

    @Test
    void whatItAsksFor() throws InterruptedException {
        daemon.answer = request -> request.isBlocks() ? lent(request) : granted(request, "renewAfterMs", 50);
        Snowflake ids = make(options());
        ids.next();
        until(() -> daemon.of("PATCH").size() > 1 && daemon.blocks().size() > 1);
        ids.close();
        assertEquals(true, daemon.claims().get(0).body.get("shared"));
        // The first blocks come before the first ID.
        assertTrue(daemon.requests.get(1).isBlocks());
        FakeDaemon.Request first = daemon.blocks().get(0);
        assertEquals("/v1/default/leases/7/blocks", first.path);
        assertEquals(80L, first.body.get("spans"));
        FakeDaemon.Request second = daemon.blocks().get(1);
        assertEquals((Long) first.body.get("first") + 80, second.body.get("first"));
        assertEquals(daemon.of("PATCH").get(0).body.get("nextTurn"), daemon.of("PATCH").get(1).body.get("turn"));
        assertTrue(second.body.containsKey("turn"));
        // The lender knows what is used; and one with a receipt would be a holder of its own.
        assertEquals(1, daemon.releases().size());
        for (FakeDaemon.Request request : daemon.requests) {
            assertNull(request.receipt);
            for (String name : List.of("until", "lastTimestamp", "lastSequence")) assertFalse(request.body.containsKey(name), request.path);
        }
    }

    @Test
    void aBlockThatIsGivenTwiceIsOne() throws InterruptedException {
        AtomicLong clock = new AtomicLong(System.currentTimeMillis());
        daemon.answer = request -> request.isBlocks() ? each(request, 1 << 3) : granted(request);
        Snowflake ids = new Snowflake(new SnowflakeOptions.Checked(options(), name -> null, clock::get));
        made.add(ids);
        assertEquals(ids.next() + 1, ids.next());
        for (int times = 1; times < 4; times++) {
            int asked = daemon.blocks().size();
            until(() -> refusalOf(ids).code().equals("SEQUENCE_EXHAUSTED") && daemon.blocks().size() > asked + 1);
        }
        clock.incrementAndGet();
        assertEquals(ids.next() + 1, ids.next());
        assertEquals("SEQUENCE_EXHAUSTED", refusalOf(ids).code());
    }

    @Test
    void aBlockIsOfItsOwnSpanAlone() {
        Blocks blocks = new Blocks(SMALL, () -> {});
        blocks.given(new Blocks.Request(100_000, 1, 1, 0), new long[] {1 << 3});
        for (long span = 90_000; span < 110_000; span++) assertEquals(span == 100_000 ? 6 : Blocks.NONE, blocks.sequence(span * SPAN, 0));
        // As time goes on, it is forgotten, and the new ones have none of it.
        for (long span = 100_001; span < 110_000; span++) {
            blocks.given(new Blocks.Request(span, 1, 1, 0), new long[] {1 << 4});
            assertEquals(8, blocks.sequence(span * SPAN, 0));
            assertEquals(Blocks.NONE, blocks.sequence(span * SPAN, 2));
        }
        assertEquals(Blocks.NONE, blocks.sequence(100_000 * SPAN, 0));
    }

    @TestFactory
    Stream<DynamicTest> aWrongAnswerGivesNothing() {
        List<Object> wrong = List.of("8", 8, Map.of(), List.of("8"), List.of(-1), List.of(1L << 32), List.of(1.5), List.of(true), List.of(8, List.of()),
                Collections.nCopies(81, 8), List.of(1e300));
        return wrong.stream().map(given -> DynamicTest.dynamicTest(String.valueOf(given), () -> {
            daemon.answer = request -> request.isBlocks() ? blocks(given) : granted(request);
            SnowleaseException refusal = refusalOf(make(options()));
            assertEquals("SEQUENCE_EXHAUSTED", refusal.code());
            assertTrue(refusal.getMessage().matches("[^\r\n]*REGISTRY_UNAVAILABLE[^\r\n]*`blocks`[^\r\n]*"), refusal.getMessage());
        }));
    }

    @Test
    void garbage() {
        for (String given : List.of("", "SSH-2.0-OpenSSH_9\r\n", "HTTP/1.1 200 X\r\ncontent-length: 5\r\n\r\nhello", "HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\n{}")) {
            daemon.answer = request -> request.isBlocks() ? FakeDaemon.raw(given) : granted(request);
            assertTrue(refusalOf(make(options())).getMessage().matches("SEQUENCE_EXHAUSTED: [^\r\n]*REGISTRY_UNAVAILABLE[^\r\n]*"));
        }
    }

    @Test
    void aBlockThatTheLayoutDoesNotHave() {
        // 4 sequences: 4 blocks.
        daemon.answer = request -> request.isBlocks() ? each(request, 1 << 4) : granted(request, "layout", "timestamp:41,worker:10,sequence:2@1700000000000/1");
        assertTrue(refusalOf(make(options())).getMessage().contains("integers from 0 to 15"));
    }

    @Test
    void theRefusalIsTheCauseToTellAndNoTokenIs() {
        daemon.answer = request -> request.isBlocks()
                ? FakeDaemon.refused(429, "RATE_LIMITED", with("detail", "Full for " + request.body.get("token") + ".", "retryAfterMs", 5000)) : granted(request);
        SnowleaseException refusal = refusalOf(make(options()));
        assertTrue(refusal instanceof UnavailableException);
        assertTrue(refusal.getMessage().endsWith("The last request for more failed: RATE_LIMITED: Full for ***."), refusal.getMessage());
        assertTrue(refusal.retryAfter().get().toMillis() <= 1);
        // Blocks come, and the refusal is forgotten.
        daemon.answer = this::lending;
        Snowflake ids = made.get(0);
        AnswersTest.hasId(ids);
        assertTimeoutPreemptively(Duration.ofSeconds(20), () -> until(() -> AnswersTest.hasId(ids)));
    }

    @Test
    void noAnswerIsAskedForAgain() throws InterruptedException {
        daemon.answer = request -> request.isBlocks() ? FakeDaemon.silent() : granted(request);
        make(options()).claim();
        Thread.sleep(200);
        // But for the next prefetch.
        long first = (Long) daemon.blocks().get(0).body.get("now");
        assertEquals(1, daemon.blocks().stream().filter(request -> (Long) request.body.get("now") < first + 900).count());
    }

    @Test
    void aSilentLenderDelaysNoRenewalForLong() throws InterruptedException {
        daemon.answer = request -> {
            if (request.isBlocks()) LockSupport.parkNanos(5_000_000_000L);
            return granted(request, "until", System.currentTimeMillis() + 600, "renewAfterMs", 100);
        };
        long begun = System.nanoTime();
        Snowflake ids = make(options());
        ids.claim();
        refusalOf(ids);
        until(() -> daemon.of("PATCH").size() > 3);
        assertTrue(System.nanoTime() - begun < 4_000_000_000L);
    }

    /** The blocks of a claim end with it, and those that come too late are dropped. */
    @Test
    void anAnswerToAClaimBeforeIsDropped() throws InterruptedException {
        AtomicLong late = new AtomicLong();
        daemon.answer = request -> {
            boolean isFirst = request.body.getOrDefault("fence", 0L).equals(1L);
            if (!request.isBlocks()) {
                if (request.method.equals("PATCH") && isFirst) {
                    fence = 2;
                    return FakeDaemon.refused(410, "LEASE_LOST");
                }
                return granted(request, "renewAfterMs", daemon.claims().size() < 2 ? 800 : 20_000);
            }
            if (!isFirst) return each(request, 1 << 9);
            if (daemon.blocks().size() > 1) {
                // Longer than a request for blocks waits; the renewal comes before.
                LockSupport.parkNanos(1_500_000_000L);
                late.incrementAndGet();
            }
            return each(request, 1 << 4);
        };
        Snowflake ids = make(options().maxWait(Duration.ofSeconds(20)));
        int old = 0;
        int fresh = 0;
        while (late.get() == 0 || fresh < 100) {
            long id = ids.next();
            boolean isFresh = ids.lease() != null && ids.lease().fence() == 2;
            if (SMALL.decompose(id).sequence() / 2 == 4) old++;
            else assertEquals(9, SMALL.decompose(id).sequence() / 2);
            if (isFresh) fresh++;
            if (fresh > 1) assertEquals(9, SMALL.decompose(id).sequence() / 2);
        }
        assertTrue(old > 0);
        assertEquals(2, daemon.claims().stream().map(request -> request.body.get("token")).distinct().count());
    }

    @Test
    void lostAtBlocksIsDecidedByARenewal() throws InterruptedException {
        daemon.answer = request -> request.isBlocks() && daemon.of("PATCH").isEmpty() ? FakeDaemon.refused(410, "LEASE_LOST") : lending(request);
        Snowflake ids = make(options().maxWait(Duration.ofSeconds(10)));
        // Before the renewal that is due after 20 s; and it was none.
        ids.next();
        assertEquals(1, daemon.of("PATCH").size());
        assertEquals(1, daemon.claims().size());
    }

    @Test
    void aCallerGetsBlocksBeforeTheNextTick() {
        String layout = "timestamp:31,worker:10,sequence:6@1700000000000/60000";
        AtomicLong next = new AtomicLong();
        daemon.answer = request -> request.isBlocks() ? each(request, 1L << next.getAndIncrement())
                : granted(request, "layout", layout, "from", System.currentTimeMillis() - 120_000, "until", System.currentTimeMillis() + 120_000);
        Snowflake ids = make(options().maxWait(Duration.ofSeconds(1)));
        Set<Long> all = new HashSet<>();
        long begun = System.nanoTime();
        for (int at = 0; at < 20; at++) all.add(ids.next());
        assertEquals(20, all.size());
        assertTrue(System.nanoTime() - begun < 10_000_000_000L);
        // And waits no longer than it may.
        daemon.answer = request -> request.isBlocks() ? blocks(List.of()) : granted(request);
        begun = System.nanoTime();
        SnowleaseException refusal = assertThrows(SnowleaseException.class, () -> {
            for (;;) ids.next();
        });
        assertEquals("SEQUENCE_EXHAUSTED", refusal.code());
        long waited = System.nanoTime() - begun;
        assertTrue(900_000_000L < waited && waited < 10_000_000_000L, () -> waited + " ns");
        // What brings nothing is not asked for at each look.
        assertTrue(daemon.blocks().size() < 100);
    }

    @Test
    void aLeaseThatIsNotSharedIsGivenBackUnused() {
        daemon.answer = FakeDaemon::granted;
        SnowleaseException refusal = refusalOf(make(options()));
        assertEquals("CONFIG_INVALID: The registry lends no lease of namespace `default`; start its daemon with `--lend`, or leave `borrow` out to lease a worker ID "
                + "for this process alone.", refusal.getMessage());
        assertFalse(refusal instanceof UnavailableException);
        assertEquals(1, daemon.claims().size());
        FakeDaemon.Request release = daemon.releases().get(0);
        assertTrue((Long) release.body.get("until") < (Long) daemon.claims().get(0).body.get("now"));
        assertFalse(release.body.containsKey("lastTimestamp"));
        // It is a lease of its own.
        assertEquals("granted", release.receipt);
        assertEquals(0, daemon.blocks().size());
    }

    @Test
    void aDaemonThatLendsNothingIsFinalForTheFirstClaimAlone() throws InterruptedException {
        FakeDaemon.Answer nothing = FakeDaemon.refused(400, "CONFIG_INVALID", with("details", with("lends", false)));
        daemon.answer = request -> nothing;
        SnowleaseException first = refusalOf(make(options().claimTimeout(Duration.ofSeconds(30))));
        assertEquals("CONFIG_INVALID", first.code());
        assertFalse(first instanceof UnavailableException);
        assertEquals(1, daemon.claims().size());
        // One that ran when its daemon ended goes on with another daemon that lends.
        daemon.requests.clear();
        daemon.answer = request -> request.isBlocks() ? lent(request) : granted(request, "renewAfterMs", 50);
        Snowflake ids = make(options());
        ids.next();
        daemon.answer = request -> request.isClaim() ? nothing : FakeDaemon.refused(410, "LEASE_LOST");
        until(() -> ids.lease() == null);
        SnowleaseException refusal = refusalOf(ids);
        assertEquals("CONFIG_INVALID", refusal.code());
        assertTrue(refusal instanceof UnavailableException);
        // Also where it leases worker IDs alone, and knows nothing of blocks.
        daemon.answer = request -> granted(request, "shared", false);
        assertTrue(refusalOf(ids) instanceof UnavailableException);
        assertEquals(1, daemon.releases().size());
        daemon.answer = this::lending;
        assertTrue(ids.next() > 0);
        List<Object> tokens = daemon.claims().stream().map(request -> request.body.get("token")).collect(Collectors.toList());
        assertEquals(tokens.size(), new HashSet<>(tokens).size());
    }

    @Test
    void waitsForAPlaceUnlessItIsToldNotTo() {
        for (String code : List.of("RATE_LIMITED", "LEASE_EXPIRED")) {
            daemon.requests.clear();
            int status = code.equals("RATE_LIMITED") ? 429 : 503;
            // Longer than a call takes.
            daemon.answer = request -> request.isClaim() && daemon.claims().size() < 2 ? FakeDaemon.refused(status, code, with("retryAfterMs", 1500)) : lending(request);
            assertEquals(code, refusalOf(make(options().operationTimeout(Duration.ofSeconds(1)))).code());
            daemon.requests.clear();
            assertTrue(make(new SnowflakeOptions().registry(daemon.url()).borrow(true).operationTimeout(Duration.ofSeconds(1))).next() > 0);
            assertTrue(daemon.claims().size() > 1);
        }
    }

    @Test
    void theOptionAndTheUrl() {
        daemon.answer = this::lending;
        for (String query : List.of("", "?borrow=false", "?borrow=true")) {
            assertTrue(make(options().registry(daemon.url() + query).borrow(true)).next() > 0);
        }
        daemon.answer = FakeDaemon::granted;
        int before = daemon.claims().size();
        assertTrue(make(options().registry(daemon.url() + "?borrow=false")).next() > 0);
        assertFalse(daemon.claims().get(before).body.containsKey("shared"));
        for (String query : List.of("borrow=yes", "borrow=1", "borrow=", "borrow", "borrow=TRUE", "borrow=true&borrow=true")) {
            SnowleaseException refusal = assertThrows(SnowleaseException.class, () -> new Snowflake("http://a?" + query));
            assertEquals("CONFIG_INVALID", refusal.code());
            assertTrue(refusal.getMessage().contains("borrow"), refusal.getMessage());
        }
    }

    @Test
    void oneDaemonLends() {
        SnowleaseException refusal = assertThrows(SnowleaseException.class, () -> new Snowflake("http://a,http://b?borrow=true"));
        assertEquals("CONFIG_INVALID", refusal.code());
        assertTrue(refusal.getMessage().contains("Expected `registry` to be one daemon's address"), refusal.getMessage());
        assertThrows(SnowleaseException.class, () -> new Snowflake(new SnowflakeOptions().registry("http://a,http://b").borrow(true)));
    }

    @Test
    void theNumberIsForNoOtherGenerator() {
        SnowleaseException refusal = assertThrows(SnowleaseException.class, () -> make(options()).claimWhole());
        assertEquals("CONFIG_INVALID", refusal.code());
        assertEquals(0, daemon.requests.size());
        daemon.answer = FakeDaemon::granted;
        assertEquals(7, make(options().registry(daemon.url())).claimWhole().lease().workerId());
    }
}
