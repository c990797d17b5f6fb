package io.snowlease;

import org.junit.jupiter.api.Test;

class VectorsTest {
    @Test
    void allHold() {
        Vectors.main(new String[] {"../../vectors"});
    }
}
