/**
 * Snowflake IDs on worker IDs that are leased from a Snowlease daemon. {@link io.snowlease.Snowflake} makes them.
 *
 * <pre>{@code
 * Snowflake ids = new Snowflake(new SnowflakeOptions().registry("http://127.0.0.1:7070").namespace("orders"));
 * long id = ids.next();
 * }</pre>
 */
package io.snowlease;
