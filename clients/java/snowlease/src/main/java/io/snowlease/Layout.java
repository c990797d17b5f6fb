package io.snowlease;

import static io.snowlease.SnowleaseException.expected;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** What an ID is: the bits of its timestamp, worker ID and sequence. Immutable. */
public final class Layout {
    /** Canonical notations by name. */
    private static final Map<String, String> PRESETS = new LinkedHashMap<>();

    static {
        PRESETS.put("westid", "timestamp:41,worker:10,sequence:12@1490346283706/1");
        PRESETS.put("twitter", "timestamp:41,datacenter:5,worker:5,sequence:12@1288834974657/1");
        PRESETS.put("discord", "timestamp:41,worker:5,process:5,sequence:12@1420070400000/1");
        PRESETS.put("instagram", "timestamp:40,shard:13,sequence:10@1314220021721/1");
        PRESETS.put("rollback", "timestamp:41,machine:3,process:5,rollback:2,sequence:12@1580486400000/1");
        PRESETS.put("uid", "timestamp:28,worker:22,sequence:13@1463673600000/1000");
        PRESETS.put("uid-datacenter", "timestamp:28,datacenter:5,worker:17,sequence:13@1463673600000/1000");
        PRESETS.put("sonyflake", "timestamp:39,sequence:8,worker:16@1409529600000/10");
        PRESETS.put("safe53", "timestamp:41,worker:5,sequence:7@1577836800000/1");
        PRESETS.put("scene", "timestamp:21,worker:5,sequence:5@1490346283706/1/wraps");
    }

