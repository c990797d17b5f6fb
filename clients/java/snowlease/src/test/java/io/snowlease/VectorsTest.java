package io.snowlease;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What every client has to do alike: clients/vectors. */
class VectorsTest {
    private static final Path VECTORS = Paths.get("..", "..", "vectors");

    private interface Check {
        void of(Map<String, Object> given);
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> read(String name, String part) {
        try {
            Object value = new JsonFile(Files.readString(VECTORS.resolve(name + ".json"))).value;
            Map<String, Object> whole = (Map<String, Object>) value;
            assertEquals(1L, whole.get("version"));
            List<Map<String, Object>> given = (List<Map<String, Object>>) whole.get(part);
            assertTrue(given.size() > 0);
            return given;
        } catch (IOException cause) {
            throw new IllegalStateException(cause);
        }
    }

    /** A file of ours, which may be longer than an answer. */
    private static final class JsonFile {
        final Object value;

        JsonFile(String text) {
            value = Json.read(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        }
    }

    private static Stream<DynamicTest> each(String name, String part, Check check) {
        return read(name, part).stream().map(given -> {
            Object title = given.getOrDefault("why", given.getOrDefault("text", given.getOrDefault("id", "")));
            return DynamicTest.dynamicTest(String.valueOf(title).replaceAll("\\p{Cntrl}", " "), () -> check.of(given));
        });
    }

    private static long number(Map<String, Object> of, String name) {
        return (Long) of.get(name);
    }

