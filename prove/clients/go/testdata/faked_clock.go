package snowlease

import (
	"os"
	"strings"
	"time"
)

// FakeClock sets the wall clock: it is ahead of the system's by what a file says at each reading.
func FakeClock(file string) {
	systemClocks.wall = func() time.Time {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		ahead, err := time.ParseDuration(strings.TrimSpace(string(text)))
		if err != nil {
			panic(err)
		}
		return time.Now().Add(ahead)
	}
}
