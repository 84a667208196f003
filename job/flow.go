package job

// KeyRule says what becomes of a key's later jobs when its head has failed.
type KeyRule string

const (
	KeyBlock KeyRule = ""     // they wait until it is redriven, cancelled or dropped
	KeySkip  KeyRule = "skip" // the next one goes
	KeyPark  KeyRule = "park" // they are parked, cause head_failed
)

// UniqueScope says among which jobs a unique key is compared.
type UniqueScope string

const (
	UniqueEverywhere UniqueScope = ""      // all jobs of the store
	UniqueInQueue    UniqueScope = "queue" // jobs of the queue
	UniqueInKind     UniqueScope = "kind"  // jobs of the kind
)

// Conflict says what an enqueue does whose unique key is taken.
type Conflict string

const (
	// ConflictKeep adds nothing and names the job that holds the key.
	ConflictKeep Conflict = ""
	// ConflictReplace gives the holder, if it is queued and has not started,
	// the new arguments, policy, priority, due time and deadline; it keeps its
	// id and its place in a key. A holder that started is kept as it is.
	ConflictReplace Conflict = "replace"
	// ConflictRefuse fails the whole enqueue.
	ConflictRefuse Conflict = "refuse"
)

// Missed says what becomes of the times of a schedule at which no process
// was running.
type Missed string

const (
	MissedOnce Missed = ""     // one job for all of them
	MissedSkip Missed = "skip" // none: the next time is in the future
	MissedAll  Missed = "all"  // one job each, 1,000 at most
)
