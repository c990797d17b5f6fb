package io.snowlease;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The turns of one claim: random texts that renewals pass on, so that of two copies of this process the second one to renew is lost. */
final class Turns {
    private static final int MOST_SENT = 8;
    private static final int LENGTH = 32;
    private static final SecureRandom RANDOM = new SecureRandom();

    private String turn;
    private String next;
    private final List<String> sent = new ArrayList<>();
    private boolean isFromOpenWindow;
    private boolean hasJumped;

    /** Adds what a renewal sends, at this wall clock. */
    void addForRenewal(Map<String, Object> body, long wall, long until) {
        // Repeated as it is until an answer comes. But a copy made in between would repeat it, too: so draw once more where this may be one.
        boolean isStale = hasJumped || isFromOpenWindow && wall >= until;
        if (next == null || isStale && sent.size() < MOST_SENT) {
            if (next != null) sent.add(next);
            next = fresh();
            isFromOpenWindow = wall < until;
            hasJumped = false;
        }
        addTo(body);
    }

    void addTo(Map<String, Object> body) {
        if (turn != null) body.put("turn", turn);
        if (next != null) body.put("nextTurn", next);
        if (!sent.isEmpty()) body.put("sentTurns", List.copyOf(sent));
    }

    /** A renewal was answered. @param answered null: no turn. */
    void acknowledge(String answered) {
        if (answered == null || !answered.equals(next)) return;
        turn = answered;
        next = null;
        sent.clear();
    }

    void noteJump() {
        hasJumped = true;
    }

    /** 32 random hex digits. A machine that was copied while it ran repeats its random bytes; the clocks tell the copies apart. */
    static String fresh() {
        byte[] random = new byte[LENGTH / 2];
        RANDOM.nextBytes(random);
        String clocks = " " + System.nanoTime() + " " + System.currentTimeMillis() + " " + ProcessHandle.current().pid();
        try {
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            hash.update(random);
            byte[] digest = hash.digest(clocks.getBytes(StandardCharsets.US_ASCII));
            StringBuilder text = new StringBuilder();
            for (int at = 0; at < LENGTH / 2; at++) text.append(String.format("%02x", digest[at]));
            return text.toString();
        } catch (NoSuchAlgorithmException cause) {
            throw new IllegalStateException("Each Java has SHA-256.", cause);
        }
    }
}
