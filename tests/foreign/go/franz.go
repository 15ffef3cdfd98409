package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func franzGo(ctx context.Context, address, topic, group, strategy string) error {
	var owned state
	// The coordinator divides the work, and says how long sessions are.
	divided := []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
	if strategy == "server-side-regex" {
		// And it resolves the topic, which is a pattern.
		divided = append(divided, kgo.ConsumeRegex())
	} else if strategy != "server-side" {
		divided = []kgo.Opt{
			kgo.Balancers(balancers[strategy]),
			kgo.SessionTimeout(6 * time.Second),
			kgo.HeartbeatInterval(500 * time.Millisecond),
		}
	}
	client, err := kgo.NewClient(append(divided,
		kgo.SeedBrokers(address),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, gained map[string][]int32) {
			for each, partitions := range gained {
				fmt.Println("gained", each)
				owned.gain(partitions...)
			}
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			for _, partitions := range lost {
				owned.lose(partitions...)
			}
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			for _, partitions := range lost {
				owned.lose(partitions...)
			}
		}),
	)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			// It has lost its place, as when the group moves, and joins again by itself.
			if session := new(kgo.ErrGroupSession); errors.As(err, &session) {
				fmt.Println(err)
				continue
			}
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println("read", string(record.Value))
		})
		if err := client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			if !isOutOfPlace(err) {
				return err
			}
			fmt.Println("not committed:", err)
			continue
		}
		owned.committed(fetches.NumRecords())
	}
	return nil
}

// Whether another member reads these records again.
func isOutOfPlace(err error) bool {
	return errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration) ||
		errors.Is(err, kerr.UnknownMemberID)
}

func lag(ctx context.Context, address, group string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	lags, err := kadm.NewClient(client).Lag(ctx, group)
	if err != nil {
		return err
	}
	if err := lags.Error(); err != nil {
		return err
	}
	fmt.Println("lag", lags[group].State, lags[group].Lag.Total())
	return nil
}
