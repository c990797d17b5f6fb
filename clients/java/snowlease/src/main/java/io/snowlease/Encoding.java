package io.snowlease;

import static io.snowlease.SnowleaseException.expected;

import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Locale;

/** The text forms of an ID. Those whose name ends in SORT sort like numbers. */
public enum Encoding {
    DECIMAL(Digits.TEN),
    HEX(Digits.TEN + "abcdef"),
    BASE36(Digits.TEN + Digits.LOWER),
    BASE62(Digits.TEN + Digits.LOWER + Digits.UPPER),
    /** The ID's 8 bytes. */
    BASE64URL(Digits.UPPER + Digits.LOWER + Digits.TEN + "-_"),
    CROCKFORD32("0123456789ABCDEFGHJKMNPQRSTVWXYZ"),
    BASE62SORT(Digits.TEN + Digits.UPPER + Digits.LOWER),
    BASE64SORT("-" + Digits.TEN + Digits.UPPER + "_" + Digits.LOWER);

    private static final class Digits {
        static final String TEN = "0123456789";
        static final String LOWER = "abcdefghijklmnopqrstuvwxyz";
        static final String UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    }

    private static final int MOST_BITS = 63;
    private static final int BASE64URL_LENGTH = 12;

    private final String digits;

    Encoding(String digits) {
        this.digits = digits;
    }

    /** An ID, 0 to 2^63-1, as text without leading zeros. @throws SnowleaseException CONFIG_INVALID. */
    public String encode(long id) {
        return encode(id, false, MOST_BITS);
    }

    /**
     * An ID as text.
     *
     * @param fixed with leading zeros up to the width of the largest ID.
     * @param bits of the largest ID, 1 to 63.
     * @throws SnowleaseException CONFIG_INVALID.
     */
    public String encode(long id, boolean fixed, int bits) {
        Layout.within("id", id, 0, largest(bits));
        if (this == BASE64URL) return Base64.getUrlEncoder().encodeToString(ByteBuffer.allocate(Long.BYTES).putLong(id).array());
        String text = written(id);
        if (fixed) return padded(text, width(bits));
        return isWide() ? padded(text, width(MOST_BITS)) : text;
    }

    /** The ID of a text that {@link #encode(long)} writes. @throws SnowleaseException CONFIG_INVALID for any other text. */
    public long decode(String text) {
        return decode(text, MOST_BITS);
    }

    /**
     * The ID of a text that {@code encode} writes: without signs, spaces, other case or look-alikes.
     *
     * @param bits of the largest ID, 1 to 63.
     * @throws SnowleaseException CONFIG_INVALID for any other text.
     */
    public long decode(String text, int bits) {
        long largest = largest(bits);
        if (this == BASE64URL) return decodeBytes(text, bits);
        int longest = width(isWide() ? MOST_BITS : bits);
        int fixed = width(bits);
        // The length first: a hostile megabyte costs no more than a typing error.
        if (text == null || text.isEmpty() || text.length() > longest) {
            throw wrong("to be a string of 1 to " + longest + " characters", text);
        }
        if (isWide() && text.length() != longest && text.length() != fixed) {
            throw wrong("to have " + fixed + " or " + longest + " characters", text);
        }
        if (!isWide() && text.length() > 1 && text.length() < fixed && text.charAt(0) == digits.charAt(0)) {
            throw wrong("to have no leading zeros unless they fill it up to " + fixed + " characters", text);
        }
        long id = 0;
        for (int at = 0; at < text.length(); at++) {
            int digit = digits.indexOf(text.charAt(at));
            if (digit < 0) throw wrong("to have no characters but `" + digits + "`", text);
            // Compared before it is multiplied, so that it does not overflow.
            if (id > (largest - digit) / digits.length()) throw wrong("to be at most 2^" + bits + "-1", text);
            id = id * digits.length() + digit;
        }
        return id;
    }

    private long decodeBytes(String text, int bits) {
        if (text != null && text.length() == BASE64URL_LENGTH && text.endsWith("=")) {
            try {
                long id = ByteBuffer.wrap(Base64.getUrlDecoder().decode(text)).getLong();
                if (id >= 0 && id <= largest(bits) && encode(id).equals(text)) return id;
            } catch (IllegalArgumentException cause) {
                // Not base64url: as wrong as all others.
            }
        }
        throw wrong("to be 11 characters of base64url and `=`, at most 2^" + bits + "-1", text);
    }

    private SnowleaseException wrong(String rule, String text) {
        return expected(name().toLowerCase(Locale.ROOT) + " text", rule, text);
    }

    /** Always written with all digits. */
    private boolean isWide() {
        return this == BASE62SORT || this == BASE64SORT;
    }

    private String written(long id) {
        if (this == DECIMAL) return Long.toString(id);
        StringBuilder text = new StringBuilder();
        long rest = id;
        do {
            text.append(digits.charAt((int) (rest % digits.length())));
            rest /= digits.length();
        } while (rest > 0);
        return text.reverse().toString();
    }

    private String padded(String text, int width) {
        return digits.substring(0, 1).repeat(Math.max(0, width - text.length())) + text;
    }

    private int width(int bits) {
        return written(largest(bits)).length();
    }

    private static long largest(int bits) {
        return Long.MAX_VALUE >>> MOST_BITS - Layout.within("bits", bits, 1, MOST_BITS);
    }
}
