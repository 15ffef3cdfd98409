package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println("read", string(record.Value))
		})
		if err := client.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		owned.committed(fetches.NumRecords())
	}
	return nil
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
