// Command ids prints IDs: `ids HOW_MANY MS_BETWEEN`; 0: until it is stopped.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"snowlease.io/snowlease"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	count, _ := strconv.Atoi(os.Args[1])
	pause, _ := strconv.Atoi(os.Args[2])
	ids, err := snowlease.New("", snowlease.Options{MaxWait: 5 * time.Second})
	if err != nil {
		return err
	}
	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for made := 0; stopped.Err() == nil && (count == 0 || made < count); made++ {
		id, err := ids.Next(stopped)
		if stopped.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, id)
		if pause > 0 {
			out.Flush()
			time.Sleep(time.Duration(pause) * time.Millisecond)
		}
	}
	return ids.Close(context.Background())
}
