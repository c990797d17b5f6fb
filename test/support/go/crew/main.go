// Command crew makes IDs in many goroutines: crew GOROUTINES IDS, each; 0: until it is stopped. Prints every ID.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	snowlease "github.com/snowlease/snowlease/clients/go"
)

func main() {
	goroutines, _ := strconv.Atoi(os.Args[1])
	count, _ := strconv.Atoi(os.Args[2])
	ids, err := snowlease.New("", snowlease.Options{MaxWait: 20 * time.Second, ClaimTimeout: 20 * time.Second})
	if err != nil {
		fail(err)
	}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var group sync.WaitGroup
	for i := 0; i < goroutines; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			make(stopped, ids, count)
		}()
	}
	group.Wait()
	if err := ids.Close(context.Background()); err != nil {
		fail(err)
	}
}

func make(stopped context.Context, ids *snowlease.Generator, count int) {
	for made := 0; stopped.Err() == nil && (count == 0 || made < count); {
		var lines bytes.Buffer
		for i := 0; i < 20 && stopped.Err() == nil; i++ {
			id, err := ids.Next(stopped)
			var refused *snowlease.Error
			if err == nil {
				made++
				fmt.Fprintln(&lines, id)
			} else if stopped.Err() == nil && !(errors.As(err, &refused) && refused.Retryable()) {
				fail(err)
			}
		}
		// Whole lines in one write: the goroutines share the file.
		os.Stdout.Write(lines.Bytes())
		time.Sleep(10 * time.Millisecond)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
