package io.snowlease;

import static io.snowlease.SnowleaseException.expected;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.function.LongSupplier;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;

/** How a {@link Snowflake} leases its worker ID. Whatever is not set has its default. A Snowflake checks them, and throws CONFIG_INVALID. */
public final class SnowflakeOptions {
    private static final Pattern NAMESPACE = Pattern.compile("[a-z][a-z0-9_]{0,31}");
    private static final Pattern TOKEN = Pattern.compile("[\\x21-\\x7e]{1,1024}");
    private static final Duration LONGEST = Duration.ofDays(1);
    /** The place of a borrower that has ended is taken for 10 s. */
    private static final Duration CLAIM_OF_BORROWER = Duration.ofSeconds(15);

    String registry;
    String namespace;
    String token;
    String layout;
    Integer workerId;
    Duration claimTimeout;
    Duration operationTimeout = Duration.ofSeconds(5);
    Duration maxWait = Duration.ofMillis(500);
    String instance;
    boolean closesAtExit = true;
    boolean borrow;

    /** {@code http://HOST:PORT}, several with commas, {@code https://…}. Default: the variable SNOWLEASE_REGISTRY. */
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

    /** How long a claim waits for a free worker ID, up to 1 day. Default 0; 15 s where it borrows. */
    public SnowflakeOptions claimTimeout(Duration value) {
        claimTimeout = value;
        return this;
    }

    /** Of one call, over all daemons, 1 ms to 1 day. Default 5 s. */
    public SnowflakeOptions operationTimeout(Duration value) {
        operationTimeout = value;
        return this;
    }

    /** How long {@code next} waits for the clock or for a renewal, up to 1 day. Default 500 ms. */
    public SnowflakeOptions maxWait(Duration value) {
        maxWait = value;
        return this;
    }

    /** A name for this process that the registry shows. Default: none. */
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

    /**
     * Whether to share the worker ID of a daemon with {@code --lend} with other processes: for many of them on one machine. The registry is one address then.
     * Default: the registry's {@code ?borrow=}, then false; one of both that is true is enough.
     */
    public SnowflakeOptions borrow(boolean value) {
        borrow = value;
        return this;
    }

    /** What a holder needs, checked. Immutable. */
    static final class Checked {
        final Daemons daemons;
        final String namespace;
        /** null: the namespace's. */
        final Layout layout;
        /** null: any. */
        final Integer workerId;
        final Duration claimTimeout;
        final Duration operationTimeout;
        final Duration maxWait;
        /** null: none. */
        final String instance;
        final boolean closesAtExit;
        final boolean borrows;
        /** The wall clock, Unix ms. */
        final LongSupplier clock;

        Checked(SnowflakeOptions given, UnaryOperator<String> environment, LongSupplier clock) {
            this.clock = clock;
            String url = first(given.registry, environment.apply("SNOWLEASE_REGISTRY"));
            if (url == null) {
                throw new SnowleaseException("CONFIG_INVALID", "Expected a registry, got none: set the option `registry`, or the variable SNOWLEASE_REGISTRY.");
            }
            daemons = Daemons.of(url);
            namespace = first(given.namespace, daemons.settings.get("namespace"), environment.apply("SNOWLEASE_NAMESPACE"), "default");
            if (!NAMESPACE.matcher(namespace).matches()) throw expected("namespace", "to match " + NAMESPACE, namespace);
            String named = first(given.token, daemons.settings.get("token"), environment.apply("SNOWLEASE_TOKEN"));
            String token = named != null ? named : inFile(environment.apply("SNOWLEASE_TOKEN_FILE"));
            if (token != null && !TOKEN.matcher(token).matches()) {
                throw new SnowleaseException("CONFIG_INVALID", "Expected `token` to be 1 to 1024 visible ASCII characters, got another text.");
            }
            layout = given.layout == null ? null : Layout.parse(given.layout);
            workerId = given.workerId;
            if (workerId != null) Layout.within("workerId", workerId, 0, layout == null ? Integer.MAX_VALUE : layout.maxWorkerId);
            borrows = given.borrow || "true".equals(daemons.settings.get("borrow"));
            if (borrows && daemons.addresses.size() > 1) {
                throw new SnowleaseException("CONFIG_INVALID", "Expected `registry` to be one daemon's address, such as http://127.0.0.1:7070, since `borrow`"
                        + " asks to borrow its lease, got " + daemons.addresses.size() + " addresses; name the daemon, or leave `borrow` out.");
            }
            Duration patience = borrows ? CLAIM_OF_BORROWER : Duration.ZERO;
            claimTimeout = within("claimTimeout", given.claimTimeout == null ? patience : given.claimTimeout, Duration.ZERO);
            operationTimeout = within("operationTimeout", given.operationTimeout, Duration.ofMillis(1));
            maxWait = within("maxWait", given.maxWait, Duration.ZERO);
            instance = given.instance;
            closesAtExit = given.closesAtExit;
            daemons.use(token, operationTimeout.toNanos(), clock);
        }
    }

    private static String first(String... values) {
        for (String value : values) if (value != null && !value.isEmpty()) return value;
        return null;
    }

    private static String inFile(String file) {
        try {
            return file == null || file.isEmpty() ? null : Files.readString(Paths.get(file), StandardCharsets.US_ASCII).trim();
        } catch (IOException | InvalidPathException cause) {
            String why = cause.getClass().getSimpleName();
            throw new SnowleaseException("CONFIG_INVALID", "The file of SNOWLEASE_TOKEN_FILE cannot be read (" + why + "); correct its path or its rights.");
        }
    }

    private static Duration within(String name, Duration value, Duration least) {
        if (value != null && value.compareTo(least) >= 0 && value.compareTo(LONGEST) <= 0) return value;
        throw expected(name, "to be a duration from " + least + " to " + LONGEST, value);
    }
}
