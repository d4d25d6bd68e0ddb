// Turns orders into invoices exactly once: `go run . HOST:PORT`.
//
// It reads `orders`, whose keys are order numbers and whose values are net amounts in cents, and writes the
// gross amount of each order to `invoices`. The invoices and the read position are committed in one transaction, so the
// program may be killed at any time: its next run continues where the last transaction ended.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gross adds 19% tax.
func gross(net []byte) ([]byte, error) {
	cents, err := strconv.Atoi(string(net))
	return strconv.AppendInt(nil, int64(cents*119/100), 10), err
}

// transact writes the invoices of some orders and ends the transaction. A failed transaction is aborted,
// and the session rewinds by itself.
func transact(ctx context.Context, session *kgo.GroupTransactSession, orders kgo.Fetches) error {
	if err := session.Begin(); err != nil {
		return err
	}
	failed := kgo.AbortingFirstErrPromise(session.Client())
	var wrong error
	orders.EachRecord(func(order *kgo.Record) {
		value, err := gross(order.Value)
		if err != nil {
			wrong = err
			return
		}
		session.Produce(ctx, &kgo.Record{Topic: "invoices", Key: order.Key, Value: value}, failed.Promise())
	})
	isWanted := kgo.TransactionEndTry(failed.Err() == nil && wrong == nil)
	if _, err := session.End(ctx, isWanted); err != nil {
		return err
	}
	return wrong
}

func main() {
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(os.Args[1]),
		kgo.TransactionalID("invoices"), // fences any earlier producer with this id
		kgo.ConsumerGroup("invoices"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(6*time.Second), // after a kill, the next run waits this long for the partitions
	)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for stopped.Err() == nil {
		orders := session.PollFetches(stopped)
		if orders.Empty() {
			continue
		}
		// End a transaction that has begun, even if we are told to stop in the meantime.
		if err := transact(context.Background(), session, orders); err != nil {
			log.Fatal(err)
		}
	}
}
