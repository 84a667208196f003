// Command shop is a small net/http application as many exist: it takes orders
// and must mail a receipt for each. The order and the job that mails the
// receipt are written in one transaction, so that neither is there without the
// other, whatever crashes in between.
//
//	go run ./shop
//	curl -d '{"customer": "ada@example.com", "item": "kettle"}' localhost:8080/orders
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ebbhq/ebb"
)

// Receipt is what the job needs to know.
type Receipt struct {
	Order    int64  `json:"order"`
	Customer string `json:"customer"`
}

// shop is the application.
type shop struct {
	jobs *ebb.Client
	db   *sql.DB
	mail func(ctx context.Context, to, text string) error
}

func open(ctx context.Context, url string, mail func(ctx context.Context, to, text string) error) (*shop, error) {
	jobs, err := ebb.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	s := &shop{jobs: jobs, db: jobs.DB(), mail: mail}
	if _, err := s.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL)`); err != nil {
		return nil, fmt.Errorf("shop: orders: %w", err)
	}
	ebb.Handle(jobs, "receipt", s.receipt)
	return s, nil
}

// receipt mails one. A plain error is retried by the policy; the mail server
// is the target, so that its breaker and its limits hold.
func (s *shop) receipt(ctx context.Context, _ *ebb.Task, r Receipt) error {
	return s.mail(ctx, r.Customer, fmt.Sprintf("Thank you for order %d.", r.Order))
}

func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	var o struct{ Customer, Item string }
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Customer == "" || o.Item == "" {
		http.Error(w, `want {"customer": "…", "item": "…"}`, http.StatusBadRequest)
		return
	}
	id, err := s.place(r.Context(), o.Customer, o.Item)
	if err != nil {
		log.Print(err)
		http.Error(w, "the order could not be kept; try again", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "order %d\n", id)
}

// place writes the order and its job together.
func (s *shop) place(ctx context.Context, customer, item string) (int64, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	res, err := tx.ExecContext(ctx, `INSERT INTO orders (customer, item) VALUES (?, ?)`, customer, item)
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return 0, err
	}
	_, err = s.jobs.EnqueueTx(ctx, tx, ebb.Job{Kind: "receipt", Args: Receipt{Order: id, Customer: customer}, Target: "mail"})
	if err != nil {
		return 0, err
	}
	return id, tx.Commit()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := open(ctx, "sqlite:shop.db", func(_ context.Context, to, text string) error {
		log.Printf("to %s: %s", to, text)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.order)
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.WithoutCancel(ctx))
	}()
	go func() { log.Print(server.ListenAndServe()) }()
	if err := s.jobs.Run(ctx); err != nil { // until ctx ends; then it drains
		log.Fatal(err)
	}
	if err := s.jobs.Close(); err != nil {
		log.Fatal(err)
	}
}
