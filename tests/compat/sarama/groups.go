package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"lacuna.test/harness"
)

// behind is the lag of a group whose partition ends in aborted records: sarama commits what is
// behind its last message, so its lag stays above 0, by as many offsets as the cluster has there.
const behind = "behind the last message"

func newGroup(env *harness.Env, group string) (sarama.ConsumerGroup, error) {
	config, err := newConfig(env, *speaks)
	if err != nil {
		return nil, err
	}
	return sarama.NewConsumerGroup(env.Bootstrap, env.Prefix+"-"+group, config)
}

// lag is 0 or `behind`; a group that has committed anything but the offset after `last` is an error.
func lag(env *harness.Env, group, name string, last int64) (any, error) {
	config, err := newConfig(env, *speaks)
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdmin(env.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	topic := env.Topic(name)
	response, err := admin.ListConsumerGroupOffsets(
		env.Prefix+"-"+group, map[string][]int32{topic: {0}},
	)
	if err != nil {
		return nil, err
	}
	_, end, err := bounds(env, name)
	if err != nil {
		return nil, err
	}
	committed := response.GetBlock(topic, 0).Offset
	if committed != last+1 {
		return nil, fmt.Errorf("%d is committed after message %d", committed, last)
	}
	if committed < end {
		return behind, nil
	}
	return end - committed, nil
}

// one is a handler of a group's only member: it gets the messages of one claim, then leaves.
type one struct {
	claimed func(sarama.ConsumerGroupSession, sarama.ConsumerGroupClaim) error
	leave   context.CancelFunc
	err     error
}

func (h *one) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h *one) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *one) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	h.err = h.claimed(session, claim)
	h.leave()
	return nil
}

// consumeOne joins a group alone, works on its one partition, and leaves.
func consumeOne(
	ctx context.Context, env *harness.Env, group, name string,
	claimed func(sarama.ConsumerGroupSession, sarama.ConsumerGroupClaim) error,
) error {
	consumers, err := newGroup(env, group)
	if err != nil {
		return err
	}
	defer consumers.Close()
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	handler := &one{claimed: claimed, leave: leave}
	err = consumers.Consume(ctx, []string{env.Topic(name)}, handler)
	return errors.Join(handler.err, err)
}

// next is the next message, or nil where none came for a while.
func next(claim sarama.ConsumerGroupClaim) *sarama.ConsumerMessage {
	select {
	case message := <-claim.Messages():
		return message
	case <-time.After(2 * idle):
		return nil
	}
}

func commit(ctx context.Context, env *harness.Env, result *harness.Result) error {
	last := int64(-1)
	reading := func(count int) error {
		return consumeOne(ctx, env, "commit", "mixed", func(
			session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
		) error {
			for ; count != 0; count-- {
				message := next(claim)
				if message == nil {
					break
				}
				last = message.Offset
				result.Add("mixed", 0, text(message))
				session.MarkMessage(message, "")
			}
			session.Commit()
			return nil
		})
	}
	if err := reading(5); err != nil {
		return err
	}
	if err := reading(-1); err != nil {
		return err
	}
	var err error
	result.Facts["lag"], err = lag(env, "commit", "mixed", last)
	return err
}

// member is one of the two consumers of the scenario `group`; none reads before `open` is closed.
type member struct {
	env     *harness.Env
	open    chan struct{}
	joined  chan int
	read    chan *sarama.ConsumerMessage
	leave   context.CancelFunc
	stopped sync.WaitGroup
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.joined <- len(session.Claims()[m.env.Topic("group")])
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	return nil
}

func (m *member) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	select {
	case <-m.open:
	case <-session.Context().Done():
		return nil
	}
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		m.read <- message
	}
	return nil
}

func (m *member) run(ctx context.Context) error {
	consumers, err := newGroup(m.env, "g")
	if err != nil {
		return err
	}
	ctx, m.leave = context.WithCancel(ctx)
	m.stopped.Go(func() {
		defer consumers.Close()
		for ctx.Err() == nil {
			if err := consumers.Consume(ctx, []string{m.env.Topic("group")}, m); err != nil {
				return
			}
		}
	})
	return nil
}

func (m *member) stop() {
	m.leave()
	m.stopped.Wait()
}

func join(
	ctx context.Context, env *harness.Env, open chan struct{}, read chan *sarama.ConsumerMessage,
) (*member, error) {
	joined := &member{env: env, open: open, read: read, joined: make(chan int, 100)}
	return joined, joined.run(ctx)
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
	open, read := make(chan struct{}), make(chan *sarama.ConsumerMessage, 1000)
	first, err := join(ctx, env, open, read)
	if err != nil {
		return err
	}
	defer first.stop()
	second, err := join(ctx, env, open, read)
	if err != nil {
		return err
	}
	defer second.stop()
	for _, each := range []*member{first, second} {
		if err := each.holding(ctx, 2); err != nil {
			return err
		}
	}
	result.Facts["assigned"] = []int{2, 2}
	close(open)
	for count := range 200 {
		select {
		case message := <-read:
			result.Add("group", message.Partition, text(message))
		case <-ctx.Done():
			return fmt.Errorf("%d of 200 messages: %w", count, ctx.Err())
		}
	}
	second.stop()
	if err := first.holding(ctx, 4); err != nil {
		return err
	}
	result.Facts["alone"] = 4
	return nil
}

func eos(ctx context.Context, env *harness.Env, result *harness.Result) error {
	producer, err := newTransactional(env, "eos")
	if err != nil {
		return err
	}
	defer producer.Close()
	last := int64(-1)
	err = consumeOne(ctx, env, "eos", "input", func(
		session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
	) error {
		add := offsets(producer, session, env.Prefix+"-eos")
		for done := 0; ; done++ {
			batch := nextTen(claim)
			if len(batch) == 0 {
				return nil
			}
			last = batch[len(batch)-1].Offset
			if done == 1 {
				if err := transform(env, producer, add, batch, false); err != nil {
					return err
				}
			}
			if err := transform(env, producer, add, batch, true); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	if result.Facts["committed"], err = lag(env, "eos", "input", last); err != nil {
		return err
	}
	_, err = readAll(ctx, env, "output", 1, result)
	return err
}

func nextTen(claim sarama.ConsumerGroupClaim) (batch []*sarama.ConsumerMessage) {
	for len(batch) < 10 {
		message := next(claim)
		if message == nil {
			break
		}
		batch = append(batch, message)
	}
	return batch
}

// transform writes ten messages in upper case and their offsets in one transaction.
func transform(
	env *harness.Env, producer sarama.SyncProducer, add func(*sarama.ConsumerMessage) error,
	batch []*sarama.ConsumerMessage, commit bool,
) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for _, message := range batch {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: env.Topic("output"),
			Key:   sarama.ByteEncoder(message.Key),
			Value: sarama.StringEncoder(strings.ToUpper(string(message.Value))),
		})
	}
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	for _, message := range batch {
		if err := add(message); err != nil {
			return err
		}
	}
	return end(producer, commit)
}
