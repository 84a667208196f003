#!/usr/bin/env node
// A worker in Node 18 or later, no packages: node worker.mjs [JOBS]
const url = process.env.EBB_URL ?? "http://127.0.0.1:7070";

async function ask(path, body) {
  const answer = await fetch(`${url}/v1/leases${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${process.env.EBB_TOKEN}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer.json();
}

// The work itself; what it throws is judged by the job's policy.
async function handle(lease) {
  return { sum: lease.args.numbers.reduce((a, b) => a + b, 0) };
}

let left = Number(process.argv[2] ?? -1);
while (left !== 0) {
  const claimed = await ask("", { kinds: ["sum"], wait_s: 30, worker: "node" });
  for (const lease of claimed.leases) {
    const row = { id: lease.id, epoch: lease.epoch };
    // A lease without a heartbeat ends.
    const beat = setInterval(() => ask("/heartbeat", { leases: [row] }).catch(() => {}), (claimed.silence_s * 1000) / 3);
    let outcome;
    try {
      outcome = { result: await handle(lease) };
    } catch (error) {
      outcome = { failure: { error: String(error) } }; // or class, status, retry_after_s
    }
    clearInterval(beat);
    const settled = await ask("/settle", { leases: [{ ...row, ...outcome }] });
    console.log(JSON.stringify(settled.leases[0]));
    left--;
  }
}
