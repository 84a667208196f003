package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/ebbhq/ebb/job"
	"github.com/ebbhq/ebb/store"
)

const (
	// periodicLate is by how much a time of a schedule may be passed and still
	// be kept: later, no process was running, and the rule for missed times
	// applies. Policy time.
	periodicLate = 30 * time.Second
	// maxMissed is the most jobs that one schedule makes up for.
	maxMissed = 1000
)

// NextTime returns the first time of a schedule after an instant: cron's five
// fields, or @hourly and the like, by the clocks of a zone. Where these go
// forward, times that they leave out do not come; where they go back, a time
// that comes twice comes twice.
func NextTime(spec, zone string, after time.Time) (time.Time, error) {
	s, err := parseSchedule(spec, zone)
	if err != nil {
		return time.Time{}, err
	}
	return s.next(after)
}

// timetable is a schedule that was read.
type timetable struct {
	cron.Schedule
	zone *time.Location
	text string
}

func parseSchedule(spec, zone string) (timetable, error) {
	at, err := time.LoadLocation(zone) // empty is UTC
	if err != nil {
		return timetable{}, fmt.Errorf("worker: schedule: zone %q: want a name of the IANA database, such as Europe/Berlin: %w", zone, err)
	}
	parser := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	s, err := parser.Parse(spec)
	if err != nil {
		return timetable{}, fmt.Errorf("worker: schedule: %q: want five fields, such as \"0 6 * * 1\", or @daily: %w", spec, err)
	}
	return timetable{s, at, spec}, nil
}

func (t timetable) next(after time.Time) (time.Time, error) {
	at := t.Next(after.In(t.zone))
	if at.IsZero() {
		return at, fmt.Errorf("worker: schedule: %q: no such time in the next five years", t.text)
	}
	return at.UTC(), nil
}

// firing is what is to be done about a schedule whose time has come.
type firing struct {
	to    time.Time // the next time
	times []time.Time
}

// fires returns the times that jobs are made for and the next one. A schedule
// that is late by more than periodicLate has missed times.
func fires(p *store.Periodic, now time.Time) (firing, error) {
	s, err := parseSchedule(p.Cron, p.Zone)
	if err != nil {
		return firing{}, err
	}
	var all []time.Time
	at := p.NextAt
	for !at.After(now) {
		if all = append(all, at); len(all) > maxMissed {
			all = all[1:] // the newest stay
		}
		if at, err = s.next(at); err != nil {
			return firing{}, err
		}
	}
	f := firing{to: at, times: all}
	if len(all) == 0 {
		return f, nil
	}
	last := all[len(all)-1:]
	switch p.Missed {
	case job.MissedOnce:
		f.times = last
	case job.MissedSkip:
		if f.times = last; now.Sub(last[0]) > periodicLate {
			f.times = nil
		}
	case job.MissedAll:
	}
	return f, nil
}

// askPeriodics fires the schedules whose time has come, or finds out when the
// next one comes.
func (l *loop) askPeriodics() {
	if l.firing || l.process == 0 || l.phase != working {
		return
	}
	now := l.now()
	due := !l.periodicAt.IsZero() && !now.Before(l.periodicAt)
	if !due && !l.periodicStale || l.machine().Before(l.pauseUntil) {
		return
	}
	l.periodicStale, l.periodicAt, l.firing = false, time.Time{}, true
	l.group.Go(func() {
		ctx, cancel := l.call(l.side)
		defer cancel()
		next, fired, err := l.fire(ctx, now)
		l.mail.post(func(l *loop) { l.firedAll(next, fired, err) })
	})
}

func (l *loop) firedAll(next time.Time, fired int, err error) {
	l.firing, l.periodicAt = false, next
	if fired > 0 {
		l.wake()
	}
	if err != nil {
		l.failures++
		l.pauseUntil = l.machine().Add(l.delay(l.failures))
		l.periodicStale = true
		l.tell(Event{What: Erred, Text: "schedules", Err: err})
	}
}

// fire enqueues what is due by the schedules, each once for all processes, and
// returns when the next time comes.
func (w *Worker) fire(ctx context.Context, now time.Time) (next time.Time, fired int, err error) {
	all, err := w.store.Periodics(ctx)
	if err != nil {
		return next, 0, err
	}
	for i := range all {
		p := &all[i]
		if p.NextAt.After(now) {
			next = earlier(next, p.NextAt)
			continue
		}
		f, err := fires(p, now)
		if err != nil { // somebody must change it; the others go on
			w.tell(Event{What: Erred, Text: "schedule " + p.Name, Err: err})
			continue
		}
		jobs := make([]job.New, len(f.times))
		for i, at := range f.times {
			jobs[i] = p.Job
			jobs[i].DueAt = at
		}
		done, err := w.store.Fire(ctx, w.storeNow(), p.Name, p.NextAt, f.to, jobs)
		if err != nil {
			return next, fired, fmt.Errorf("%s: %w", p.Name, err)
		}
		next = earlier(next, f.to)
		if done {
			fired += len(jobs)
			w.tell(Event{What: Fired, Text: p.Name, Count: len(jobs)})
		}
	}
	return next, fired, nil
}
