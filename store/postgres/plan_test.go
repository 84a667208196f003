package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ebbhq/ebb/store/pgtest"
	"github.com/ebbhq/ebb/store/storetest"
)

// hot are the statements that run all the time, with the indexes by which they
// may look at ebb_job.
var hot = map[string][]string{
	"claim":           {"ebb_job_ready"},
	"claim_strict":    {"ebb_job_ready", "ebb_job_pkey"},
	"look_behind":     {"ebb_job_ready"},
	"begin":           {"ebb_job_pkey"},
	"release":         {"ebb_job_pkey"},
	"succeed_fresh":   {"ebb_job_pkey"},
	"succeed":         {"ebb_job_pkey"},
	"fail":            {"ebb_job_pkey"},
	"park":            {"ebb_job_pkey"},
	"requeue":         {"ebb_job_pkey"},
	"keep":            {"ebb_job_pkey"},
	"end_ordered":     {"ebb_job_ordered"},
	"orders":          {"ebb_job_ordered"},
	"progress":        {"ebb_job_pkey"},
	"next_due":        {"ebb_job_ready"},
	"queues_declared": {"ebb_job_ready", "ebb_job_lane"},
	"ahead":           {"ebb_job_ready", "ebb_job_lane", "ebb_job_pkey"},
	"expire":          {"ebb_job_deadline", "ebb_job_pkey"},
	"order_cancel":    {"ebb_job_pkey"},
	"due_now":         {"ebb_job_pkey"},
	"job":             {"ebb_job_pkey"},
	"enter":           {},

	"enqueue_numbered":  {"ebb_job_key"},
	"claim_named":       {"ebb_job_lane"},
	"claim_further":     {"ebb_job_lane"},
	"look_behind_marks": {"ebb_job_lane"},
	"discover":          {"ebb_job_lane", "ebb_job_pkey"},
	"gather_looks":      {},
	"hold":              {},
	"wake":              {},
	"swap":              {},
	"gates_of_turn":     {},
	"park_behind":       {"ebb_job_key"},
	"demote":            {"ebb_job_key", "ebb_job_head"},
	"promote":           {"ebb_job_key", "ebb_job_head", "ebb_job_pkey"},
	"end_failed":        {"ebb_job_target", "ebb_job_pkey"},
	"end_parked":        {"ebb_job_target", "ebb_job_pkey"},
	"held_before":       {"ebb_job_held"},
	"lanes":             {"ebb_job_lane"},
	"targets":           {"ebb_job_lane"},
	"wake_stranded":     {"ebb_job_lane"},
}

// byLane are statements that look for looks of lanes which they know: read by
// due time, each would cost all looks of its queue.
var byLane = []string{"claim_named", "claim_further", "gather_looks", "hold", "wake"}

// sorting are statements that sort what they have found, which is little.
var sorting = []string{"orders", "enqueue_numbered", "claim_named", "claim_further", "discover", "gather_looks", "hold", "wake", "park_behind", "demote", "promote", "lanes", "targets", "ahead", "queues_declared"}

// addLanes adds a job for each of 100 targets and keys, and what goes with it,
// ten times.
func addLanes(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	execute(t, conn, `INSERT INTO ebb_job (seq, due_at, queue_number, kind, target, lane, key)
		SELECT -i, now(), q.number, 'noop', 'host-' || i % 100 || '.example.com', 'host-' || i % 100 || '.example.com', 'key' || i % 100
		  FROM generate_series(1, 1000) AS i, ebb_queue q WHERE q.name = 'default'`)
	execute(t, conn, `INSERT INTO ebb_look (look_at, queue_number, priority, retrying, target, kind)
		SELECT due_at, queue_number, priority, retrying, lane, kind FROM ebb_job WHERE lane IS NOT NULL`)
}

