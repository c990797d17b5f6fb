import io.snowlease.Snowflake;
import io.snowlease.SnowflakeOptions;
import io.snowlease.UnavailableException;
import java.time.Duration;

/** Threads that share a Snowflake: `Crew THREADS IDS`. Prints every ID. */
class Crew {
    public static void main(String[] arguments) throws InterruptedException {
        int count = Integer.parseInt(arguments[1]);
        SnowflakeOptions options = new SnowflakeOptions().maxWait(Duration.ofSeconds(20)).claimTimeout(Duration.ofSeconds(20));
        try (Snowflake ids = new Snowflake(options)) {
            Thread[] threads = new Thread[Integer.parseInt(arguments[0])];
            for (int at = 0; at < threads.length; at++) {
                threads[at] = new Thread(() -> take(ids, count));
                threads[at].start();
            }
            for (Thread thread : threads) thread.join();
        }
    }

    private static void take(Snowflake ids, int count) {
        StringBuilder lines = new StringBuilder();
        for (int made = 0; made < count; ) {
            try {
                lines.append(ids.next()).append('\n');
                made++;
            } catch (UnavailableException refusal) {
                continue;
            }
            if (made % 50 == 0) java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
        }
        synchronized (Crew.class) {
            System.out.print(lines);
            System.out.flush();
        }
    }
}
