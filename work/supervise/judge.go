package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebbhq/ebb/failure"
)

// end judges an attempt that has ended, books what follows from it, and
// returns what the worker shall decide on.
func (l *life) end(ctx context.Context, e ended) error {
	ctx = context.WithoutCancel(ctx)
	switch {
	case e.Refused: // another attempt has the lock: the next start takes it over
		return failure.New(failure.Interrupted, ReasonLeft, fmt.Errorf("run %s: another attempt of it lives", l.name))
	case e.Never && e.Error == "":
		return failure.New(failure.LocalIO, "never_started", fmt.Errorf("run %s: attempt %d: the wrapper ended before it began; see %s", l.name, l.status.Attempt, filepath.Join(l.at.dir, "wrapper.log")))
	}
	reason, err := l.at.stopped()
	if err != nil {
		return err
	}
	exit := l.exitOf(e)
	verdict := Judge(l.spec.exitRules(), &exit)
	var outcome error
	if reason != nil {
		verdict = Verdict{Outcome: OutcomeRetry, Rule: "watch", Reason: reason.Reason, Text: reason.Text + ": " + exit.words()}
		outcome = failure.New(reason.Class, reason.Reason, errors.New(verdict.Text))
	} else if outcome = l.failureOf(&verdict); outcome == nil {
		outcome = l.proven(ctx, &verdict)
	}
	l.unsaved = true
	if err := l.progress(ctx); err != nil {
		return err
	}
	if err := l.book(ctx, reason, verdict, outcome == nil); err != nil {
		return err
	}
	l.tell(Event{What: Ended, Verdict: &verdict, Text: verdict.Text})
	return outcome
}

// exitOf gathers what exit rules look at.
func (l *life) exitOf(e ended) Exit {
	x := Exit{Code: e.Code, Signal: e.Signal, OOM: e.OOM, StartErr: e.Error, Counts: l.meter.Counts()}
	switch {
	case e.Reboot:
		x.Rebooted, x.Signal = true, signalReboot
	case e.Lost:
		x.Lost, x.Signal = true, signalLost
	}
	if x.Ran = e.Ran; x.Ran == 0 && !e.Began.IsZero() {
		x.Ran = max(0, e.At.Sub(e.Began))
	}
	for _, path := range []string{l.spec.Cwd, l.spec.Dir} {
		if free, err := freeBytes(path); err == nil && free < fullBelow {
			x.Full = true
		}
	}
	var tails []string
	for _, t := range l.reader().tails {
		if text := lastOf(t.path, tailSize); text != "" {
			tails = append(tails, text)
		}
	}
	x.Tail = strings.Join(tails, "\n")
	for _, f := range l.look(&l.spec, l.at.launch.Vars) {
		x.Artifacts += len(f.Files)
	}
	return x
}

// failureOf turns a verdict into what retry.Decide is asked about; nil for a
// success, which is still to be proven.
func (l *life) failureOf(v *Verdict) error {
	err := fmt.Errorf("%s (exit rule %s)", v.Text, v.Rule)
	switch v.Outcome {
	case OutcomeSuccess:
		return nil
	case OutcomePartial:
		return failure.New(failure.InvalidOutput, "partial", err)
	case OutcomeRateLimited:
		return failure.New(failure.Throttled, v.Reason, err)
	case OutcomeInfra:
		return failure.New(failure.LocalIO, v.Reason, err)
	case OutcomeDisk:
		return failure.New(failure.DiskFull, v.Reason, err)
	case OutcomeConfig:
		return failure.New(failure.Config, ReasonConfig, err)
	case OutcomeInterrupted:
		return failure.New(failure.Interrupted, v.Reason, err)
	case OutcomeRetry:
		return failure.New(classOf(v.Reason), v.Reason, err)
	}
	return failure.New(failure.InvalidInput, v.Reason, err)
}

// classOf is the class of an exit that is tried again.
func classOf(reason string) failure.Class {
	switch reason {
	case "timeout":
		return failure.Timeout
	case "http", "pages_lost", "failed_limit":
		return failure.Server
	case "network", "files_lost":
		return failure.Reset
	}
	return failure.Plain
}

// proven checks a success against what it must have left.
func (l *life) proven(ctx context.Context, v *Verdict) error {
	proof := Proof{Found: l.look(&l.spec, l.at.launch.Vars), Units: l.status.Base + l.meter.Units(), Last: l.status.LastUnits}
	if other := l.spec.Success.Against; other != "" && other != l.name {
		st, err := l.Service.status(ctx, other)
		if err != nil {
			return err
		}
		proof.Last = st.LastUnits
	}
	missing := l.spec.Success.prove(proof)
	if len(missing) == 0 {
		return l.result(proof)
	}
	v.Outcome, v.Reason = OutcomePartial, "unproven"
	v.Text = v.Text + ", but " + strings.Join(missing, "; ")
	return failure.New(failure.SoftError, "unproven", errors.New(v.Text))
}

// result is kept with the job.
func (l *life) result(p Proof) error {
	type found struct {
		Glob    string   `json:"glob"`
		Files   []string `json:"files"`
		Bytes   int64    `json:"bytes"`
		Records int64    `json:"records,omitempty"`
	}
	r := struct {
		Run       string  `json:"run"`
		Attempt   int     `json:"attempt"`
		Units     int64   `json:"units"`
		Artifacts []found `json:"artifacts,omitempty"`
	}{Run: l.name, Attempt: l.status.Attempt, Units: p.Units}
	for _, f := range p.Found {
		r.Artifacts = append(r.Artifacts, found{f.Glob, f.Files, f.Size, f.Records})
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	l.task.SetResult(text)
	return nil
}

// book writes down what follows from an attempt, once: fewer workers, what
// remains, which resume files got nowhere.
func (l *life) book(ctx context.Context, reason *StopReason, v Verdict, succeeded bool) error {
	st := &l.status
	st.EndedAt, st.Verdict = l.config.Clock.Now().UTC(), &v
	if rest := l.meter.Remaining(); len(rest) > 0 {
		if err := saveText(filepath.Join(l.at.dir, remainingFile), []byte(strings.Join(rest, "\n")+"\n"), 0o600); err != nil {
			return err
		}
	}
	if st.Judged < st.Attempt {
		st.Judged = st.Attempt
		if adapt := reason != nil && reason.Adapt || v.Reason == "oom"; adapt && st.Workers > l.spec.Workers.Min {
			st.Workers = max(l.spec.Workers.Min, st.Workers/2)
			st.Reductions++
		}
		st.Resumed = st.Resumed.after(l.at.launch.Resume, st.High > l.at.launch.High)
		if succeeded {
			st.LastUnits = st.Base + l.meter.Units()
		}
	}
	return l.report(ctx)
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
