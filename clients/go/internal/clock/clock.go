// Package clock is where this module reads its clocks.
package clock

import (
	"encoding/binary"
	"math"
	"os"
	"time"
)

// Now reads the wall clock, Unix ns. A program that replaces it does so before it makes a generator: Go programs ask the kernel's page without
// a call of the C library, so nothing that stands between a program and that library can set their clock.
var Now = Wall

// Elapsed reads the monotonic clock: the time since the program began. It costs half of what the wall clock costs, which Go reads together with it.
var Elapsed = func() time.Duration { return time.Since(began) }

var began = time.Now()

// Wall is the system's wall clock, Unix ns.
func Wall() int64 { return time.Now().UnixNano() }

// Ms reads the wall clock, Unix ms.
func Ms() int64 { return Now() / int64(time.Millisecond) }

// FromFile returns a clock that is as the file says at each reading: five words of eight bytes, the lowest byte first. They are a count of changes;
// how far the clock is ahead, ns; since when on the system's clock, Unix ns; how many seconds pass on it in a second, a float; the count again, which differs while
// the file is being written. While it cannot be read, the clock is the system's.
func FromFile(path string) func() int64 {
	return func() int64 {
		for {
			words, err := os.ReadFile(path)
			if err != nil || len(words) < 40 {
				return Wall()
			}
			word := func(i int) uint64 { return binary.LittleEndian.Uint64(words[8*i:]) }
			if word(0) != word(4) {
				continue
			}
			now := Wall()
			return now + int64(word(1)) + int64((math.Float64frombits(word(3))-1)*float64(now-int64(word(2))))
		}
	}
}