// planned is a database with jobs, and a connection with the store's settings.
func planned(t *testing.T, rows int) *pgx.Conn {
	t.Helper()
	url := pgtest.Database(t)
	if _, err := Migrate(t.Context(), url, Up); err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range plans {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	addJobs(t, conn, 1, rows, "now() - interval '1 hour' + i * interval '1 microsecond'")
	return conn
}

// addJobs adds jobs i from one number up to another, due at the expression.
func addJobs(t *testing.T, conn *pgx.Conn, from, to int, due string) {
	t.Helper()
	execute(t, conn, statement("queues"), []string{"default"})
	execute(t, conn, `INSERT INTO ebb_job (seq, due_at, enqueued_at, priority, queue_number, kind, args)
		SELECT i, `+due+`, now(), i % 3, q.number, 'noop', '{}'
		  FROM generate_series($1::bigint, $2::bigint) AS i, ebb_queue q WHERE q.name = 'default'`, from, to)
}

func execute(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// node is a node of a plan.
type node struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Hit      int    `json:"Shared Hit Blocks"`
	Read     int    `json:"Shared Read Blocks"`
	Plans    []node `json:"Plans"`
}

func (n node) walk(f func(n node)) {
	f(n)
	for _, p := range n.Plans {
		p.walk(f)
	}
}

// explain returns the plan that the statement has for any parameters.
func explain(t *testing.T, conn *pgx.Conn, name string) node {
	t.Helper()
	text, most := statement(name), 0
	if c, ok := chosen[name]; ok {
		text = c.text
	}
	for _, m := range parameter.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	execute(t, conn, "PREPARE planned AS "+text, pgx.QueryExecModeSimpleProtocol)
	defer execute(t, conn, "DEALLOCATE planned")
	nulls := strings.Repeat(", NULL", most)
	if most > 0 {
		nulls = "(" + nulls[2:] + ")"
	}
	return plan(t, conn, "EXPLAIN (FORMAT JSON) EXECUTE planned"+nulls)
}

func plan(t *testing.T, conn *pgx.Conn, sql string, args ...any) node {
	t.Helper()
	var text []byte
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var explained []struct{ Plan node }
	if err := json.Unmarshal(text, &explained); err != nil {
		t.Fatal(err)
	}
	return explained[0].Plan
}

func TestPlans(t *testing.T) {
	conn := planned(t, storetest.PlanRows(t))
	addLanes(t, conn)
	for _, when := range []string{"never analysed", "analysed", "a look for each enqueue", "analysed while empty"} {
		switch when {
		case "a look for each enqueue":
			execute(t, conn, `INSERT INTO ebb_look (look_at, queue_number, priority, retrying, target, kind)
				SELECT j.due_at - g % 80 * interval '1 second', j.queue_number, j.priority, j.retrying, j.lane, j.kind
				  FROM generate_series(1, 400) AS g, ebb_job j WHERE j.lane IS NOT NULL`)
			execute(t, conn, "ANALYZE ebb_look")
		case "analysed":
			execute(t, conn, "VACUUM ANALYZE")
		case "analysed while empty":
			execute(t, conn, "TRUNCATE ebb_job, ebb_look")
			execute(t, conn, "VACUUM ANALYZE")
			addJobs(t, conn, 1, storetest.PlanRows(t), "now()")
			addLanes(t, conn)
		}
		for name, indexes := range hot {
			t.Run(when+"/"+name, func(t *testing.T) {
				var used []string
				explain(t, conn, name).walk(func(n node) {
					if strings.HasPrefix(n.Index, "ebb_job_") {
						used = append(used, n.Index)
					}
					big := n.Relation == "ebb_look" || n.Relation == "ebb_gate" || n.Relation == "ebb_job" || n.Relation == "ebb_done" || n.Relation == "ebb_dead" || n.Relation == "ebb_parked" || n.Relation == "ebb_attempt"
					if big && n.Type == "Seq Scan" {
						t.Errorf("reads all of %s", n.Relation)
					}
					if n.Index == "ebb_look_due" && slices.Contains(byLane, name) {
						t.Errorf("looks for a lane among those of all")
					}
					sorts := n.Type == "Sort" || n.Type == "Incremental Sort"
					if sorts && !slices.Contains(sorting, name) {
						t.Errorf("sorts")
					}
				})
				slices.Sort(used)
				used = slices.Compact(used)
				for _, index := range used {
					if !slices.Contains(indexes, index) {
						t.Errorf("uses %s, want %v", index, indexes)
					}
				}
				if len(used) == 0 && len(indexes) > 0 {
					t.Errorf("uses no index, want %v", indexes)
				}
			})
		}
	}
}

// touched returns how many pages a claim of n jobs touches. It is rolled back.
func touched(t *testing.T, conn *pgx.Conn, n int, r ranges) (pages int) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	var id int64
	row := tx.QueryRow(t.Context(), statement("register"), nil, 1, "h", []string{"noop"}, []string{}, "", "", "")
	if err := row.Scan(&id, nil); err != nil {
		t.Fatal(err)
	}
	var text []byte
	row = tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+statement("claim"), id, "default", []string{"noop"}, n, nil,
		r.priorities, r.lowAt, r.lowSeq, r.highAt, r.highSeqs)
	if err := row.Scan(&text); err != nil {
		t.Fatal(err)
	}
	var explained []struct{ Plan node }
	if err := json.Unmarshal(text, &explained); err != nil {
		t.Fatal(err)
	}
	return explained[0].Plan.Hit + explained[0].Plan.Read
}

func TestFutureJobsDoNotSlowAClaim(t *testing.T) {
	conn := planned(t, 2000)
	without := touched(t, conn, 100, everything().ranges)
	future := max(100_000, storetest.PlanRows(t))
	addJobs(t, conn, 1_000_000, 1_000_000+future, "now() + interval '1 hour'")
	with := touched(t, conn, 100, everything().ranges)
	t.Logf("a claim of 100 touches %d pages beside %d future jobs, %d without", with, future, without)
	if with > without+without/2+50 {
		t.Errorf("a claim touches %d pages beside %d future jobs, %d without", with, future, without)
	}
}

func TestAHeldSnapshotDoesNotSlowAClaim(t *testing.T) {
	const jobs = 60_000
	conn := planned(t, jobs)
	fresh := touched(t, conn, 100, everything().ranges)
	reader, err := pgx.ConnectConfig(t.Context(), conn.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close(context.Background()) }()
	snapshot, err := reader.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	var seen int
	if err := snapshot.QueryRow(t.Context(), "SELECT count(*) FROM ebb_job").Scan(&seen); err != nil || seen != jobs {
		t.Fatalf("the reader sees %d jobs: %v", seen, err)
	}
	execute(t, conn, fmt.Sprintf("DELETE FROM ebb_job WHERE seq <= %d", jobs-1000))
	execute(t, conn, "VACUUM ebb_job")
	var last place
	row := conn.QueryRow(t.Context(), "SELECT due_at, seq FROM ebb_job ORDER BY due_at, seq LIMIT 1")
	if err := row.Scan(&last.due, &last.seq); err != nil {
		t.Fatal(err)
	}
	from := ranges{}
	for p := range levels {
		from.add(p, place{due: last.due, seq: -1}, place{})
	}
	whole, remembered := touched(t, conn, 100, everything().ranges), touched(t, conn, 100, from)
	if whole < 4*fresh {
		t.Errorf("a claim from the start touches %d pages, %d without the snapshot: the test shows nothing", whole, fresh)
	}
	if remembered > fresh+fresh/2+50 {
		t.Errorf("a claim from where the last one ended touches %d pages, %d without the snapshot", remembered, fresh)
	}
}
