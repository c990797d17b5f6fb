package io.snowlease;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;

/** What every client does alike: clients/vectors. Needs nothing but a JDK: `Vectors FOLDER` prints how many hold, or throws for the first that does not. */
final class Vectors {
    private final Path folder;
    private int count;

    private Vectors(Path folder) {
        this.folder = folder;
    }

    public static void main(String[] arguments) {
        Vectors vectors = new Vectors(Paths.get(arguments[0]));
        vectors.layouts();
        vectors.refusedLayouts();
        vectors.ids();
        vectors.refusedParts();
        vectors.refusedTexts();
        vectors.windows();
        vectors.clocks();
        vectors.blockLayouts();
        vectors.blocks();
        System.out.println(vectors.count + " vectors hold");
    }

    private static Object widened(Object value) {
        if (value instanceof Map) {
            Map<Object, Object> all = new HashMap<>((Map<?, ?>) value);
            all.replaceAll((name, member) -> widened(member));
            return all;
        }
        return value instanceof Integer ? (Object) ((Integer) value).longValue() : value;
    }

    private static void assertEquals(Object wanted, Object got) {
        assertEquals(wanted, got, () -> "");
    }

    private static void assertEquals(Object wanted, Object got, Supplier<String> where) {
        if (!Objects.equals(widened(wanted), widened(got))) throw new AssertionError(where.get() + " wanted " + wanted + ", got " + got);
    }

    private interface Check {
        void of(Map<String, Object> given);
    }

    @SuppressWarnings("unchecked")
    private List<Map<String, Object>> read(String name, String part) {
        try {
            Object value = Json.read(Files.readString(folder.resolve(name + ".json")).getBytes(StandardCharsets.UTF_8));
            Map<String, Object> whole = (Map<String, Object>) value;
            assertEquals(1L, whole.get("version"));
            List<Map<String, Object>> given = (List<Map<String, Object>>) whole.get(part);
            assertEquals(false, given.isEmpty());
            return given;
        } catch (IOException cause) {
            throw new IllegalStateException(cause);
        }
    }

