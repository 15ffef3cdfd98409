// A member of a group with a client in Go. It says on its output what it owns, reads and has committed.
//
//	member franz-go|sarama ADDRESS TOPIC GROUP STRATEGY: until SIGTERM
//	member lag ADDRESS GROUP: the lag of a group by the admin API, as exporters such as KMinion ask for it
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	kind, rest := os.Args[1], os.Args[2:]
	var err error
	switch kind {
	case "franz-go":
		err = franzGo(ctx, rest[0], rest[1], rest[2], rest[3])
	case "sarama":
		err = viaSarama(ctx, rest[0], rest[1], rest[2], rest[3])
	case "lag":
		err = lag(ctx, rest[0], rest[1])
	default:
		err = fmt.Errorf("no such client: %s", kind)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// What the member owns, and how much it has read: said on each change.
type state struct {
	lock  sync.Mutex
	owned []int32
	read  int
}

func (s *state) gain(partitions ...int32) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.owned = append(s.owned, partitions...)
	s.sayOwned()
}

func (s *state) lose(partitions ...int32) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.owned = slices.DeleteFunc(s.owned, func(each int32) bool { return slices.Contains(partitions, each) })
	s.sayOwned()
}

func (s *state) sayOwned() {
	slices.Sort(s.owned)
	fmt.Println("owns", strings.Trim(fmt.Sprint(s.owned), "[]"))
}

// Say that records were read and committed.
func (s *state) committed(records int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.read += records
	fmt.Println("committed", s.read)
}
