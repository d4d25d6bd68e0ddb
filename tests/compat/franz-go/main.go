// The franz-go program of the client matrix; tests/compat/README.md says what it has to do.
package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"lacuna.test/harness"
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
		harness.Without("legacy", "franz-go writes message sets only to brokers older than 0.11"),
		harness.Secured("scram", "SCRAM-SHA-512", eos),
		harness.Secured("oauthbearer", "OAUTHBEARER", eos),
	})
}

func newClient(env *harness.Env, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(common(env), options...)...)
}

func common(env *harness.Env) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(env.Bootstrap...),
		kgo.ClientID("franz-go"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
	}
	if env.Security != nil {
		options = append(options, kgo.DialTLSConfig(env.Security.TLS), kgo.SASL(mechanism(env.Security)))
	}
	return options
}

func mechanism(security *harness.Security) sasl.Mechanism {
	if security.Mechanism == "OAUTHBEARER" {
		return oauth.Auth{Token: security.Token}.AsMechanism()
	}
	return scram.Auth{User: security.User, Pass: security.Password}.AsSha512Mechanism()
}

func toProduce(topic string, partition int32, record harness.Record) *kgo.Record {
	made := &kgo.Record{
		Topic:     topic,
		Partition: partition,
		Key:       harness.Bytes(record.Key),
		Value:     harness.Bytes(record.Value),
	}
	for _, header := range record.Headers {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
	}
	return made
}

func text(record *kgo.Record) string {
	var headers []harness.Header
	for _, header := range record.Headers {
		headers = append(headers, harness.Header{header.Key, string(header.Value)})
	}
	return harness.Text(record.Key, record.Value, headers)
}

var codecs = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
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
	_, err := readAll(ctx, env, "produce", 3, result)
	return err
}

func produceWith(ctx context.Context, env *harness.Env, codec kgo.CompressionCodec) error {
	client, err := newClient(env, kgo.ProducerBatchCompression(codec))
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for i, record := range env.Produce {
		records = append(records, toProduce(env.Topic("produce"), int32(i%3), record))
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func transactions(ctx context.Context, env *harness.Env, result *harness.Result) error {
	client, err := newClient(env, kgo.TransactionalID(env.Prefix+"-transactions"))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, transaction := range env.Transactions {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		var records []*kgo.Record
		for _, record := range transaction.Records {
			topic := env.Topic("transactions")
			records = append(records, toProduce(topic, record.Partition, record))
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		end := kgo.TransactionEndTry(transaction.Commit)
		if err := client.EndTransaction(ctx, end); err != nil {
			return err
		}
	}
	result.Facts["aborted"] = env.Aborted()
	_, err = readAll(ctx, env, "transactions", 2, result)
	return err
}
