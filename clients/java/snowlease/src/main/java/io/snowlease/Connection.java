package io.snowlease;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolFamily;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/** A connection that ends at its deadline, however slowly the other side sends. */
final class Connection implements Closeable {
    private static final ScheduledThreadPoolExecutor ALARMS = alarms();

    /** Opens what the deadline has to close. */
    private interface Opening {
        void open(Connection connection, long deadline) throws IOException;
    }

    private volatile Closeable raw;
    private Future<?> alarm;
    private InputStream in;
    private OutputStream out;
    private volatile boolean isLate;

    private Connection() {}

    /** @param tls null: none. */
    static Connection toHost(String host, int port, SSLSocketFactory tls, long deadline) throws IOException {
        return open(deadline, (connection, end) -> connection.connect(host, port, tls, end));
    }

    static Connection toSocket(String path, long deadline) throws IOException {
        SocketAddress address = unixAddress(path);
        return open(deadline, (connection, end) -> {
            SocketChannel channel = unixChannel();
            connection.raw = channel;
            channel.connect(address);
            connection.in = Channels.newInputStream(channel);
            connection.out = Channels.newOutputStream(channel);
        });
    }

    private static Connection open(long deadline, Opening opening) throws IOException {
        Connection connection = new Connection();
        connection.alarm = ALARMS.schedule(connection::end, deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        try {
            opening.open(connection, deadline);
            return connection;
        } catch (IOException cause) {
            connection.close();
            throw connection.said(cause);
        } catch (RuntimeException | Error cause) {
            connection.close();
            throw cause;
        }
    }

    private void connect(String host, int port, SSLSocketFactory tls, long deadline) throws IOException {
        InetAddress[] addresses = InetAddress.getAllByName(host);
        IOException failure = null;
        for (int at = 0; at < addresses.length; at++) {
            long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime()) / (addresses.length - at);
            Socket socket = new Socket();
            raw = socket;
            try {
                socket.connect(new InetSocketAddress(addresses[at], port), (int) Math.max(1, left));
                socket.setTcpNoDelay(true);
                if (tls != null) socket = secured(socket, host, port, tls);
                in = socket.getInputStream();
                out = socket.getOutputStream();
                return;
            } catch (IOException cause) {
                raw.close();
                if (failure == null || tls != null) failure = cause;
            }
        }
        throw failure == null ? new IOException("no address") : failure;
    }

    private static SSLSocket secured(Socket socket, String host, int port, SSLSocketFactory tls) throws IOException {
        SSLSocket secured = (SSLSocket) tls.createSocket(socket, host, port, true);
        SSLParameters parameters = secured.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secured.setSSLParameters(parameters);
        secured.startHandshake();
        return secured;
    }

    InputStream in() {
        return in;
    }

    OutputStream out() {
        return out;
    }

    /** The failure as messages show it. */
    IOException said(IOException cause) {
        return isLate ? new IOException("timed out") : cause;
    }

    private void end() {
        isLate = true;
        closeRaw();
    }

    @Override
    public void close() {
        alarm.cancel(false);
        closeRaw();
    }

    private void closeRaw() {
        Closeable open = raw;
        try {
            // Beneath TLS: a farewell would wait for the other side.
            if (open != null) open.close();
        } catch (IOException cause) {
            // It is over either way.
        }
    }

    /** @throws SnowleaseException CONFIG_INVALID where this JDK has no such sockets. */
    static SocketAddress unixAddress(String path) {
        try {
            // Since Java 16; this is compiled for 11.
            Class<?> type = Class.forName("java.net.UnixDomainSocketAddress");
            return (SocketAddress) type.getMethod("of", String.class).invoke(null, path);
        } catch (ReflectiveOperationException cause) {
            throw SnowleaseException.invalid("Java " + System.getProperty("java.version")
                    + " has no Unix sockets; run Java 16 or later, or name an address like http://HOST:PORT in place of unix:" + path + ".");
        }
    }

    private static SocketChannel unixChannel() throws IOException {
        try {
            ProtocolFamily family = StandardProtocolFamily.valueOf("UNIX");
            return (SocketChannel) SocketChannel.class.getMethod("open", ProtocolFamily.class).invoke(null, family);
        } catch (InvocationTargetException cause) {
            throw new IOException(String.valueOf(cause.getCause()));
        } catch (ReflectiveOperationException cause) {
            throw new IOException(cause.toString());
        }
    }

    private static ScheduledThreadPoolExecutor alarms() {
        ScheduledThreadPoolExecutor alarms = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "snowlease deadlines");
            thread.setDaemon(true);
            return thread;
        });
        alarms.setRemoveOnCancelPolicy(true);
        alarms.setKeepAliveTime(10, TimeUnit.SECONDS);
        alarms.allowCoreThreadTimeOut(true);
        return alarms;
    }
}
