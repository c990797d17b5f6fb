package io.snowlease;

import java.lang.System.Logger.Level;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A lease of a worker ID: claimed, renewed and given back by a thread of its own. It claims again, with another token, when it is lost. */
final class Holder implements AutoCloseable {
    private static final long WATCH = 1000;
    private static final long SHORTEST_PAUSE = 50;
    private static final long LONGEST_PAUSE = 1000;
    private static final long FIRST_RETRY = 20;
    private static final long LONGEST_LOOK = 200;
    private static final long DEFAULT_WINDOW = 60_000;
    private static final int LONGEST_HOST = 255;
    private static final long BLOCKS_EVERY = 1000;
    /** Between two requests for more blocks where there were none, ms: a crowd of callers must not make a crowd of requests. */
    private static final long BLOCKS_PAUSE = 10;
    /** Between two questions for a namespace that a claim has just made: another daemon's standby may show it late, ms. */
    private static final long[] STANDBY_PAUSES = {0, 50, 100, 200, 400};
    private static final String NO_NAMESPACE = "";
    private static final Set<String> REASONS = Set.of("taken", "released", "forgotten", "cloned");
    private static final System.Logger LOG = System.getLogger("snowlease");

    private final SnowflakeOptions.Checked options;
    private final boolean isForeign;
    private final WallClock clock;
    private final CountDownLatch claimed = new CountDownLatch(1);
    private final Clocks clocks;
    private final Thread thread;
    private final Thread hook;
    private boolean isStarted;
    private boolean isWoken;
    private volatile boolean isStopped;
    private volatile Snowflake.State state = Snowflake.State.NEW;
    private volatile SnowleaseException error;
    private volatile Ticks ticks;
    private volatile Lease lease;
    private volatile Layout layout;

    // Of the thread alone: the present claim.
    private long fence;
    private String token = "";
    private String receipt;
    private Turns turns = new Turns();
    /** The process may be a copy, which does not know what the other one used. */
    private boolean hasJumped;
    private long blocksAt;
    /** The wall clock at which the last request was sent that was answered, and the one before it, Unix ms. */
    private long heard;
    private long heardBefore;

    /** @param isForeign another program makes the IDs: what it used is not known, and a lost lease is not replaced. */
    Holder(SnowflakeOptions.Checked options, Layout layout, boolean isForeign, WallClock clock) {
        this.options = options;
        this.layout = layout;
        this.isForeign = isForeign;
        this.clock = clock;
        clocks = new Clocks(clock);
        thread = new Thread(this::run, "snowlease " + options.namespace);
        thread.setDaemon(true);
        hook = new Thread(this::close, "snowlease close " + options.namespace);
    }

    /** The ticks of the worker ID. Claims one, and waits for the answer. @throws SnowleaseException why there is none. */
    Ticks held() {
        if (claimed.getCount() > 0) {
            start();
            try {
                claimed.await();
            } catch (InterruptedException cause) {
                Thread.currentThread().interrupt();
                throw interrupted();
            }
        }
        if (error != null && !isStopped) throw error.again();
        Ticks now = ticks;
        if (now == null) throw ended();
        return now;
    }

    Snowflake.State state() {
        return isStopped ? Snowflake.State.CLOSED : state;
    }

    /** null: none is held. */
    Lease lease() {
        Lease now = lease;
        return now == null || isStopped || state != Snowflake.State.HELD ? null : now;
    }

    /** The present claim's ticks; null: there never was one. */
    Ticks ticks() {
        return ticks;
    }

    /** null: not known yet. */
    Layout layout() {
        return layout;
    }

    /** Ends the lease: no ID is made from now on. */
    void stop() {
        synchronized (this) {
            isStopped = true;
            notifyAll();
        }
        Ticks now = ticks;
        if (now != null) now.end(this::ended);
        claimed.countDown();
    }

