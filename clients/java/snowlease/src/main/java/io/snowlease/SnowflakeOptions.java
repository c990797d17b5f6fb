package io.snowlease;

import static io.snowlease.SnowleaseException.expected;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;

/** How a {@link Snowflake} leases its worker ID. Whatever is not set has its default. Nothing is checked before a Snowflake is made of it. */
public final class SnowflakeOptions {
    private static final Pattern NAMESPACE = Pattern.compile("[a-z][a-z0-9_]{0,31}");
    private static final Pattern TOKEN = Pattern.compile("[\\x21-\\x7e]{1,1024}");
    private static final Duration LONGEST = Duration.ofDays(1);
    private static final int LONGEST_NAME = 255;

    private String registry;
    private String namespace;
    private String token;
    private String layout;
    private Integer workerId;
    private Boolean borrow;
    private Duration window;
    private Duration claimTimeout = Duration.ZERO;
    private Duration operationTimeout = Duration.ofSeconds(5);
    private Duration maxWait = Duration.ofMillis(500);
    private String host;
    private String instance;
    private boolean closesAtExit = true;

    /** {@code http://HOST:PORT}, several with commas, {@code https://…}, {@code unix:PATH}. Default: the variable SNOWLEASE_REGISTRY. */
    public SnowflakeOptions registry(String value) {
        registry = value;
        return this;
    }

    /** Default: the registry's {@code ?namespace=}, then SNOWLEASE_NAMESPACE, then {@code default}. */
    public SnowflakeOptions namespace(String value) {
        namespace = value;
        return this;
    }

    /** For the daemon. Default: the registry's {@code ?token=}, then SNOWLEASE_TOKEN, then what is in the file SNOWLEASE_TOKEN_FILE. */
    public SnowflakeOptions token(String value) {
        token = value;
        return this;
    }

    /** A preset or a notation: {@link Layout#parse}. Default: the namespace's. */
    public SnowflakeOptions layout(String value) {
        layout = value;
        return this;
    }

    /** The only acceptable worker ID. Default: any that the registry has. */
    public SnowflakeOptions workerId(int value) {
        workerId = value;
        return this;
    }

    /** Whether to take blocks of the lease that a daemon with {@code --lend} lends. Default: the registry's {@code ?borrow=}, then false. */
    public SnowflakeOptions borrow(boolean value) {
        borrow = value;
        return this;
    }

    /** How far a lease reaches ahead, 3 ms to 1 day. Default: what the daemon is set to. */
    public SnowflakeOptions window(Duration value) {
        window = value;
        return this;
    }

    /** How long a claim waits for a free worker ID, up to 1 day. Default 0. */
    public SnowflakeOptions claimTimeout(Duration value) {
        claimTimeout = value;
        return this;
    }

    /** Of one operation, over all daemons, 1 ms to 1 day. Default 5 s. */
    public SnowflakeOptions operationTimeout(Duration value) {
        operationTimeout = value;
        return this;
    }

    /** How long {@code next} waits for the clock, for a renewal or for another worker ID, up to 1 day. Default 500 ms. */
    public SnowflakeOptions maxWait(Duration value) {
        maxWait = value;
        return this;
    }

    /** What the registry shows of this machine. Default: its name. */
    public SnowflakeOptions host(String value) {
        host = value;
        return this;
    }

    /** What the registry shows of this process. Default: nothing. */
    public SnowflakeOptions instance(String value) {
        instance = value;
        return this;
    }

    /**
     * Whether a shutdown hook closes the Snowflake. False where something else closes it at the end of the program, such as Spring: hooks run beside
     * each other, so that requests that are still served then would get no IDs. Default true.
     */
    public SnowflakeOptions closesAtExit(boolean value) {
        closesAtExit = value;
        return this;
    }

