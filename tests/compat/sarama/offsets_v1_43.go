//go:build v1_43

package main

import "github.com/IBM/sarama"

// offsets adds messages to a transaction; sarama 1.43 knows the group by its name alone.
func offsets(
	producer sarama.SyncProducer, _ sarama.ConsumerGroupSession, group string,
) func(*sarama.ConsumerMessage) error {
	return func(message *sarama.ConsumerMessage) error {
		return producer.AddMessageToTxn(message, group, nil)
	}
}
