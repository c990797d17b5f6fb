import io.snowlease.FakedClock;
import io.snowlease.IdParts;
import io.snowlease.Lease;
import io.snowlease.Snowflake;
import io.snowlease.SnowflakeOptions;
import io.snowlease.SnowleaseException;
import io.snowlease.UnavailableException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A holder of the proof suite, README.md beside it: makes IDs, and writes down each of them and each window. */
public final class ProofHolder {
    private static final Pattern LOST = Pattern.compile("was lost \\((\\w+)\\)");
    private static final Logger LOG = Logger.getLogger("snowlease");

    private final Snowflake ids;
    private final FileOutputStream idLog;
    private final FileOutputStream factLog;
    private final int bulk;
    private final ByteBuffer unwritten;
    private final Map<String, Integer> errors = new TreeMap<>();
    /** Why the last lease was lost, as the client's log told; null: it did not yet. The client waits for it. */
    private final AtomicReference<String> reason = new AtomicReference<>();
    private int made;
    private int claims;
    private Lease known;
    private boolean isOver;

    private ProofHolder(Map<String, String> task) throws IOException {
        bulk = Integer.parseInt(task.get("bulk"));
        unwritten = ByteBuffer.allocate(bulk * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        idLog = new FileOutputStream(task.get("log") + ".ids", true);
        factLog = new FileOutputStream(task.get("log") + ".facts", true);
        LOG.addHandler(new Handler() {
            @Override
            public void publish(LogRecord line) {
                Matcher found = LOST.matcher(line.getMessage());
                if (found.find()) {
                    reason.set(found.group(1));
                }
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        });
        SnowflakeOptions options = new SnowflakeOptions()
                .registry(task.get("registry"))
                .namespace(task.get("namespace"))
                .operationTimeout(ms(task, "operationTimeout"))
                .maxWait(ms(task, "maxWait"));
        ids = task.get("clock").isEmpty() ? new Snowflake(options) : FakedClock.snowflake(options, task.get("clock"));
    }

    private static Duration ms(Map<String, String> task, String name) {
        return Duration.ofMillis(Long.parseLong(task.get(name)));
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> task = new HashMap<>();
        for (String arg : args) {
            String[] pair = arg.split("=", 2);
            task.put(pair[0], pair[1]);
        }
        ProofHolder holder = new ProofHolder(task);
        start(() -> holder.tell(500));
        start(() -> holder.run(Long.parseLong(task.get("pause"))));
        if (System.in.read() >= 0) {
            holder.end();
        }
        Runtime.getRuntime().halt(0);
    }

    /** What goes wrong in one of the threads ends the program. */
    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable cause) {
                cause.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private interface Work {
        void run() throws Exception;
    }

    private void run(long pause) throws Exception {
        while (true) {
            synchronized (this) {
                for (int i = 0; i < bulk && !isOver && next(); i++) {}
                write();
            }
            Thread.sleep(pause);
        }
    }

    private boolean next() throws IOException {
        Lease before = look();
        long id;
        try {
            id = ids.next();
        } catch (SnowleaseException error) {
            count(error);
            return false;
        }
        // It was made before the window changed, or behind it.
        if (!fits(id, before)) {
            look();
        }
        unwritten.putLong(id);
        made++;
        return true;
    }

    private boolean fits(long id, Lease lease) {
        if (lease == null) {
            return false;
        }
        IdParts parts = ids.layout().decompose(id);
        return parts.workerId() == lease.workerId() && parts.timestamp() >= lease.from() && parts.timestamp() < lease.until();
    }

    /** Writes down the window before anything that is made in it, and the end of the one before. */
    private Lease look() throws IOException {
        Lease lease = ids.lease();
        boolean isSame = lease != null && known != null && lease.workerId() == known.workerId() && lease.fence() == known.fence();
        boolean isChanged = isSame ? lease.from() != known.from() || lease.until() != known.until() : lease != known;
        if (isChanged) {
            write();
            if (known != null && !isSame) {
                note("\"left\":\"own will\"");
                String told = reason.getAndSet(null);
                if (told != null) {
                    note("\"left\":\"lost\",\"reason\":\"" + told + "\",\"fence\":" + known.fence());
                }
            }
            if (lease != null) {
                claims += isSame ? 0 : 1;
                note(String.format(Locale.ROOT,
                        "\"window\":{\"generation\":%d,\"workerId\":%d,\"fence\":%d,\"from\":%d,\"until\":%d,\"knownFrom\":%4$d}",
                        claims, lease.workerId(), lease.fence(), lease.from(), lease.until()));
            }
            known = lease;
        }
        return lease;
    }

    private void write() throws IOException {
        idLog.write(unwritten.array(), 0, unwritten.position());
        unwritten.clear();
    }

    private void count(SnowleaseException error) throws IOException {
        errors.merge(error.code(), 1, Integer::sum);
        if (error.code().equals("QUARANTINE")) {
            note("\"heard\":\"quarantine\"");
        }
        if (!(error instanceof UnavailableException) && !error.code().equals("LEASE_LOST")) {
            note("\"strange\":\"" + error.getMessage().replaceAll("[\"\\\\]", "'") + "\"");
        }
    }

    private synchronized void end() throws IOException {
        if (look() != null) {
            note("\"left\":\"own will\"");
        }
        isOver = true;
        ids.close();
        noteErrors();
    }

    private void note(String fact) throws IOException {
        String line = String.format(Locale.ROOT, "{\"at\":%d,\"time\":%.3f,%s}%n", made, System.nanoTime() / 1e6, fact);
        factLog.write(line.getBytes(StandardCharsets.UTF_8));
    }

    private void noteErrors() throws IOException {
        StringBuilder counts = new StringBuilder();
        errors.forEach((code, count) -> counts.append(counts.length() == 0 ? "" : ",").append('"').append(code).append("\":").append(count));
        note("\"errors\":{" + counts + "}");
    }

    private void tell(long every) throws Exception {
        while (true) {
            synchronized (this) {
                noteErrors();
                System.out.println("{\"made\":" + made + "}");
            }
            Thread.sleep(every);
        }
    }
}