    /** The options, checked: what a holder needs. Immutable. */
    static final class Checked {
        final Transport transport;
        final String namespace;
        /** null: the namespace's. */
        final Layout layout;
        /** null: any. */
        final Integer workerId;
        final boolean isBorrower;
        /** ms; -1: the daemon's. */
        final long window;
        final long claimTimeout;
        final long operationTimeout;
        final long maxWait;
        /** null: the machine's name. */
        final String host;
        final String instance;
        final boolean closesAtExit;

        private Checked(SnowflakeOptions given, UnaryOperator<String> environment) {
            String url = given.registry != null ? given.registry : environment.apply("SNOWLEASE_REGISTRY");
            if (url == null || url.isEmpty()) {
                throw SnowleaseException.invalid("Expected a registry, got none: set the option `registry`, or the variable SNOWLEASE_REGISTRY.");
            }
            Registry registry = Registry.parse(url);
            namespace = first(given.namespace, registry.settings.get("namespace"), environment.apply("SNOWLEASE_NAMESPACE"), "default");
            if (!NAMESPACE.matcher(namespace).matches()) throw expected("namespace", "to match " + NAMESPACE, namespace);
            String token = first(given.token, registry.settings.get("token"), tokenOf(environment));
            if (token != null && !TOKEN.matcher(token).matches()) {
                throw SnowleaseException.invalid("Expected `token` to be 1 to 1024 visible ASCII characters, got another text.");
            }
            String borrow = registry.settings.getOrDefault("borrow", "false");
            if (!borrow.equals("true") && !borrow.equals("false")) throw expected("borrow", "to be true or false", borrow);
            isBorrower = given.borrow != null ? given.borrow : borrow.equals("true");
            layout = given.layout == null ? null : Layout.parse(given.layout);
            workerId = given.workerId;
            int highest = layout == null ? Integer.MAX_VALUE : layout.maxWorkerId;
            if (workerId != null) Layout.within("workerId", workerId, 0, highest);
            window = given.window == null ? -1 : within("window", given.window, 3).toMillis();
            claimTimeout = within("claimTimeout", given.claimTimeout, 0).toMillis();
            operationTimeout = within("operationTimeout", given.operationTimeout, 1).toMillis();
            maxWait = within("maxWait", given.maxWait, 0).toMillis();
            host = given.host == null ? null : shown("host", given.host);
            instance = shown("instance", given.instance == null ? "" : given.instance);
            closesAtExit = given.closesAtExit;
            transport = new Transport(registry.daemons, token, given.operationTimeout.toNanos());
        }
    }

    Checked check() {
        return check(System::getenv);
    }

    Checked check(UnaryOperator<String> environment) {
        return new Checked(this, environment);
    }

    private static String first(String... values) {
        for (String value : values) if (value != null && !value.isEmpty()) return value;
        return null;
    }

    private static String tokenOf(UnaryOperator<String> environment) {
        String token = environment.apply("SNOWLEASE_TOKEN");
        String file = environment.apply("SNOWLEASE_TOKEN_FILE");
        if (token != null && !token.isEmpty() || file == null || file.isEmpty()) return token;
        try {
            return Files.readString(Paths.get(file), StandardCharsets.US_ASCII).trim();
        } catch (IOException | InvalidPathException cause) {
            throw SnowleaseException.invalid("The file of SNOWLEASE_TOKEN_FILE cannot be read: " + cause.getClass().getSimpleName()
                    + "; correct its path, its rights or its text.");
        }
    }

    private static Duration within(String name, Duration value, long leastMs) {
        boolean isIn = value != null && value.compareTo(Duration.ofMillis(leastMs)) >= 0 && value.compareTo(LONGEST) <= 0;
        if (!isIn) throw expected(name, "to be a duration from " + Duration.ofMillis(leastMs) + " to " + LONGEST, value);
        return value;
    }

    /** A name that a registry takes: cut, and without control characters. */
    private static String shown(String name, String value) {
        if (!SnowleaseException.oneLine(value).equals(value.trim())) throw expected(name, "to have no control characters and no URLs with logins", value);
        return value.length() <= LONGEST_NAME ? value : value.substring(0, LONGEST_NAME);
    }
}