    private static String text(Map<String, Object> of, String name) {
        return (String) of.get(name);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Map<String, Object> of, String name) {
        return (Map<String, Object>) of.get(name);
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> list(Map<String, Object> of, String name) {
        return (List<Map<String, Object>>) of.get(name);
    }

    private static void assertCode(String code, org.junit.jupiter.api.function.Executable call) {
        assertEquals(code, assertThrows(SnowleaseException.class, call).code().name());
    }

    @TestFactory
    Stream<DynamicTest> layouts() {
        return each("layouts", "layouts", given -> {
            Layout layout = Layout.parse(text(given, "text"));
            assertEquals(given.get("canonical"), layout.toString());
            List<Map<String, Object>> fields = new ArrayList<>();
            for (Layout.Field field : layout.fields) {
                fields.add(Map.of("name", field.name, "bits", (long) field.bits, "shift", (long) field.shift));
            }
            assertEquals(list(given, "fields"), fields);
            assertEquals(given.get("wraps"), layout.wraps);
            Map<String, Long> numbers = new LinkedHashMap<>();
            numbers.put("epoch", layout.epoch);
            numbers.put("tick", layout.tick);
            numbers.put("totalBits", (long) layout.totalBits);
            numbers.put("workerBits", (long) layout.workerBits);
            numbers.put("maxWorkerId", (long) layout.maxWorkerId);
            numbers.put("maxSequence", (long) layout.maxSequence);
            numbers.put("maxRollback", (long) layout.maxRollback);
            numbers.put("maxTick", layout.maxTick);
            numbers.put("endOfLife", layout.endOfLife);
            numbers.forEach((name, value) -> assertEquals(given.get(name), value, name));
        });
    }

    @TestFactory
    Stream<DynamicTest> refusedLayouts() {
        return each("layouts", "refused", given -> assertCode(text(given, "code"), () -> Layout.parse(text(given, "text"))));
    }

    @TestFactory
    Stream<DynamicTest> ids() {
        return each("ids", "ids", given -> {
            Layout layout = Layout.parse(text(given, "layout"));
            long rollback = given.containsKey("rollback") ? number(given, "rollback") : 0;
            long id = layout.compose(number(given, "timestamp"), number(given, "workerId"), number(given, "sequence"), rollback);
            assertEquals(given.get("id"), Long.toString(id));
            Map<String, Object> decoded = object(given, "decoded");
            IdParts parts = decoded.containsKey("at") ? layout.decompose(id, number(decoded, "at")) : layout.decompose(id);
            assertEquals(number(decoded, "timestamp"), parts.timestamp());
            assertEquals(number(given, "workerId"), parts.workerId());
            assertEquals(number(given, "sequence"), parts.sequence());
            assertEquals(rollback, parts.rollback());
            Map<String, Object> fields = new LinkedHashMap<>();
            parts.fields().forEach((name, value) -> fields.put(name, (long) value));
            assertEquals(object(decoded, "fields"), fields);
            object(given, "texts").forEach((name, text) -> checkText(encoding(name), id, false, layout, (String) text));
            object(given, "fixedTexts").forEach((name, text) -> checkText(encoding(name), id, true, layout, (String) text));
        });
    }

    private static void checkText(Encoding encoding, long id, boolean fixed, Layout layout, String text) {
        assertEquals(text, encoding.encode(id, fixed, layout.totalBits()));
        assertEquals(id, encoding.decode(text, layout.totalBits()));
    }

    private static Encoding encoding(String name) {
        return Encoding.valueOf(name.toUpperCase(Locale.ROOT));
    }

    @TestFactory
    Stream<DynamicTest> refusedParts() {
        return each("ids", "refused", given -> {
            Layout layout = Layout.parse(text(given, "layout"));
            long rollback = given.containsKey("rollback") ? number(given, "rollback") : 0;
            assertCode(text(given, "code"),
                    () -> layout.compose(number(given, "timestamp"), number(given, "workerId"), number(given, "sequence"), rollback));
        });
    }

    @TestFactory
    Stream<DynamicTest> refusedTexts() {
        return each("ids", "refusedTexts",
                given -> assertCode(text(given, "code"), () -> encoding(text(given, "encoding")).decode(text(given, "text"))));
    }

    @TestFactory
    Stream<DynamicTest> windows() {
        return each("windows", "windows", given -> {
            Layout layout = Layout.parse(text(given, "layout"));
            if (given.get("firstTick") == null) {
                long around = layout.tickOf(number(given, "from"));
                for (long tick = Math.max(0, around - 2); tick < around + 4; tick++) assertUsable(false, layout, given, tick);
                return;
            }
            assertUsable(true, layout, given, number(given, "firstTick"));
            assertUsable(true, layout, given, number(given, "lastTick"));
            assertUsable(false, layout, given, number(given, "firstTick") - 1);
            assertUsable(false, layout, given, number(given, "lastTick") + 1);
        });
    }

    private static void assertUsable(boolean isUsable, Layout layout, Map<String, Object> window, long tick) {
        long wall = layout.timeOf(tick);
        Ticks ticks = new Ticks(layout, 1, number(window, "from"), number(window, "until"), Math.min(wall, number(window, "from")), null);
        assertEquals(isUsable, ticks.take(() -> wall) > 0, "tick " + tick);
        assertEquals(isUsable, ticks.refusal(() -> wall) == null, "tick " + tick);
    }

    private static SnowleaseException over() {
        return SnowleaseException.of(ErrorCode.LEASE_LOST, "over");
    }

    private static void checkNext(Ticks ticks, Map<String, Object> step, long clock) {
        long id = ticks.take(() -> clock);
        SnowleaseException refusal = id == Ticks.NONE ? ticks.refusal(() -> clock) : null;
        if (step.containsKey("id")) {
            assertNull(refusal, () -> step.toString());
            assertEquals(step.get("id"), Long.toString(id), () -> step.toString());
            return;
        }
        Map<String, Object> refused = object(step, "refused");
        assertNotNull(refusal, () -> step.toString());
        assertEquals(refused.get("code"), refusal.code().name(), () -> step.toString());
        long wait = refused.containsKey("retryAfterMs") ? number(refused, "retryAfterMs") : SnowleaseException.UNKNOWN;
        assertEquals(wait, refusal.retryAfterMs(), () -> step.toString());
    }

    @TestFactory
    Stream<DynamicTest> clocks() {
        return each("clocks", "scripts", script -> {
            Map<String, Object> grant = object(script, "grant");
            Ticks ticks = new Ticks(Layout.parse(text(script, "layout")), (int) number(grant, "workerId"), number(grant, "from"),
                    number(grant, "until"), number(grant, "clock"), null);
            for (Map<String, Object> step : list(script, "steps")) {
                long clock = number(step, "clock");
                if (step.containsKey("sends")) assertEquals(step.get("sends"), usage(ticks.usage(), false), () -> step.toString());
                switch (text(step, "do")) {
                    case "next":
                        checkNext(ticks, step, clock);
                        break;
                    case "renewed":
                        ticks.renewed(number(step, "from"), number(step, "until"));
                        break;
                    case "quarantine":
                        ticks.giveUpBefore(clock);
                        break;
                    case "lost":
                        ticks.end(VectorsTest::over);
                        break;
                    case "close":
                        Ticks.Usage used = ticks.end(VectorsTest::over);
                        assertEquals(step.get("gives"), used == null ? null : usage(used, true), () -> step.toString());
                        // What the give-back sends, which comes after.
                        if (used != null) assertEquals(step.get("gives"), usage(ticks.usage(), true));
                        break;
                    default:
                        throw new IllegalArgumentException(step.toString());
                }
            }
        });
    }

    private static Map<String, Object> usage(Ticks.Usage used, boolean isEnd) {
        Map<String, Object> usage = new LinkedHashMap<>();
        if (isEnd) usage.put("until", used.until);
        if (used.timestamp >= 0) {
            usage.put("lastTimestamp", used.timestamp);
            usage.put("lastSequence", used.sequence);
        }
        return usage;
    }

    @TestFactory
    Stream<DynamicTest> blockLayouts() {
        return each("blocks", "layouts", given -> {
            Layout layout = Layout.parse(text(given, "text"));
            Blocks blocks = new Blocks(layout, () -> {});
            assertEquals(number(given, "ticks"), blocks.ticks);
            assertEquals(number(given, "blocks"), blocks.perSpan);
            assertEquals(number(given, "sequences"), blocks.sequences);
            assertEquals(number(given, "ahead"), blocks.ahead);
            for (Map<String, Object> span : list(given, "spans")) {
                assertEquals(number(span, "span"), blocks.spanOf(layout.tickOf(number(span, "at"))));
            }
        });
    }

    /** A borrower without a thread: a script says when what is answered. */
    private static final class Borrower {
        final Layout layout;
        final Deque<Blocks.Request> asked = new ArrayDeque<>();
        final Deque<Blocks> askedOf = new ArrayDeque<>();
        Ticks ticks;

        Borrower(Layout layout, Map<String, Object> grant) {
            this.layout = layout;
            begin(grant, number(grant, "clock"));
        }

        void begin(Map<String, Object> grant, long clock) {
            Blocks blocks = new Blocks(layout, () -> {});
            ticks = new Ticks(layout, (int) number(grant, "workerId"), number(grant, "from"), number(grant, "until"), clock, blocks);
        }

        void ask(Blocks.Request request) {
            asked.add(request);
            askedOf.add(ticks.blocks);
        }

        @SuppressWarnings("unchecked")
        void run(Map<String, Object> step) {
            long clock = number(step, "clock");
            switch (text(step, "do")) {
                case "prefetch":
                    Blocks.Request due = ticks.blocks.prefetch(clock);
                    checkRequest(step, due);
                    if (due != null) ask(due);
                    break;
                case "next":
                    Blocks.Request before = ticks.blocks.wanted();
                    checkNext(ticks, step, clock);
                    Blocks.Request wanted = ticks.blocks.wanted();
                    checkRequest(step, wanted == before ? null : wanted);
                    if (wanted != null && wanted != before) ask(wanted);
                    break;
                case "given":
                    Blocks.Request request = asked.poll();
                    Blocks of = askedOf.poll();
                    List<Long> blocks = (List<Long>) step.get("blocks");
                    if (request == null) {
                        // The first prefetch, of which the script says nothing.
                        request = new Blocks.Request(number(step, "first"), blocks.size(), 1, 0);
                        of = ticks.blocks;
                    }
                    of.given(request, blocks);
                    break;
                case "silent":
                    askedOf.remove().unanswered(asked.remove());
                    break;
                case "renewed":
                    ticks.renewed(number(step, "from"), number(step, "until"));
                    break;
                case "lost":
                    ticks.end(() -> SnowleaseException.of(ErrorCode.LEASE_EXPIRED, "lost"));
                    break;
                case "granted":
                    begin(step, clock);
                    break;
                case "close":
                    ticks.end(VectorsTest::over);
                    break;
                default:
                    throw new IllegalArgumentException(step.toString());
            }
        }

        private static void checkRequest(Map<String, Object> step, Blocks.Request request) {
            Map<String, Object> told = request == null ? null
                    : Map.of("first", request.first, "spans", (long) request.spans, "blocks", (long) request.blocks, "held", (long) request.held);
            assertEquals(step.get("wants"), told, () -> step.toString());
        }
    }

    @TestFactory
    Stream<DynamicTest> blocks() {
        return each("blocks", "scripts", script -> {
            Borrower borrower = new Borrower(Layout.parse(text(script, "layout")), object(script, "grant"));
            for (Map<String, Object> step : list(script, "steps")) borrower.run(step);
        });
    }
}
