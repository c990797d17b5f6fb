import io.snowlease.IdParts;
import io.snowlease.Layout;
import io.snowlease.Lease;
import io.snowlease.Snowflake;
import io.snowlease.SnowflakeOptions;
import io.snowlease.SnowleaseException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/** A holder of the proof suite, README.md beside it: makes IDs, and writes down each of them and each window. */
public final class ProofHolder {
    private final Snowflake ids;
    private final FileOutputStream idLog;
    private final FileOutputStream factLog;
    private final int bulk;
    private final Map<String, Integer> errors = new TreeMap<>();
    private final ByteBuffer unwritten;
    private int made;
    private Lease known;
    private int claims;
    private boolean isOver;

    private ProofHolder(Map<String, String> task) throws IOException {
        bulk = Integer.parseInt(task.get("bulk"));
        unwritten = ByteBuffer.allocate(bulk * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        idLog = new FileOutputStream(task.get("log") + ".ids", true);
        factLog = new FileOutputStream(task.get("log") + ".facts", true);
        ids = new Snowflake(new SnowflakeOptions()
                .registry(task.get("registry"))
                .namespace(task.get("namespace"))
                .host(task.get("host"))
                .window(ms(task, "window"))
                .operationTimeout(ms(task, "operationTimeout"))
                .maxWait(ms(task, "maxWait")));
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
        Lease before = ids.lease();
        look(before);
        long id;
        try {
            id = ids.next();
        } catch (SnowleaseException error) {
            count(error);
            return false;
        }
        Lease after = ids.lease();
        // Made before the window changed, or behind it.
        if (after != before && !fits(id, before)) {
            look(after);
        }
        unwritten.putLong(id);
        made++;
        look(after);
        return true;
    }

    private boolean fits(long id, Lease lease) {
        Layout layout = ids.layout();
        if (lease == null || layout == null) {
            return false;
        }
        IdParts parts = layout.decompose(id);
        return parts.workerId() == lease.workerId() && parts.timestamp() >= lease.from() && parts.timestamp() < lease.until();
    }

    /** Writes down a window before anything that was made in it. */
    private void look(Lease lease) throws IOException {
        if (lease == known) {
            return;
        }
        write();
        boolean isSame = lease != null && known != null && lease.workerId() == known.workerId() && lease.fence() == known.fence();
        if (known != null && !isSame) {
            note("\"left\":\"lost\",\"fence\":" + known.fence());
        }
        if (lease != null) {
            claims += isSame ? 0 : 1;
            note(String.format(
                    "\"window\":{\"generation\":%d,\"workerId\":%d,\"fence\":%d,\"from\":%d,\"until\":%d,\"knownFrom\":%4$d}",
                    claims, lease.workerId(), lease.fence(), lease.from(), lease.until()));
        }
        known = lease;
    }

    private void write() throws IOException {
        idLog.write(unwritten.array(), 0, unwritten.position());
        unwritten.clear();
    }

    private void count(SnowleaseException error) throws IOException {
        String code = error.code().name();
        errors.merge(code, 1, Integer::sum);
        if (code.equals("QUARANTINE")) {
            note("\"heard\":\"quarantine\"");
        }
        if (!error.isRetryable() && !code.equals("LEASE_LOST")) {
            note("\"strange\":\"" + error.getMessage().replaceAll("[\"\\\\]", "'") + "\"");
        }
    }

    private synchronized void end() throws IOException {
        look(ids.lease());
        if (known != null) {
            note("\"left\":\"own will\"");
        }
        isOver = true;
        ids.close();
        noteErrors();
    }

    private void note(String fact) throws IOException {
        String line = String.format("{\"at\":%d,\"time\":%.3f,%s}%n", made, System.nanoTime() / 1e6, fact);
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
