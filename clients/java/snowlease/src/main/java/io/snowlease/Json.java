package io.snowlease;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** JSON of bounded depth. Reading throws IllegalArgumentException for whatever is not JSON. */
final class Json {
    private static final int DEEPEST = 32;
    private static final Pattern NUMBER = Pattern.compile("-?(?:0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?");

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Objects as maps, lists, strings, Long for whole numbers that fit, Double for others, Boolean and null. */
    static Object read(byte[] bytes) {
        Json json;
        try {
            json = new Json(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
        } catch (CharacterCodingException cause) {
            throw new IllegalArgumentException("it is not UTF-8");
        }
        Object value = json.value(0);
        json.skipSpace();
        if (json.at < json.text.length()) throw json.wrong();
        return value;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> readObject(byte[] bytes) {
        Object value = read(bytes);
        if (!(value instanceof Map)) throw new IllegalArgumentException("it is no JSON object");
        return (Map<String, Object>) value;
    }

    /** A value as text: of maps, lists, strings, numbers and booleans. */
    static String write(Object value) {
        List<String> parts = new ArrayList<>();
        if (value instanceof Map) {
            ((Map<?, ?>) value).forEach((name, member) -> parts.add(write(name) + ":" + write(member)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof List) {
            ((List<?>) value).forEach(item -> parts.add(write(item)));
            return "[" + String.join(",", parts) + "]";
        }
        if (!(value instanceof String)) return String.valueOf(value);
        StringBuilder out = new StringBuilder("\"");
        for (char c : ((String) value).toCharArray()) {
            // All but ASCII is escaped, so that a lone surrogate does no harm.
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c >= ' ' && c <= '~') out.append(c);
            else out.append(String.format("\\u%04x", (int) c));
        }
        return out.append('"').toString();
    }

    private Object value(int depth) {
        if (depth > DEEPEST) throw new IllegalArgumentException("its JSON has more than " + DEEPEST + " levels");
        skipSpace();
        if (skip('{')) return object(depth);
        if (skip('[')) return list(depth);
        if (skip('"')) return string();
        if (skipWord("true")) return true;
        if (skipWord("false")) return false;
        if (skipWord("null")) return null;
        return number();
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> members = new LinkedHashMap<>();
        skipSpace();
        if (skip('}')) return members;
        do {
            skipSpace();
            if (!skip('"')) throw wrong();
            String name = string();
            skipSpace();
            if (!skip(':')) throw wrong();
            members.put(name, value(depth + 1));
            skipSpace();
        } while (skip(','));
        if (!skip('}')) throw wrong();
        return members;
    }

    private List<Object> list(int depth) {
        List<Object> items = new ArrayList<>();
        skipSpace();
        if (skip(']')) return items;
        do {
            items.add(value(depth + 1));
            skipSpace();
        } while (skip(','));
        if (!skip(']')) throw wrong();
        return items;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        while (!skip('"')) {
            if (at >= text.length() || text.charAt(at) < ' ') throw wrong();
            char c = text.charAt(at++);
            out.append(c == '\\' ? escaped() : c);
        }
        return out.toString();
    }

    private char escaped() {
        if (at >= text.length()) throw wrong();
        char c = text.charAt(at++);
        int simple = "\"\\/bfnrt".indexOf(c);
        if (simple >= 0) return "\"\\/\b\f\n\r\t".charAt(simple);
        if (c != 'u' || at + 4 > text.length() || !text.substring(at, at + 4).matches("[0-9A-Fa-f]{4}")) throw wrong();
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 4, at), 16);
    }

    private Object number() {
        Matcher match = NUMBER.matcher(text).region(at, text.length());
        if (!match.lookingAt()) throw wrong();
        at = match.end();
        boolean isWhole = match.group(1) == null && match.group(2) == null && match.group().length() <= 18;
        return isWhole ? (Object) Long.valueOf(match.group()) : (Object) Double.valueOf(match.group());
    }

    private boolean skip(char c) {
        if (at >= text.length() || text.charAt(at) != c) return false;
        at++;
        return true;
    }

    private boolean skipWord(String word) {
        if (!text.startsWith(word, at)) return false;
        at += word.length();
        return true;
    }

    private void skipSpace() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) at++;
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("it is no JSON at character " + at);
    }
}
