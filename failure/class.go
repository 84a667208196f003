package failure

import "fmt"

// Class says what went wrong. The set is closed: workloads add classifiers
// and reasons, never classes, so that policies, metrics and the console can
// enumerate it. Numbers are internal; names are what is stored and written.
type Class uint8

const (
	// Unknown is the zero value: nothing was classified. No rule of the
	// built-in table retries it.
	Unknown Class = iota

	DNS         // the name did not resolve
	Refused     // nothing listens there
	Reset       // the connection broke before a whole answer
	Unreachable // no route to the host or network
	TLS         // handshake or certificate

	ConnectTimeout // no connection within the limit
	HeaderTimeout  // connected, but no answer began
	BodyTimeout    // the answer began and stalled
	Timeout        // the attempt's limit passed, phase unknown
	RequestTimeout // HTTP 408

	ShortBody   // fewer bytes than announced
	Throttled   // HTTP 429 or a provider's rate limit
	TooEarly    // HTTP 425
	Server      // HTTP 5xx
	Unavailable // a database or object store is not ready for now
	SoftError   // an error page that says 200
	Plain       // a handler's plain error that nothing classified

	Gone          // HTTP 410
	Rejected      // any other HTTP 4xx
	Redirect      // HTTP 3xx where none is followed
	TooLarge      // over a size limit
	Empty         // healthy but without content
	InvalidOutput // the answer breaks its schema or cannot be parsed
	InvalidInput  // the work itself is broken: missing object, bad metadata
	PolicyDenied  // our own rules forbid the call (SSRF guard, robots)

	Config // a person must change a setting, flag or credential

	LocalIO     // this machine's file system or descriptors
	DiskFull    // this machine's disk
	Interrupted // this process was told to stop
	Crash       // the process died during the start

	// NumClasses is the number of classes, Unknown included.
	NumClasses = int(Crash) + 1
)

// Group gathers classes as the seeds group them; waves and class rules match
// by it.
type Group uint8

const (
	// NoGroup is the group of Unknown.
	NoGroup    Group = iota
	Transient        // the target is struggling
	TimedOut         // no answer in time
	Connection       // no usable connection
	Permanent        // the same call will fail again
	Misconfig        // a person must act
	Local            // our own machine or process
)

// Blame says who is at fault; a breaker counts only what blames the target.
type Blame uint8

const (
	BlameNone   Blame = iota
	BlameTarget       // whom the work calls
	BlameUs           // this machine, process or resolver
	BlameCaller       // the work itself: its input, request or settings
)

type classRow struct {
	name  string
	group Group
	blame Blame
}

var classes = [NumClasses]classRow{
	Unknown:        {"unknown", NoGroup, BlameNone},
	DNS:            {"dns", Connection, BlameTarget},
	Refused:        {"refused", Connection, BlameTarget},
	Reset:          {"reset", Connection, BlameTarget},
	Unreachable:    {"unreachable", Connection, BlameTarget},
	TLS:            {"tls", Connection, BlameTarget},
	ConnectTimeout: {"connect_timeout", TimedOut, BlameTarget},
	HeaderTimeout:  {"header_timeout", TimedOut, BlameTarget},
	BodyTimeout:    {"body_timeout", TimedOut, BlameTarget},
	Timeout:        {"timeout", TimedOut, BlameTarget},
	RequestTimeout: {"request_timeout", TimedOut, BlameTarget},
	ShortBody:      {"short_body", Connection, BlameTarget},
	Throttled:      {"throttled", Transient, BlameTarget},
	TooEarly:       {"too_early", Transient, BlameTarget},
	Server:         {"server", Transient, BlameTarget},
	Unavailable:    {"unavailable", Transient, BlameTarget},
	SoftError:      {"soft_error", Transient, BlameTarget},
	Plain:          {"error", Transient, BlameCaller},
	Gone:           {"gone", Permanent, BlameCaller},
	Rejected:       {"rejected", Permanent, BlameCaller},
	Redirect:       {"redirect", Permanent, BlameCaller},
	TooLarge:       {"too_large", Permanent, BlameCaller},
	Empty:          {"empty", Permanent, BlameCaller},
	InvalidOutput:  {"invalid_output", Permanent, BlameCaller},
	InvalidInput:   {"invalid_input", Permanent, BlameCaller},
	PolicyDenied:   {"policy_denied", Permanent, BlameCaller},
	Config:         {"config", Misconfig, BlameCaller},
	LocalIO:        {"local_io", Local, BlameUs},
	DiskFull:       {"disk_full", Local, BlameUs},
	Interrupted:    {"interrupted", Local, BlameUs},
	Crash:          {"crash", Local, BlameUs},
}

var groupNames = [...]string{
	NoGroup: "none", Transient: "transient", TimedOut: "timeout",
	Connection: "connection", Permanent: "permanent", Misconfig: "config", Local: "local",
}

var blameNames = [...]string{
	BlameNone: "none", BlameTarget: "target", BlameUs: "us", BlameCaller: "caller",
}

// Classes lists every class but Unknown, in declaration order.
func Classes() []Class {
	all := make([]Class, 0, NumClasses-1)
	for c := Unknown + 1; int(c) < NumClasses; c++ {
		all = append(all, c)
	}
	return all
}

// Groups lists every group but NoGroup.
func Groups() []Group {
	return []Group{Transient, TimedOut, Connection, Permanent, Misconfig, Local}
}

// ParseClass reads a class by name.
func ParseClass(name string) (Class, error) {
	for i, row := range classes {
		if row.name == name {
			return Class(i), nil
		}
	}
	return Unknown, fmt.Errorf("failure: unknown class %q", name)
}

// ParseGroup reads a group by name.
func ParseGroup(name string) (Group, error) {
	for i, n := range groupNames {
		if n == name {
			return Group(i), nil
		}
	}
	return NoGroup, fmt.Errorf("failure: unknown group %q", name)
}

func (c Class) String() string {
	if int(c) < NumClasses {
		return classes[c].name
	}
	return "unknown"
}

// Group returns the group that the seeds put the class in.
func (c Class) Group() Group {
	if int(c) < NumClasses {
		return classes[c].group
	}
	return NoGroup
}

// Blame returns who is at fault when nothing more is known.
func (c Class) Blame() Blame {
	if int(c) < NumClasses {
		return classes[c].blame
	}
	return BlameNone
}

// MarshalText writes the class by name.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the class by name.
func (c *Class) UnmarshalText(text []byte) (err error) {
	*c, err = ParseClass(string(text))
	return err
}

func (g Group) String() string {
	if int(g) < len(groupNames) {
		return groupNames[g]
	}
	return "none"
}

func (b Blame) String() string {
	if int(b) < len(blameNames) {
		return blameNames[b]
	}
	return "none"
}

// MarshalText writes the blame by name.
func (b Blame) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the blame by name.
func (b *Blame) UnmarshalText(text []byte) error {
	for i, n := range blameNames {
		if n == string(text) {
			*b = Blame(i)
			return nil
		}
	}
	return fmt.Errorf("failure: unknown blame %q", text)
}
