// The sarama program of the client matrix; tests/compat/README.md says what it has to do.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"lacuna.test/harness"
)

var (
	speaks = flag.String("speaks", "4.1.0", "the Kafka version that sarama is told")
	// Message sets and EOS need brokers and versions of sarama of different times.
	legacySpeaks = flag.String("legacy", "", "the version for the scenario legacy; it needs Kafka 3")
)

func main() {
	harness.Main([]harness.Scenario{
		{Name: "produce", Run: produce},
		{Name: "transactions", Run: transactions},
		{Name: "holes", Run: holes},
		{Name: "holes_inside", Run: holesInside},
		{Name: "commit", Run: commit},
		{Name: "group", Run: group},
		{Name: "eos", Run: eos},
		{Name: "legacy", Run: legacy},
		harness.Secured("scram", "SCRAM-SHA-512", eos),
		harness.Secured("oauthbearer", "OAUTHBEARER", eos),
	})
}

func newConfig(env *harness.Env, version string) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.ClientID = "sarama"
	config.Net.MaxOpenRequests = 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.Retry.Backoff = 20 * time.Millisecond
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.MaxWaitTime = maxWait
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 10 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond
	if env.Security != nil {
		secure(config, env.Security)
	}
	var err error
	config.Version, err = sarama.ParseKafkaVersion(version)
	if !config.Version.IsAtLeast(sarama.V0_11_0_0) {
		config.Consumer.IsolationLevel = sarama.ReadUncommitted // what there was before transactions
	}
	return config, err
}

func toProduce(topic string, partition int32, record harness.Record) *sarama.ProducerMessage {
	made := &sarama.ProducerMessage{Topic: topic, Partition: partition}
	if record.Key != nil {
		made.Key = sarama.StringEncoder(*record.Key)
	}
	if record.Value != nil {
		made.Value = sarama.StringEncoder(*record.Value)
	}
	for _, header := range record.Headers {
		pair := sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])}
		made.Headers = append(made.Headers, pair)
	}
	return made
}

func text(message *sarama.ConsumerMessage) string {
	var headers []harness.Header
	for _, header := range message.Headers {
		headers = append(headers, harness.Header{string(header.Key), string(header.Value)})
	}
	return harness.Text(message.Key, message.Value, headers)
}

var codecs = []sarama.CompressionCodec{
	sarama.CompressionNone,
	sarama.CompressionGZIP,
	sarama.CompressionSnappy,
	sarama.CompressionLZ4,
	sarama.CompressionZSTD,
}

func produce(ctx context.Context, env *harness.Env, result *harness.Result) error {
	var used []string
	for _, codec := range codecs {
		if codec == sarama.CompressionZSTD && *legacySpeaks != "" {
			continue // Kafka cannot turn it into message sets
		}
		config, err := newConfig(env, *speaks)
		if err != nil {
			return err
		}
		config.Producer.Idempotent = true
		config.Producer.Compression = codec
		if err := produceWith(env, config, env.Produce); err != nil {
			return fmt.Errorf("%s: %w", codec, err)
		}
		used = append(used, codec.String())
	}
	result.Facts["codecs"] = used
	_, err := readAll(ctx, env, "produce", 3, result)
	return err
}

func produceWith(env *harness.Env, config *sarama.Config, list []harness.Record) error {
	producer, err := sarama.NewSyncProducer(env.Bootstrap, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for i, record := range list {
		messages = append(messages, toProduce(env.Topic("produce"), int32(i%3), record))
	}
	return producer.SendMessages(messages)
}

func newTransactional(env *harness.Env, name string) (sarama.SyncProducer, error) {
	config, err := newConfig(env, *speaks)
	if err != nil {
		return nil, err
	}
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = env.Prefix + "-" + name
	return sarama.NewSyncProducer(env.Bootstrap, config)
}

func transactions(ctx context.Context, env *harness.Env, result *harness.Result) error {
	producer, err := newTransactional(env, "transactions")
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, transaction := range env.Transactions {
		var messages []*sarama.ProducerMessage
		for _, record := range transaction.Records {
			topic := env.Topic("transactions")
			messages = append(messages, toProduce(topic, record.Partition, record))
		}
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		if err := producer.SendMessages(messages); err != nil {
			return err
		}
		if err := end(producer, transaction.Commit); err != nil {
			return err
		}
	}
	result.Facts["aborted"] = env.Aborted()
	_, err = readAll(ctx, env, "transactions", 2, result)
	return err
}

func end(producer sarama.SyncProducer, commit bool) error {
	if commit {
		return producer.CommitTxn()
	}
	return producer.AbortTxn()
}

// legacy speaks to the cluster as a client of long ago: message sets, and no transactions seen.
func legacy(ctx context.Context, env *harness.Env, result *harness.Result) error {
	if *legacySpeaks == "" {
		return harness.Unsupported("Kafka 4 does not accept message sets; see the row of Kafka 3.9")
	}
	config, err := newConfig(env, *legacySpeaks)
	if err != nil {
		return err
	}
	config.Producer.Compression = sarama.CompressionGZIP
	plain := make([]harness.Record, len(env.Produce))
	for i, record := range env.Produce {
		plain[i] = harness.Record{Key: record.Key, Value: record.Value}
	}
	if err := produceWith(env, config, plain); err != nil {
		return err
	}
	for name, partitions := range map[string]int32{"produce": 3, "mixed": 1} {
		if _, err := readAllAs(ctx, env, *legacySpeaks, name, partitions, result); err != nil {
			return err
		}
	}
	return nil
}
