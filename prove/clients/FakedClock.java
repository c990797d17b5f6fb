package io.snowlease;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A wall clock that is ahead of the system's by what a file says at each reading. */
public final class FakedClock {
    private FakedClock() {}

    /** A Snowflake with that clock. */
    public static Snowflake snowflake(SnowflakeOptions options, String file) {
        Path path = Path.of(file);
        return new Snowflake(new SnowflakeOptions.Checked(options, System::getenv, () -> System.currentTimeMillis() + ahead(path)));
    }

    private static long ahead(Path path) {
        try {
            String text = Files.readString(path).trim();
            return Math.round(Double.parseDouble(text.substring(0, text.length() - 1)) * 1000);
        } catch (IOException cause) {
            throw new UncheckedIOException(cause);
        }
    }
}
