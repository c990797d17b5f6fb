package io.snowlease;

import static io.snowlease.SnowleaseException.expected;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;

/** A registry URL, taken apart. */
final class Registry {
    private static final Set<String> SETTINGS = Set.of("namespace", "token", "borrow", "tlsCa", "tlsCert", "tlsKey");
    private static final Pattern BLANK = Pattern.compile("[\\x00-\\x20\\x7f#]");
    private static final Pattern ADDRESS =
            Pattern.compile("(https?)://(?:([^/]*)@)?(\\[[0-9A-Fa-f:.]+\\]|[^:/@\\[\\]\\\\]+)(?::([0-9]{1,5}))?(/[^\\\\]*)?");
    private static final Pattern ASCII = Pattern.compile("\\p{ASCII}*");
    private static final Pattern KEY =
            Pattern.compile("-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END PRIVATE KEY-----");
    /** What fits {@code sun_path} on Linux with its closing 0, bytes. */
    private static final int LONGEST_SOCKET_PATH = 107;
    private static final int LAST_PORT = 65_535;

    final List<Daemon> daemons;
    /** From the URL's query: {@code namespace}, {@code token}, {@code borrow}. */
    final Map<String, String> settings;

    private Registry(List<Daemon> daemons, Map<String, String> settings) {
        this.daemons = daemons;
        this.settings = settings;
    }

    /**
     * Reads {@code http://HOST:PORT} or {@code https://…}, several of them separated by commas, or {@code unix:PATH}. Its query takes
     * {@code namespace}, {@code token} and {@code borrow}, and with https {@code tlsCa}, {@code tlsCert} and {@code tlsKey}: PEM files.
     *
     * @throws SnowleaseException CONFIG_INVALID.
     */
    static Registry parse(String text) {
        int colon = text.indexOf(':');
        String scheme = colon < 0 ? "" : text.substring(0, colon).toLowerCase(Locale.ROOT);
        if (!Set.of("http", "https", "unix").contains(scheme)) {
            throw invalid("to be a daemon's: http://HOST:PORT, https://HOST:PORT or unix:PATH", text);
        }
        if (BLANK.matcher(text).find()) throw invalid("to have no spaces, control characters or `#`", text);
        int mark = text.indexOf('?');
        String body = text.substring(colon + 1, mark < 0 ? text.length() : mark);
        Map<String, String> settings = settingsOf(mark < 0 ? "" : text.substring(mark + 1), text);
        String[] files = {settings.remove("tlsCa"), settings.remove("tlsCert"), settings.remove("tlsKey")};
        boolean hasFiles = files[0] != null || files[1] != null || files[2] != null;
        if (scheme.equals("unix")) return new Registry(List.of(atSocket(body, hasFiles, text)), settings);
        String[] parts = (scheme + ":" + body).split(",", -1);
        boolean isSecure = false;
        for (int at = 0; at < parts.length; at++) {
            if (!parts[at].contains("://")) parts[at] = scheme + "://" + parts[at];
            isSecure |= parts[at].startsWith("https:");
        }
        if (hasFiles && !isSecure) throw invalid("to name certificates only with https:", text);
        SSLSocketFactory tls = isSecure ? tlsOf(files) : null;
        List<Daemon> daemons = new ArrayList<>();
        for (String part : parts) daemons.add(atHost(part, tls, text));
        return new Registry(daemons, settings);
    }

    private static Map<String, String> settingsOf(String query, String text) {
        Map<String, String> settings = new HashMap<>();
        if (query.isEmpty()) return settings;
        for (String pair : query.split("&", -1)) {
            int equals = pair.indexOf('=');
            String name = equals < 0 ? "" : pair.substring(0, equals);
            if (!SETTINGS.contains(name) || settings.put(name, decoded(pair.substring(equals + 1), text)) != null) {
                throw invalid("to have in its query only namespace, token, borrow, tlsCa, tlsCert and tlsKey, each once", text);
            }
        }
        return settings;
    }

    private static Daemon atSocket(String body, boolean hasFiles, String text) {
        String path = decoded(body.startsWith("///") ? body.substring(2) : body, text);
        boolean isPath = !path.isEmpty() && !path.equals("/") && !path.startsWith("//") && !path.startsWith("~") && path.indexOf(0) < 0;
        if (!isPath || hasFiles || path.getBytes(StandardCharsets.UTF_8).length > LONGEST_SOCKET_PATH) {
            throw invalid("to be like unix:/run/snowlease.sock, with a path of at most " + LONGEST_SOCKET_PATH + " bytes", text);
        }
        return Daemon.atSocket(path);
    }

