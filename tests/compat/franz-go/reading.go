package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"lacuna.test/harness"
)

// Control records are kept by these consumers and passed over here: they are how franz-go tells
// its position, which otherwise stays behind the last record.
func newConsumer(env *harness.Env, options ...kgo.Opt) (*kgo.Client, error) {
	return newClient(env, append(reading(), options...)...)
}

func reading() []kgo.Opt {
	return []kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
}

func ends(ctx context.Context, env *harness.Env, name string) (starts, ends kadm.ListedOffsets, err error) {
	client, err := newClient(env)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if starts, err = admin.ListStartOffsets(ctx, env.Topic(name)); err != nil {
		return nil, nil, err
	}
	ends, err = admin.ListCommittedOffsets(ctx, env.Topic(name))
	return starts, ends, err
}

// readAll reads a topic from the start until its position is the end; true if it came there.
func readAll(
	ctx context.Context, env *harness.Env, name string, partitions int32, result *harness.Result,
) (bool, error) {
	_, ends, err := ends(ctx, env, name)
	if err != nil {
		return false, err
	}
	from := map[int32]kgo.Offset{}
	for partition := range partitions {
		from[partition] = kgo.NewOffset().AtStart()
	}
	topic := env.Topic(name)
	consumer, err := newConsumer(env, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return false, err
	}
	defer consumer.Close()
	left := map[int32]int64{}
	for partition := range partitions {
		end, _ := ends.Lookup(topic, partition)
		if end.Offset > 0 {
			left[partition] = end.Offset
		}
	}
	for len(left) > 0 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return false, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if !record.Attrs.IsControl() {
				result.Add(name, record.Partition, text(record))
			}
			if record.Offset+1 >= left[record.Partition] {
				delete(left, record.Partition)
			}
		})
	}
	return true, nil
}

func holes(ctx context.Context, env *harness.Env, result *harness.Result) error {
	atEnd := []string{}
	for _, name := range []string{"start", "middle", "end", "all", "mixed"} {
		reached, err := readAll(ctx, env, name, 1, result)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if reached {
			atEnd = append(atEnd, name)
		}
	}
	slices.Sort(atEnd)
	result.Facts["at_end"] = atEnd
	return nil
}

func holesInside(ctx context.Context, env *harness.Env, result *harness.Result) error {
	for _, name := range []string{"middle", "mixed"} {
		starts, ends, err := ends(ctx, env, name)
		if err != nil {
			return err
		}
		start, _ := starts.Lookup(env.Topic(name), 0)
		end, _ := ends.Lookup(env.Topic(name), 0)
		last := ""
		for tenth := range int64(10) {
			at := start.Offset + tenth*(end.Offset-start.Offset)/10
			first, err := firstFrom(ctx, env, name, at, end.Offset)
			if err != nil {
				return err
			}
			if first == "" {
				break
			}
			if first != last {
				result.Add(name, 0, first)
			}
			last = first
		}
	}
	return nil
}

// firstFrom is the first record at or behind an offset, "" if there is none before the end.
func firstFrom(ctx context.Context, env *harness.Env, name string, at, end int64) (string, error) {
	from := map[string]map[int32]kgo.Offset{env.Topic(name): {0: kgo.NewOffset().At(at)}}
	consumer, err := newConsumer(env, kgo.ConsumePartitions(from))
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	for position := at; position < end; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return "", err
		}
		for _, record := range fetches.Records() {
			if !record.Attrs.IsControl() {
				return text(record), nil
			}
			position = record.Offset + 1
		}
	}
	return "", nil
}
