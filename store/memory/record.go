package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ebbhq/ebb/store"
)

// recordName is what is unique of a record.
type recordName struct{ kind, id string }

func nameOf(r *store.Record) recordName { return recordName{r.Kind, r.ID} }

// expiry is when a record ends.
type expiry struct {
	at   time.Time
	name recordName
}

func (e expiry) compare(f expiry) int {
	return cmp.Or(e.at.Compare(f.at), cmp.Compare(e.name.kind, f.name.kind), cmp.Compare(e.name.id, f.name.id))
}

// records are all documents, with their orders.
type records struct {
	all      map[recordName]store.Record
	ids      map[string][]string // of each kind, sorted
	expiries []expiry            // sorted
}

// find returns the record unless it has expired.
func (rs *records) find(name recordName, now time.Time) (store.Record, bool) {
	r, found := rs.all[name]
	return r, found && !r.Expired(now)
}

// put adds a record or replaces it.
func (rs *records) put(r store.Record) {
	name := nameOf(&r)
	rs.drop(name)
	if rs.all == nil {
		rs.all, rs.ids = map[recordName]store.Record{}, map[string][]string{}
	}
	rs.all[name] = r
	i, _ := slices.BinarySearch(rs.ids[r.Kind], r.ID)
	rs.ids[r.Kind] = slices.Insert(rs.ids[r.Kind], i, r.ID)
	if !r.ExpiresAt.IsZero() {
		e := expiry{r.ExpiresAt, name}
		i, _ := slices.BinarySearchFunc(rs.expiries, e, expiry.compare)
		rs.expiries = slices.Insert(rs.expiries, i, e)
	}
}

// drop removes a record, if there is one.
func (rs *records) drop(name recordName) {
	r, found := rs.all[name]
	if !found {
		return
	}
	delete(rs.all, name)
	i, _ := slices.BinarySearch(rs.ids[r.Kind], r.ID)
	rs.ids[r.Kind] = slices.Delete(rs.ids[r.Kind], i, i+1)
	if i, found := slices.BinarySearchFunc(rs.expiries, expiry{r.ExpiresAt, name}, expiry.compare); found {
		rs.expiries = slices.Delete(rs.expiries, i, i+1)
	}
}

// expire drops up to limit records that have ended and says how many it did.
func (rs *records) expire(now time.Time, limit int) (n int) {
	for ; n < limit && len(rs.expiries) > 0 && !now.Before(rs.expiries[0].at); n++ {
		rs.drop(rs.expiries[0].name)
	}
	return n
}

// overlay is what writes make of records before it is done; nil = dropped.
type overlay map[recordName]*store.Record

// write is one that passed its checks.
type write struct {
	now     time.Time
	changes []store.Change
	audit   []store.AuditRow
}

func (s *Store) checked(now time.Time, w *store.Write) (write, error) {
	changes, err := w.Changes()
	for i := range changes {
		c := &changes[i]
		if c.Body = bytes.Clone(c.Body); len(c.Body) == 0 {
			c.Body = nil
		}
	}
	return write{s.at(now), changes, slices.Clone(w.Audit)}, err
}

// plan compares the versions and lays the write over those before it.
func (s *Store) plan(over overlay, w write) error {
	for i := range w.changes {
		c := &w.changes[i]
		name := nameOf(&c.Record)
		there, found := s.records.find(name, w.now)
		if laid, touched := over[name]; touched {
			if found = laid != nil && !laid.Expired(w.now); found {
				there = *laid
			}
		}
		version := int64(0)
		if found {
			version = there.Version
		}
		if err := c.Check(version); err != nil {
			return err
		}
		over[name] = nil
		if !c.Drop {
			r := c.Record
			r.Version = version + 1
			over[name] = &r
		}
	}
	return nil
}

