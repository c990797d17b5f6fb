// Command snowlease-ids prints IDs: snowlease-ids [HOW_MANY] [MS_BETWEEN]; 0: until it is stopped. SNOWLEASE_REGISTRY names the daemon.
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

	snowlease "github.com/snowlease/snowlease/clients/go"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	numbers := [2]int{10, 0}
	for i, arg := range args {
		if i == len(numbers) {
			return fmt.Errorf("usage: snowlease-ids [HOW_MANY] [MS_BETWEEN]")
		}
		if numbers[i], err = strconv.Atoi(arg); err != nil || numbers[i] < 0 {
			return fmt.Errorf("usage: snowlease-ids [HOW_MANY] [MS_BETWEEN]; got %q", arg)
		}
	}
	count, pause := numbers[0], time.Duration(numbers[1])*time.Millisecond
	ids, err := snowlease.New("", snowlease.Options{MaxWait: 5 * time.Second})
	if err != nil {
		return err
	}
	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := bufio.NewWriter(os.Stdout)
	defer func() {
		out.Flush()
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if failed := ids.Close(closing); err == nil {
			err = failed
		}
	}()
	for made := 0; stopped.Err() == nil && (count == 0 || made < count); made++ {
		id, err := ids.Next(stopped)
		if err != nil {
			if stopped.Err() != nil {
				return nil
			}
			return err
		}
		fmt.Fprintln(out, id)
		if pause > 0 {
			out.Flush()
			select {
			case <-stopped.Done():
			case <-time.After(pause):
			}
		}
	}
	return nil
}
