package io.snowlease.westid;

import com.github.bingoohuang.westid.WestId;
import com.github.bingoohuang.westid.WestIdConfig;
import com.github.bingoohuang.westid.WestIdGenerator;
import io.snowlease.Lease;
import io.snowlease.Snowflake;
import io.snowlease.SnowflakeOptions;
import io.snowlease.SnowleaseException;

/**
 * westid's generator on a leased worker ID: {@code WestId.configure(new LeasedWestIdGenerator(…))} is all that a program changes. Its IDs have
 * westid's form and come from a {@link Snowflake}, so that each is checked against the lease. A lost lease is replaced by one of another worker ID.
 *
 * <p>The system property {@code westid.workerId} (or {@code snowlease.workerId}), then the variable SNOWLEASE_WORKER_ID or WESTID_WORKERID, name the
 * only acceptable worker ID; without them the registry picks one.
 */
public final class LeasedWestIdGenerator extends WestIdGenerator implements AutoCloseable {
    private final Snowflake ids;

    /** Claims a worker ID. The environment names the registry: SNOWLEASE_REGISTRY. @throws SnowleaseException why there is none. */
    public LeasedWestIdGenerator() {
        this(new SnowflakeOptions());
    }

    /** Claims a worker ID. @param registry {@code http://HOST:PORT}: {@link SnowflakeOptions#registry}. @throws SnowleaseException why there is none. */
    public LeasedWestIdGenerator(String registry) {
        this(new SnowflakeOptions().registry(registry));
    }

    /** Claims a worker ID for westid's own layout. @throws SnowleaseException why there is none. */
    public LeasedWestIdGenerator(SnowflakeOptions options) {
        this(options, new WestIdConfig(WestId.EPOCH, 10, 12));
    }

    /** Claims a worker ID. @param config the bits of the IDs: the namespace has to have the same. @throws SnowleaseException why there is none. */
    public LeasedWestIdGenerator(SnowflakeOptions options, WestIdConfig config) {
        this(new Snowflake(Binding.bind(options, config, System::getProperty, System::getenv)).claim(), config);
    }

    private LeasedWestIdGenerator(Snowflake ids, WestIdConfig config) {
        super(config, workerIdOf(ids));
        this.ids = ids;
    }

    private static int workerIdOf(Snowflake ids) {
        Lease lease = ids.lease();
        // Lost a moment after it was claimed: the next ID has another one.
        return lease == null ? 0 : lease.workerId();
    }

    /** An ID: {@link Snowflake#next}. */
    @Override
    public long next() {
        return ids.next();
    }

    /** The present worker ID: another one after a lease was lost. */
    @Override
    public long getWorkerId() {
        Lease lease = ids.lease();
        return lease == null ? super.getWorkerId() : lease.workerId();
    }

    /** What makes the IDs, for its state and its lease. */
    public Snowflake snowflake() {
        return ids;
    }

    /** Gives the worker ID back; no ID is made from then on. The end of the program does the same. */
    @Override
    public void close() {
        ids.close();
    }
}
