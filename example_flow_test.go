package ebb_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebbhq/ebb"
)

func openMemory(ctx context.Context) *ebb.Client {
	c, err := ebb.Open(ctx, "memory:")
	if err != nil {
		panic(err)
	}
	return c
}

// A job that names its target is guarded by what its policy says of one: with
// the preset webhook at most 4 calls at once over all processes, a breaker,
// and a budget for retries.
func ExampleJob_target() {
	ctx, stop := context.WithCancel(context.Background())
	c := openMemory(ctx)
	defer c.Close()
	ebb.Handle(c, "hook", func(_ context.Context, t *ebb.Task, order int) error {
		j := t.Job()
		fmt.Println("order", order, "to", j.Target)
		stop()
		return nil
	})
	_, err := c.Enqueue(ctx, ebb.Job{Kind: "hook", Args: 7, Target: "https://crm.example/in", Policy: "webhook"})
	if err != nil {
		panic(err)
	}
	if err := c.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// order 7 to https://crm.example/in
}

// Jobs of one key run one at a time, in the order of their enqueue.
func ExampleJob_key() {
	ctx, stop := context.WithCancel(context.Background())
	c := openMemory(ctx)
	defer c.Close()
	ebb.Handle(c, "apply", func(_ context.Context, _ *ebb.Task, event string) error {
		fmt.Println(event)
		if event == "shipped" {
			stop()
		}
		return nil
	})
	for _, event := range []string{"created", "paid", "shipped"} {
		if _, err := c.Enqueue(ctx, ebb.Job{Kind: "apply", Args: event, Key: "order-7"}); err != nil {
			panic(err)
		}
	}
	if err := c.Run(ctx); err != nil {
		panic(err)
	}
	// Output:
	// created
	// paid
	// shipped
}

// A unique key refuses what is already on its way.
func ExampleJob_unique() {
	ctx := context.Background()
	c := openMemory(ctx)
	defer c.Close()
	sync := ebb.Job{Kind: "sync", Unique: "customer-7", UniqueScope: ebb.UniqueInKind, UniqueFor: time.Hour}
	first, err := c.Enqueue(ctx, sync)
	if err != nil {
		panic(err)
	}
	second, err := c.Enqueue(ctx, sync)
	fmt.Println(second.ID == first.ID, second.Existing, err)

	sync.OnConflict = ebb.RefuseConflict
	_, err = c.Enqueue(ctx, sync)
	fmt.Println(errors.Is(err, ebb.ErrUnique))
	// Output:
	// true true <nil>
	// true
}

// A schedule is declared before Run and kept in the database: it fires once
// for all processes.
func ExampleClient_Every() {
	c := openMemory(context.Background())
	defer c.Close()
	err := c.Every(ebb.Periodic{
		Name: "nightly-report", Cron: "0 2 * * *", Zone: "Europe/Berlin", Missed: ebb.MissedSkip,
		Job: ebb.Job{Kind: "report", Unique: "nightly-report"},
	})
	fmt.Println(err)

	err = c.Every(ebb.Periodic{Name: "sometimes", Cron: "0 25 * * *", Job: ebb.Job{Kind: "report"}})
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// true
}

// A program that knows of a maintenance window pauses the target: what calls
// it waits, spends no attempt, and does not run out of its time.
func ExampleClient_PauseTarget() {
	ctx := context.Background()
	c := openMemory(ctx)
	defer c.Close()
	if err := c.PauseTarget(ctx, "https://crm.example/in", time.Now().Add(30*time.Minute)); err != nil {
		panic(err)
	}
	fmt.Println(c.ResumeTarget(ctx, "https://crm.example/in"))
	// Output:
	// <nil>
}

// At most 5 jobs of the queue run at once and 100 start a minute, in all
// processes together.
func ExampleClient_LimitQueue() {
	ctx := context.Background()
	c := openMemory(ctx)
	defer c.Close()
	err := c.LimitQueue(ctx, "exports", ebb.QueueLimit{Concurrency: 5, Rate: 100.0 / 60})
	fmt.Println(err)
	// Output:
	// <nil>
}