// replay plans writes that were made one after the other.
func (s *Store) replay(writes []write) (overlay, error) {
	over := overlay{}
	for _, w := range writes {
		if err := s.plan(over, w); err != nil {
			return nil, err
		}
	}
	return over, nil
}

// carryOut does what was planned.
func (s *Store) carryOut(over overlay, writes []write) {
	for name, r := range over {
		if r == nil {
			s.records.drop(name)
		} else {
			s.records.put(*r)
		}
	}
	for _, w := range writes {
		for _, a := range w.audit {
			s.record(w.now, a.Actor, a.Act, a.What, a.Detail)
		}
	}
}

// Write changes records, enqueues and notes, all or nothing.
func (s *Store) Write(ctx context.Context, now time.Time, w store.Write) ([]store.Enqueued, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	one, err := s.checked(now, &w)
	if err != nil {
		return nil, err
	}
	over, err := s.replay([]write{one})
	if err != nil {
		return nil, err
	}
	st, err := s.stage(one.now, w.Jobs, nil)
	if err != nil {
		return nil, err
	}
	if name, body, ok := one.receipt(&w, st.answers); ok {
		over[name].Body = body
	}
	s.carryOut(over, []write{one})
	s.commit(st)
	return answersOf(st.answers), nil
}

// WriteTx is Write when tx, a *Tx, commits: then the versions are compared
// once more.
func (s *Store) WriteTx(ctx context.Context, tx any, now time.Time, w store.Write) ([]store.Enqueued, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	t, err := s.joined(tx)
	if err != nil {
		return nil, err
	}
	one, err := s.checked(now, &w)
	if err != nil {
		return nil, err
	}
	writes := append(slices.Clip(t.writes), one)
	if _, err := s.replay(writes); err != nil {
		return nil, err
	}
	answers, err := s.stageTx(t, one.now, w.Jobs)
	if err != nil {
		return nil, err
	}
	one.receipt(&w, answers)
	t.writes = writes
	return answersOf(answers), nil
}

// receipt gives the receipt's record its body, now that the jobs have their
// numbers; false if the write has none.
func (w *write) receipt(of *store.Write, answers []store.Enqueued) (recordName, []byte, bool) {
	for i := range w.changes {
		if c := &w.changes[i]; c.Receipt {
			if c.Body = bytes.Clone(of.Receipt(answersOf(answers))); len(c.Body) == 0 {
				c.Body = nil
			}
			return nameOf(&c.Record), c.Body, true
		}
	}
	return recordName{}, nil, false
}

// answersOf is nil where no job was to be enqueued.
func answersOf(answers []store.Enqueued) []store.Enqueued {
	if len(answers) == 0 {
		return nil
	}
	return answers
}

// Record returns the record.
func (s *Store) Record(ctx context.Context, kind, id string) (store.Record, error) {
	if err := s.begin(ctx); err != nil {
		return store.Record{}, err
	}
	defer s.mu.Unlock()
	r, found := s.records.find(recordName{kind, id}, s.clock.Now())
	if !found {
		return store.Record{}, store.NoRecord(kind, id)
	}
	r.Body = bytes.Clone(r.Body)
	return r, nil
}

// Records lists the records of a kind.
func (s *Store) Records(ctx context.Context, f store.RecordFilter) ([]store.Record, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	ids, step, now := s.records.ids[f.Kind], 1, s.clock.Now()
	at, exact := slices.BinarySearch(ids, f.After)
	switch {
	case f.Down && f.After == "":
		at, step = len(ids)-1, -1
	case f.Down:
		at, step = at-1, -1
	case exact:
		at++
	}
	var list []store.Record
	for ; at >= 0 && at < len(ids) && len(list) < f.Limit; at += step {
		r, found := s.records.find(recordName{f.Kind, ids[at]}, now)
		if found && (f.Ref == "" || f.Ref == r.Ref) {
			r.Body = bytes.Clone(r.Body)
			list = append(list, r)
		}
	}
	return list, nil
}
