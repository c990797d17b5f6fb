package io.snowlease;

import java.math.BigInteger;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.LongFunction;

/** One lease, from its claim to its end: given back, lost or refused. A thread of its own renews it. After a loss another holder follows. */
final class Holder {
    /** The longest sleep between two looks at the clocks; a larger difference between the progress of both is a step, a smaller one jitter. ms. */
    private static final long WATCH = 1000;
    private static final double STEP = 250;
    private static final long SHORTEST_PAUSE = 50;
    private static final long LONGEST_PAUSE = 1000;
    private static final int MOST_SENT_TURNS = 8;
    private static final int LONGEST_HOST = 255;
    private static final long LAST_INTEGER = (1L << 53) - 1;
    /** Between two questions for a namespace that a claim has just made: another daemon's standby may show it late. ms. */
    private static final long[] STANDBY_PAUSES = {0, 50, 100, 200, 400};
    private static final long QUARANTINE_LENGTH = 60_000;
    /** Between two prefetches of blocks; and after a request for some that brought none, until a caller's next one. ms. */
    private static final long PREFETCH_PAUSE = 1000;
    private static final long WANT_PAUSE = 20;
    /** The longest time for a renewal of a borrowed lease, ms. */
    private static final long LENT_RENEWAL = 2000;

    private static final System.Logger LOG = System.getLogger("snowlease");
    private static final SecureRandom RANDOM = new SecureRandom();

    private static final class Grant {
        final Lease lease;
        final Layout layout;
        final long renewAfter;
        final boolean isShared;

        Grant(Lease lease, Layout layout, long renewAfter, boolean isShared) {
            this.lease = lease;
            this.layout = layout;
            this.renewAfter = renewAfter;
            this.isShared = isShared;
        }
    }

    private final SnowflakeOptions.Checked options;
    private final Daemons daemons;
    private final Thread hook = new Thread(this::closeAtExit, "snowlease close");
    /** The lease that this one takes the place of; null: none. */
    private final Lease lost;

    // These, but for the last one, under this object's lock.
    private Thread thread;
    private Window window;
    private SnowleaseException error;
    private boolean isClosed;
    /** A caller wants blocks. */
    private boolean isWoken;
    private volatile boolean isExiting;

    // Of the thread alone.
    private Layout layout;
    private String host;
    private String token;
    private String receipt;
    private String turn;
    private String nextTurn;
    private List<String> sentTurns = List.of();
    private boolean isTurnFromOpenWindow;
    private boolean hasJumpedSinceTurn;
    private boolean hasJumpedAhead;
    private double clocks;
    /** When the first renewal is due, by {@link System#nanoTime}. */
    private long dueAfterClaim;
    /** When the next prefetch of blocks is due, and from when on a caller's request may be sent, by the same clock. */
    private long prefetchAt;
    private long wantAt;
    /** The wall clock when the last two requests were sent that the registry answered. */
    private long heardBefore;
    private long heard;

    /** @param before the holder that this one follows; null: none. */
    Holder(SnowflakeOptions.Checked options, Holder before) {
        this.options = options;
        daemons = options.daemons;
        layout = before == null ? options.layout : before.layout;
        lost = before == null ? null : before.window == null ? before.lost : before.window.lease();
        // Of a lost lease whose window is open: it shows a registry what it forgot.
        receipt = lost != null && lost.until() > options.clock.getAsLong() ? before.receipt : null;
    }

    /** The window of the worker ID. Claims one, if no caller did, and waits for the answer. Throws why there is none. */
    synchronized Window held() {
        if (thread == null && !isClosed) start();
        while (window == null && error == null && !isClosed) {
            try {
                wait();
            } catch (InterruptedException cause) {
                Thread.currentThread().interrupt();
                throw new UnavailableException("REGISTRY_UNAVAILABLE", "The thread was interrupted while it waited for a worker ID; try again.");
            }
        }
        if (isClosed) throw ended();
        if (window == null) throw error.again();
        return window;
    }

