import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Writer;
import java.math.BigDecimal;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.Base64;

/**
 * JDBC over TCP, on loopback: a connection is a session, a line a statement. Arguments: the URL of a database, a port, and a file
 * of statements that make the database what it is to be, run once.
 *
 * <p>A statement is its text and its parameters, separated by blanks; answered by {@code ok COUNT COLUMNS NAME:TYPE... CELL...} or
 * {@code error SQLSTATE CODE MESSAGE}. Each of them is {@code -} for null, {@code n} and a number, {@code s} and a text or
 * {@code b} and bytes, both in Base64.
 */
public class Bridge {
  public static void main(String[] args) throws Exception {
    String url = args[0];
    // As long as it is open, so is the database.
    Connection first = DriverManager.getConnection(url, "sa", "");
    boolean made = false;
    try (ResultSet tables = first.getMetaData().getTables(null, "PUBLIC", null, new String[] {"TABLE"})) {
      made = tables.next();
    }
    if (!made) {
      for (String statement : Files.readString(Path.of(args[2])).split(";\\s*\\n")) {
        try (Statement one = first.createStatement()) {
          one.execute(statement);
        }
      }
    }
    try (ServerSocket server = new ServerSocket(Integer.parseInt(args[1]), 256, InetAddress.getByName("127.0.0.1"))) {
      while (true) {
        Socket socket = server.accept();
        socket.setTcpNoDelay(true);
        Thread thread = new Thread(() -> serve(socket, url));
        thread.setDaemon(true);
        thread.start();
      }
    }
  }

  private static void serve(Socket socket, String url) {
    try (socket;
        Connection connection = DriverManager.getConnection(url, "sa", "");
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
        Writer out = new BufferedWriter(new java.io.OutputStreamWriter(socket.getOutputStream(), StandardCharsets.US_ASCII))) {
      connection.setAutoCommit(false);
      connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
      Session session = new Session(connection);
      try {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
          String answer;
          try {
            answer = session.run(line.split(" "));
          } catch (SQLException error) {
            answer = "error " + text(error.getSQLState()) + " n" + error.getErrorCode() + " " + text(error.getMessage());
          }
          out.write(answer + "\n");
          out.flush();
        }
      } finally {
        connection.rollback();
      }
    } catch (IOException | SQLException gone) {
      // The client of this answer is gone.
    }
  }

  private static final class Session {
    private final Connection connection;
    /** Oracle begins a transaction with the first change, JDBC with the first statement. */
    private boolean changed;

    Session(Connection connection) {
      this.connection = connection;
    }

    String run(String[] fields) throws SQLException {
      String sql = decode(fields[0]);
      String first = sql.substring(0, Math.min(sql.length(), 8)).toUpperCase();
      if (first.startsWith("COMMIT") || first.startsWith("ROLLBACK")) {
        if (first.startsWith("C")) connection.commit();
        else connection.rollback();
        changed = false;
        return "ok 0 0";
      }
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        for (int i = 1; i < fields.length; i++) bind(statement, i, fields[i]);
        boolean query = statement.execute();
        String answer = query ? rows(statement.getResultSet()) : "ok " + statement.getUpdateCount() + " 0";
        changed |= !query;
        return answer;
      } finally {
        if (!changed) connection.rollback();
      }
    }

    private static void bind(PreparedStatement statement, int at, String field) throws SQLException {
      switch (field.charAt(0)) {
        case 'n' -> statement.setBigDecimal(at, new BigDecimal(field.substring(1)));
        case 'b' -> statement.setBytes(at, Base64.getDecoder().decode(field.substring(1)));
        case 's' -> statement.setString(at, decode(field));
        default -> statement.setNull(at, Types.NULL);
      }
    }

    private static String rows(ResultSet rows) throws SQLException {
      ResultSetMetaData columns = rows.getMetaData();
      int count = columns.getColumnCount();
      StringBuilder answer = new StringBuilder("ok 0 ").append(count);
      for (int i = 1; i <= count; i++) answer.append(' ').append(text(columns.getColumnLabel(i) + ":" + columns.getColumnTypeName(i)));
      while (rows.next()) {
        for (int i = 1; i <= count; i++) answer.append(' ').append(cell(rows, columns.getColumnType(i), i));
      }
      return answer.toString();
    }

    private static String cell(ResultSet rows, int type, int at) throws SQLException {
      switch (type) {
        case Types.BLOB, Types.BINARY, Types.VARBINARY -> {
          byte[] bytes = rows.getBytes(at);
          return bytes == null ? "-" : "b" + Base64.getEncoder().encodeToString(bytes);
        }
        case Types.NUMERIC, Types.DECIMAL, Types.INTEGER, Types.BIGINT, Types.SMALLINT, Types.DOUBLE -> {
          BigDecimal number = rows.getBigDecimal(at);
          return number == null ? "-" : "n" + number.toPlainString();
        }
        default -> {
          String text = rows.getString(at);
          return text == null ? "-" : text(text);
        }
      }
    }
  }

  private static String text(String text) {
    return "s" + Base64.getEncoder().encodeToString(String.valueOf(text).getBytes(StandardCharsets.UTF_8));
  }

  private static String decode(String field) {
    return new String(Base64.getDecoder().decode(field.substring(1)), StandardCharsets.UTF_8);
  }
}
