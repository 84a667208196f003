package postgres_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store/postgres"
)

// TestAnEnqueueWakesOtherProcesses: without polling, and by both ways to
// enqueue.
func TestAnEnqueueWakesOtherProcesses(t *testing.T) {
	url := migrated(t)
	here, there := open(t, url, postgres.Options{Poll: time.Hour}), open(t, url, postgres.Options{Poll: time.Hour})
	wakes, err := here.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-wakes // the line stands
	for range 3 {
		mail(t, there, 1)
		<-wakes
	}
	tx, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := there.EnqueueTx(t.Context(), tx, time.Time{}, []job.New{{Kind: "mail"}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-wakes
}

// TestACloseTellsFirst: a program that enqueues and ends wakes the workers.
func TestACloseTellsFirst(t *testing.T) {
	url := migrated(t)
	s := open(t, url, postgres.Options{Poll: time.Hour})
	wakes, err := s.Wakes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-wakes
	brief, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mail(t, brief, 1)
	if err := brief.Close(); err != nil {
		t.Fatal(err)
	}
	<-wakes
}

// TestPollingUnderVirtualTime: a store without LISTEN lets virtual time pass,
// and wakes by it.
func TestPollingUnderVirtualTime(t *testing.T) {
	url := migrated(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := postgres.Open(t.Context(), url, postgres.Options{NoListen: true, Poll: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		wakes, err := s.Wakes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 31 {
			<-wakes
		}
		if passed := time.Since(began); passed != 31*time.Minute {
			t.Errorf("31 wakes took %s, want 31 minutes", passed)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, open := <-wakes; open {
			t.Error("a closed store's wakes are open")
		}
	})
}