    /** Ends the lease and gives the worker ID back. Where the registry does not answer, the worker ID rests until its window has passed. */
    @Override
    public void close() {
        stop();
        synchronized (this) {
            if (!isStarted) return;
        }
        if (Thread.currentThread() == thread) return;
        try {
            thread.join();
        } catch (InterruptedException cause) {
            // The thread gives back all the same.
            Thread.currentThread().interrupt();
        }
    }

    private synchronized void start() {
        if (isStarted || isStopped) return;
        try {
            if (options.closesAtExit) Runtime.getRuntime().addShutdownHook(hook);
        } catch (IllegalStateException cause) {
            fail(SnowleaseException.invalid("The program is about to end; make IDs before that."));
            return;
        }
        try {
            thread.start();
            isStarted = true;
        } catch (OutOfMemoryError cause) {
            unhook();
            fail(SnowleaseException.of(ErrorCode.REGISTRY_UNAVAILABLE, "No thread can be started that renews the lease; try again."));
        }
    }

    private void unhook() {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException cause) {
            // The program ends at this moment: the hook finds nothing to do.
        }
    }

    private void run() {
        try {
            state = Snowflake.State.CLAIMING;
            long due = claim(null);
            while (!pause(Math.min(due - now(), ticks.blocks == null ? WATCH : blocksAt - now()))) {
                if (notesJump() || now() - due >= 0) due = renew();
                if (ticks.blocks != null && !takeBlocks()) due = now();
            }
            giveBack(ticks);
        } catch (SnowleaseException failure) {
            fail(failure);
        } catch (RuntimeException | Error cause) {
            String what = "The thread of the lease ended: " + cause + "; try again.";
            fail(SnowleaseException.of(ErrorCode.REGISTRY_UNAVAILABLE, what));
            throw cause;
        } finally {
            unhook();
        }
    }

    private void fail(SnowleaseException failure) {
        Ticks now = ticks;
        if (now != null) now.end(failure::again);
        if (!isStopped) {
            error = failure;
            // What is lost for good does not come back by itself; a claim may be tried again.
            state = now == null ? Snowflake.State.FAILED : Snowflake.State.LOST;
        }
        lease = null;
        claimed.countDown();
    }

    /** Claims a worker ID. Returns when the renewal is due, on the monotonic clock, ms. */
    private long claim(String recall) {
        long begun = now();
        long longest = Math.max(options.operationTimeout, options.claimTimeout);
        long retry = FIRST_RETRY;
        String recalled = recall;
        String drawn = Turns.fresh();
        while (!isStopped) {
            long asked = now();
            String claimToken = drawn;
            long wall = clock.now();
            Transport.Outcome<Answers.Grant> outcome;
            try {
                outcome = call("POST", "", claimBody(claimToken, wall), recalled, answer -> Answers.Grant.read(answer, claimToken));
            } catch (SnowleaseException refusal) {
                long left = begun - now();
                if (refusal.code() == ErrorCode.OTHER_REGISTRY && recalled != null) {
                    // A receipt of another registry proves nothing here.
                    recalled = null;
                } else if (refusal.code() == ErrorCode.LEASE_LOST && refusal.details().containsKey("reason")) {
                    // The registry knows this token from before a quarantine, or a copy of this process has used it.
                    if (left + longest <= 0) throw refusal;
                    pause(retry);
                    drawn = Turns.fresh();
                } else {
                    boolean isUnheard = refusal.code() == ErrorCode.REGISTRY_UNAVAILABLE && !refusal.details().containsKey("lasting");
                    left += isUnheard ? longest : options.claimTimeout;
                    if (!refusal.isRetryable() || refusal.code() == ErrorCode.CLOCK_SKEW || left <= 0) throw refusal;
                    pause(Math.min(Math.max(waitOf(refusal, claimToken), retry), left));
                    retry = Math.min(2 * retry, LONGEST_PAUSE);
                }
                continue;
            }
            heard = wall;
            heardBefore = wall;
            begin(outcome.value, claimToken, outcome.receipt);
            return asked + renewAfter(outcome.value.renewAfterMs, outcome.value.until);
        }
        throw ended();
    }

    private Map<String, Object> claimBody(String claimToken, long wall) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("token", claimToken);
        body.put("host", options.host != null ? options.host : hostName());
        body.put("pid", ProcessHandle.current().pid());
        // What the last holder used of a tick is nothing that this client reads.
        body.put("continues", false);
        if (!options.instance.isEmpty()) body.put("instance", options.instance);
        if (options.workerId != null) body.put("workerId", options.workerId);
        if (options.isBorrower) body.put("shared", true);
        if (layout != null) body.put("layout", layout.toString());
        if (options.window >= 0) body.put("windowMs", options.window);
        body.put("now", wall);
        return body;
    }

    private long waitOf(SnowleaseException refusal, String claimToken) {
        if (refusal.code() == ErrorCode.QUARANTINE) return quarantinePause(refusal, claimToken);
        long wait = Math.max(0, refusal.retryAfterMs());
        // A worker ID that is held may come free long before its window ends.
        boolean mayBeFree = refusal.code() == ErrorCode.POOL_EXHAUSTED || refusal.code() == ErrorCode.WORKER_ID_HELD;
        return mayBeFree ? Math.min(wait, LONGEST_LOOK) : wait;
    }

    private void begin(Answers.Grant grant, String claimToken, String given) {
        if (layout != null && !layout.equals(grant.layout)) {
            String what = "The registry granted a worker ID of " + grant.layout + " to a claim for " + layout;
            throw SnowleaseException.of(ErrorCode.SCHEMA_INCOMPATIBLE, what + "; check that this address is a registry of this version.");
        }
        if (grant.isShared && !options.isBorrower) {
            // Its window is used by others, too: without taking blocks of it, this client would make their IDs again.
            throw SnowleaseException.invalid("This address lends a shared lease, which this client did not ask for; name a daemon, or set `borrow`.");
        }
        token = claimToken;
        receipt = given;
        turns = new Turns();
        hasJumped = false;
        clocks.jump();
        fence = grant.fence;
        layout = grant.layout;
        Blocks blocks = grant.isShared ? new Blocks(layout, this::wake) : null;
        Ticks granted = new Ticks(layout, grant.workerId, grant.from, grant.until, clock.now(), blocks);
        SnowleaseException refusal = options.isBorrower && !grant.isShared
                ? SnowleaseException.invalid("This address lends no lease; start the daemon with --lend, or leave out `borrow`.")
                : difference();
        if (refusal != null || isStopped) {
            giveBack(granted);
            throw refusal != null ? refusal : ended();
        }
        // First: no ID lies outside of what the lease shows.
        lease = new Lease(grant.workerId, grant.fence, grant.from, grant.until);
        state = Snowflake.State.HELD;
        ticks = granted;
        // Closed at this moment.
        if (isStopped) granted.end(this::ended);
        if (blocks != null) {
            blocksAt = now();
            takeBlocks();
        }
        claimed.countDown();
    }

    /** Renews the lease. Returns when the next renewal is due. */
    private long renew() {
        Ticks now = ticks;
        long asked = now();
        long wall = clock.now();
        Map<String, Object> body = key();
        turns.addForRenewal(body, wall, now.until());
        addUsage(body, now, now.usage());
        body.put("now", wall);
        if (options.window >= 0) body.put("windowMs", options.window);
        Transport.Outcome<Answers.Renewal> outcome;
        try {
            outcome = call("PATCH", "/" + now.workerId, body, receipt, Answers.Renewal::read);
        } catch (SnowleaseException refusal) {
            if (isLost(refusal)) return change(refusal);
            long window = window();
            long pause = Math.min(LONGEST_PAUSE, Math.max(SHORTEST_PAUSE, window / 10));
            if (refusal.code() == ErrorCode.QUARANTINE) {
                now.giveUpBefore(wall);
                show(now, now.from(), now.until());
                pause = quarantinePause(refusal, token);
            }
            // Two more tries before the window ends.
            long longest = Math.max(LONGEST_PAUSE, (now.until() - wall) / 3);
            return now() + Math.max(pause, Math.min(Math.max(0, refusal.retryAfterMs()), longest));
        }
        turns.acknowledge(outcome.value.turn);
        heardBefore = heard;
        heard = wall;
        if (outcome.receipt != null) receipt = outcome.receipt;
        // First: no ID lies outside of what the lease shows.
        show(now, Math.max(now.from(), outcome.value.from), Math.max(now.until(), outcome.value.until));
        now.renewed(outcome.value.from, outcome.value.until);
        return asked + renewAfter(outcome.value.renewAfterMs, now.until());
    }

    /** At the latest a third of the way to the end of the window. */
    private long renewAfter(long told, long until) {
        return Math.min(told, Math.max(SHORTEST_PAUSE, (until - clock.now()) / 3));
    }

    private static boolean isLost(SnowleaseException refusal) {
        return refusal.code() == ErrorCode.LEASE_LOST || refusal.code() == ErrorCode.OTHER_REGISTRY;
    }

    private void show(Ticks now, long from, long until) {
        Lease before = lease;
        if (before != null && before.from() == from && before.until() == until) return;
        lease = new Lease(now.workerId, fence, from, until);
    }

    /** The lease is lost: claims another worker ID, for as long as it takes. Returns when the renewal is due. */
    private long change(SnowleaseException refusal) {
        Ticks lost = ticks;
        String worker = "Worker " + lost.workerId + " of namespace `" + options.namespace + "` was lost";
        // First of all: a log may be slow.
        if (isForeign) {
            SnowleaseException end = SnowleaseException.of(
                    ErrorCode.LEASE_LOST, worker + ": " + refusal.getMessage(), SnowleaseException.UNKNOWN, refusal.details());
            lost.end(end::again);
            tell(lost, refusal);
            throw end;
        }
        String what = worker + ", and another worker ID is being claimed; try again. " + refusal.getMessage();
        lost.end(() -> SnowleaseException.of(ErrorCode.LEASE_EXPIRED, what));
        state = Snowflake.State.SWITCHING;
        lease = null;
        tell(lost, refusal);
        String recall = lost.until() > clock.now() ? receipt : null;
        long pause = SHORTEST_PAUSE;
        while (!isStopped) {
            try {
                long due = claim(recall);
                LOG.log(Level.WARNING, "Worker {0} of namespace `{1}` takes the place of worker {2}.",
                        String.valueOf(ticks.workerId), options.namespace, String.valueOf(lost.workerId));
                return due;
            } catch (SnowleaseException failure) {
                if (!failure.isRetryable()) {
                    LOG.log(Level.ERROR, "No more IDs of namespace `{0}`: {1}", options.namespace, failure);
                    throw failure;
                }
                pause(failure.code() == ErrorCode.QUARANTINE ? quarantinePause(failure, token) : pause);
                pause = Math.min(2 * pause, LONGEST_PAUSE);
            }
        }
        throw ended();
    }

    /** Tells the operator of a loss, and of IDs that may exist twice, which no other process knows. */
    private void tell(Ticks lost, SnowleaseException refusal) {
        String worker = "Worker " + lost.workerId + " of namespace `" + options.namespace + "`";
        String reason = reasonOf(refusal);
        LOG.log(Level.WARNING, worker + " was lost (" + reason + ").");
        long begin;
        long end;
        Object doubt = refusal.details().get("doubt");
        if (reason.equals("cloned")) {
            // Both copies of a process may have heard the last answer.
            begin = heardBefore;
            end = lost.until();
        } else if (doubt instanceof Map && ((Map<?, ?>) doubt).get("from") instanceof Long && ((Map<?, ?>) doubt).get("until") instanceof Long) {
            begin = Math.max((Long) ((Map<?, ?>) doubt).get("from"), heard);
            end = (Long) ((Map<?, ?>) doubt).get("until");
            // What was answered later is this holder's alone.
            if (begin >= end) return;
        } else {
            return;
        }
        LOG.log(Level.ERROR, worker + ": its IDs from " + SnowleaseException.time(begin) + " to " + SnowleaseException.time(end) + " may exist twice.");
    }

    /** Why a lease was lost, in a word. */
    private static String reasonOf(SnowleaseException refusal) {
        Object reason = refusal.details().get("reason");
        return reason instanceof String && REASONS.contains(reason) ? (String) reason : refusal.code().name();
    }

    /** Takes the blocks that are due. Returns false where the lender does not know this claim any more. */
    private boolean takeBlocks() {
        Blocks blocks = ticks.blocks;
        boolean isLost = false;
        if (now() - blocksAt >= 0) {
            blocksAt = now() + BLOCKS_EVERY;
            isLost = !ask(blocks, blocks.prefetch(clock.now()));
        }
        if (!isLost && blocks.wanted() != null) {
            isLost = !ask(blocks, blocks.wanted());
        }
        return !isLost;
    }

    private boolean ask(Blocks blocks, Blocks.Request request) {
        if (request == null) return true;
        Map<String, Object> body = key();
        body.put("first", request.first);
        body.put("spans", request.spans);
        body.put("blocks", request.blocks);
        body.put("held", request.held);
        turns.addTo(body);
        try {
            String path = "/" + ticks.workerId + "/blocks";
            boolean isMore = blocks.given(request, call("POST", path, body, null, answer -> Answers.blocks(answer, blocks)).value);
            if (!isMore) rest(BLOCKS_PAUSE);
            return true;
        } catch (SnowleaseException refusal) {
            // A caller without blocks tells what is wrong; the lease itself is renewed as ever.
            blocks.unanswered(request);
            rest(BLOCKS_PAUSE);
            return !isLost(refusal);
        }
    }

    private void giveBack(Ticks ended) {
        // First: what it used is then all that it ever uses.
        ended.end(this::ended);
        Ticks.Usage used = ended.usage();
        Map<String, Object> body = key();
        turns.addTo(body);
        body.put("now", clock.now());
        notesJump();
        // After a jump this process may be a copy, which does not know what the other one used: the worker ID rests.
        if (!hasJumped && !isForeign && ended.blocks == null) {
            body.put("until", used.until);
            addUsage(body, ended, used);
        }
        String path = "/" + ended.workerId;
        try {
            call("POST", path + "/release", body, receipt, answer -> null);
        } catch (SnowleaseException refusal) {
            if (isLost(refusal) && (reasonOf(refusal).equals("cloned") || refusal.details().containsKey("doubt"))) tell(ended, refusal);
            if (refusal.code() != ErrorCode.NOT_FOUND && refusal.code() != ErrorCode.CONFIG_INVALID) return;
            try {
                // An older daemon.
                call("DELETE", path, body, receipt, answer -> null);
            } catch (SnowleaseException cause) {
                // The rest of the window passes by itself.
            }
        }
    }

    private static void addUsage(Map<String, Object> body, Ticks of, Ticks.Usage used) {
        // Of a shared window the lender knows what was used.
        if (used.timestamp < 0 || of.blocks != null) return;
        body.put("lastTimestamp", used.timestamp);
        body.put("lastSequence", used.sequence);
    }

    /** Compares the namespace at all daemons: those of two registries would grant one worker ID twice. */
    private SnowleaseException difference() {
        Daemon known = null;
        String id = null;
        if (options.transport.daemons.size() == 1) return null;
        for (Daemon daemon : options.transport.daemons) {
            String found = NO_NAMESPACE;
            for (int at = 0; at < STANDBY_PAUSES.length && NO_NAMESPACE.equals(found); at++) {
                rest(STANDBY_PAUSES[at]);
                found = idAt(daemon);
            }
            if (found == null) continue;
            if (known != null && !found.equals(id)) {
                String what = "The addresses " + known.shown + " and " + daemon.shown + " are daemons of different registries (namespace `"
                        + options.namespace + "`): nothing was claimed; name only daemons of one registry.";
                return SnowleaseException.invalid(what);
            }
            known = known == null ? daemon : known;
            id = found;
        }
        return null;
    }

    /** The namespace's id at a daemon; {@link #NO_NAMESPACE} where it has none; null where no answer tells. */
    private String idAt(Daemon daemon) {
        String path = "/v1/" + options.namespace;
        try {
            long share = TimeUnit.MILLISECONDS.toNanos(LONGEST_PAUSE);
            return options.transport.ask(daemon,
                    new Transport.Call<>("GET", path, null, null, answer -> Answers.text(answer.get("id"))), share).value;
        } catch (SnowleaseException refusal) {
            return refusal.code() == ErrorCode.NOT_FOUND ? NO_NAMESPACE : null;
        }
    }

    private <T> Transport.Outcome<T> call(String method, String path, Map<String, Object> body, String sent, Transport.Read<T> read) {
        return options.transport.call(new Transport.Call<>(method, "/v1/" + options.namespace + "/leases" + path, body, sent, read));
    }

    private Map<String, Object> key() {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("token", token);
        body.put("fence", fence);
        return body;
    }

    /** Whether the wall clock has jumped since the last look. */
    private boolean notesJump() {
        long by = clocks.jump();
        if (by > 0) hasJumped = true;
        if (by != 0) turns.noteJump();
        return by != 0;
    }

    /** In how many ms to repeat what a quarantine refused: an operator may end it early. The token spreads those refused together. */
    private long quarantinePause(SnowleaseException refusal, String spread) {
        double share = Integer.parseUnsignedInt(spread.substring(0, 8), 16) / 4294967296.0;
        share = share < 0 ? share + 1 : share;
        double look = window() * (0.15 + share * 0.1);
        double behind = refusal.retryAfterMs() < 0 ? look : refusal.retryAfterMs() + share * 0.05 * window();
        return Math.max(SHORTEST_PAUSE, (long) Math.min(look, behind));
    }

    private long window() {
        return options.window >= 0 ? options.window : DEFAULT_WINDOW;
    }

    /** Sleeps for so many ms, or until it is stopped or woken. Returns whether it is stopped. */
    private synchronized boolean pause(long ms) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        while (!isStopped && !isWoken) {
            long left = end - System.nanoTime();
            if (left <= 0) break;
            try {
                TimeUnit.NANOSECONDS.timedWait(this, left);
            } catch (InterruptedException cause) {
                // This thread ends by `close` alone.
            }
        }
        isWoken = false;
        return isStopped;
    }

    /** The same, woken by nothing. */
    private static void rest(long ms) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(ms));
    }

    private synchronized void wake() {
        isWoken = true;
        notifyAll();
    }

    private static long now() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
    }

    private static String hostName() {
        try {
            String name = InetAddress.getLocalHost().getHostName();
            return name.substring(0, Math.min(LONGEST_HOST, name.length()));
        } catch (UnknownHostException cause) {
            return "localhost";
        }
    }

    static SnowleaseException interrupted() {
        String what = "The thread was interrupted while it waited for an ID; try again.";
        return SnowleaseException.of(ErrorCode.REGISTRY_UNAVAILABLE, what);
    }

    private SnowleaseException ended() {
        Ticks now = ticks;
        String worker = now == null ? "The lease" : "The lease of worker " + now.workerId;
        String what = worker + " of namespace `" + options.namespace + "` has ended (" + state() + "); make a new Snowflake.";
        return SnowleaseException.of(ErrorCode.LEASE_LOST, what);
    }
}
