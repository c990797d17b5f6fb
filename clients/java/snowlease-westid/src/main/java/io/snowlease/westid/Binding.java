package io.snowlease.westid;

import com.github.bingoohuang.westid.WestIdConfig;
import io.snowlease.SnowflakeOptions;
import io.snowlease.SnowleaseException;
import java.util.function.UnaryOperator;

/** Which worker ID a program asks for: its system property, then its environment, then any that the registry has. */
final class Binding {
    private static final String[] PROPERTIES = {"snowlease.workerId", "westid.workerId"};
    private static final String[] VARIABLES = {"SNOWLEASE_WORKER_ID", "WESTID_WORKERID"};
    private static final int ID_BITS = 63;
    private static final int MOST_TIMESTAMP_BITS = 45;
    private static final int MOST_DIGITS = 10;

    private Binding() {}

    /**
     * The options with the layout of westid's configuration and the worker ID that the program names, if it does.
     *
     * @throws SnowleaseException CONFIG_INVALID for a value that is no worker ID of the layout: it is never skipped.
     */
    static SnowflakeOptions bind(SnowflakeOptions options, WestIdConfig config, UnaryOperator<String> properties, UnaryOperator<String> environment) {
        int rest = ID_BITS - config.getWorkerBits() - config.getSequenceBits();
        options.layout("timestamp:" + Math.min(MOST_TIMESTAMP_BITS, rest) + ",worker:" + config.getWorkerBits() + ",sequence:"
                + config.getSequenceBits() + "@" + config.getEpoch() + "/1");
        Integer workerId = null;
        for (String name : PROPERTIES) {
            Integer named = numberOf("the property " + name, properties.apply(name), config);
            if (workerId != null && named != null && !named.equals(workerId)) {
                throw SnowleaseException.invalid("the properties snowlease.workerId and westid.workerId", "to name one worker ID", workerId + " and " + named);
            }
            workerId = workerId == null ? named : workerId;
        }
        for (String name : VARIABLES) {
            if (workerId == null) workerId = numberOf(name, environment.apply(name), config);
        }
        return workerId == null ? options : options.workerId(workerId);
    }

    private static Integer numberOf(String source, String value, WestIdConfig config) {
        if (value == null) return null;
        boolean isNumber = value.matches("0|[1-9][0-9]*") && value.length() <= MOST_DIGITS;
        if (isNumber && Long.parseLong(value) <= config.getMaxWorkerId()) return Integer.valueOf(value);
        throw SnowleaseException.invalid(source, "to be an integer from 0 to " + config.getMaxWorkerId(), value);
    }
}
