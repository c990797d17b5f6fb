package io.snowlease;

import static io.snowlease.SnowleaseException.expected;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What an ID is: the bits of its timestamp, worker ID and sequence. Immutable. */
public final class Layout {
    /** Canonical notations by name. */
    private static final Map<String, String> PRESETS = Map.of(
            "westid", "timestamp:41,worker:10,sequence:12@1490346283706/1",
            "twitter", "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1",
            "rollback", "timestamp:41,machine:3,process:5,rollback:2,sequence:12@1580486400000/1",
            "uid", "timestamp:28,worker:22,sequence:13@1463673600000/1000",
            "uid-datacenter", "timestamp:28,datacenter:5,worker:17,sequence:13@1463673600000/1000",
            "sonyflake", "timestamp:39,sequence:8,worker:16@1409529600000/10",
            "discord", "timestamp:42,worker:5,process:5,sequence:12@1420070400000/1",
            "instagram", "timestamp:41,shard:13,sequence:10@1314220021721/1",
            "mastodon", "timestamp:48,sequence:16@0/1",
            "safe53", "timestamp:41,worker:5,sequence:7@1577836800000/1");

    private static final String FIELD = "[a-z][a-z0-9]{0,15}:[1-9][0-9]?";
    private static final String NUMBER = "(0|[1-9][0-9]{0,15})";
    private static final Pattern NOTATION = Pattern.compile("(" + FIELD + "(?:," + FIELD + ")*)@" + NUMBER + "(?:/" + NUMBER + ")?(/wraps)?");
    private static final int LONGEST = 1023;
    private static final int MOST_BITS = 64;
    private static final long LAST_EPOCH = 4_102_444_800_000L;
    private static final long LAST_DATE = 8_640_000_000_000_000L;

    /** Adjacent bits of an ID, {@code shift} of them below it. */
    static final class Field {
        final String name;
        final int bits;
        final int shift;

        Field(String name, int bits, int shift) {
            this.name = name;
            this.bits = bits;
            this.shift = shift;
        }

        long of(long id) {
            return id >>> shift & mask(bits);
        }

        boolean isIdentity() {
            return !name.equals("timestamp") && !name.equals("rollback") && !name.equals("sequence");
        }
    }

    final List<Field> fields;
    final long epoch;
    final long tick;
    final int totalBits;
    final int workerBits;
    final int sequenceBits;
    final int maxWorkerId;
    final int maxSequence;
    final int maxRollback;
    final long maxTick;
    /** The first Unix ms that no longer fits. */
    final long endOfLife;
    private final Field timestamp;
    private final Field sequence;
    private final Field rollback;
    private final String canonical;

    private Layout(String text, Matcher match) {
        epoch = Long.parseLong(match.group(2));
        tick = match.group(3) == null ? 1 : Long.parseLong(match.group(3));
        canonical = match.group(1) + "@" + epoch + "/" + tick;
        List<Field> all = new ArrayList<>();
        String[] pairs = match.group(1).split(",");
        int total = 0;
        for (int at = pairs.length - 1; at >= 0; at--) {
            String[] pair = pairs[at].split(":");
            all.add(0, new Field(pair[0], Integer.parseInt(pair[1]), total));
            total += Integer.parseInt(pair[1]);
        }
        fields = List.copyOf(all);
        timestamp = fields.get(0);
        sequence = named("sequence");
        rollback = named("rollback");
        sequenceBits = sequence == null ? 0 : sequence.bits;
        int rollbackBits = rollback == null ? 0 : rollback.bits;
        int identity = fields.stream().filter(Field::isIdentity).mapToInt(field -> field.bits).sum();
        // The top bit of 64 is the sign.
        int sign = total == MOST_BITS ? 1 : 0;
        int timestampBits = timestamp.bits - sign;
        check(text, "to have each name once", new HashSet<>(List.of(match.group(1).replaceAll(":\\d+", "").split(","))).size() == fields.size());
        check(text, "to have a timestamp that does not wrap: this client makes no such IDs", match.group(4) == null);
        check(text, "to begin with `timestamp`, of 21 to 47 bits, or 22 to 48 where all are 64",
                timestamp.name.equals("timestamp") && 21 <= timestampBits && timestampBits <= 47);
        check(text, "to have at most 64 bits", total <= MOST_BITS);
        check(text, "to have a `sequence` of 1 to 31 bits", 1 <= sequenceBits && sequenceBits <= 31);
        check(text, "to have `rollback` directly above `sequence`",
                rollback == null || fields.indexOf(rollback) + 1 == fields.indexOf(sequence));
        check(text, "to have at most 8 bits of `rollback`, and 31 with the sequence", rollbackBits <= 8 && rollbackBits + sequenceBits <= 31);
        check(text, "to have at most 31 bits of worker ID", identity <= 31);
        check(text, "to have an epoch up to " + LAST_EPOCH, epoch <= LAST_EPOCH);
        check(text, "to have a tick of 1 to 60000 ms", 1 <= tick && tick <= 60_000);
        totalBits = total - sign;
        workerBits = identity;
        maxWorkerId = (int) mask(identity);
        maxSequence = (int) mask(sequenceBits);
        maxRollback = (int) mask(rollbackBits);
        maxTick = mask(timestampBits);
        endOfLife = timeOf(maxTick + 1);
        check(text, "to end by " + LAST_DATE, endOfLife <= LAST_DATE);
    }

