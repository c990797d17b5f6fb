package io.snowlease.westid;

import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.bingoohuang.westid.WestId;
import com.github.bingoohuang.westid.WestIdConfig;
import io.snowlease.SnowflakeOptions;
import io.snowlease.SnowleaseException;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** A value that names no worker ID is refused, and no daemon is asked. */
class BindingTest {
    private static final WestIdConfig CONFIG = new WestIdConfig(WestId.EPOCH, 10, 12);

    private static IllegalArgumentException refusal(Map<String, String> properties, Map<String, String> environment) {
        SnowflakeOptions options = new SnowflakeOptions().registry("http://127.0.0.1:1");
        return assertThrows(IllegalArgumentException.class, () -> Binding.bind(options, CONFIG, properties::get, environment::get));
    }

    @TestFactory
    Stream<DynamicTest> badValues() {
        return Stream.of("", "abc", "1024", "-1", "+7", "07", "7 ", "1e2", "0x7", "7.0", "99999999999999999999", "\u0667")
                .flatMap(value -> Stream.of(
                        DynamicTest.dynamicTest("property " + value, () -> check(refusal(Map.of("westid.workerId", value), Map.of()), "westid.workerId")),
                        DynamicTest.dynamicTest("own property " + value, () -> check(refusal(Map.of("snowlease.workerId", value), Map.of("WESTID_WORKERID", "7")), "snowlease.workerId")),
                        DynamicTest.dynamicTest("variable " + value, () -> check(refusal(Map.of(), Map.of("WESTID_WORKERID", value)), "WESTID_WORKERID")),
                        DynamicTest.dynamicTest("own variable " + value, () -> check(refusal(Map.of(), Map.of("SNOWLEASE_WORKER_ID", value)), "SNOWLEASE_WORKER_ID"))));
    }

    private static void check(IllegalArgumentException refusal, String source) {
        assertTrue(refusal.getMessage().contains(source) && refusal.getMessage().contains("from 0 to 1023"), refusal.getMessage());
    }

    @Test
    void propertiesThatContradictEachOther() {
        check(refusal(Map.of("westid.workerId", "1", "snowlease.workerId", "2"), Map.of()), "westid.workerId");
    }

    @Test
    void aPropertyComesBeforeAVariable() {
        SnowflakeOptions options = new SnowflakeOptions().registry("http://127.0.0.1:1");
        Map<String, String> variables = Map.of("WESTID_WORKERID", "1024");
        assertSame(options, Binding.bind(options, CONFIG, Map.of("westid.workerId", "7")::get, variables::get));
    }

    @Test
    void noNumberIsHandedOutThatOthersUseToo() {
        SnowflakeOptions options = new SnowflakeOptions().registry("http://127.0.0.1:1?borrow=true");
        SnowleaseException refusal = assertThrows(SnowleaseException.class, () -> new SnowleaseWorkerIdAssigner(options, () -> {}).assignWorkerId(CONFIG));
        assertTrue(refusal.getMessage().startsWith("CONFIG_INVALID: Expected no `borrow`"), refusal.getMessage());
    }

    @Test
    void anAssignerNeedsToKnowHowTheGeneratorEnds() {
        assertThrows(NullPointerException.class, () -> new SnowleaseWorkerIdAssigner(new SnowflakeOptions(), null));
    }
}
