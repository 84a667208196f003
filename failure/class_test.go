package failure

import (
	"encoding/json"
	"testing"
)

func TestClassesAreClosedAndNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Classes() {
		if c.String() == "" || seen[c.String()] {
			t.Errorf("class %d: name %q is empty or used twice", c, c)
		}
		seen[c.String()] = true
		if c.Group() == NoGroup {
			t.Errorf("%s has no group", c)
		}
		if c.Blame() == BlameNone {
			t.Errorf("%s blames nobody", c)
		}
		back, err := ParseClass(c.String())
		if err != nil || back != c {
			t.Errorf("ParseClass(%q) = %v, %v", c, back, err)
		}
	}
	if len(Classes()) != NumClasses-1 {
		t.Errorf("%d classes listed, want %d", len(Classes()), NumClasses-1)
	}
	if NumClasses > 64 {
		t.Errorf("%d classes do not fit a ClassSet", NumClasses)
	}
}

// The seeds' groups: what a wave tries again, what is final.
func TestGroupsOfTheSeeds(t *testing.T) {
	for class, want := range map[Class]Group{
		Throttled: Transient, Server: Transient, TooEarly: Transient, Unavailable: Transient,
		ConnectTimeout: TimedOut, HeaderTimeout: TimedOut, BodyTimeout: TimedOut, Timeout: TimedOut, RequestTimeout: TimedOut,
		DNS: Connection, Refused: Connection, Reset: Connection, TLS: Connection, ShortBody: Connection, Unreachable: Connection,
		Rejected: Permanent, Gone: Permanent, InvalidOutput: Permanent, InvalidInput: Permanent, PolicyDenied: Permanent,
		Config: Misconfig, Crash: Local, Interrupted: Local, DiskFull: Local, LocalIO: Local,
	} {
		if class.Group() != want {
			t.Errorf("%s is of group %s, want %s", class, class.Group(), want)
		}
	}
}

func TestClassAsJSON(t *testing.T) {
	got, err := json.Marshal(map[string]any{"class": HeaderTimeout, "blame": BlameTarget})
	if err != nil || string(got) != `{"blame":"target","class":"header_timeout"}` {
		t.Fatalf("got %s, %v", got, err)
	}
	var back struct {
		Class Class
		Blame Blame
	}
	if err := json.Unmarshal(got, &back); err != nil || back.Class != HeaderTimeout || back.Blame != BlameTarget {
		t.Fatalf("read back %+v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"class":"nonsense"}`), &back); err == nil {
		t.Error("an unknown class was accepted")
	}
	if err := json.Unmarshal([]byte(`{"blame":"nobody"}`), &back); err == nil {
		t.Error("an unknown blame was accepted")
	}
}

func TestOutOfRangeIsUnknown(t *testing.T) {
	c := Class(200)
	if c.String() != "unknown" || c.Group() != NoGroup || c.Blame() != BlameNone {
		t.Errorf("class 200 reads as %s, %s, %s", c, c.Group(), c.Blame())
	}
}
