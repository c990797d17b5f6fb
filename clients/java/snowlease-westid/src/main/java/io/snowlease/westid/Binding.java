package io.snowlease.westid;

import com.github.bingoohuang.westid.WestIdConfig;
import io.snowlease.SnowflakeOptions;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.UnaryOperator;

/** Which worker ID a program asks for: its system property, then its environment, then any that the registry has. */
final class Binding {
    private static final String[] PROPERTIES = {"snowlease.workerId", "westid.workerId"};
    private static final String[] VARIABLES = {"SNOWLEASE_WORKER_ID", "WESTID_WORKERID"};
    private static final int ID_BITS = 63;
    private static final int MOST_TIMESTAMP_BITS = 47;

    private Binding() {}

    /**
     * The options with the layout of westid's configuration and the worker ID that the program names, if it does.
     *
     * @throws IllegalArgumentException for a value that is no worker ID of the layout: it is never skipped.
     */
    static SnowflakeOptions bind(SnowflakeOptions options, WestIdConfig config, UnaryOperator<String> properties, UnaryOperator<String> environment) {
        int rest = ID_BITS - config.getWorkerBits() - config.getSequenceBits();
        options.layout("timestamp:" + Math.min(MOST_TIMESTAMP_BITS, rest) + ",worker:" + config.getWorkerBits() + ",sequence:"
                + config.getSequenceBits() + "@" + config.getEpoch() + "/1");
        Integer workerId = workerIdOf("property", PROPERTIES, properties, config);
        if (workerId == null) workerId = workerIdOf("variable", VARIABLES, environment, config);
        return workerId == null ? options : options.workerId(workerId);
    }

    private static Integer workerIdOf(String kind, String[] names, UnaryOperator<String> values, WestIdConfig config) {
        Map<String, String> given = new TreeMap<>();
        for (String name : names) if (values.apply(name) != null) given.put(name, values.apply(name));
        if (given.isEmpty()) return null;
        String value = given.values().iterator().next();
        boolean isNumber = value.matches("0|[1-9][0-9]{0,8}") && Integer.parseInt(value) <= config.getMaxWorkerId();
        if (isNumber && given.values().stream().allMatch(other -> Objects.equals(other, value))) return Integer.valueOf(value);
        throw new IllegalArgumentException("Expected the " + kind + " " + String.join(" and ", given.keySet())
                + " to be one integer from 0 to " + config.getMaxWorkerId() + ", got " + given.values() + ".");
    }
}
