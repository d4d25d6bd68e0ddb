// A consumer, as tests/faults/foreign.py describes it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		tell("fatal", err.Error())
		os.Exit(1)
	}
}

func run(arguments []string) error {
	bootstrap, topic, group := arguments[0], arguments[1], arguments[3]
	count, err := strconv.Atoi(arguments[2])
	if err != nil {
		return err
	}
	var client *kgo.Client
	common := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, func() string {
			return time.Now().Format("15:04:05.000 ")
		})),
	}
	if group == "" {
		client, err = kgo.NewClient(append(common, reader(topic, count)...)...)
	} else {
		client, err = kgo.NewClient(append(common, member(topic, group)...)...)
	}
	if err != nil {
		return err
	}
	defer client.Close()
	var isToldToGo, isToldToStop atomic.Bool
	go listen(&isToldToGo, &isToldToStop)
	seen := map[int32]bool{}
	for !isToldToStop.Load() {
		records, err := poll(client)
		if err != nil {
			return err
		}
		for _, record := range records {
			seen[record.Partition] = true
		}
		switch {
		case group != "":
			commit(client, records)
		case len(seen) == count && !isToldToGo.Load():
			client.PauseFetchTopics(topic)
		default:
			client.ResumeFetchTopics(topic)
		}
	}
	return nil
}

// reader has the options of a consumer that reads partitions from offset 0, in small steps.
func reader(topic string, count int) []kgo.Opt {
	offsets := map[int32]kgo.Offset{}
	for partition := range count {
		offsets[int32(partition)] = kgo.NewOffset().At(0)
	}
	return []kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // an OFFSET_OUT_OF_RANGE ends it
		kgo.FetchMaxPartitionBytes(4096),
	}
}

func member(topic, group string) []kgo.Opt {
	told := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, found map[string][]int32) {
			partitions := slices.Sorted(slices.Values(found[topic]))
			tell(what, partitions)
		}
	}
	return []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.SessionTimeout(20 * time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(told("assigned")),
		kgo.OnPartitionsRevoked(told("revoked")),
		kgo.OnPartitionsLost(told("lost")),
	}
}

func poll(client *kgo.Client) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fetches := client.PollFetches(ctx)
	for _, failed := range fetches.Errors() {
		var session *kgo.ErrGroupSession // told for information: it joins again by itself
		switch {
		case errors.As(failed.Err, &session):
			fmt.Fprintln(os.Stderr, failed.Err)
		case !errors.Is(failed.Err, context.DeadlineExceeded):
			return nil, failed.Err
		}
	}
	records := fetches.Records()
	for _, record := range records {
		tell("record", []any{record.Partition, record.Offset, string(record.Value)})
	}
	return records, nil
}

func commit(client *kgo.Client, records []*kgo.Record) {
	if err := client.CommitRecords(context.Background(), records...); err != nil {
		fmt.Fprintln(os.Stderr, "the next commit covers it:", err)
	}
}

func listen(isToldToGo, isToldToStop *atomic.Bool) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		isToldToGo.Store(true)
	}
	isToldToStop.Store(true)
}

func tell(what string, value any) {
	text, err := json.Marshal(map[string]any{what: value})
	if err != nil {
		panic(err) // strings and numbers alone: it can be written
	}
	fmt.Println(string(text))
}
