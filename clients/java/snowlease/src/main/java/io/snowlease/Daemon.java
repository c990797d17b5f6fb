package io.snowlease;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import javax.net.ssl.SSLSocketFactory;

/** One address of a daemon. Each request has a connection of its own. */
final class Daemon {
    /** Without user and password. */
    final String shown;
    /** Of the URL: it takes the place of a token; null: none. */
    final String login;
    private final String host;
    private final int port;
    private final String hostHeader;
    private final String path;
    private final SSLSocketFactory tls;

    private Daemon(String shown, String login, String host, int port, String hostHeader, String path, SSLSocketFactory tls) {
        this.shown = shown;
        this.login = login;
        this.host = host;
        this.port = port;
        this.hostHeader = hostHeader;
        this.path = path;
        this.tls = tls;
    }

    /**
     * @param user {@code user:password}, decoded; null: none.
     * @param authority host and port as they are written.
     * @param path before each request's own.
     * @param tls null: none.
     */
    static Daemon atHost(String shown, String user, String host, int port, String authority, String path, SSLSocketFactory tls) {
        String login = user == null ? null : "Basic " + Base64.getEncoder().encodeToString(user.getBytes(StandardCharsets.UTF_8));
        return new Daemon(shown, login, host, port, authority, path, tls);
    }

    static Daemon atSocket(String path) {
        Connection.unixAddress(path);
        return new Daemon("unix:" + path, null, null, 0, "localhost", path, null);
    }

    /** One request. @param body JSON; null: none. @param deadline on {@code System.nanoTime()}. */
    Reply ask(String method, String resource, String body, Map<String, String> headers, long deadline) throws IOException {
        byte[] sent = body == null ? new byte[0] : body.getBytes(StandardCharsets.UTF_8);
        Map<String, String> all = new LinkedHashMap<>();
        all.put("host", hostHeader);
        all.put("connection", "close");
        all.put("accept", "application/json");
        all.putAll(headers);
        if (body != null) {
            all.put("content-type", "application/json");
            all.put("content-length", String.valueOf(sent.length));
        }
        StringBuilder head = new StringBuilder(method + " " + (host == null ? "" : path) + resource + " HTTP/1.1\r\n");
        all.forEach((name, value) -> head.append(name).append(": ").append(value).append("\r\n"));
        byte[] line = head.append("\r\n").toString().getBytes(StandardCharsets.US_ASCII);
        byte[] request = new byte[line.length + sent.length];
        System.arraycopy(line, 0, request, 0, line.length);
        System.arraycopy(sent, 0, request, line.length, sent.length);
        try (Connection connection =
                host == null ? Connection.toSocket(path, deadline) : Connection.toHost(host, port, tls, deadline)) {
            try {
                OutputStream out = connection.out();
                out.write(request);
                out.flush();
                return Reply.read(connection.in());
            } catch (IOException cause) {
                throw connection.said(cause);
            }
        }
    }
}
