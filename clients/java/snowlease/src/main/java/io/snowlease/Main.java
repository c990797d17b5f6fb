package io.snowlease;

import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * Prints IDs: {@code java -jar snowlease.jar [HOW_MANY] [MS_BETWEEN]}; 0: until it is stopped. SNOWLEASE_REGISTRY names the daemon.
 */
final class Main {
    private static final String USAGE = "Usage: java -jar snowlease.jar [HOW_MANY] [MS_BETWEEN]; 0: until it is stopped. SNOWLEASE_REGISTRY names the daemon.";
    private static final int DEFAULT_COUNT = 10;

    private Main() {}

    public static void main(String[] arguments) throws InterruptedException {
        long count;
        long pause;
        try {
            count = arguments.length > 0 ? Long.parseLong(arguments[0]) : DEFAULT_COUNT;
            pause = arguments.length > 1 ? Long.parseLong(arguments[1]) : 0;
        } catch (NumberFormatException cause) {
            System.err.println(USAGE);
            System.exit(1);
            return;
        }
        PrintStream out = new PrintStream(
                new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)), false, StandardCharsets.US_ASCII);
        SnowflakeOptions options = new SnowflakeOptions().maxWait(Duration.ofSeconds(5));
        try (Snowflake ids = new Snowflake(options)) {
            print(ids, out, count, pause);
        } catch (SnowleaseException error) {
            System.err.println(error.getMessage());
            System.exit(1);
        }
    }

    private static void print(Snowflake ids, PrintStream out, long count, long pause) throws InterruptedException {
        try {
            for (long made = 0; count == 0 || made < count; made++) {
                out.println(ids.next());
                if (pause > 0) {
                    out.flush();
                    Thread.sleep(pause);
                }
            }
        } catch (SnowleaseException error) {
            // A signal ends the program: its worker ID was given back.
            if (ids.state() != Snowflake.State.CLOSED) throw error;
        } finally {
            out.flush();
        }
    }
}
