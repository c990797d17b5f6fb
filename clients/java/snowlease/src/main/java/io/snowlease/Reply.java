package io.snowlease;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** An answer over HTTP/1.1 of bounded size. */
final class Reply {
    /** Of the whole answer, bytes. */
    private static final int LONGEST = 256 * 1024;
    private static final int LONGEST_LINE = 16 * 1024;
    private static final Pattern STATUS = Pattern.compile("HTTP/1\\.[01] ([1-5][0-9][0-9])(?: .*)?");
    private static final Pattern LENGTH = Pattern.compile("[0-9]{1,9}");
    private static final Pattern CHUNK = Pattern.compile("([0-9a-fA-F]{1,7})[ \\t]*(?:;.*)?");
    private static final int FIRST_FINAL = 200;
    private static final int NO_CONTENT = 204;
    private static final int NOT_MODIFIED = 304;

    final int status;
    final byte[] body;
    private final Map<String, String> headers;

    private Reply(int status, Map<String, String> headers, byte[] body) {
        this.status = status;
        this.headers = headers;
        this.body = body;
    }

    /** The value of a header, by its lower-case name; null: there is none. */
    String header(String name) {
        return headers.get(name);
    }

    /** Reads an answer. @throws IOException where it is none. */
    static Reply read(InputStream in) throws IOException {
        return new Reader(in).read();
    }

    private static final class Reader {
        private final InputStream in;
        private final byte[] buffer = new byte[8 * 1024];
        private int at;
        private int end;
        private int read;

        Reader(InputStream in) {
            this.in = in;
        }

        Reply read() throws IOException {
            for (;;) {
                Matcher match = STATUS.matcher(line());
                if (!match.matches()) throw new IOException("its answer is no HTTP/1.1");
                int status = Integer.parseInt(match.group(1));
                Map<String, String> headers = headers();
                if (status >= FIRST_FINAL) return new Reply(status, headers, body(status, headers));
            }
        }

        private Map<String, String> headers() throws IOException {
            Map<String, String> headers = new HashMap<>();
            for (;;) {
                String line = line();
                if (line.isEmpty()) return headers;
                int colon = line.indexOf(':');
                if (colon < 1) throw new IOException("its answer has a wrong header");
                String name = line.substring(0, colon).toLowerCase(Locale.ROOT);
                String value = line.substring(colon + 1).trim();
                String before = headers.put(name, value);
                if (name.equals("content-length") && before != null && !before.equals(value)) throw new IOException("its answer has two lengths");
            }
        }

        private byte[] body(int status, Map<String, String> headers) throws IOException {
            ByteArrayOutputStream body = new ByteArrayOutputStream();
            String coding = headers.get("transfer-encoding");
            String length = headers.get("content-length");
            if (status == NO_CONTENT || status == NOT_MODIFIED) return body.toByteArray();
            if (coding != null) {
                if (!coding.equalsIgnoreCase("chunked")) throw new IOException("its answer has an unknown encoding");
                chunks(body);
            } else if (length != null) {
                if (!LENGTH.matcher(length).matches()) throw new IOException("its answer has a wrong length");
                copy(body, Integer.parseInt(length));
            } else {
                while (fill()) copy(body, end - at);
            }
            return body.toByteArray();
        }

        private void chunks(ByteArrayOutputStream body) throws IOException {
            for (;;) {
                Matcher match = CHUNK.matcher(line());
                if (!match.matches()) throw new IOException("its answer has a wrong chunk");
                int size = Integer.parseInt(match.group(1), 16);
                if (size == 0) break;
                copy(body, size);
                if (!line().isEmpty()) throw new IOException("its answer has a wrong chunk");
            }
            headers();
        }

        private void copy(ByteArrayOutputStream body, int count) throws IOException {
            for (int left = count; left > 0; ) {
                if (!fill()) throw new IOException("its answer is cut off");
                int part = Math.min(left, end - at);
                body.write(buffer, at, part);
                at += part;
                left -= part;
            }
        }

        private String line() throws IOException {
            StringBuilder line = new StringBuilder();
            for (;;) {
                if (!fill()) throw new IOException(read == 0 ? "it closed the connection" : "its answer is cut off");
                char c = (char) (buffer[at++] & 0xff);
                if (c == '\n') break;
                line.append(c);
                if (line.length() > LONGEST_LINE) throw new IOException("its answer has a line of more than " + LONGEST_LINE + " bytes");
            }
            int last = line.length() - 1;
            if (last >= 0 && line.charAt(last) == '\r') line.setLength(last);
            return line.toString();
        }

        /** Whether there are more bytes. */
        private boolean fill() throws IOException {
            if (at < end) return true;
            at = 0;
            end = Math.max(0, in.read(buffer));
            read += end;
            if (read > LONGEST) throw new IOException("its answer has more than " + LONGEST + " bytes");
            return end > 0;
        }
    }

    /** The body as text, for messages. */
    @Override
    public String toString() {
        return status + " " + new String(body, StandardCharsets.ISO_8859_1);
    }
}
