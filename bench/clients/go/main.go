// Command bench makes IDs at speed, beside peers: `bench REGISTRY`. It prints a line of JSON for each subject and number of goroutines: the median
// of the rounds.
//
// Rounds are interleaved: each measures each subject once. All have 17 bits of sequence, so that none waits for a tick, but go-snowflake, whose 12
// bits are 4096 IDs a ms, and sonyflake, whose 8 bits are 256 IDs in 10 ms.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/bwmarrin/snowflake"
	gosnowflake "github.com/godruoyi/go-snowflake"
	"github.com/sony/sonyflake"
	"snowlease.io/snowlease"
)

const (
	rounds = 31
	layout = "timestamp:41,worker:5,sequence:17@1700000000000"
)

// A subject makes so many IDs a round, each by a call of next.
type subject struct {
	name  string
	count int
	next  func() error
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(registry string) error {
	ctx := context.Background()
	ids, err := snowlease.New(registry, snowlease.Options{Namespace: "bench_go", Layout: layout, MaxWait: 5 * time.Second})
	if err != nil {
		return err
	}
	defer ids.Close(ctx)
	snowflake.NodeBits, snowflake.StepBits = 5, 17
	node, err := snowflake.NewNode(1)
	if err != nil {
		return err
	}
	sony, err := sonyflake.New(sonyflake.Settings{MachineID: func() (uint16, error) { return 1, nil }})
	if err != nil {
		return err
	}
	gosnowflake.SetMachineID(1)
	subjects := []subject{
		{"snowlease", 1_000_000, func() error { _, err := ids.Next(ctx); return err }},
		{"bwmarrin/snowflake 0.3.0", 1_000_000, func() error { node.Generate(); return nil }},
		{"godruoyi/go-snowflake 0.0.1 (12 bits)", 200_000, func() error { _, err := gosnowflake.NextID(); return err }},
		{"sony/sonyflake 1.2.0 (8 bits)", 1_000, func() error { _, err := sony.NextID(); return err }},
		{"yardstick: time.Now()", 1_000_000, func() error { time.Now(); return nil }},
	}
	for _, goroutines := range []int{1, 4} {
		figures := map[string][]float64{}
		for round := 0; round < rounds; round++ {
			for turn := range subjects {
				// Another one is first in each round.
				one := subjects[(turn+round)%len(subjects)]
				ns, err := measure(one, goroutines)
				if err != nil {
					return fmt.Errorf("%s: %w", one.name, err)
				}
				figures[one.name] = append(figures[one.name], ns)
			}
		}
		for _, one := range subjects {
			all := figures[one.name]
			sort.Float64s(all)
			line := map[string]any{"group": fmt.Sprintf("goroutines: %d", goroutines), "subject": one.name, "nsPerId": all[len(all)/2]}
			if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure returns what an ID takes, ns of the clock on the wall over all goroutines.
func measure(one subject, goroutines int) (float64, error) {
	each := one.count / goroutines
	failed := make(chan error, goroutines)
	var group sync.WaitGroup
	begun := time.Now()
	for i := 0; i < goroutines; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for made := 0; made < each; made++ {
				if err := one.next(); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	group.Wait()
	took := time.Since(begun)
	close(failed)
	return float64(took.Nanoseconds()) / float64(each*goroutines), <-failed
}
