// Command scraper gets pages of a fragile site and says of each what came of
// it: tries in the worker's slot, a gate for the host, then waves.
//
//	go run ./scraper https://example.org/a https://example.org/b
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/ebbhq/ebb/policy"
	"github.com/ebbhq/ebb/work/fetch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	lost, err := scrape(ctx, os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	if lost > 0 {
		os.Exit(3)
	}
}

// scrape prints a line a page and returns how many are missing.
func scrape(ctx context.Context, urls []string, change ...func(*fetch.Options)) (lost int, err error) {
	results, err := fetch.Many(ctx, urls, policy.MustPreset("polite"), change...)
	for _, r := range results {
		if r.Outcome == fetch.OK {
			fmt.Printf("%s: %d bytes\n", r.URL, len(r.Body))
			continue
		}
		lost++
		fmt.Printf("%s: %s: %v\n", r.URL, r.Outcome, r.Err)
	}
	return lost, err
}
