package io.snowlease;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;

/** A daemon that answers as a test says, to be hostile in ways that a real one is not. */
final class FakeDaemon implements AutoCloseable {
    static final String LAYOUT = "timestamp:41,worker:10,sequence:12@1490346283706/1";

    static final class Request {
        final String method;
        final String path;
        /** null: none. */
        final String receipt;
        final String authorization;
        final Map<String, Object> body;

        Request(String head, byte[] body) {
            String[] line = head.split(" ", 3);
            method = line[0];
            path = line[1];
            receipt = header(head, "snowlease-receipt");
            authorization = header(head, "authorization");
            this.body = body.length == 0 ? Map.of() : Json.readObject(body);
        }

        boolean isRelease() {
            return path.endsWith("/release");
        }

        boolean isBlocks() {
            return path.endsWith("/blocks");
        }

        boolean isClaim() {
            return path.endsWith("/leases");
        }

        private static String header(String head, String name) {
            for (String line : head.split("\r\n")) {
                if (line.regionMatches(true, 0, name + ": ", 0, name.length() + 2)) return line.substring(name.length() + 2);
            }
            return null;
        }
    }

    /** What is sent: whole, or byte by byte. An empty one closes the connection. */
    static final class Answer {
        final byte[] bytes;
        final boolean isSlow;

        Answer(byte[] bytes, boolean isSlow) {
            this.bytes = bytes;
            this.isSlow = isSlow;
        }
    }

    final List<Request> requests = new CopyOnWriteArrayList<>();
    volatile Function<Request, Answer> answer = FakeDaemon::granted;
    private final ServerSocket server;
    private final CountDownLatch over = new CountDownLatch(1);

    FakeDaemon() {
        try {
            server = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        } catch (IOException cause) {
            throw new IllegalStateException(cause);
        }
        inBackground(() -> {
            while (over.getCount() > 0) {
                Socket socket = server.accept();
                inBackground(() -> serve(socket));
            }
        });
    }

    String url() {
        return "http://127.0.0.1:" + server.getLocalPort();
    }

    List<Request> of(String method) {
        return requests.stream().filter(request -> request.method.equals(method)).collect(Collectors.toList());
    }

    List<Request> claims() {
        return requests.stream().filter(Request::isClaim).collect(Collectors.toList());
    }

    List<Request> blocks() {
        return requests.stream().filter(Request::isBlocks).collect(Collectors.toList());
    }

    List<Request> releases() {
        return requests.stream().filter(Request::isRelease).collect(Collectors.toList());
    }

    @Override
    public void close() throws IOException {
        over.countDown();
        server.close();
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void inBackground(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception cause) {
                // The client has gone, or the test is over.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void serve(Socket socket) throws Exception {
        try (socket) {
            InputStream in = socket.getInputStream();
            ByteArrayOutputStream head = new ByteArrayOutputStream();
            while (!head.toString(StandardCharsets.ISO_8859_1).endsWith("\r\n\r\n")) {
                int next = in.read();
                if (next < 0) return;
                head.write(next);
            }
            String text = head.toString(StandardCharsets.ISO_8859_1);
            String length = Request.header(text, "content-length");
            Request request = new Request(text, in.readNBytes(length == null ? 0 : Integer.parseInt(length)));
            requests.add(request);
            Answer given = answer.apply(request);
            OutputStream out = socket.getOutputStream();
            if (!given.isSlow) out.write(given.bytes);
            for (int at = 0; given.isSlow && at < given.bytes.length && over.getCount() > 0; at++) {
                out.write(given.bytes[at]);
                out.flush();
                over.await(20, TimeUnit.MILLISECONDS);
            }
            out.flush();
        }
    }

    static Answer raw(String text) {
        return new Answer(text.getBytes(StandardCharsets.ISO_8859_1), false);
    }

    static Answer slow(String text) {
        return new Answer(text.getBytes(StandardCharsets.ISO_8859_1), true);
    }

    static Answer silent() {
        return raw("");
    }

    static Answer json(int status, Map<String, Object> body, String receipt) {
        String text = Json.write(body);
        String sent = receipt == null ? "" : "snowlease-receipt: " + receipt + "\r\n";
        return raw("HTTP/1.1 " + status + " X\r\nconnection: close\r\n" + sent + "content-length: " + text.length() + "\r\n\r\n" + text);
    }

    static Answer refused(int status, String code) {
        return refused(status, code, Map.of());
    }

    static Answer refused(int status, String code, Map<String, Object> other) {
        Map<String, Object> body = new LinkedHashMap<>(Map.of("title", "X", "status", status, "detail", "No.", "code", code));
        body.putAll(other);
        return json(status, body, null);
    }

    /** What a daemon answers where nothing is wrong. */
    static Answer granted(Request request) {
        return granted(request, Map.of());
    }

    static Answer granted(Request request, Map<String, Object> other) {
        long now = System.currentTimeMillis();
        Map<String, Object> body = new LinkedHashMap<>();
        body.put("from", now - 10_000);
        body.put("until", now + 60_000);
        body.put("clock", now);
        body.put("renewAfterMs", 20_000);
        if (request.method.equals("GET")) return json(200, Map.of("id", "one"), null);
        if (request.isRelease()) return raw("HTTP/1.1 204 X\r\nconnection: close\r\n\r\n");
        if (request.method.equals("PATCH")) {
            body.put("turn", request.body.get("nextTurn"));
            body.putAll(other);
            return json(200, body, "renewed");
        }
        body.putAll(Map.of("workerId", 7, "fence", 1, "token", request.body.get("token"), "layout", LAYOUT));
        body.putAll(other);
        return json(201, body, "granted");
    }
}
