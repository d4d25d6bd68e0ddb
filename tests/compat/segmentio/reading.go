package main

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"lacuna.test/harness"
)

func newReader(env *harness.Env, config kafka.ReaderConfig) *kafka.Reader {
	config.Brokers = env.Bootstrap
	config.Dialer = &kafka.Dialer{ClientID: "kafka-go", Timeout: 10 * time.Second, DualStack: true}
	config.IsolationLevel = kafka.ReadCommitted
	config.MinBytes, config.MaxBytes = 1, 10<<20
	config.MaxWait = 250 * time.Millisecond
	config.StartOffset = kafka.FirstOffset
	config.HeartbeatInterval = 300 * time.Millisecond
	config.SessionTimeout = 10 * time.Second
	config.JoinGroupBackoff = 100 * time.Millisecond
	return kafka.NewReader(config)
}

func bounds(
	ctx context.Context, env *harness.Env, name string, partition int,
) (first, last int64, err error) {
	leader, err := kafka.DialLeader(ctx, "tcp", env.Bootstrap[0], env.Topic(name), partition)
	if err != nil {
		return 0, 0, err
	}
	defer leader.Close()
	return leader.ReadOffsets()
}

// readAll reads a topic from the start until the reader's position is the end.
func readAll(
	ctx context.Context, env *harness.Env, name string, partitions int, result *harness.Result,
) error {
	for partition := range partitions {
		first, end, err := bounds(ctx, env, name, partition)
		if err != nil {
			return err
		}
		keep := func(message kafka.Message) bool {
			result.Add(name, int32(partition), text(message))
			return true
		}
		if err := read(ctx, env, name, partition, first, end, keep); err != nil {
			return fmt.Errorf("%s/%d: %w", name, partition, err)
		}
	}
	return nil
}

// read hands messages to `keep` until that says false, or until the reader is at the end.
func read(
	ctx context.Context, env *harness.Env, name string, partition int, from, end int64,
	keep func(kafka.Message) bool,
) error {
	reader := newReader(env, kafka.ReaderConfig{Topic: env.Topic(name), Partition: partition})
	defer reader.Close()
	if err := reader.SetOffset(from); err != nil {
		return err
	}
	for reader.Offset() < end {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return fmt.Errorf("at %d of %d: %w", reader.Offset(), end, err)
		}
		if !keep(message) {
			return nil
		}
	}
	return nil
}

// showsAll is said of a scenario once it was gone through to its end. Which records come depends on
// the broker then: what a broker leaves out, and what markers it has, so none are compared.
const showsAll = harness.Unsupported(
	"kafka-go requests read_committed, but returns aborted records and markers as messages")

func holes(ctx context.Context, env *harness.Env, _ *harness.Result) error {
	for _, name := range []string{"start", "middle", "end", "all", "mixed"} {
		first, end, err := bounds(ctx, env, name, 0)
		if err != nil {
			return err
		}
		all := func(kafka.Message) bool { return true }
		if err := read(ctx, env, name, 0, first, end, all); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return showsAll
}

func holesInside(ctx context.Context, env *harness.Env, _ *harness.Result) error {
	for _, name := range []string{"middle", "mixed"} {
		start, end, err := bounds(ctx, env, name, 0)
		if err != nil {
			return err
		}
		for tenth := range int64(10) {
			at := start + tenth*(end-start)/10
			first := func(kafka.Message) bool { return false }
			if err := read(ctx, env, name, 0, at, end, first); err != nil {
				return fmt.Errorf("%s from %d: %w", name, at, err)
			}
		}
	}
	return showsAll
}
