package io.snowlease;

/** Tells the time; tests have another one than the system's. */
@FunctionalInterface
interface WallClock {
    /** Unix ms. */
    long now();
}
