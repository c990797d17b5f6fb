// A program of another language that makes its own IDs, on a worker ID that Snowlease leases for it and takes away in time. It reads the
// system property `westid.workerId`, as westid does, and knows nothing of leases.
//
//   snowlease exec --java --registry redis://localhost -- java examples/WestId.java [how many]      # 0: until it is stopped
//
// It is protected only by being stopped: when the lease is lost or its window about to end, `exec` sends SIGTERM, and SIGKILL
// before `until`. Java 17 or newer.

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;

public class WestId {
  // 41 bits of ms since the epoch, 10 of worker ID, 12 of sequence: Snowlease's default layout.
  private static final long EPOCH = 1490346283706L;
  private static final int MAX_WORKER_ID = 1023;
  private static final int MAX_SEQUENCE = 4095;

  private final long workerId;
  private long last = -1;
  private int sequence;

  WestId(long workerId) {
    this.workerId = workerId;
  }

  synchronized long next() {
    long now = System.currentTimeMillis();
    if (now < last) throw new IllegalStateException("The clock went back by " + (last - now) + " ms.");
    if (now == last && ++sequence > MAX_SEQUENCE) {
      while ((now = System.currentTimeMillis()) <= last) Thread.onSpinWait();
    }
    if (now != last) sequence = 0;
    last = now;
    return (now - EPOCH) << 22 | workerId << 12 | sequence;
  }

  public static void main(String[] args) throws IOException {
    Integer workerId = Integer.getInteger("westid.workerId");
    if (workerId == null || workerId < 0 || workerId > MAX_WORKER_ID) {
      System.err.println("Expected -Dwestid.workerId=0..1023; start this with: snowlease exec --java -- java ...");
      System.exit(2);
    }
    long count = args.length > 0 ? Long.parseLong(args[0]) : 10;
    WestId ids = new WestId(workerId);
    try (PrintWriter out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out)))) {
      for (long made = 0; (count == 0 || made < count) && !out.checkError(); made++) out.println(ids.next());
    }
  }
}
