// Package harness is what the Go programs of the matrix have in common: the command line, the
// workload, a time limit for each scenario, and the line of JSON that tells how it went.
package harness

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// Limit is how long a scenario may take.
const Limit = 30 * time.Second

// Header is a record's header: its key and its value.
type Header [2]string

// Record is a record to produce; nil is a null key or value.
type Record struct {
	Partition int32    `json:"partition"`
	Key       *string  `json:"key"`
	Value     *string  `json:"value"`
	Headers   []Header `json:"headers"`
}

// Transaction is what is produced in one transaction, and how it ends.
type Transaction struct {
	Commit  bool     `json:"commit"`
	Records []Record `json:"records"`
}

// Env is what a scenario is run with.
type Env struct {
	Bootstrap    []string
	Prefix       string
	Security     *Security     `json:"-"` // nil: the listener is not secured
	Produce      []Record      `json:"produce"`
	Transactions []Transaction `json:"transactions"`
}

// Result is what a scenario read, by NAME/PARTITION, and what must be equal on both clusters.
type Result struct {
	Records map[string][]string
	Facts   map[string]any
}

// Scenario is one row of the contract's table.
type Scenario struct {
	Name      string
	Run       func(ctx context.Context, env *Env, result *Result) error
	isSecured bool
}

// Unsupported is the error of a scenario that the client cannot do: the reason.
type Unsupported string

func (reason Unsupported) Error() string { return string(reason) }

// Without makes a scenario that this client cannot do.
func Without(name, reason string) Scenario {
	cannot := func(context.Context, *Env, *Result) error { return Unsupported(reason) }
	return Scenario{Name: name, Run: cannot}
}

// Topic is the full name of the runner's topic NAME.
func (env *Env) Topic(name string) string { return env.Prefix + "-" + name }

// Bytes is a key or value as it goes over the wire; nil stays nil.
func Bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// Text is a record as the contract writes it: key=value|h1:x,h2:y, with ~ for null.
func Text(key, value []byte, headers []Header) string {
	line := orTilde(key) + "=" + orTilde(value)
	pairs := make([]string, len(headers))
	for i, header := range headers {
		pairs[i] = header[0] + ":" + header[1]
	}
	if len(pairs) > 0 {
		line += "|" + strings.Join(pairs, ",")
	}
	return line
}

func orTilde(bytes []byte) string {
	if bytes == nil {
		return "~"
	}
	return string(bytes)
}

// Add keeps a record that was read from partition of the topic NAME.
func (result *Result) Add(name string, partition int32, line string) {
	key := fmt.Sprintf("%s/%d", name, partition)
	result.Records[key] = append(result.Records[key], line)
}

// Aborted counts the transactions of the workload that end in an abort.
func (env *Env) Aborted() int {
	aborted := 0
	for _, transaction := range env.Transactions {
		if !transaction.Commit {
			aborted++
		}
	}
	return aborted
}

// Main runs the scenarios in turn and prints the line of each when it is done.
func Main(scenarios []Scenario) {
	bootstrap := flag.String("bootstrap", "", "HOST:PORT[,HOST:PORT]")
	workload := flag.String("workload", "", "the runner's JSON file")
	prefix := flag.String("prefix", "", "of the topics and groups")
	only := flag.String("only", "", "run this scenario alone")
	flag.Parse()
	env := &Env{Bootstrap: strings.Split(*bootstrap, ","), Prefix: *prefix}
	content, err := os.ReadFile(*workload)
	if err == nil {
		err = json.Unmarshal(content, env)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the workload cannot be read:", err)
		os.Exit(2)
	}
	for _, scenario := range scenarios {
		if scenario.isSecured && os.Getenv("COMPAT_SECURED") == "" {
			continue
		}
		if *only == "" || *only == scenario.Name {
			fmt.Println(run(env, scenario))
		}
	}
}

// run gives a scenario its time; one that does not heed its context is left behind.
func run(env *Env, scenario Scenario) string {
	started := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	result := &Result{Records: map[string][]string{}, Facts: map[string]any{}}
	done := make(chan error, 1)
	go func() { done <- scenario.Run(ctx, env, result) }()
	var err error
	select {
	case err = <-done:
	case <-time.After(Limit + time.Second):
		err = fmt.Errorf("not done after %s", Limit)
		result = &Result{} // the other one may still be written to
	}
	fmt.Fprintf(os.Stderr, "%s took %s\n", scenario.Name, time.Since(started).Round(time.Millisecond))
	return line(scenario.Name, result, err)
}

func line(name string, result *Result, err error) string {
	fields := map[string]any{"scenario": name}
	var unsupported Unsupported
	switch {
	case errors.As(err, &unsupported):
		fields["unsupported"] = string(unsupported)
	case err != nil:
		fields["ok"], fields["error"], fields["records"] = false, err.Error(), map[string]any{}
	default:
		fields["ok"], fields["records"], fields["facts"] = true, result.Records, result.Facts
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers alone: it can be written
	}
	return string(text)
}