    private static final String NUMBER = "(?:0|[1-9][0-9]{0,15})";
    private static final String PAIR = "[^:,@/]+:" + NUMBER;
    private static final Pattern NOTATION =
            Pattern.compile("(" + PAIR + "(?:," + PAIR + ")*)@(" + NUMBER + ")(?:/(" + NUMBER + "))?(/wraps)?");
    private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9]{0,15}");
    private static final int LONGEST = 1023;
    private static final long LAST_EPOCH = 4_102_444_800_000L;
    private static final long LAST_DATE = 8_640_000_000_000_000L;
    private static final long LAST_TIME = (1L << 53) - 1;

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
    final boolean wraps;
    final int totalBits;
    final int workerBits;
    final int sequenceBits;
    final int maxWorkerId;
    final int maxSequence;
    final int maxRollback;
    final long maxTick;
    /** The first Unix ms that no longer fits. */
    final long endOfLife;
    final long tickMask;
    final int timestampShift;
    final int sequenceShift;
    private final int rollbackShift;
    private final String canonical;

    private Layout(List<Field> fields, long epoch, long tick, boolean wraps) {
        this.fields = fields;
        this.epoch = epoch;
        this.tick = tick;
        this.wraps = wraps;
        totalBits = (int) within("total bits", fields.stream().mapToInt(field -> field.bits).sum(), 1, 63);
        workerBits = (int) within("identity bits",
                fields.stream().filter(Field::isIdentity).mapToInt(field -> field.bits).sum(), 1, 31);
        Field rollback = named("rollback");
        int rollbackBits = rollback == null ? 0 : (int) within("rollback bits", rollback.bits, 0, 8);
        Field sequence = named("sequence");
        sequenceBits = (int) within("sequence bits", sequence.bits, 1, 31 - rollbackBits);
        Field timestamp = fields.get(0);
        tickMask = mask((int) within("timestamp bits", timestamp.bits, 21, 45));
        maxWorkerId = (int) mask(workerBits);
        maxSequence = (int) mask(sequenceBits);
        maxRollback = (int) mask(rollbackBits);
        maxTick = wraps ? (LAST_DATE - epoch) / tick - 1 : tickMask;
        endOfLife = within("end of life", timeOf(maxTick + 1), 1, LAST_DATE);
        timestampShift = timestamp.shift;
        sequenceShift = sequence.shift;
        rollbackShift = rollback == null ? 0 : rollback.shift;
        canonical = fields.stream().map(field -> field.name + ":" + field.bits).collect(Collectors.joining(","))
                + "@" + epoch + "/" + tick + (wraps ? "/wraps" : "");
    }

    /**
     * The layout of a preset's name ({@code westid}, {@code twitter}, {@code uid}, {@code sonyflake}, {@code safe53}, …) or of a notation:
     * {@code name:bits} from the top field down, {@code @} and the epoch in Unix ms, {@code /} and the length of a tick in ms,
     * {@code /wraps} where the timestamp starts again.
     *
     * @throws SnowleaseException CONFIG_INVALID for any other text.
     */
    public static Layout parse(String text) {
        String notation = PRESETS.getOrDefault(String.valueOf(text), String.valueOf(text));
        Matcher match = NOTATION.matcher(notation);
        if (notation.length() > LONGEST || !match.matches()) {
            String presets = String.join(", ", PRESETS.keySet());
            throw expected("layout", "to be a preset (" + presets + ") or a notation like `" + PRESETS.get("westid") + "`", text);
        }
        long epoch = within("epoch", Long.parseLong(match.group(2)), 0, LAST_EPOCH);
        long tick = within("tick", match.group(3) == null ? 1 : Long.parseLong(match.group(3)), 1, 60_000);
        return new Layout(placed(match.group(1).split(",")), epoch, tick, match.group(4) != null);
    }

    private static List<Field> placed(String[] pairs) {
        List<String> names = new ArrayList<>();
        List<Field> fields = new ArrayList<>();
        int shift = 0;
        for (int at = pairs.length - 1; at >= 0; at--) {
            String name = pairs[at].substring(0, pairs[at].indexOf(':'));
            if (!NAME.matcher(name).matches()) throw expected("field name", "to match " + NAME, name);
            int bits = (int) within(name + " bits", Long.parseLong(pairs[at].substring(name.length() + 1)), 1, 63);
            names.add(0, name);
            fields.add(0, new Field(name, bits, shift));
            shift += bits;
        }
        String listed = String.join(", ", names);
        if (!names.get(0).equals("timestamp")) throw expected("fields", "to start with `timestamp`", listed);
        if (!names.contains("sequence")) throw expected("fields", "to have a `sequence`", listed);
        Set<String> distinct = new HashSet<>(names);
        if (distinct.size() < names.size()) throw expected("fields", "to have every name once", listed);
        if (names.contains("rollback") && names.indexOf("rollback") != names.indexOf("sequence") - 1) {
            throw expected("fields", "to have `rollback` directly above `sequence`", listed);
        }
        return List.copyOf(fields);
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

    /** The number of bits of an ID, 1 to 63. */
    public int totalBits() {
        return totalBits;
    }

    /** The highest worker ID. */
    public int maxWorkerId() {
        return maxWorkerId;
    }

    /** The highest sequence of a tick. */
    public int maxSequence() {
        return maxSequence;
    }

    /** The tick that contains this time, Unix ms; negative before the epoch. */
    long tickOf(long ms) {
        return Math.floorDiv(ms - epoch, tick);
    }

    /** Unix ms of the start of a tick. */
    long timeOf(long number) {
        return epoch + number * tick;
    }

    /** The first tick that lies wholly at or after this time, Unix ms. */
    long firstWholeTick(long ms) {
        return Math.max(0, -Math.floorDiv(epoch - ms, tick));
    }

    /** The ID of parts that the caller has checked. */
    long encode(long number, int workerId, int sequence, int rollback) {
        long made = (number & tickMask) << timestampShift | (long) sequence << sequenceShift | (long) rollback << rollbackShift;
        int rest = workerBits;
        for (Field field : fields) {
            if (!field.isIdentity()) continue;
            rest -= field.bits;
            made |= (workerId >>> rest & mask(field.bits)) << field.shift;
        }
        return made;
    }

    /**
     * The ID of these parts.
     *
     * @param timestamp any ms of the tick, Unix ms.
     * @throws SnowleaseException CONFIG_INVALID; LAYOUT_EXPIRED from the end of life on.
     */
    public long compose(long timestamp, long workerId, long sequence, long rollback) {
        within("timestamp", timestamp, epoch, LAST_TIME);
        if (timestamp >= endOfLife) throw expired();
        within("workerId", workerId, 0, maxWorkerId);
        within("sequence", sequence, 0, maxSequence);
        within("rollback", rollback, 0, maxRollback);
        return encode(tickOf(timestamp), (int) workerId, (int) sequence, (int) rollback);
    }

    /** Takes an ID apart. @throws SnowleaseException CONFIG_INVALID for one that does not fit, and where the timestamp wraps. */
    public IdParts decompose(long id) {
        if (wraps) {
            throw SnowleaseException.invalid("The timestamp of this layout wraps; tell a time near the ID's making (`at`, Unix ms).");
        }
        return decompose(id, epoch);
    }

    /**
     * Takes an ID apart.
     *
     * @param at Unix ms near the time at which it was made; matters where the timestamp wraps.
     * @throws SnowleaseException CONFIG_INVALID for an ID that does not fit.
     */
    public IdParts decompose(long id, long at) {
        within("id", id, 0, mask(totalBits));
        within("at", at, epoch, LAST_DATE);
        Map<String, Integer> identity = new LinkedHashMap<>();
        int workerId = 0;
        for (Field field : fields) {
            if (!field.isIdentity()) continue;
            identity.put(field.name, (int) field.of(id));
            workerId = workerId << field.bits | (int) field.of(id);
        }
        long number = fields.get(0).of(id);
        if (wraps) {
            long ticks = tickMask + 1;
            // Halves round up, as in the other clients.
            number += ticks * Math.max(0, Math.floorDiv(2 * (tickOf(at) - number) + ticks, 2 * ticks));
        }
        Field rollback = named("rollback");
        int rolled = rollback == null ? 0 : (int) rollback.of(id);
        return new IdParts(timeOf(number), workerId, (int) named("sequence").of(id), rolled, identity);
    }

    SnowleaseException expired() {
        String what = "The timestamp bits of the layout ran out on " + SnowleaseException.time(endOfLife);
        return SnowleaseException.of(ErrorCode.LAYOUT_EXPIRED, what + "; move to another layout.");
    }

    private static long mask(int bits) {
        return (1L << bits) - 1;
    }

    static long within(String name, long value, long first, long last) {
        if (first <= value && value <= last) return value;
        throw expected(name, "to be an integer from " + first + " to " + last, value);
    }
}
