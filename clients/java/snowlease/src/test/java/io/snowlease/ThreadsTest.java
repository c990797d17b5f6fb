package io.snowlease;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Threads, ends and clocks: no ID comes twice. */
@Timeout(120)
class ThreadsTest {
    private static final int THREADS = 8;
    private static final Layout LAYOUT = Layout.parse(FakeDaemon.LAYOUT);

    private final FakeDaemon daemon = new FakeDaemon();

    @AfterEach
    void end() throws IOException {
        daemon.close();
    }

    /** What threads do at the same time, until each is done; its IDs in order. */
    private static List<long[]> inThreads(int count, java.util.function.Supplier<long[]> work) throws InterruptedException {
        List<long[]> all = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            Thread thread = new Thread(() -> {
                long[] own = work.get();
                synchronized (all) {
                    all.add(own);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        assertEquals(count, all.size());
        return all;
    }

    private static void assertDistinct(List<long[]> all) {
        assertEquals(all.stream().mapToLong(own -> own.length).sum(), all.stream().flatMapToLong(Arrays::stream).distinct().count());
        for (long[] own : all) assertArrayEquals(LongStream.of(own).sorted().toArray(), own);
    }

    private static long[] take(Snowflake ids, int count) {
        long[] own = new long[count];
        for (int at = 0; at < count; at++) own[at] = ids.next();
        return own;
    }

    /** IDs up to the end of the claim. The first thread that has so many ends it. */
    private static long[] takeAll(Window window, Consumer<Window> end) {
        long[] own = new long[1 << 16];
        for (int count = 0; count < own.length; ) {
            long id = window.take(System::currentTimeMillis);
            if (id > Window.NONE) own[count++] = id;
            if (count == 1000) end.accept(window);
            if (id == Window.NONE && isOver(window)) return Arrays.copyOf(own, count);
        }
        return own;
    }

    private static boolean isOver(Window window) {
        SnowleaseException refusal = window.refusal(System::currentTimeMillis);
        return refusal != null && refusal.code().equals("LEASE_LOST");
    }

    @Test
    void eightThreadsShareOne() throws InterruptedException {
        try (Snowflake ids = new Snowflake(new SnowflakeOptions().registry(daemon.url()).maxWait(Duration.ofSeconds(30)))) {
            List<long[]> all = inThreads(THREADS, () -> take(ids, 50_000));
            assertDistinct(all);
            assertEquals(1, daemon.claims().size());
        }
    }

    /** The end comes in the midst of eight threads: what it says was used covers each ID that any of them got. */
    @RepeatedTest(50)
    void theGiveBackCoversEachId() throws InterruptedException {
        Layout layout = Layout.parse("timestamp:41,worker:5,sequence:17@1700000000000/1");
        long now = System.currentTimeMillis();
        Window window = new Window(layout, new Lease(3, 1, now - 1000, now + 60_000), now);
        AtomicReference<Window.Usage> used = new AtomicReference<>();
        List<long[]> all = inThreads(THREADS, () -> takeAll(window, claim -> {
            Window.Usage last = claim.end(() -> new SnowleaseException("LEASE_LOST", "over"));
            if (last != null) used.set(last);
        }));
        assertDistinct(all);
        long highest = all.stream().flatMapToLong(Arrays::stream).max().orElse(0);
        // Exactly: not one more, not one less.
        assertEquals(highest, layout.compose(used.get().timestamp, 3, used.get().sequence, 0));
        assertEquals(used.get().timestamp + 1, used.get().until);
    }

    /** A quarantine raises `from` in the midst of two threads: from then on no ID of an earlier time comes, whatever a thread has read before. */
    @RepeatedTest(20)
    void noIdOfBeforeARaisedFromComesAfterIt() throws InterruptedException {
        Layout layout = Layout.parse("timestamp:41,worker:5,sequence:17@1700000000000/1");
        AtomicLong clock = new AtomicLong(1_700_000_100_000L);
        Window window = new Window(layout, new Lease(3, 1, clock.get() - 1000, clock.get() + 60_000), clock.get());
        AtomicLong raised = new AtomicLong();
        List<long[]> late = inThreads(3, () -> {
            if (clock.getAndIncrement() == 1_700_000_100_000L) {
                // One of them. It tells of a time that is behind the clock of all others.
                for (int at = 0; at < 30; at++) {
                    long from = clock.incrementAndGet() + 1;
                    window.renewed(from, 0);
                    raised.set(from);
                    java.util.concurrent.locks.LockSupport.parkNanos(100_000);
                }
                window.end(() -> new SnowleaseException("LEASE_LOST", "over"));
                return new long[0];
            }
            LongStream.Builder wrong = LongStream.builder();
            for (;;) {
                long before = raised.get();
                long id = window.take(clock::get);
                if (id > Window.NONE && layout.decompose(id).timestamp() < before) wrong.add(id);
                SnowleaseException refusal = id == Window.NONE ? window.refusal(clock::get) : null;
                if (refusal != null && refusal.code().equals("LEASE_LOST")) return wrong.build().toArray();
                if (refusal != null) clock.incrementAndGet();
            }
        });
        assertEquals(0, late.stream().mapToLong(own -> own.length).sum());
    }

    /** Blocks of one tick come in the midst of eight threads, one by one and in any order: each of their sequences is one ID. */
    @RepeatedTest(20)
    void blocksThatComeInTheMidstOfThreads() throws InterruptedException {
        Layout layout = Layout.parse("timestamp:41,worker:5,sequence:10@1700000000000/1");
        long now = 1_700_000_100_000L;
        Blocks blocks = new Blocks(layout, () -> {});
        Window window = new Window(layout, new Lease(3, 1, now - 1000, now + 60_000), now, blocks);
        Blocks.Request request = blocks.prefetch(now);
        Thread lender = new Thread(() -> {
            List<Integer> order = IntStream.range(0, 32).boxed().collect(Collectors.toList());
            Collections.shuffle(order);
            for (int block : order) {
                blocks.given(request, new long[] {1L << block});
                java.util.concurrent.locks.LockSupport.parkNanos(20_000);
            }
            while (window.refusal(() -> now) == null) Thread.onSpinWait();
            window.end(() -> new SnowleaseException("LEASE_LOST", "over"));
        });
        lender.start();
        List<long[]> all = inThreads(THREADS, () -> {
            LongStream.Builder own = LongStream.builder();
            for (;;) {
                long id = window.take(() -> now);
                SnowleaseException refusal = id == Window.NONE ? window.refusal(() -> now) : null;
                if (id > Window.NONE) own.add(id);
                if (refusal != null && refusal.code().equals("LEASE_LOST")) return own.build().toArray();
            }
        });
        lender.join();
        long first = layout.compose(now, 3, 0, 0);
        long[] sorted = all.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        assertArrayEquals(LongStream.range(0, 1024).map(sequence -> first + (sequence << layout.sequenceShift())).toArray(), sorted);
    }

    @Test
    void closedInTheMidstOfThreads() throws InterruptedException {
        for (int round = 0; round < 10; round++) {
            Snowflake ids = new Snowflake(new SnowflakeOptions().registry(daemon.url()).maxWait(Duration.ofSeconds(30)));
            ids.claim();
            Thread closing = new Thread(ids::close);
            daemon.requests.clear();
            List<long[]> all = inThreads(THREADS, () -> {
                long[] own = new long[1 << 18];
                int count = 0;
                try {
                    while (count < own.length) {
                        own[count++] = ids.next();
                        if (count == 500 && closing.getState() == Thread.State.NEW) startOnce(closing);
                    }
                } catch (SnowleaseException refusal) {
                    assertEquals("LEASE_LOST", refusal.code());
                    count--;
                }
                return Arrays.copyOf(own, count);
            });
            closing.join();
            assertDistinct(all);
            IdParts last = LAYOUT.decompose(all.stream().flatMapToLong(Arrays::stream).max().orElse(0));
            FakeDaemon.Request release = daemon.releases().get(0);
            assertEquals(last.timestamp(), release.body.get("lastTimestamp"));
            assertEquals((long) last.sequence(), release.body.get("lastSequence"));
        }
    }

    private static synchronized void startOnce(Thread thread) {
        if (thread.getState() == Thread.State.NEW) thread.start();
    }

    private Snowflake at(AtomicLong clock, Duration maxWait) {
        return new Snowflake(new SnowflakeOptions.Checked(new SnowflakeOptions().registry(daemon.url()).maxWait(maxWait), name -> null, clock::get));
    }

    @Test
    void aClockThatGoesBackIsTold() {
        AtomicLong clock = new AtomicLong(System.currentTimeMillis());
        try (Snowflake ids = at(clock, Duration.ofMillis(50))) {
            long[] before = take(ids, 100);
            clock.addAndGet(-3000);
            SnowleaseException refusal = assertThrows(UnavailableException.class, ids::next);
            assertEquals("CLOCK_ROLLBACK", refusal.code());
            assertEquals(Duration.ofSeconds(3), refusal.retryAfter().get());
            clock.addAndGet(3000);
            assertDistinct(List.of(before, take(ids, 100)));
        }
    }

    @Test
    void aClockThatGoesBackALittleIsWaitedFor() {
        AtomicLong clock = new AtomicLong(System.currentTimeMillis());
        try (Snowflake ids = at(clock, Duration.ofSeconds(60))) {
            long[] before = take(ids, 4000);
            clock.addAndGet(-20);
            Thread later = new Thread(() -> {
                java.util.concurrent.locks.LockSupport.parkNanos(50_000_000);
                clock.addAndGet(21);
            });
            later.start();
            long[] after = take(ids, 4000);
            assertEquals(8000, LongStream.concat(Arrays.stream(before), Arrays.stream(after)).distinct().count());
        }
    }

    @Test
    void aFullTickIsWaitedFor() {
        AtomicLong clock = new AtomicLong(System.currentTimeMillis());
        try (Snowflake ids = at(clock, Duration.ZERO)) {
            long[] before = take(ids, 4096);
            SnowleaseException refusal = assertThrows(UnavailableException.class, ids::next);
            assertEquals("SEQUENCE_EXHAUSTED", refusal.code());
            assertEquals(Duration.ofMillis(1), refusal.retryAfter().get());
            clock.incrementAndGet();
            assertEquals(8192, LongStream.concat(Arrays.stream(before), Arrays.stream(take(ids, 4096))).distinct().count());
        }
    }

    @Test
    void forms() {
        try (Snowflake ids = new Snowflake(daemon.url())) {
            assertTrue(Long.parseLong(ids.nextString()) > 0);
            assertTrue(Encoding.CROCKFORD32.decode(ids.nextString(Encoding.CROCKFORD32)) > 0);
            assertEquals("Snowflake[default, worker 7]", ids.toString());
            assertEquals(LAYOUT, ids.layout());
        }
    }
}
