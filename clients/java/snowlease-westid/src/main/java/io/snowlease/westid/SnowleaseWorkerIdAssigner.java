package io.snowlease.westid;

import com.github.bingoohuang.westid.WestIdConfig;
import com.github.bingoohuang.westid.WorkerIdAssigner;
import io.snowlease.Lease;
import io.snowlease.Snowflake;
import io.snowlease.SnowflakeOptions;
import java.util.Objects;
import java.util.concurrent.locks.LockSupport;

/**
 * Leases a worker ID for a generator that cannot be replaced, as westid's other assigners do. Only {@link LeasedWestIdGenerator} checks each ID:
 * here a <em>number</em> is handed out, and what uses it has to stop in {@code onEnd}. IDs that it makes before that runs are not protected: after
 * a pause of the process that outlasts the window, with a wrong clock, and after {@code release --force} until the next renewal.
 *
 * <p>The number is never given back, since nobody knows what was made of it: after the end of the program it rests until its window has passed.
 */
public final class SnowleaseWorkerIdAssigner implements WorkerIdAssigner {
    private static final long LOOK_MS = 50;
    private static final long SPARE_MS = 1000;

    private final SnowflakeOptions options;
    private final Runnable onEnd;
    private Integer workerId;

    /**
     * @param onEnd has to end the generator, or the program. It runs once: when the lease is lost, when the clock falls behind its
     *     window, and a second before the window ends without a renewal.
     */
    public SnowleaseWorkerIdAssigner(SnowflakeOptions options, Runnable onEnd) {
        this.options = options;
        this.onEnd = Objects.requireNonNull(onEnd, "onEnd");
    }

    /**
     * Claims a worker ID: that of the system property {@code westid.workerId}, then of SNOWLEASE_WORKER_ID or WESTID_WORKERID, then any that the
     * registry has. The same one when it is called again.
     *
     * @throws io.snowlease.SnowleaseException why there is none; CONFIG_INVALID for a registry with {@code borrow}: the number would not be this program's alone.
     * @throws IllegalArgumentException for a property or a variable that names no worker ID.
     */
    @Override
    public synchronized int assignWorkerId(WestIdConfig config) {
        if (workerId != null) return workerId;
        Snowflake claimed = new Snowflake(Binding.bind(options, config, System::getProperty, System::getenv).closesAtExit(false)).claimWhole();
        Lease lease = claimed.lease();
        // Lost a moment after it was claimed.
        if (lease == null) return assignWorkerId(config);
        // Nobody checks the window from here on: it has to be open.
        while (System.currentTimeMillis() < lease.from()) LockSupport.parkNanos(1_000_000);
        workerId = lease.workerId();
        Thread watch = new Thread(() -> watch(claimed), "snowlease watch");
        watch.setDaemon(true);
        watch.start();
        return workerId;
    }

    private void watch(Snowflake claimed) {
        try {
            for (;;) {
                Lease lease = claimed.lease();
                long now = System.currentTimeMillis();
                if (lease == null || now < lease.from() || now >= lease.until() - SPARE_MS) break;
                Thread.sleep(LOOK_MS);
            }
        } catch (InterruptedException cause) {
            // As at the end of the lease: nobody looks any more.
        }
        onEnd.run();
    }
}
