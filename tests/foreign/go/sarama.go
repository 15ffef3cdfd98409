package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

type saramaMember struct {
	state
	topic string
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.gain(session.Claims()[m.topic]...)
	return nil
}

func (m *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	m.lose(session.Claims()[m.topic]...)
	return nil
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		session.Commit()
		m.committed(1)
	}
	return nil
}

func viaSarama(ctx context.Context, address, topic, group, strategy string) error {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[strategy]}
	client, err := sarama.NewConsumerGroup([]string{address}, group, config)
	if err != nil {
		return err
	}
	defer client.Close()
	member := &saramaMember{topic: topic}
	for ctx.Err() == nil {
		if err := client.Consume(ctx, []string{topic}, member); err != nil {
			return err
		}
	}
	return nil
}
