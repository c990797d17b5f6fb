/**
 * Leased worker IDs for programs that use westid. One line moves such a program:
 *
 * <pre>{@code
 * WestId.configure(new LeasedWestIdGenerator("http://127.0.0.1:7070"));
 * }</pre>
 *
 * <p>Each {@code WestId.next()} is then an ID of a {@link io.snowlease.Snowflake}, which is checked against the lease.
 */
package io.snowlease.westid;
