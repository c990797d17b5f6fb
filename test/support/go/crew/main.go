// Command crew has goroutines share a Snowflake: `crew GOROUTINES IDS`. It prints every ID.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"snowlease.io/snowlease"
)

func main() {
	goroutines, _ := strconv.Atoi(os.Args[1])
	count, _ := strconv.Atoi(os.Args[2])
	ids, err := snowlease.New("", snowlease.Options{MaxWait: 20 * time.Second, ClaimTimeout: 20 * time.Second})
	if err != nil {
		panic(err)
	}
	var group sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			take(ids, count)
		}()
	}
	group.Wait()
	if err := ids.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func take(ids *snowlease.Snowflake, count int) {
	var lines strings.Builder
	for made := 0; made < count; {
		id, err := ids.Next(context.Background())
		var refused *snowlease.Error
		if errors.As(err, &refused) && refused.Unavailable {
			continue
		}
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(&lines, id)
		if made++; made%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	// One write, which no other one comes into.
	os.Stdout.WriteString(lines.String())
}