    /** Whether another holder has to follow. */
    synchronized boolean hasEnded() {
        return error != null && !isClosed;
    }

    /** The claim as it is; null: there is none. */
    synchronized Lease lease() {
        return window == null || error != null || isClosed ? null : window.lease();
    }

    synchronized Layout layout() {
        return window == null ? layout : window.layout;
    }

    /** Makes no more IDs, and gives the worker ID back soon. */
    synchronized void stop() {
        isClosed = true;
        if (window != null) window.end(this::ended);
        notifyAll();
    }

    /** The same, and waits until it is given back: for each call up to the operation timeout. */
    void close() {
        stop();
        Thread running;
        synchronized (this) {
            running = thread;
        }
        if (running == null || running == Thread.currentThread()) return;
        try {
            running.join();
        } catch (InterruptedException cause) {
            Thread.currentThread().interrupt();
        }
    }

    private void start() {
        if (options.closesAtExit) {
            try {
                Runtime.getRuntime().addShutdownHook(hook);
            } catch (IllegalStateException cause) {
                throw new SnowleaseException("LEASE_LOST", "The program ends; no worker ID is claimed any more.");
            }
        }
        // Nothing of the thread that happens to come first.
        Thread starting = new Thread(null, this::run, "snowlease " + options.namespace, 0, false);
        starting.setContextClassLoader(Holder.class.getClassLoader());
        starting.setPriority(Thread.NORM_PRIORITY);
        starting.setDaemon(true);
        try {
            starting.start();
            thread = starting;
        } finally {
            // It cannot be started now; a later call tries again.
            if (thread == null) removeHook();
        }
    }

    private void closeAtExit() {
        isExiting = true;
        close();
    }

