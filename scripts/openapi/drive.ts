// Drives a job end to end with a client whose types are generated from
// /openapi.json: enqueue, claim, a settle that is refused, settle, succeeded.
// Usage: node drive.ts LOGIN-URL, the address that ebb serve prints.
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.d.ts";

type Lease = components["schemas"]["Lease"];

function must<T>(what: string, answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) {
    throw new Error(`${what}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

function same(what: string, got: unknown, want: unknown) {
  if (JSON.stringify(got) !== JSON.stringify(want)) {
    throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
  }
}

const login = new URL(process.argv[2]);
const baseUrl = login.origin;

// The first token is made by the session that the one-time address opens.
const opened = await fetch(login, { redirect: "manual" });
const cookie = opened.headers.get("set-cookie")?.split(";")[0];
if (!cookie) throw new Error(`login: ${opened.status}`);
const session = createClient<paths>({ baseUrl, headers: { cookie } });
const token = must("token", await session.POST("/v1/tokens", { body: { name: "drive", scopes: ["operate", "work"] } }));

const ebb = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token.secret}` } });
const job = must("enqueue", await ebb.POST("/v1/jobs", { body: { kind: "drive", args: { n: 42 } } }));
same("enqueued", job.state, "queued");

const claimed = must("claim", await ebb.POST("/v1/leases", { body: { kinds: ["drive"], wait_s: 10 } }));
const lease: Lease = claimed.leases[0];
same("lease", [lease.id, lease.args], [job.id, { n: 42 }]);

const settle = (epoch: number) => ebb.POST("/v1/leases/settle", { body: { leases: [{ id: lease.id, epoch, result: { seen: 42 } }] } });
const stale = must("stale settle", await settle(lease.epoch + 1)).leases[0];
same("stale settle", [stale.ok, stale.code], [false, "stale"]);
same("settle", must("settle", await settle(lease.epoch)).leases[0].state, "succeeded");

const done = must("show", await ebb.GET("/v1/jobs/{id}", { params: { path: { id: job.id } } }));
same("job", [done.state, done.result], ["succeeded", { seen: 42 }]);
const listed = must("list", await ebb.GET("/v1/jobs", { params: { query: { kind: "drive", state: "succeeded" } } }));
same("list", listed.jobs.map((j) => j.id), [job.id]);
const none = await ebb.GET("/v1/jobs/{id}", { params: { path: { id: "nobody" } } });
same("a refusal", none.response.status, 404);
console.log(`job ${job.id}: enqueued, claimed, settled, succeeded, by the generated client`);
