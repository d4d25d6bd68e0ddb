package main

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"
	"lacuna.test/harness"
)

const (
	maxWait = 100 * time.Millisecond
	// A consumer at the end sends a fetch each maxWait; one that is stuck sends them without end.
	idle         = 6 * maxWait
	idleFetches  = 12
	fewestInIdle = 2
)

// readAll reads all partitions of a topic from the start; true if all of them came to the end.
func readAll(
	ctx context.Context, env *harness.Env, name string, partitions int32, result *harness.Result,
) (bool, error) {
	return readAllAs(ctx, env, *speaks, name, partitions, result)
}

func readAllAs(
	ctx context.Context, env *harness.Env, version, name string, partitions int32,
	result *harness.Result,
) (bool, error) {
	reached, lines := make([]bool, partitions), make([][]string, partitions)
	err := together(int(partitions), func(i int) (err error) {
		keep := func(message *sarama.ConsumerMessage) bool {
			lines[i] = append(lines[i], text(message))
			return true
		}
		reached[i], err = read(ctx, env, version, name, int32(i), sarama.OffsetOldest, keep)
		return err
	})
	for partition, each := range lines {
		for _, line := range each {
			result.Add(name, int32(partition), line)
		}
	}
	return !slices.Contains(reached, false), err
}

// together runs work 0 to count-1 at the same time: most of it waits at an end for nothing to come.
func together(count int, work func(int) error) error {
	failed := make([]error, count)
	var running sync.WaitGroup
	for i := range count {
		running.Go(func() { failed[i] = work(i) })
	}
	running.Wait()
	return errors.Join(failed...)
}

// read hands messages to `keep` until that says false, or until the end. sarama does not tell its
// position: it is taken to be at the end when the last message is the last offset, or when no
// message came for a while and its fetches were waited for by the broker.
func read(
	ctx context.Context, env *harness.Env, version, name string, partition int32, from int64,
	keep func(*sarama.ConsumerMessage) bool,
) (bool, error) {
	config, err := newConfig(env, version)
	if err != nil {
		return false, err
	}
	client, err := sarama.NewClient(env.Bootstrap, config)
	if err != nil {
		return false, err
	}
	defer client.Close()
	end, err := client.GetOffset(env.Topic(name), partition, sarama.OffsetNewest)
	if err != nil {
		return false, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return false, err
	}
	defer consumer.Close()
	messages, err := consumer.ConsumePartition(env.Topic(name), partition, from)
	if err != nil {
		return false, err
	}
	defer messages.Close()
	most := int64(idleFetches)
	if version == *legacySpeaks {
		most = math.MaxInt64 // Kafka answers a fetch of message sets at a marker at once, with none
	}
	return readTo(ctx, messages, end, config.MetricRegistry, most, keep)
}

func readTo(
	ctx context.Context, messages sarama.PartitionConsumer, end int64, registry metrics.Registry,
	most int64, keep func(*sarama.ConsumerMessage) bool,
) (bool, error) {
	sent := metrics.GetOrRegisterMeter("consumer-fetch-rate", registry)
	look := time.NewTicker(idle)
	defer look.Stop()
	before := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case err := <-messages.Errors():
			return false, err
		case message := <-messages.Messages():
			before = -1
			if !keep(message) {
				return false, nil
			}
			if message.Offset+1 >= end {
				return true, nil
			}
		case <-look.C:
			now := sent.Count()
			fetches := now - before
			if before >= 0 && fewestInIdle <= fetches && fetches <= most {
				return true, nil
			}
			before = now
		}
	}
}

func holes(ctx context.Context, env *harness.Env, result *harness.Result) error {
	names := []string{"all", "end", "middle", "mixed", "start"}
	found, reached := make([]*harness.Result, len(names)), make([]bool, len(names))
	err := together(len(names), func(i int) (err error) {
		found[i] = &harness.Result{Records: map[string][]string{}}
		reached[i], err = readAll(ctx, env, names[i], 1, found[i])
		return err
	})
	atEnd := []string{}
	for i, name := range names {
		maps.Copy(result.Records, found[i].Records)
		if reached[i] {
			atEnd = append(atEnd, name)
		}
	}
	result.Facts["at_end"] = atEnd
	return err
}

func holesInside(ctx context.Context, env *harness.Env, result *harness.Result) error {
	for _, name := range []string{"middle", "mixed"} {
		start, end, err := bounds(env, name)
		if err != nil {
			return err
		}
		var firsts [10]string
		err = together(len(firsts), func(tenth int) error {
			keep := func(message *sarama.ConsumerMessage) bool {
				firsts[tenth] = text(message)
				return false
			}
			at := start + int64(tenth)*(end-start)/10
			_, err := read(ctx, env, *speaks, name, 0, at, keep)
			return err
		})
		if err != nil {
			return err
		}
		for _, first := range slices.Compact(firsts[:]) {
			if first != "" {
				result.Add(name, 0, first)
			}
		}
	}
	return nil
}

func bounds(env *harness.Env, name string) (start, end int64, err error) {
	config, err := newConfig(env, *speaks)
	if err != nil {
		return 0, 0, err
	}
	client, err := sarama.NewClient(env.Bootstrap, config)
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	if start, err = client.GetOffset(env.Topic(name), 0, sarama.OffsetOldest); err != nil {
		return 0, 0, err
	}
	end, err = client.GetOffset(env.Topic(name), 0, sarama.OffsetNewest)
	return start, end, err
}
