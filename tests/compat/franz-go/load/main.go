// A transactional producer that writes until its standard input ends, as tests/faults/foreign.py describes it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

type load struct {
	client     *kgo.Client
	topic      string
	partitions int
	name       string
	number     int
	random     *rand.Rand
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		tell("fatal", err.Error())
		os.Exit(1)
	}
}

func run(arguments []string) error {
	bootstrap, topic, name := arguments[0], arguments[1], arguments[3]
	count, err := strconv.Atoi(arguments[2])
	if err != nil {
		return err
	}
	pause, err := time.ParseDuration(arguments[4] + "ms")
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(name),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(time.Minute),
		// More than an outage: after that, it does not know any more whether a commit was made.
		kgo.RetryTimeout(3*time.Minute),
		kgo.RequestRetries(1000),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	writer := load{client, topic, count, name, 0, rand.New(rand.NewSource(int64(len(name))))}
	for !ended.Load() {
		if err := writer.transaction(); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}

// transaction writes one transaction and ends it; what it returns is fatal.
func (l *load) transaction() error {
	values := l.values()
	l.number++
	tell("values", values)
	if err := l.client.BeginTransaction(); err != nil {
		return err
	}
	ctx := context.Background()
	if err := l.client.ProduceSync(ctx, l.records(values)...).FirstErr(); err != nil {
		fmt.Fprintln(os.Stderr, "aborting:", err)
		return l.abort(ctx)
	}
	if l.random.Intn(4) == 0 {
		return l.abort(ctx)
	}
	asked := monotonic()
	if err := l.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("nobody knows what became of a commit: %w", err)
	}
	tell("committed", []float64{asked, monotonic()})
	return nil
}

func (l *load) abort(ctx context.Context) error {
	if err := l.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return err
	}
	tell("aborted", true)
	return nil
}

func (l *load) values() map[int32][]string {
	values := map[int32][]string{}
	for at := range 1 + l.random.Intn(12) {
		partition := int32(l.random.Intn(l.partitions))
		values[partition] = append(values[partition], fmt.Sprintf("%s %d %d", l.name, l.number, at))
	}
	return values
}

func (l *load) records(values map[int32][]string) []*kgo.Record {
	var records []*kgo.Record
	for partition, rows := range values {
		for _, row := range rows {
			records = append(records, &kgo.Record{Topic: l.topic, Partition: partition, Value: []byte(row)})
		}
	}
	return records
}

func tell(what string, value any) {
	text, err := json.Marshal(map[string]any{what: value})
	if err != nil {
		panic(err) // strings and numbers alone: it can be written
	}
	fmt.Println(string(text))
}

// monotonic is CLOCK_MONOTONIC in seconds, which all processes of a machine share; time.Now keeps it to itself.
func monotonic() float64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	_, _, errno := syscall.Syscall(
		syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0,
	)
	if errno != 0 {
		panic(errno)
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9
}
