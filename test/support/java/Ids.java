import io.snowlease.Snowflake;
import io.snowlease.SnowflakeOptions;
import io.snowlease.SnowleaseException;
import java.time.Duration;

/** Prints IDs: `Ids HOW_MANY MS_BETWEEN`; 0: until it is stopped. */
class Ids {
    public static void main(String[] arguments) throws InterruptedException {
        int count = Integer.parseInt(arguments[0]);
        int pause = Integer.parseInt(arguments[1]);
        try (Snowflake ids = new Snowflake(new SnowflakeOptions().maxWait(Duration.ofSeconds(5)))) {
            for (int made = 0; count == 0 || made < count; made++) {
                System.out.println(ids.next());
                if (pause > 0) Thread.sleep(pause);
            }
        } catch (SnowleaseException refusal) {
            // The hook that closes it has begun.
            if (refusal.code().equals("LEASE_LOST")) return;
            System.err.println(refusal.getMessage());
            System.exit(1);
        }
    }
}
