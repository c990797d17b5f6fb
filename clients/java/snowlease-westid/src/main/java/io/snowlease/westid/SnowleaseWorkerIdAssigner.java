package io.snowlease.westid;

import com.github.bingoohuang.westid.WestIdConfig;
import com.github.bingoohuang.westid.WorkerIdAssigner;
import io.snowlease.SnowflakeOptions;
import io.snowlease.SnowleaseException;
import io.snowlease.WorkerIdLease;
import java.util.function.Consumer;

/**
 * Leases a worker ID for a generator that cannot be replaced, as westid's other assigners do. Only {@link LeasedWestIdGenerator} checks each ID:
 * here a <em>number</em> is handed out, and what uses it has to stop in {@code onEnd}. {@link WorkerIdLease} says what that does not protect.
 */
public final class SnowleaseWorkerIdAssigner implements WorkerIdAssigner, AutoCloseable {
    private final SnowflakeOptions options;
    private final Consumer<SnowleaseException> onEnd;
    private WorkerIdLease lease;

    /** @param onEnd has to end the generator, or the program: {@link WorkerIdLease#claim}. */
    public SnowleaseWorkerIdAssigner(SnowflakeOptions options, Consumer<SnowleaseException> onEnd) {
        this.options = options;
        this.onEnd = onEnd;
    }

    /**
     * Claims a worker ID: that of the system property {@code westid.workerId}, then of SNOWLEASE_WORKER_ID or WESTID_WORKERID, then any that the
     * registry has. The same one when it is called again.
     *
     * @throws SnowleaseException why there is none; CONFIG_INVALID for a property or a variable that names no worker ID.
     */
    @Override
    public synchronized int assignWorkerId(WestIdConfig config) {
        if (lease == null) lease = WorkerIdLease.claim(Binding.bind(options, config, System::getProperty, System::getenv), onEnd);
        return lease.workerId();
    }

    /** Ends the renewal: call it once the generator makes no more IDs. The worker ID rests until its window has passed. */
    @Override
    public synchronized void close() {
        if (lease != null) lease.close();
    }
}
