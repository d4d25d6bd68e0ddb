//go:build !v1_43

package main

import "github.com/IBM/sarama"

// offsets adds messages to a transaction, fenced by the member's generation (KIP-447).
func offsets(
	producer sarama.SyncProducer, session sarama.ConsumerGroupSession, group string,
) func(*sarama.ConsumerMessage) error {
	member := sarama.NewConsumerGroupMetadataFromSession(session, group, nil)
	return func(message *sarama.ConsumerMessage) error {
		return producer.AddMessageToTxnWithGroupMetadata(message, member, nil)
	}
}
