package orders;

import io.snowlease.Snowflake;
import io.snowlease.SnowflakeOptions;
import io.snowlease.UnavailableException;
import java.time.Duration;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

/** A service whose orders get IDs on a leased worker ID: `java -jar orders.jar --snowlease.registry=http://127.0.0.1:7070`. */
@SpringBootApplication
@RestController
public class Orders {
    public static void main(String[] arguments) {
        SpringApplication.run(Orders.class, arguments);
    }

    /** Claims the worker ID before the service takes requests. Spring closes it at the end, after the last one. */
    @Bean
    static Snowflake ids(@Value("${snowlease.registry}") String registry) {
        return new Snowflake(new SnowflakeOptions().registry(registry).closesAtExit(false)).claim();
    }

    private final Snowflake ids;

    Orders(Snowflake ids) {
        this.ids = ids;
    }

    /** As text: a JavaScript client cannot read 63 bits from a number. */
    @PostMapping("/orders")
    Map<String, String> order() {
        return Map.of("id", ids.nextString());
    }

    @ExceptionHandler(UnavailableException.class)
    ResponseEntity<String> unavailable(UnavailableException error) {
        long seconds = Math.max(1, error.retryAfter().orElse(Duration.ZERO).plusMillis(999).toSeconds());
        return ResponseEntity.status(503).header("Retry-After", String.valueOf(seconds)).body(error.code());
    }
}
