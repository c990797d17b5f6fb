package io.snowlease;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON of bounded depth. Reading throws IllegalArgumentException for whatever is not JSON. */
final class Json {
    private static final int DEEPEST = 32;
    private static final int LONGEST_NUMBER = 32;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** An object: of strings, Long (whole numbers that fit), Double (other numbers), Boolean, null, lists and objects. */
    static Map<String, Object> readObject(byte[] bytes) {
        Object value = read(bytes);
        if (!(value instanceof Map)) throw new IllegalArgumentException("no JSON object");
        Map<String, Object> object = new LinkedHashMap<>();
        ((Map<?, ?>) value).forEach((name, member) -> object.put((String) name, member));
        return object;
    }

    static Object read(byte[] bytes) {
        Json json;
        try {
            json = new Json(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
        } catch (CharacterCodingException cause) {
            throw new IllegalArgumentException("not UTF-8");
        }
        Object value = json.value(0);
        json.skipSpace();
        if (json.at < json.text.length()) throw json.wrong();
        return value;
    }

    /** An object as text: of strings, numbers, booleans, and lists of them. */
    static String write(Map<String, Object> object) {
        StringBuilder out = new StringBuilder();
        write(out, object);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map) {
            String before = "{";
            for (Map.Entry<?, ?> member : ((Map<?, ?>) value).entrySet()) {
                out.append(before);
                write(out, member.getKey());
                out.append(':');
                write(out, member.getValue());
                before = ",";
            }
            out.append(before.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            String before = "[";
            for (Object item : (List<?>) value) {
                out.append(before);
                write(out, item);
                before = ",";
            }
            out.append(before.equals("[") ? "[]" : "]");
        } else if (value instanceof String) {
            out.append('"');
            for (char c : ((String) value).toCharArray()) {
                // All but ASCII is escaped, so that a lone surrogate does no harm.
                if (c == '"' || c == '\\') out.append('\\').append(c);
                else if (c >= ' ' && c <= '~') out.append(c);
                else out.append(String.format("\\u%04x", (int) c));
            }
            out.append('"');
        } else {
            out.append(value);
        }
    }

    private Object value(int depth) {
        if (depth > DEEPEST) throw new IllegalArgumentException("JSON of more than " + DEEPEST + " levels");
        skipSpace();
        switch (peek()) {
            case '{':
                return object(depth);
            case '[':
                return list(depth);
            case '"':
                return string();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> members = new LinkedHashMap<>();
        at++;
        skipSpace();
        if (skip('}')) return members;
        do {
            skipSpace();
            if (peek() != '"') throw wrong();
            String name = string();
            skipSpace();
            if (!skip(':')) throw wrong();
            if (members.containsKey(name)) throw new IllegalArgumentException("JSON with a name twice");
            members.put(name, value(depth + 1));
            skipSpace();
        } while (skip(','));
        if (!skip('}')) throw wrong();
        return members;
    }

    private List<Object> list(int depth) {
        List<Object> items = new ArrayList<>();
        at++;
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
        at++;
        for (;;) {
            char c = peek();
            at++;
            if (c == '"') return out.toString();
            if (c < ' ') throw wrong();
            out.append(c == '\\' ? escaped() : c);
        }
    }

    private char escaped() {
        char c = peek();
        at++;
        int simple = "\"\\/bfnrt".indexOf(c);
        if (simple >= 0) return "\"\\/\b\f\n\r\t".charAt(simple);
        if (c != 'u' || at + 4 > text.length()) throw wrong();
        int code = 0;
        for (int end = at + 4; at < end; at++) {
            int digit = "0123456789abcdef".indexOf(Character.toLowerCase(text.charAt(at)));
            if (digit < 0) throw wrong();
            code = code * 16 + digit;
        }
        return (char) code;
    }

    private Object number() {
        int begin = at;
        while (at < text.length() && "+-.0123456789Ee".indexOf(text.charAt(at)) >= 0) at++;
        String digits = text.substring(begin, at);
        if (digits.length() > LONGEST_NUMBER || !digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) throw wrong();
        if (digits.matches("-?[0-9]{1,18}")) return Long.parseLong(digits);
        return Double.parseDouble(digits);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) throw wrong();
        at += word.length();
        return value;
    }

    private boolean skip(char c) {
        if (at >= text.length() || text.charAt(at) != c) return false;
        at++;
        return true;
    }

    private void skipSpace() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) at++;
    }

    private char peek() {
        if (at >= text.length()) throw wrong();
        return text.charAt(at);
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("no JSON at character " + at);
    }
}
