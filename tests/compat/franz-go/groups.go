package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"lacuna.test/harness"
)

func newMember(env *harness.Env, group, name string, options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options,
		kgo.ConsumerGroup(env.Prefix+"-"+group),
		kgo.ConsumeTopics(env.Topic(name)),
		kgo.SessionTimeout(10*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.DisableAutoCommit(),
	)
	return newConsumer(env, options...)
}

// lag is what a group still has to read of a partition, by its committed offset.
func lag(ctx context.Context, env *harness.Env, group, name string) (int64, error) {
	client, err := newClient(env)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	committed, err := admin.FetchOffsets(ctx, env.Prefix+"-"+group)
	if err != nil {
		return 0, err
	}
	ends, err := admin.ListEndOffsets(ctx, env.Topic(name))
	if err != nil {
		return 0, err
	}
	offset, known := committed.Lookup(env.Topic(name), 0)
	end, _ := ends.Lookup(env.Topic(name), 0)
	if !known {
		return 0, fmt.Errorf("%s has committed nothing", group)
	}
	return end.Offset - offset.At, nil
}

func commit(ctx context.Context, env *harness.Env, result *harness.Result) error {
	_, ends, err := ends(ctx, env, "mixed")
	if err != nil {
		return err
	}
	end, _ := ends.Lookup(env.Topic("mixed"), 0)
	first := func(live int, _ int64) bool { return live == 5 }
	if err := readAndCommit(ctx, env, result, first); err != nil {
		return err
	}
	rest := func(_ int, position int64) bool { return position >= end.Offset }
	if err := readAndCommit(ctx, env, result, rest); err != nil {
		return err
	}
	result.Facts["lag"], err = lag(ctx, env, "commit", "mixed")
	return err
}

// readAndCommit goes on where the group is until `enough` of live records and position.
func readAndCommit(
	ctx context.Context, env *harness.Env, result *harness.Result, enough func(int, int64) bool,
) error {
	consumer, err := newMember(env, "commit", "mixed")
	if err != nil {
		return err
	}
	defer consumer.Close()
	live := 0
	var last *kgo.Record
	for last == nil || !enough(live, last.Offset+1) {
		fetches := consumer.PollRecords(ctx, 1)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			last = record
			if !record.Attrs.IsControl() {
				live++
				result.Add("mixed", record.Partition, text(record))
			}
		})
	}
	return consumer.CommitRecords(ctx, last)
}

// member is one of the two consumers of the scenario `group`.
type member struct {
	client *kgo.Client
	mutex  sync.Mutex
	held   map[int32]bool
}

func join(env *harness.Env) (*member, error) {
	joined := &member{held: map[int32]bool{}}
	took := func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
		joined.hold(given[env.Topic("group")], true)
	}
	gave := func(ctx context.Context, client *kgo.Client, taken map[string][]int32) {
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "commit at a rebalance:", err)
		}
		joined.hold(taken[env.Topic("group")], false)
	}
	var err error
	joined.client, err = newMember(
		env, "g", "group", kgo.OnPartitionsAssigned(took), kgo.OnPartitionsRevoked(gave),
	)
	return joined, err
}

func (m *member) hold(partitions []int32, held bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, partition := range partitions {
		if held {
			m.held[partition] = true
		} else {
			delete(m.held, partition)
		}
	}
}

func (m *member) count() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return len(m.held)
}

func await(ctx context.Context, what string, holds func() bool) error {
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func group(ctx context.Context, env *harness.Env, result *harness.Result) error {
	one, err := join(env)
	if err != nil {
		return err
	}
	defer one.client.Close()
	two, err := join(env)
	if err != nil {
		return err
	}
	defer two.client.Close()
	both := func() bool { return one.count() == 2 && two.count() == 2 }
	if err := await(ctx, "two partitions each", both); err != nil {
		return err
	}
	result.Facts["assigned"] = []int{one.count(), two.count()}
	if err := readTogether(ctx, []*kgo.Client{one.client, two.client}, result); err != nil {
		return err
	}
	two.client.Close()
	if err := await(ctx, "all partitions", func() bool { return one.count() == 4 }); err != nil {
		return err
	}
	result.Facts["alone"] = one.count()
	return nil
}

func readTogether(ctx context.Context, clients []*kgo.Client, result *harness.Result) error {
	for read := 0; read < 200; {
		for _, client := range clients {
			turn, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			fetches := client.PollFetches(turn)
			cancel()
			if ctx.Err() != nil {
				return fmt.Errorf("%d of 200 records: %w", read, ctx.Err())
			}
			fetches.EachRecord(func(record *kgo.Record) {
				read++
				result.Add("group", record.Partition, text(record))
			})
		}
	}
	for _, client := range clients {
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	return nil
}

func eos(ctx context.Context, env *harness.Env, result *harness.Result) error {
	_, ends, err := ends(ctx, env, "input")
	if err != nil {
		return err
	}
	end, _ := ends.Lookup(env.Topic("input"), 0)
	if err := transform(ctx, env, end.Offset); err != nil {
		return err
	}
	if result.Facts["committed"], err = lag(ctx, env, "eos", "input"); err != nil {
		return err
	}
	_, err = readAll(ctx, env, "output", 1, result)
	return err
}

// transform moves `input` up to its end, in transactions of 10 records; the second is done twice.
func transform(ctx context.Context, env *harness.Env, end int64) error {
	session, err := kgo.NewGroupTransactSession(slices.Concat(common(env), reading(), []kgo.Opt{
		kgo.TransactionalID(env.Prefix + "-eos"),
		kgo.ConsumerGroup(env.Prefix + "-eos"),
		kgo.ConsumeTopics(env.Topic("input")),
		kgo.SessionTimeout(10 * time.Second),
		kgo.RequireStableFetchOffsets(),
	})...)
	if err != nil {
		return err
	}
	defer session.Close()
	for done, position := 0, int64(0); position < end; done++ {
		batch, reached, err := pollTen(ctx, session, end)
		if err != nil {
			return err
		}
		committed, err := move(ctx, env, session, batch, done != 1)
		if err != nil {
			return fmt.Errorf("transaction %d: %w", done, err)
		}
		if committed { // the session itself aborts where Kafka is not yet done with the last one
			position = reached
		}
	}
	return nil
}

// move writes one transaction; the session goes back to where it was if it is not committed.
func move(
	ctx context.Context, env *harness.Env, session *kgo.GroupTransactSession,
	batch []*kgo.Record, commit bool,
) (bool, error) {
	if err := session.Begin(); err != nil {
		return false, err
	}
	for _, record := range batch {
		record.Topic = env.Topic("output")
		record.Value = []byte(strings.ToUpper(string(record.Value)))
	}
	if err := session.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return false, err
	}
	return session.End(ctx, kgo.TransactionEndTry(commit))
}

// pollTen polls ten records, fewer at the end, and says up to where.
func pollTen(
	ctx context.Context, session *kgo.GroupTransactSession, end int64,
) (batch []*kgo.Record, position int64, err error) {
	for len(batch) < 10 && position < end {
		fetches := session.PollRecords(ctx, 1)
		if err := fetches.Err(); err != nil {
			return nil, 0, err
		}
		for _, record := range fetches.Records() {
			position = record.Offset + 1
			if !record.Attrs.IsControl() {
				batch = append(batch, &kgo.Record{Key: record.Key, Value: record.Value})
			}
		}
	}
	return batch, position, nil
}
