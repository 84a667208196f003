package policy

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/ebbhq/ebb/failure"
)

// Enumerations are strings, so that a policy prints and compares as it is
// written; Validate refuses any other value.
type (
	// Target is the kind of whom the work calls; it chooses the guard's floor.
	Target string
	// HoldEnd is what happens to work held longer than MaxHold.
	HoldEnd string
	// JitterKind names a distribution around the nominal delay.
	JitterKind string
	// BudgetKind names a way to bound retries.
	BudgetKind string
	// Action is what a class of failures leads to.
	Action string
	// Counts says whether a start spends the attempt budget.
	Counts string
	// Slot says where a delay is waited out.
	Slot string
	// Safety says what a doubled call does.
	Safety string
)

const (
	Endpoint Target = "endpoint"
	Host     Target = "host"
	Provider Target = "provider"
	Process  Target = "process"

	HoldFail HoldEnd = "fail"
	HoldPark HoldEnd = "park"

	JitterNone         JitterKind = "none"
	JitterProportional JitterKind = "proportional" // × 1 ± ratio
	JitterAdditive     JitterKind = "additive"     // × 1 + 0..ratio
	JitterEqual        JitterKind = "equal"        // half fixed, half random
	JitterFull         JitterKind = "full"         // 0..delay
	JitterDecorrelated JitterKind = "decorrelated" // base..3 × last delay

	BudgetNone     BudgetKind = "none"
	BudgetWindow   BudgetKind = "window"
	BudgetTokens   BudgetKind = "tokens"
	BudgetShare    BudgetKind = "share"
	BudgetThrottle BudgetKind = "throttle"

	Retry         Action = "retry"
	Fail          Action = "fail"
	Park          Action = "park"
	PauseTarget   Action = "pause_target"   // retry, and pause the target for the delay
	DisableTarget Action = "disable_target" // fail, and disable the target

	CountsAttempt Counts = "attempt"
	CountsFree    Counts = "free"

	SlotRelease Slot = "release"
	SlotKeep    Slot = "keep"

	Idempotent Safety = "idempotent"
	Keyed      Safety = "keyed"
	Unsafe     Safety = "unsafe"
)

// Retries reports whether the action leads to another start.
func (a Action) Retries() bool { return a == Retry || a == PauseTarget }

// ClassSet is a set of failure classes; 0 is empty.
type ClassSet uint64

// SetOf returns the set of the classes.
func SetOf(classes ...failure.Class) ClassSet {
	var s ClassSet
	for _, c := range classes {
		s |= 1 << c
	}
	return s
}

// SetOfGroups returns the classes of the groups.
func SetOfGroups(groups ...failure.Group) ClassSet {
	var s ClassSet
	for _, c := range failure.Classes() {
		if contains(groups, c.Group()) {
			s |= 1 << c
		}
	}
	return s
}

// Has reports whether the class is in the set.
func (s ClassSet) Has(c failure.Class) bool { return s&(1<<c) != 0 }

// Len returns the number of classes.
func (s ClassSet) Len() int { return bits.OnesCount64(uint64(s)) }

// Names prints the set as the policy file does: whole groups by the group's
// name, then the remaining classes, each in declaration order.
func (s ClassSet) Names() []string {
	var names []string
	rest := s
	for _, g := range failure.Groups() {
		if whole := SetOfGroups(g); s&whole == whole {
			names = append(names, g.String())
			rest &^= whole
		}
	}
	for _, c := range failure.Classes() {
		if rest.Has(c) {
			names = append(names, className(c))
		}
	}
	return names
}

// classPrefix tells a class from the group of the same name.
const classPrefix = "class."

// className is how the policy file writes one class: by its name, or as
// class.timeout where the plain name means a group of several classes.
func className(c failure.Class) string {
	if g, err := failure.ParseGroup(c.String()); err == nil && SetOfGroups(g) != SetOf(c) {
		return classPrefix + c.String()
	}
	return c.String()
}

// ParseClassSet reads names of groups and classes. A name of both ("timeout",
// "config") means the group; class.timeout is the class alone.
func ParseClassSet(names []string) (ClassSet, error) {
	var s ClassSet
	for _, name := range names {
		if g, err := failure.ParseGroup(name); err == nil && g != failure.NoGroup {
			s |= SetOfGroups(g)
			continue
		}
		c, err := failure.ParseClass(strings.TrimPrefix(name, classPrefix))
		if err != nil || c == failure.Unknown {
			return 0, fmt.Errorf("unknown class %q; one of: %s", name, strings.Join(ClassNames(), ", "))
		}
		s |= 1 << c
	}
	return s, nil
}

// ClassNames lists what the policy file may write where it names classes:
// the groups, then the single classes.
func ClassNames() []string {
	var names []string
	for _, g := range failure.Groups() {
		names = append(names, g.String())
	}
	for _, c := range failure.Classes() {
		if name := className(c); !contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