    private void removeHook() {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException cause) {
            // The program ends.
        }
    }

    private void run() {
        try {
            Window claimed = claim();
            long due = dueAfterClaim;
            while (!sleep(Math.min(WATCH, TimeUnit.NANOSECONDS.toMillis(next(claimed.blocks, due) - System.nanoTime() + 999_999)))) {
                if (notesJump() || System.nanoTime() - due >= 0) due = renew(claimed);
                // Whether it is lost, a renewal tells.
                if (claimed.blocks != null && !borrow(claimed)) due = System.nanoTime();
            }
            giveBack(claimed);
        } catch (SnowleaseException cause) {
            lose(cause);
        } catch (RuntimeException | Error cause) {
            lose(new UnavailableException("REGISTRY_UNAVAILABLE", "The thread of the lease ended: " + cause + "; try again."));
            throw cause;
        } finally {
            removeHook();
        }
    }

    /** When the thread has something to do. */
    private long next(Blocks blocks, long due) {
        if (blocks == null) return due;
        long ask = blocks.wanted() != null && wantAt - prefetchAt < 0 ? wantAt : prefetchAt;
        return ask - due < 0 ? ask : due;
    }

    /** Sleeps for so many ms, or until it is closed or a caller wants blocks. Returns whether it is closed. */
    private synchronized boolean sleep(long ms) {
        try {
            if (ms > 0 && !isClosed && !isWoken) wait(ms);
        } catch (InterruptedException cause) {
            // Nobody has a reason to interrupt the thread of a lease: it goes on.
        }
        isWoken = false;
        return isClosed;
    }

    private synchronized void wake() {
        isWoken = true;
        notifyAll();
    }

    private Window claim() {
        long begun = System.nanoTime();
        long pause = 1;
        // May ask a name server: before the first request has its deadline.
        host = host();
        drawToken();
        while (!sleep(0)) {
            try {
                Daemons.Answer<Grant> answer = call("POST", "", this::claimBody, this::readGrant, receipt, Long.MAX_VALUE);
                return begin(answer);
            } catch (SnowleaseException cause) {
                SnowleaseException refused = cause;
                if (lost != null && Boolean.FALSE.equals(cause.detail("lends"))) {
                    // In the place of one that did. A daemon that lends may come back: the next call of a program that goes on calling asks again.
                    sleep(LONGEST_PAUSE);
                    throw new UnavailableException(cause.code(), cause.getMessage().substring(cause.code().length() + 2));
                }
                long left = options.claimTimeout.toMillis() - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
                long wait = Math.max(0, refused.retryAfterMs());
                boolean isSkew = refused.code().equals("CLOCK_SKEW") || refused.code().equals("CLOCK_ROLLBACK");
                if (refused.code().equals("OTHER_REGISTRY") && receipt != null) {
                    // A receipt of another registry proves nothing here.
                    receipt = null;
                    continue;
                }
                if (refused.code().equals("LEASE_LOST")) {
                    // The registry knows this token from before, or a copy of this process has used it.
                    left += options.operationTimeout.toMillis();
                    drawToken();
                } else if (isSkew && System.nanoTime() - daemons.sent >= TimeUnit.MILLISECONDS.toNanos(LONGEST_PAUSE)) {
                    // The request itself took as long as the clocks seem to differ.
                    left += options.operationTimeout.toMillis();
                } else if (isSkew || !(refused instanceof UnavailableException)) {
                    throw refused;
                }
                // A worker ID may come free long before its window ends.
                if (refused.code().equals("POOL_EXHAUSTED") || refused.code().equals("WORKER_ID_HELD")) wait = Math.min(wait, LONGEST_PAUSE);
                if (refused.code().equals("QUARANTINE")) wait = quarantinePause(refused, QUARANTINE_LENGTH);
                if (left <= 0) throw refused;
                sleep(Math.min(Math.max(wait, pause), left));
                pause = Math.min(2 * pause, LONGEST_PAUSE);
            }
        }
        throw ended();
    }

    private Map<String, Object> claimBody(long now) {
        // If the clock jumped, this may be a copy, and the other one may have sent this token.
        if (notesJump()) drawToken();
        Map<String, Object> body = new HashMap<>();
        body.put("token", token);
        body.put("host", host);
        body.put("pid", ProcessHandle.current().pid());
        // What the last holder used of a tick is nothing that this client reads.
        body.put("continues", false);
        if (options.borrows) body.put("shared", true);
        if (options.instance != null) body.put("instance", options.instance);
        if (layout != null) body.put("layout", layout.toString());
        if (options.workerId != null) body.put("workerId", options.workerId);
        return body;
    }

    private Window begin(Daemons.Answer<Grant> answer) {
        Grant grant = answer.value;
        receipt = grant.isShared ? null : answer.receipt;
        heard = daemons.clock;
        heardBefore = heard;
        dueAfterClaim = due(grant.renewAfter, grant.lease.until());
        Blocks blocks = grant.isShared ? new Blocks(grant.layout, this::wake) : null;
        Window begun = new Window(grant.layout, grant.lease, options.clock.getAsLong(), blocks);
        if (options.borrows && !grant.isShared) {
            giveBack(begun);
            throw notLent();
        }
        SnowleaseException difference = difference();
        if (difference != null) {
            giveBack(begun);
            throw difference;
        }
        prefetchAt = System.nanoTime();
        wantAt = prefetchAt;
        // Where it was closed meanwhile, blocks would keep its place taken.
        if (blocks != null && !sleep(0) && !borrow(begun)) dueAfterClaim = System.nanoTime();
        synchronized (this) {
            layout = grant.layout;
            window = begun;
            // Closed at this moment.
            if (isClosed) begun.end(this::ended);
            notifyAll();
        }
        if (lost != null) {
            LOG.log(System.Logger.Level.WARNING, "Worker {0} of namespace `{1}` takes the place of worker {2}.",
                    String.valueOf(begun.workerId), options.namespace, String.valueOf(lost.workerId()));
        }
        return begun;
    }

    private SnowleaseException notLent() {
        return new SnowleaseException("CONFIG_INVALID", "The registry lends no lease of namespace `" + options.namespace
                + "`; start its daemon with `--lend`, or leave `borrow` out to lease a worker ID for this process alone.", -1, Map.of("lends", false));
    }

    /**
     * Asks once for blocks, if that is due: for those of the next seconds, or for what a caller lacks. A request is not repeated, since another one gets
     * other blocks. Returns false where the daemon does not know the claim.
     */
    private boolean borrow(Window held) {
        long now = System.nanoTime();
        Blocks blocks = held.blocks;
        Blocks.Request prefetch = null;
        if (now - prefetchAt >= 0) {
            prefetchAt = now + TimeUnit.MILLISECONDS.toNanos(PREFETCH_PAUSE);
            prefetch = blocks.prefetch(options.clock.getAsLong());
        }
        Blocks.Request request = prefetch == null && now - wantAt >= 0 ? blocks.wanted() : prefetch;
        if (request == null) return true;
        Map<String, Object> body = body(held, null);
        body.putAll(request.fields());
        long atMost = Math.min(Math.min(LONGEST_PAUSE, (held.until() - heard) / 3), options.operationTimeout.toMillis());
        SnowleaseException trouble;
        try {
            long[] given = daemons.ask(daemons.addresses.get(0), "POST", path("/" + held.workerId + "/blocks"), sent -> body,
                    answer -> blocks.read(request, answer), null, TimeUnit.MILLISECONDS.toNanos(Math.max(SHORTEST_PAUSE, atMost))).value;
            if (!blocks.given(request, given)) wantAt = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WANT_PAUSE);
            return true;
        } catch (Daemons.FailedException failed) {
            trouble = failed.error;
        } catch (SnowleaseException refused) {
            trouble = refused;
        }
        blocks.failed(request, trouble);
        boolean isLost = trouble.code().equals("LEASE_LOST");
        long pause = isLost ? LONGEST_PAUSE : Math.min(LONGEST_PAUSE, Math.max(SHORTEST_PAUSE, trouble.retryAfterMs()));
        wantAt = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause);
        return !isLost;
    }

    /** Renews the lease. Returns when to do so again, by {@link System#nanoTime}. Throws where it is lost. */
    private long renew(Window held) {
        long length = Math.max(SHORTEST_PAUSE, held.until() - heard);
        // The lender knows what is used of the worker ID.
        Window.Usage usage = held.blocks == null ? held.usage() : null;
        LongFunction<Map<String, Object>> body = now -> {
            notesJump();
            drawTurn(now, held.until());
            return body(held, usage);
        };
        Daemons.Answer<Map<String, Object>> answer;
        try {
            // Requests for blocks wait for it, and those that there are last for some seconds.
            long atMost = held.blocks == null ? length / 3 : Math.min(length / 3, LENT_RENEWAL);
            answer = call("PATCH", "/" + held.workerId, body, Holder::checkedRenewal, receipt, TimeUnit.MILLISECONDS.toNanos(atMost));
        } catch (SnowleaseException refused) {
            if (refused.code().equals("LEASE_LOST") || refused.code().equals("OTHER_REGISTRY")) throw refused;
            boolean isQuarantine = refused.code().equals("QUARANTINE");
            if (isQuarantine) held.giveUpBefore(daemons.highest);
            boolean isNews = held.trouble == null || !held.trouble.code().equals(refused.code());
            if (isNews && !refused.code().equals("REGISTRY_UNAVAILABLE")) {
                LOG.log(System.Logger.Level.WARNING, "Worker {0} of namespace `{1}` is not renewed: {2}",
                        String.valueOf(held.workerId), options.namespace, refused.getMessage());
            }
            held.trouble = refused;
            long pause = isQuarantine ? quarantinePause(refused, length) : Math.min(LONGEST_PAUSE, Math.max(SHORTEST_PAUSE, length / 10));
            return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pause);
        }
        Object named = answer.value.get("turn");
        // Else the answer is to a copy of this process. A daemon of a version before names none.
        if (named != null && !named.equals(nextTurn)) return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(SHORTEST_PAUSE);
        if (named != null) {
            turn = nextTurn;
            nextTurn = null;
            sentTurns = List.of();
        }
        if (answer.receipt != null && held.blocks == null) receipt = answer.receipt;
        heardBefore = heard;
        heard = daemons.clock;
        held.trouble = null;
        held.renewed(integer(answer.value, "from"), integer(answer.value, "until"));
        return due(integer(answer.value, "renewAfterMs"), held.until());
    }

    private long due(long renewAfter, long until) {
        long after = Math.max(SHORTEST_PAUSE, Math.min(renewAfter, (until - daemons.clock) / 3));
        return daemons.sent + TimeUnit.MILLISECONDS.toNanos(after);
    }

    /** The claim was refused, or the lease is lost. Tells the operator of IDs that may exist twice, since no other process knows of them. */
    private void lose(SnowleaseException cause) {
        Window ended;
        synchronized (this) {
            error = cause;
            ended = window;
            // The call that meets this asks the holder that follows.
            if (ended != null) {
                ended.end(() -> new UnavailableException("LEASE_EXPIRED", "The lease was lost; try again. " + cause.getMessage()));
            }
            notifyAll();
        }
        if (ended != null) tell(cause, ended);
    }

    private void tell(SnowleaseException cause, Window ended) {
        Object reason = cause.detail("reason");
        Object told = Set.of("taken", "released", "forgotten", "cloned").contains(String.valueOf(reason)) ? reason : cause.code();
        String what = "Worker " + ended.workerId + " of namespace `" + options.namespace + "` was lost (" + told + ")";
        long[] doubt = doubt(cause, ended);
        if (doubt == null) {
            LOG.log(System.Logger.Level.WARNING, what + (isClosed ? "." : "; the next ID claims another one."));
        } else {
            String line = what + ". Its IDs from " + SnowleaseException.time(doubt[0]) + " to " + SnowleaseException.time(doubt[1]) + " may exist twice.";
            LOG.log(System.Logger.Level.ERROR, line);
            // At the end of the program the log may have ended before.
            if (isExiting) System.err.println(line);
        }
    }

    /** From when to when another holder may have used the same times, Unix ms; null: none. */
    private long[] doubt(SnowleaseException cause, Window ended) {
        // Both copies of a process may have heard the last answer.
        if ("cloned".equals(cause.detail("reason"))) return new long[] {heardBefore, ended.until()};
        if (!(cause.detail("doubt") instanceof Map)) return null;
        Map<?, ?> told = (Map<?, ?>) cause.detail("doubt");
        if (!(told.get("from") instanceof Long) || !(told.get("until") instanceof Long)) return null;
        // What was answered later is this holder's alone.
        long[] doubt = {Math.max((Long) told.get("from"), heard), (Long) told.get("until")};
        return doubt[0] < doubt[1] ? doubt : null;
    }

    private void giveBack(Window held) {
        held.end(this::ended);
        notesJump();
        // After a jump this process may be a copy, which does not know what the other one used: the worker ID rests.
        Window.Usage usage = hasJumpedAhead || held.blocks != null ? null : held.usage();
        Map<String, Object> body = body(held, usage);
        if (usage != null) body.put("until", usage.until);
        // A daemon of a version before has the DELETE alone.
        for (String[] how : new String[][] {{"POST", "/release"}, {"DELETE", ""}}) {
            try {
                call(how[0], "/" + held.workerId + how[1], now -> body, Function.identity(), receipt, Long.MAX_VALUE);
                return;
            } catch (SnowleaseException refused) {
                if (refused.code().equals("LEASE_LOST") && doubt(refused, held) != null) tell(refused, held);
                // The rest of the window passes by itself.
                if (!refused.code().equals("NOT_FOUND")) return;
            }
        }
    }

    /** Compares the namespace at all daemons: those of two registries would grant one worker ID twice. null: they do not differ. */
    private SnowleaseException difference() {
        if (daemons.addresses.size() == 1) return null;
        Set<Object> ids = new HashSet<>();
        for (String address : daemons.addresses) {
            for (long pause : STANDBY_PAUSES) {
                sleep(pause);
                try {
                    ids.add(daemons.ask(address, "GET", "/v1/" + options.namespace, null, answer -> text(answer, "id"), null,
                            TimeUnit.MILLISECONDS.toNanos(LONGEST_PAUSE)).value);
                    ids.remove(address);
                    break;
                } catch (Daemons.FailedException failed) {
                    break;
                } catch (SnowleaseException refused) {
                    if (!refused.code().equals("NOT_FOUND")) break;
                    // As an id of its own: it has no such namespace.
                    ids.add(address);
                }
            }
        }
        if (ids.size() < 2) return null;
        return new SnowleaseException("CONFIG_INVALID", "The addresses " + String.join(", ", daemons.addresses)
                + " are daemons of different registries (namespace `" + options.namespace + "`): nothing was claimed; name only daemons of one registry.");
    }

    private <T> Daemons.Answer<T> call(String method, String path, LongFunction<Map<String, Object>> body, Function<Map<String, Object>, T> read, String proof,
            long atMostNs) {
        return daemons.call(method, path(path), body, read, proof, atMostNs);
    }

    private String path(String rest) {
        return "/v1/" + options.namespace + "/leases" + rest;
    }

    private Map<String, Object> body(Window held, Window.Usage usage) {
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("token", token);
        body.put("fence", held.fence);
        if (turn != null) body.put("turn", turn);
        if (nextTurn != null) body.put("nextTurn", nextTurn);
        if (!sentTurns.isEmpty()) body.put("sentTurns", sentTurns);
        if (usage != null && usage.timestamp >= 0) {
            body.put("lastTimestamp", usage.timestamp);
            body.put("lastSequence", usage.sequence);
        }
        return body;
    }

    private Grant readGrant(Map<String, Object> answer) {
        boolean isShared = Boolean.TRUE.equals(answer.get("shared"));
        if (isShared && !options.borrows) {
            // Its window is used by others, too.
            throw new SnowleaseException("CONFIG_INVALID", "This address lends a lease that others use, too; name a daemon in its place.");
        }
        Layout granted = Layout.parse(text(answer, "layout"));
        long workerId = integer(answer, "workerId");
        Lease lease = new Lease((int) workerId, integer(answer, "fence"), integer(answer, "from"), integer(answer, "until"));
        boolean isUnclear = answer.get("shared") != null && !(answer.get("shared") instanceof Boolean);
        if (isUnclear || !token.equals(answer.get("token")) || !granted.toString().equals(answer.get("layout")) || lease.from() > lease.until()) {
            throw new IllegalArgumentException("it grants the lease of another claim");
        }
        boolean isOther = layout != null && !layout.equals(granted) || options.workerId != null && options.workerId != workerId;
        if (workerId > granted.maxWorkerId || isOther) {
            throw new IllegalArgumentException("it grants worker ID " + workerId + " of " + granted + " to a claim for "
                    + (options.workerId == null ? "any" : options.workerId) + " of " + (layout == null ? "any layout" : layout));
        }
        return new Grant(lease, granted, integer(answer, "renewAfterMs"), isShared);
    }

    private static Map<String, Object> checkedRenewal(Map<String, Object> answer) {
        for (String name : List.of("from", "until", "renewAfterMs")) integer(answer, name);
        if (integer(answer, "from") > integer(answer, "until")) throw new IllegalArgumentException("its `from` is behind its `until`");
        if (answer.containsKey("turn")) text(answer, "turn");
        return answer;
    }

    private static long integer(Map<String, Object> answer, String name) {
        Object value = answer.get(name);
        if (value instanceof Long && (Long) value >= 0 && (Long) value <= LAST_INTEGER) return (Long) value;
        throw new IllegalArgumentException("its `" + name + "` is no integer from 0 to 2^53-1");
    }

    private static String text(Map<String, Object> answer, String name) {
        Object value = answer.get(name);
        if (value instanceof String && !((String) value).isEmpty()) return (String) value;
        throw new IllegalArgumentException("its `" + name + "` is no text");
    }

    private void drawToken() {
        token = fresh();
        // What a copy of this process, made from now on, would repeat.
        clocks = differenceOfClocks();
        hasJumpedAhead = false;
    }

    /** The next turn, which is repeated until an answer comes. But a copy made in between would repeat it, too: so another one, where this may be one. */
    private void drawTurn(long now, long until) {
        if (nextTurn != null && (hasJumpedSinceTurn || isTurnFromOpenWindow && now >= until)) {
            List<String> sent = new ArrayList<>(sentTurns);
            sent.add(nextTurn);
            sentTurns = List.copyOf(sent.subList(Math.max(0, sent.size() - MOST_SENT_TURNS), sent.size()));
            nextTurn = null;
        }
        if (nextTurn != null) return;
        nextTurn = fresh();
        isTurnFromOpenWindow = now < until;
        hasJumpedSinceTurn = false;
    }

    /** Whether the wall clock has jumped since the last look. */
    private boolean notesJump() {
        double before = clocks;
        clocks = differenceOfClocks();
        double by = clocks - before;
        if (by >= STEP) hasJumpedAhead = true;
        if (Math.abs(by) >= STEP) hasJumpedSinceTurn = true;
        return Math.abs(by) >= STEP;
    }

    private SnowleaseException ended() {
        return new SnowleaseException("LEASE_LOST", "This Snowflake of namespace `" + options.namespace + "` was closed; make a new one.");
    }

    /** By how much the wall clock is ahead of the monotonic one, ms: of three reads the shortest, since a process may be stopped in one. */
    private double differenceOfClocks() {
        long least = Long.MAX_VALUE;
        double best = 0;
        for (int read = 0; read < 3; read++) {
            long before = System.nanoTime();
            long wall = options.clock.getAsLong();
            long took = System.nanoTime() - before;
            if (took >= least) continue;
            least = took;
            best = wall - (before + took / 2) / 1e6;
        }
        return best;
    }

    /** After how many ms to repeat what a quarantine refused, of a window of this length: an operator may end it early. Not all at once. */
    private static long quarantinePause(SnowleaseException refused, long length) {
        double share = ThreadLocalRandom.current().nextDouble();
        double look = length * (0.15 + share * 0.1);
        double told = refused.retryAfterMs() < 0 ? look : refused.retryAfterMs();
        return Math.max(SHORTEST_PAUSE, (long) Math.min(look, told + share * 0.05 * length));
    }

    /** 32 random hex digits. A machine that was copied while it ran may repeat random bytes; the clocks tell the copies apart. */
    private String fresh() {
        byte[] random = new byte[16];
        RANDOM.nextBytes(random);
        String clocks = System.nanoTime() + " " + options.clock.getAsLong() + " " + ProcessHandle.current().pid();
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(random);
            byte[] hash = digest.digest(clocks.getBytes(StandardCharsets.UTF_8));
            return String.format("%032x", new BigInteger(1, Arrays.copyOf(hash, random.length)));
        } catch (NoSuchAlgorithmException cause) {
            // Each Java has it.
            throw new IllegalStateException(cause);
        }
    }

    private static String host() {
        String name;
        try {
            name = InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException cause) {
            name = "localhost";
        }
        return name.length() <= LONGEST_HOST ? name : name.substring(0, LONGEST_HOST);
    }
}
