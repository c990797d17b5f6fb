// Command bench measures what an ID costs beside other generators for Go: bench REGISTRY. All take turns in one run, round by round, so that a
// busy moment of the machine hits them alike. Prints the medians, a JSON line for each subject and number of goroutines.
//
// A millisecond has room for 2^bits IDs, so none of 12 bits is faster than 244 ns, whatever it costs: the generators whose layout can be
// chosen have 17 bits of sequence here (7.6 ns). sonyflake has 256 IDs in 10 ms, and go-snowflake 4096 in a ms, always.
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
	snowlease "github.com/snowlease/snowlease/clients/go"
	"github.com/sony/sonyflake"
)

const rounds = 31

type subject struct {
	name string
	// Of the sequence; how many IDs a round has.
	bits, count int
	next        func() error
}

type result struct {
	Subject      string  `json:"subject"`
	Threads      int     `json:"threads"`
	NsPerID      float64 `json:"nsPerId"`
	SequenceBits int     `json:"sequenceBits"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: bench REGISTRY")
	}
	ctx := context.Background()
	ours := func(namespace, layout string) (*snowlease.Generator, error) {
		options := snowlease.Options{Namespace: namespace, Layout: layout, MaxWait: time.Minute}
		return snowlease.New(os.Args[1], options)
	}
	wide, err := ours("bench17", "timestamp:41,worker:5,sequence:17@1700000000000/1")
	if err != nil {
		return err
	}
	defer wide.Close(ctx)
	narrow, err := ours("bench12", "westid")
	if err != nil {
		return err
	}
	defer narrow.Close(ctx)
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
		{"snowlease", 17, 400_000, func() error { _, err := wide.Next(ctx); return err }},
		{"bwmarrin/snowflake", 17, 400_000, func() error { node.Generate(); return nil }},
		{"snowlease, 12 bits", 12, 100_000, func() error { _, err := narrow.Next(ctx); return err }},
		{"godruoyi/go-snowflake", 12, 100_000, func() error { _, err := gosnowflake.NextID(); return err }},
		{"sony/sonyflake", 8, 1_000, func() error { _, err := sony.NextID(); return err }},
	}
	figures := map[result][]float64{}
	for round := 0; round < rounds; round++ {
		for _, s := range subjects {
			for _, threads := range []int{1, 4} {
				ns, err := measure(s, threads)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				key := result{Subject: s.name, Threads: threads, SequenceBits: s.bits}
				figures[key] = append(figures[key], ns)
			}
		}
	}
	for _, s := range subjects {
		for _, threads := range []int{1, 4} {
			of := result{Subject: s.name, Threads: threads, SequenceBits: s.bits}
			all := figures[of]
			sort.Float64s(all)
			of.NsPerID = all[len(all)/2]
			line, err := json.Marshal(of)
			if err != nil {
				return err
			}
			fmt.Println(string(line))
		}
	}
	return nil
}

// measure returns what an ID takes, ns of the clock on the wall over all goroutines.
func measure(s subject, threads int) (float64, error) {
	each := s.count / threads
	failed := make(chan error, threads)
	var group sync.WaitGroup
	begun := time.Now()
	for i := 0; i < threads; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for made := 0; made < each; made++ {
				if err := s.next(); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	group.Wait()
	took := time.Since(begun)
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(took.Nanoseconds()) / float64(each*threads), nil
	}
}