    private void each(String name, String part, Check check) {
        for (Map<String, Object> given : read(name, part)) {
            try {
                check.of(given);
                count++;
            } catch (AssertionError | RuntimeException cause) {
                throw new AssertionError(name + ".json, " + part + ": " + given, cause);
            }
        }
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

    private static void assertCode(String code, Runnable call) {
        try {
            call.run();
        } catch (SnowleaseException refusal) {
            assertEquals(code, refusal.code());
            return;
        }
        throw new AssertionError("wanted " + code + ", got a value");
    }

    private void layouts() {
        each("layouts", "layouts", given -> {
            if (given.get("wraps").equals(true)) {
                // What a client may refuse, and this one does.
                assertCode("CONFIG_INVALID", () -> Layout.parse(text(given, "text")));
                return;
            }
            Layout layout = Layout.parse(text(given, "text"));
            assertEquals(given.get("canonical"), layout.toString());
            List<Map<String, Object>> fields = new ArrayList<>();
            for (Layout.Field field : layout.fields) {
                fields.add(Map.of("name", field.name, "bits", (long) field.bits, "shift", (long) field.shift));
            }
            assertEquals(list(given, "fields"), fields);
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
            numbers.forEach((name, value) -> assertEquals(given.get(name), value, () -> name));
        });
    }

    private void refusedLayouts() {
        each("layouts", "refused", given -> assertCode(text(given, "code"), () -> Layout.parse(text(given, "text"))));
    }

    private void ids() {
        each("ids", "ids", given -> {
            if (object(given, "decoded").containsKey("at")) {
                assertCode("CONFIG_INVALID", () -> Layout.parse(text(given, "layout")));
                return;
            }
            Layout layout = Layout.parse(text(given, "layout"));
            long rollback = given.containsKey("rollback") ? number(given, "rollback") : 0;
            long id = layout.compose(number(given, "timestamp"), number(given, "workerId"), number(given, "sequence"), rollback);
            assertEquals(given.get("id"), Long.toString(id));
            Map<String, Object> decoded = object(given, "decoded");
            IdParts parts = layout.decompose(id);
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
        assertEquals(text, fixed ? encoding.encodeFixed(id, layout.totalBits) : encoding.encode(id));
        assertEquals(id, encoding.decode(text, layout.totalBits));
    }

    private static Encoding encoding(String name) {
        return Encoding.valueOf(name.toUpperCase(Locale.ROOT));
    }

    private void refusedParts() {
        each("ids", "refused", given -> {
            Layout layout = Layout.parse(text(given, "layout"));
            long rollback = given.containsKey("rollback") ? number(given, "rollback") : 0;
            assertCode(text(given, "code"),
                    () -> layout.compose(number(given, "timestamp"), number(given, "workerId"), number(given, "sequence"), rollback));
        });
    }

    private void refusedTexts() {
        each("ids", "refusedTexts",
                given -> assertCode(text(given, "code"), () -> encoding(text(given, "encoding")).decode(text(given, "text"))));
    }

    private void windows() {
        each("windows", "windows", given -> {
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

    private static void assertUsable(boolean isUsable, Layout layout, Map<String, Object> given, long tick) {
        long wall = layout.timeOf(tick);
        Window window = new Window(layout, new Lease(1, 1, number(given, "from"), number(given, "until")), Math.min(wall, number(given, "from")));
        assertEquals(isUsable, window.take(() -> wall) > 0, () -> "tick " + tick);
        assertEquals(isUsable, window.refusal(() -> wall) == null, () -> "tick " + tick);
    }

    private static SnowleaseException over() {
        return new SnowleaseException("LEASE_LOST", "over");
    }

    private static void checkNext(Window window, Map<String, Object> step, long clock) {
        long id = window.take(() -> clock);
        SnowleaseException refusal = id == Window.NONE ? window.refusal(() -> clock) : null;
        if (step.containsKey("id")) {
            assertEquals(null, refusal, () -> step.toString());
            assertEquals(step.get("id"), Long.toString(id), () -> step.toString());
            return;
        }
        Map<String, Object> refused = object(step, "refused");
        if (refusal == null) throw new AssertionError(step.toString());
        assertEquals(refused.get("code"), refusal.code(), () -> step.toString());
        long wait = refused.containsKey("retryAfterMs") ? number(refused, "retryAfterMs") : -1;
        assertEquals(wait, refusal.retryAfterMs(), () -> step.toString());
    }

    private void clocks() {
        each("clocks", "scripts", script -> {
            Map<String, Object> grant = object(script, "grant");
            Lease lease = new Lease((int) number(grant, "workerId"), 1, number(grant, "from"), number(grant, "until"));
            Window window = new Window(Layout.parse(text(script, "layout")), lease, number(grant, "clock"));
            for (Map<String, Object> step : list(script, "steps")) {
                long clock = number(step, "clock");
                if (step.containsKey("sends")) assertEquals(step.get("sends"), usage(window.usage(), false), () -> step.toString());
                switch (text(step, "do")) {
                    case "next":
                        checkNext(window, step, clock);
                        break;
                    case "renewed":
                        window.renewed(number(step, "from"), number(step, "until"));
                        break;
                    case "quarantine":
                        window.giveUpBefore(clock);
                        break;
                    case "lost":
                        window.end(Vectors::over);
                        break;
                    case "close":
                        Window.Usage used = window.end(Vectors::over);
                        assertEquals(step.get("gives"), used == null ? null : usage(used, true), () -> step.toString());
                        // What the give-back sends, which comes after.
                        if (used != null) assertEquals(step.get("gives"), usage(window.usage(), true));
                        break;
                    default:
                        throw new IllegalArgumentException(step.toString());
                }
            }
        });
    }

    private void blockLayouts() {
        each("blocks", "layouts", given -> {
            Layout layout = Layout.parse(text(given, "text"));
            Blocks blocks = new Blocks(layout, () -> {});
            assertEquals(given.get("ticks"), blocks.ticks);
            assertEquals(given.get("blocks"), blocks.count);
            assertEquals(given.get("sequences"), 1L << blocks.blockBits);
            assertEquals(given.get("ahead"), blocks.ahead);
            for (Map<String, Object> span : list(given, "spans")) assertEquals(span.get("span"), blocks.prefetch(number(span, "at")).first);
        });
    }

    /** What a claim does with its blocks, and the requests that are on their way, of this claim or of one before. */
    private static final class Borrower {
        final Layout layout;
        final List<Map.Entry<Blocks, Blocks.Request>> open = new ArrayList<>();
        Window window;

        Borrower(Layout layout) {
            this.layout = layout;
        }

        void claim(Map<String, Object> grant) {
            Lease lease = new Lease((int) number(grant, "workerId"), number(grant, "fence"), number(grant, "from"), number(grant, "until"));
            window = new Window(layout, lease, number(grant, "clock"), new Blocks(layout, () -> open.add(Map.entry(window.blocks, window.blocks.wanted()))));
        }

        void prefetch(long clock) {
            Blocks.Request request = window.blocks.prefetch(clock);
            if (request != null) open.add(Map.entry(window.blocks, request));
        }
    }

    private void blocks() {
        each("blocks", "scripts", script -> {
            Borrower borrower = new Borrower(Layout.parse(text(script, "layout")));
            borrower.claim(object(script, "grant"));
            List<Map<String, Object>> steps = list(script, "steps");
            if (steps.get(0).get("do").equals("given")) borrower.prefetch(number(object(script, "grant"), "clock"));
            for (Map<String, Object> step : steps) {
                int before = borrower.open.size();
                take(borrower, step, number(step, "clock"));
                Object wants = borrower.open.size() > before ? widened(borrower.open.get(before).getValue().fields()) : null;
                assertEquals(step.get("wants"), wants, () -> step.toString());
            }
        });
    }

    private static void take(Borrower borrower, Map<String, Object> step, long clock) {
        switch (text(step, "do")) {
            case "next":
                checkNext(borrower.window, step, clock);
                break;
            case "prefetch":
                borrower.prefetch(clock);
                break;
            case "given":
                Map.Entry<Blocks, Blocks.Request> answered = borrower.open.remove(0);
                assertEquals(number(step, "first"), answered.getValue().first);
                answered.getKey().given(answered.getValue(), answered.getKey().read(answered.getValue(), step));
                break;
            case "silent":
                Map.Entry<Blocks, Blocks.Request> lost = borrower.open.remove(0);
                lost.getKey().failed(lost.getValue(), over());
                break;
            case "renewed":
                borrower.window.renewed(number(step, "from"), number(step, "until"));
                break;
            case "granted":
                borrower.claim(step);
                break;
            case "lost":
            case "close":
                borrower.window.end(Vectors::over);
                break;
            default:
                throw new IllegalArgumentException(step.toString());
        }
    }

    private static Map<String, Object> usage(Window.Usage used, boolean isEnd) {
        Map<String, Object> usage = new LinkedHashMap<>();
        if (isEnd) usage.put("until", used.until);
        if (used.timestamp >= 0) {
            usage.put("lastTimestamp", used.timestamp);
            usage.put("lastSequence", used.sequence);
        }
        return usage;
    }
}
