// The program of segmentio/kafka-go for the client matrix; tests/compat/README.md says what it has
// to do.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"lacuna.test/harness"
)

func main() {
	without := "kafka-go has no transactional producer"
	harness.Main([]harness.Scenario{
		{Name: "produce", Run: produce},
		harness.Without("transactions", without),
		{Name: "holes", Run: holes},
		{Name: "holes_inside", Run: holesInside},
		{Name: "commit", Run: commit},
		{Name: "group", Run: group},
		harness.Without("eos", without),
		harness.Without("legacy", "kafka-go asks the broker, and uses message sets for Kafka 0.10 only"),
	})
}

func text(message kafka.Message) string {
	var headers []harness.Header
	for _, header := range message.Headers {
		headers = append(headers, harness.Header{header.Key, string(header.Value)})
	}
	return harness.Text(message.Key, message.Value, headers)
}

var codecs = []struct {
	name  string
	codec kafka.Compression
}{
	{"none", 0},
	{"gzip", kafka.Gzip},
	{"snappy", kafka.Snappy},
	{"lz4", kafka.Lz4},
	{"zstd", kafka.Zstd},
}

func produce(ctx context.Context, env *harness.Env, result *harness.Result) error {
	var used []string
	for _, each := range codecs {
		if err := produceWith(ctx, env, each.codec); err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
		used = append(used, each.name)
	}
	result.Facts["codecs"] = used
	return readAll(ctx, env, "produce", 3, result)
}

func produceWith(ctx context.Context, env *harness.Env, codec kafka.Compression) error {
	byIndex := func(message kafka.Message, _ ...int) int { return message.WriterData.(int) % 3 }
	transport := &kafka.Transport{ClientID: "kafka-go"}
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr:         kafka.TCP(env.Bootstrap...),
		Transport:    transport,
		Topic:        env.Topic("produce"),
		Balancer:     kafka.BalancerFunc(byIndex),
		BatchTimeout: 20 * time.Millisecond,
		RequiredAcks: kafka.RequireAll,
		Compression:  codec,
	}
	defer writer.Close()
	var messages []kafka.Message
	for i, record := range env.Produce {
		made := kafka.Message{
			Key:        harness.Bytes(record.Key),
			Value:      harness.Bytes(record.Value),
			WriterData: i,
		}
		for _, header := range record.Headers {
			pair := kafka.Header{Key: header[0], Value: []byte(header[1])}
			made.Headers = append(made.Headers, pair)
		}
		messages = append(messages, made)
	}
	return writer.WriteMessages(ctx, messages...)
}