    /**
     * The layout of a preset ({@code westid}, {@code twitter}, {@code uid}, {@code sonyflake}, …) or of a notation: {@code name:bits} from the
     * top field down, {@code @} and the epoch in Unix ms, {@code /} and the length of a tick in ms.
     *
     * @throws SnowleaseException CONFIG_INVALID for any other text, and for a timestamp that wraps.
     */
    public static Layout parse(String text) {
        String notation = text == null ? "" : PRESETS.getOrDefault(text, text);
        Matcher match = NOTATION.matcher(notation);
        if (notation.length() > LONGEST || !match.matches()) {
            String presets = "westid, twitter, rollback, uid, uid-datacenter, sonyflake, discord, instagram, mastodon, safe53";
            throw expected("layout", "to be a preset (" + presets + ") or a notation like `" + PRESETS.get("westid") + "`", text);
        }
        return new Layout(text, match);
    }

    private static void check(String text, String rule, boolean holds) {
        if (!holds) throw expected("layout", rule, text);
    }

    private Field named(String name) {
        return fields.stream().filter(field -> field.name.equals(name)).findFirst().orElse(null);
    }

    /** The canonical notation: layouts with equal ones make equal IDs. */
    @Override
    public String toString() {
        return canonical;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Layout && ((Layout) other).canonical.equals(canonical);
    }

    @Override
    public int hashCode() {
        return canonical.hashCode();
    }

    /** The tick that contains this time, Unix ms; negative before the epoch. */
    long tickOf(long ms) {
        return Math.floorDiv(ms - epoch, tick);
    }

    /** Unix ms of the begin of a tick. */
    long timeOf(long number) {
        return epoch + number * tick;
    }

    /** The first tick that lies wholly at or after this time, Unix ms. */
    long firstWholeTick(long ms) {
        return Math.max(0, -Math.floorDiv(epoch - ms, tick));
    }

    /** The ID of parts that the caller has checked. */
    long encode(long number, int workerId, int sequenceNumber, int rollbacks) {
        long made = number << timestamp.shift | (long) sequenceNumber << sequence.shift;
        if (rollback != null) made |= (long) rollbacks << rollback.shift;
        int rest = workerBits;
        for (Field field : fields) {
            if (!field.isIdentity()) continue;
            rest -= field.bits;
            made |= (workerId >>> rest & mask(field.bits)) << field.shift;
        }
        return made;
    }

    int timestampShift() {
        return timestamp.shift;
    }

    int sequenceShift() {
        return sequence.shift;
    }

    /**
     * The ID of these parts.
     *
     * @param time any ms of the tick, Unix ms.
     * @throws SnowleaseException CONFIG_INVALID; LAYOUT_EXPIRED from the end of life on.
     */
    public long compose(long time, long workerId, long sequenceNumber, long rollbacks) {
        within("timestamp", time, epoch, LAST_DATE);
        if (time >= endOfLife) throw expired(endOfLife);
        within("workerId", workerId, 0, maxWorkerId);
        within("sequence", sequenceNumber, 0, maxSequence);
        within("rollback", rollbacks, 0, maxRollback);
        return encode(tickOf(time), (int) workerId, (int) sequenceNumber, (int) rollbacks);
    }

    /** Takes an ID apart. @throws SnowleaseException CONFIG_INVALID for one that does not fit. */
    public IdParts decompose(long id) {
        within("id", id, 0, mask(totalBits));
        Map<String, Integer> identity = new LinkedHashMap<>();
        int workerId = 0;
        for (Field field : fields) {
            if (!field.isIdentity()) continue;
            identity.put(field.name, (int) field.of(id));
            workerId = workerId << field.bits | (int) field.of(id);
        }
        int rollbacks = rollback == null ? 0 : (int) rollback.of(id);
        return new IdParts(timeOf(timestamp.of(id)), workerId, (int) sequence.of(id), rollbacks, identity);
    }

    static SnowleaseException expired(long end) {
        String what = "The timestamp bits of the layout ran out on " + SnowleaseException.time(end);
        return new SnowleaseException("LAYOUT_EXPIRED", what + "; move to another layout in another namespace.");
    }

    private static long mask(int bits) {
        return (1L << bits) - 1;
    }

    static void within(String name, long value, long first, long last) {
        if (value < first || value > last) throw expected(name, "to be an integer from " + first + " to " + last, value);
    }
}
