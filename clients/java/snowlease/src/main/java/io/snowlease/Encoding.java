package io.snowlease;

import static io.snowlease.SnowleaseException.expected;

import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Locale;

/** The text forms of an ID. Those whose name ends in SORT sort like numbers. */
public enum Encoding {
    DECIMAL("0123456789"),
    HEX("0123456789abcdef"),
    BASE36("0123456789abcdefghijklmnopqrstuvwxyz"),
    BASE62("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    CROCKFORD32("0123456789ABCDEFGHJKMNPQRSTVWXYZ"),
    BASE62SORT("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
    BASE64SORT("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"),
    /** No number in a base, but the ID's 8 bytes. */
    BASE64URL("");

    private static final int MOST_BITS = 63;
    private static final int LONGEST = 20;

    /** In ascending order. */
    private final String digits;

    Encoding(String digits) {
        this.digits = digits;
    }

    /** An ID, 0 to 2^63-1, as text without leading zeros, but for the forms that always have all digits. @throws SnowleaseException CONFIG_INVALID. */
    public String encode(long id) {
        return written(id, name().endsWith("SORT") ? MOST_BITS : 0);
    }

    /** The same, as wide as the largest ID of so many bits, 1 to 63. @throws SnowleaseException CONFIG_INVALID. */
    public String encodeFixed(long id, int bits) {
        Layout.within("bits", bits, 1, MOST_BITS);
        return written(id, bits);
    }

    /** The ID of a text that {@code encode} writes: no signs, spaces, other case or look-alikes. @throws SnowleaseException CONFIG_INVALID. */
    public long decode(String text) {
        return decode(text, MOST_BITS);
    }

    /** The same, of a text that {@code encode} or {@code encodeFixed} writes. @throws SnowleaseException CONFIG_INVALID for any other one. */
    public long decode(String text, int bits) {
        long id = -1;
        // The length first: a hostile megabyte costs no more than a typing error.
        if (text != null && !text.isEmpty() && text.length() <= LONGEST) id = this == BASE64URL ? bytes(text) : number(text);
        if (id >= 0 && (text.equals(encode(id)) || text.equals(encodeFixed(id, bits)))) return id;
        throw expected(name().toLowerCase(Locale.ROOT) + " text", "to be what `encode` writes", text);
    }

    private long number(String text) {
        long id = 0;
        for (int at = 0; at < text.length(); at++) {
            int digit = digits.indexOf(text.charAt(at));
            // Compared before it is multiplied, so that it does not overflow.
            if (digit < 0 || id > (Long.MAX_VALUE - digit) / digits.length()) return -1;
            id = id * digits.length() + digit;
        }
        return id;
    }

    private static long bytes(String text) {
        try {
            byte[] bytes = Base64.getUrlDecoder().decode(text);
            return bytes.length == Long.BYTES ? ByteBuffer.wrap(bytes).getLong() : -1;
        } catch (IllegalArgumentException cause) {
            return -1;
        }
    }

    private String written(long id, int bits) {
        Layout.within("id", id, 0, Long.MAX_VALUE);
        if (this == BASE64URL) return Base64.getUrlEncoder().encodeToString(ByteBuffer.allocate(Long.BYTES).putLong(id).array());
        String text = digitsOf(id);
        int width = bits == 0 ? 0 : digitsOf(Long.MAX_VALUE >>> MOST_BITS - bits).length();
        return digits.substring(0, 1).repeat(Math.max(0, width - text.length())) + text;
    }

    private String digitsOf(long id) {
        StringBuilder text = new StringBuilder();
        long rest = id;
        do {
            text.append(digits.charAt((int) (rest % digits.length())));
            rest /= digits.length();
        } while (rest > 0);
        return text.reverse().toString();
    }
}
