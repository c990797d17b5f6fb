import com.github.bingoohuang.westid.WestIdConfig;
import com.github.bingoohuang.westid.WestIdGenerator;
import com.github.yitter.contract.IdGeneratorOptions;
import com.github.yitter.idgen.DefaultIdGenerator;
import io.snowlease.Snowflake;
import io.snowlease.SnowflakeOptions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntToLongFunction;
import me.ahoo.cosid.snowflake.MillisecondSnowflakeId;

/**
 * IDs at speed, beside peers: `Bench REGISTRY [ROUNDS]`. Prints a line of JSON for each subject and number of threads: the median of the rounds.
 *
 * <p>Rounds are interleaved: each measures each subject once, and the next round begins with another one. All have 17 bits of sequence, so that none
 * waits for a tick; but yitter, which has at most 15 and runs ahead of its clock instead, and hutool, which has 12: it makes 4096 IDs a ms at most,
 * which is 244 ns an ID.
 */
class Bench {
    private static final long EPOCH = 1_577_836_800_000L;
    private static final int WORKER_BITS = 5;
    private static final int SEQUENCE_BITS = 17;
    private static final int[] THREADS = {1, 4};
    private static final int COUNT = 4_000_000;

    /** Makes so many IDs in a loop of its own, so that the compiler sees one generator in it. */
    private static final class Subject {
        final String name;
        final IntToLongFunction make;
        final List<List<Double>> figures = new ArrayList<>();

        Subject(String name, IntToLongFunction make) {
            this.name = name;
            this.make = make;
            for (int ignored : THREADS) figures.add(new ArrayList<>());
        }
    }

    private static volatile long sink;

    public static void main(String[] arguments) throws Exception {
        int rounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 15;
        SnowflakeOptions options = new SnowflakeOptions().registry(arguments[0]).namespace("bench_java").maxWait(Duration.ofSeconds(5))
                .layout("timestamp:41,worker:" + WORKER_BITS + ",sequence:" + SEQUENCE_BITS + "@" + EPOCH);
        try (Snowflake ids = new Snowflake(options).claim()) {
            List<Subject> subjects = subjects(ids);
            // Compiles each loop, with one thread and with several.
            for (int round = 0; round < 2; round++) measure(subjects, round);
            for (Subject subject : subjects) for (List<Double> figures : subject.figures) figures.clear();
            for (int round = 0; round < rounds; round++) measure(subjects, round);
            for (Subject subject : subjects) print(subject);
        }
    }

    private static List<Subject> subjects(Snowflake ids) throws Exception {
        AtomicLong counter = new AtomicLong();
        WestIdGenerator westid = new WestIdGenerator(new WestIdConfig(EPOCH, WORKER_BITS, SEQUENCE_BITS), 1);
        cn.hutool.core.lang.Snowflake hutool = new cn.hutool.core.lang.Snowflake(1, 1);
        MillisecondSnowflakeId cosid = new MillisecondSnowflakeId(EPOCH, 41, WORKER_BITS, SEQUENCE_BITS, 1);
        IdGeneratorOptions yitterOptions = new IdGeneratorOptions((short) 1);
        yitterOptions.WorkerIdBitLength = WORKER_BITS;
        yitterOptions.SeqBitLength = 15;
        DefaultIdGenerator yitter = new DefaultIdGenerator(yitterOptions);
        return List.of(
                new Subject("snowlease", count -> {
                    long last = 0;
                    for (int made = 0; made < count; made++) last ^= ids.next();
                    return last;
                }),
                new Subject("westid 0.0.3", count -> {
                    long last = 0;
                    for (int made = 0; made < count; made++) last ^= westid.next();
                    return last;
                }),
                new Subject("cosid 2.10.1", count -> {
                    long last = 0;
                    for (int made = 0; made < count; made++) last ^= cosid.generate();
                    return last;
                }),
                new Subject("yitter 1.0.6", count -> {
                    long last = 0;
                    for (int made = 0; made < count; made++) last ^= yitter.newLong();
                    return last;
                }),
                new Subject("hutool 5.8.38 (12 bits)", count -> {
                    long last = 0;
                    for (int made = 0; made < count; made++) last ^= hutool.nextId();
                    return last;
                }),
                new Subject("yardstick: System.currentTimeMillis()", count -> {
                    long last = 0;
                    for (int made = 0; made < count; made++) last ^= System.currentTimeMillis();
                    return last;
                }),
                new Subject("yardstick: clock and AtomicLong", count -> {
                    long last = 0;
                    for (int made = 0; made < count; made++) last ^= System.currentTimeMillis() + counter.incrementAndGet();
                    return last;
                }));
    }

    private static void measure(List<Subject> subjects, int round) throws Exception {
        for (int at = 0; at < THREADS.length; at++) {
            for (int turn = 0; turn < subjects.size(); turn++) {
                Subject subject = subjects.get((turn + round) % subjects.size());
                subject.figures.get(at).add(nsPerId(subject.make, THREADS[at]));
            }
        }
    }

    /** Of all threads together, from the begin of the first to the end of the last. */
    private static double nsPerId(IntToLongFunction make, int threads) throws Exception {
        int each = COUNT / threads;
        CyclicBarrier barrier = new CyclicBarrier(threads);
        // By the threads themselves: this one may wait for a processor while they run.
        AtomicLong begun = new AtomicLong(Long.MAX_VALUE);
        AtomicLong ended = new AtomicLong(Long.MIN_VALUE);
        List<Thread> all = new ArrayList<>();
        for (int at = 0; at < threads; at++) {
            Thread thread = new Thread(() -> {
                try {
                    barrier.await();
                    begun.accumulateAndGet(System.nanoTime(), Math::min);
                    sink ^= make.applyAsLong(each);
                    ended.accumulateAndGet(System.nanoTime(), Math::max);
                } catch (Exception cause) {
                    cause.printStackTrace();
                    System.exit(1);
                }
            });
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) thread.join();
        return (ended.get() - begun.get()) / (double) (each * threads);
    }

    private static void print(Subject subject) {
        for (int at = 0; at < THREADS.length; at++) {
            List<Double> figures = new ArrayList<>(subject.figures.get(at));
            Collections.sort(figures);
            double median = figures.get(figures.size() / 2);
            System.out.printf(Locale.ROOT, "{\"group\":\"threads: %d\",\"subject\":\"%s\",\"nsPerId\":%.1f}%n", THREADS[at], subject.name, median);
        }
    }
}