    private static Daemon atHost(String part, SSLSocketFactory tls, String text) {
        Matcher match = ADDRESS.matcher(part);
        boolean isAddress = match.matches() && ASCII.matcher(part).matches();
        boolean isSecure = isAddress && match.group(1).equals("https");
        int port = !isAddress ? 0 : match.group(4) == null ? (isSecure ? 443 : 80) : Integer.parseInt(match.group(4));
        if (port < 1 || port > LAST_PORT) throw invalid("to be a list of addresses like http://HOST:PORT, separated by commas", text);
        String authority = match.group(3) + (match.group(4) == null ? "" : ":" + port);
        String path = match.group(5) == null ? "" : match.group(5).replaceAll("/+$", "");
        String user = match.group(2) == null ? null : decoded(match.group(2), text);
        String shown = match.group(1) + "://" + (user == null ? "" : "***@") + authority + path;
        String login = user == null || user.contains(":") ? user : user + ":";
        String host = match.group(3).replaceAll("[\\[\\]]", "");
        return Daemon.atHost(shown, login, host, port, authority, path, isSecure ? tls : null);
    }

    /** Text with its percent-encoded bytes decoded. */
    private static String decoded(String value, String text) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int at = 0; at < value.length(); ) {
            int code = value.codePointAt(at);
            at += Character.charCount(code);
            if (code != '%') {
                bytes.writeBytes(Character.toString(code).getBytes(StandardCharsets.UTF_8));
                continue;
            }
            String digits = value.substring(at, Math.min(value.length(), at + 2));
            if (!digits.matches("[0-9A-Fa-f]{2}")) throw invalid("to have two hex digits behind each `%`", text);
            bytes.write(Integer.parseInt(digits, 16));
            at += 2;
        }
        return bytes.toString(StandardCharsets.UTF_8);
    }

    private static SnowleaseException invalid(String rule, String text) {
        // All up to the last `@` may be a password, and so may the query.
        String clean = text.replaceAll("(?s)^(\\w*:/*)?.*@", "$1***@");
        int mark = clean.indexOf('?');
        return expected("registry", rule, mark < 0 ? clean : clean.substring(0, mark));
    }

    private static SSLSocketFactory tlsOf(String[] files) {
        try {
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(keysOf(files[1], files[2]), trustOf(files[0]), null);
            return context.getSocketFactory();
        } catch (IOException | GeneralSecurityException | InvalidPathException cause) {
            String named = (files[0] == null ? "" : "`tlsCa` ") + (files[1] == null ? "" : "`tlsCert` ") + (files[2] == null ? "" : "`tlsKey` ");
            throw SnowleaseException.invalid("Expected " + named + "to be PEM files that belong together, the key in PKCS #8: "
                    + cause.getClass().getSimpleName() + ": " + cause.getMessage() + ".");
        }
    }

    private static TrustManager[] trustOf(String file) throws IOException, GeneralSecurityException {
        if (file == null) return null;
        KeyStore store = emptyStore();
        for (Certificate certificate : certificatesOf(file)) store.setCertificateEntry("ca-" + store.size(), certificate);
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        return factory.getTrustManagers();
    }

    private static KeyManager[] keysOf(String certificateFile, String keyFile) throws IOException, GeneralSecurityException {
        if (certificateFile == null && keyFile == null) return null;
        if (certificateFile == null) throw new IOException("a key without a certificate");
        // One file may have both.
        Matcher match = KEY.matcher(Files.readString(Paths.get(keyFile == null ? certificateFile : keyFile), StandardCharsets.ISO_8859_1));
        if (!match.find()) throw new IOException("no line `-----BEGIN PRIVATE KEY-----`; `openssl pkcs8 -topk8 -nodes` writes such keys");
        byte[] encoded = Base64.getMimeDecoder().decode(match.group(1));
        List<Certificate> chain = certificatesOf(certificateFile);
        PrivateKey key = keyOf(encoded, chain.get(0).getPublicKey().getAlgorithm());
        KeyStore store = emptyStore();
        store.setKeyEntry("own", key, new char[0], chain.toArray(new Certificate[0]));
        KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, new char[0]);
        return factory.getKeyManagers();
    }

    private static PrivateKey keyOf(byte[] encoded, String algorithm) throws GeneralSecurityException {
        try {
            return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(encoded));
        } catch (InvalidKeySpecException cause) {
            // Its message may have parts of the key.
            throw new GeneralSecurityException("the key is no " + algorithm + " key, as its certificate is");
        }
    }

    private static List<Certificate> certificatesOf(String file) throws IOException, GeneralSecurityException {
        byte[] bytes = Files.readAllBytes(Paths.get(file));
        List<Certificate> certificates =
                new ArrayList<>(CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(bytes)));
        if (certificates.isEmpty()) throw new IOException("no certificate in " + file);
        return certificates;
    }

    private static KeyStore emptyStore() throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }
}
