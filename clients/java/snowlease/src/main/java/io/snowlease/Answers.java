package io.snowlease;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What daemons answer, checked. Throws IllegalArgumentException for what no daemon answers. */
final class Answers {
    /** Times, fences and worker IDs are exact in every language. */
    private static final long LARGEST = (1L << 53) - 1;
    private static final long LARGEST_BLOCKS = (1L << 32) - 1;
    private static final long SHORTEST_RENEWAL = 50;
    private static final long LONGEST_RENEWAL = 86_400_000;

    private Answers() {}

    static final class Grant {
        final int workerId;
        final long fence;
        final long from;
        final long until;
        final long renewAfterMs;
        final Layout layout;
        final boolean isShared;

        private Grant(Map<String, Object> answer, String token) {
            Object said = answer.getOrDefault("token", token);
            if (!token.equals(said)) throw new IllegalArgumentException("a lease of another claim");
            from = integer(answer.get("from"));
            until = integer(answer.get("until"));
            if (from > until) throw new IllegalArgumentException("`from` is behind `until`");
            fence = integer(answer.get("fence"));
            renewAfterMs = renewal(answer.get("renewAfterMs"));
            try {
                layout = Layout.parse(text(answer.get("layout")));
            } catch (SnowleaseException cause) {
                throw new IllegalArgumentException(cause.getMessage());
            }
            long number = integer(answer.get("workerId"));
            if (number > layout.maxWorkerId) throw new IllegalArgumentException("worker ID " + number + " does not fit " + layout);
            workerId = (int) number;
            Object shared = answer.get("shared");
            if (shared != null && !(shared instanceof Boolean)) throw new IllegalArgumentException("`shared` is no boolean");
            isShared = Boolean.TRUE.equals(shared);
        }

        static Grant read(Map<String, Object> answer, String token) {
            return new Grant(answer, token);
        }
    }

    static final class Renewal {
        final long from;
        final long until;
        final long renewAfterMs;
        /** null: none. */
        final String turn;

        private Renewal(Map<String, Object> answer) {
            from = integer(answer.get("from"));
            until = integer(answer.get("until"));
            renewAfterMs = renewal(answer.get("renewAfterMs"));
            turn = answer.get("turn") == null ? null : text(answer.get("turn"));
        }

        static Renewal read(Map<String, Object> answer) {
            return new Renewal(answer);
        }
    }

    /** Of each span, the blocks as bits. */
    static List<Long> blocks(Map<String, Object> answer, Blocks asked) {
        if (!(answer.get("blocks") instanceof List)) throw new IllegalArgumentException("no list of blocks");
        List<Long> blocks = new ArrayList<>();
        for (Object bits : (List<?>) answer.get("blocks")) {
            long value = integer(bits);
            if (value > LARGEST_BLOCKS || value >>> asked.perSpan != 0) throw new IllegalArgumentException("blocks that a span does not have");
            blocks.add(value);
        }
        return blocks;
    }

    static long integer(Object value) {
        if (value instanceof Long && (long) value >= 0 && (long) value <= LARGEST) return (long) value;
        throw new IllegalArgumentException("a number is not an integer from 0 to 2^53-1");
    }

    static String text(Object value) {
        if (value instanceof String && !((String) value).isEmpty()) return (String) value;
        throw new IllegalArgumentException("a text is missing");
    }

    private static long renewal(Object value) {
        return Math.min(LONGEST_RENEWAL, Math.max(SHORTEST_RENEWAL, integer(value)));
    }
}
