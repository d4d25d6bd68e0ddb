package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"lacuna.test/harness"
)

func commit(ctx context.Context, env *harness.Env, _ *harness.Result) error {
	_, end, err := bounds(ctx, env, "mixed", 0)
	if err != nil {
		return err
	}
	first := func(read int, _ int64) bool { return read == 5 }
	if err := readAndCommit(ctx, env, first); err != nil {
		return err
	}
	rest := func(_ int, position int64) bool { return position >= end }
	if err := readAndCommit(ctx, env, rest); err != nil {
		return err
	}
	client := &kafka.Client{Addr: kafka.TCP(env.Bootstrap...)}
	topic := env.Topic("mixed")
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: env.Prefix + "-commit",
		Topics:  map[string][]int{topic: {0}},
	})
	if err != nil {
		return err
	}
	if lag := end - offsets.Topics[topic][0].CommittedOffset; lag != 0 {
		return fmt.Errorf("the lag is %d", lag)
	}
	return showsAll
}

// readAndCommit goes on where the group is until `enough` of messages and position.
func readAndCommit(
	ctx context.Context, env *harness.Env, enough func(int, int64) bool,
) error {
	reader := newReader(env, kafka.ReaderConfig{
		GroupID: env.Prefix + "-commit",
		Topic:   env.Topic("mixed"),
	})
	defer reader.Close()
	for read := 1; ; read++ {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return fmt.Errorf("message %d: %w", read, err)
		}
		if enough(read, message.Offset+1) {
			return reader.CommitMessages(ctx, message)
		}
	}
}

// member is one of the two consumers of the scenario `group`; none reads before `open` is closed.
type member struct {
	env    *harness.Env
	group  *kafka.ConsumerGroup
	open   chan struct{}
	joined chan int
	read   chan kafka.Message
	done   sync.WaitGroup
}

func join(env *harness.Env, open chan struct{}, read chan kafka.Message) (*member, error) {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                env.Prefix + "-g",
		Brokers:           env.Bootstrap,
		Dialer:            &kafka.Dialer{ClientID: "kafka-go", Timeout: 10 * time.Second},
		Topics:            []string{env.Topic("group")},
		HeartbeatInterval: 300 * time.Millisecond,
		SessionTimeout:    10 * time.Second,
		RebalanceTimeout:  10 * time.Second,
		JoinGroupBackoff:  100 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		return nil, err
	}
	joined := &member{env: env, group: group, open: open, joined: make(chan int, 100), read: read}
	return joined, nil
}

// run takes part in one generation of the group after the other.
func (m *member) run(ctx context.Context) {
	m.done.Go(func() {
		for {
			generation, err := m.group.Next(ctx)
			if errors.Is(err, kafka.ErrGroupClosed) || ctx.Err() != nil {
				return
			}
			if err != nil {
				continue // a rebalance within the rebalance; it joins again
			}
			given := generation.Assignments[m.env.Topic("group")]
			for _, each := range given {
				generation.Start(func(ctx context.Context) { m.consume(ctx, generation, each) })
			}
			m.joined <- len(given)
		}
	})
}

func (m *member) consume(
	ctx context.Context, generation *kafka.Generation, given kafka.PartitionAssignment,
) {
	select {
	case <-m.open:
	case <-ctx.Done():
		return
	}
	topic := m.env.Topic("group")
	reader := newReader(m.env, kafka.ReaderConfig{Topic: topic, Partition: given.ID})
	defer reader.Close()
	if err := reader.SetOffset(given.Offset); err != nil {
		panic(err) // the offset of an assignment is a valid one
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			next := map[string]map[int]int64{topic: {given.ID: reader.Offset()}}
			_ = generation.CommitOffsets(next) // refused where the generation is over for good
			return
		}
		m.read <- message
	}
}

func (m *member) leave() {
	_ = m.group.Close() // twice at the end of a good run
	m.done.Wait()
}

// holding waits until a member was given so many partitions.
func (m *member) holding(ctx context.Context, count int) error {
	for {
		select {
		case given := <-m.joined:
			if given == count {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%d partitions: %w", count, ctx.Err())
		}
	}
}

func group(ctx context.Context, env *harness.Env, result *harness.Result) error {
	open, read := make(chan struct{}), make(chan kafka.Message, 1000)
	var members []*member
	for range 2 {
		each, err := join(env, open, read)
		if err != nil {
			return err
		}
		defer each.leave()
		each.run(ctx)
		members = append(members, each)
	}
	for _, each := range members {
		if err := each.holding(ctx, 2); err != nil {
			return err
		}
	}
	result.Facts["assigned"] = []int{2, 2}
	close(open)
	for count := range 200 {
		select {
		case message := <-read:
			result.Add("group", int32(message.Partition), text(message))
		case <-ctx.Done():
			return fmt.Errorf("%d of 200 messages: %w", count, ctx.Err())
		}
	}
	members[1].leave()
	if err := members[0].holding(ctx, 4); err != nil {
		return err
	}
	result.Facts["alone"] = 4
	return nil
}
