// verify.cjs EBB NODE_MODULES: receives what the server of EBB_URL delivers, and
// lets two official verifiers judge it.
"use strict";
const { execFileSync } = require("node:child_process");
const http = require("node:http");
const [ebb, parts] = process.argv.slice(2);
const libraries = {
  standardwebhooks: require(`${parts}/standardwebhooks`).Webhook,
  svix: require(`${parts}/svix`).Webhook,
};

const run = (...args) => execFileSync(ebb, [...args, "--json"], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
const ask = (...args) => JSON.parse(run("webhook", ...args));

let checks = 0;
const fail = (text) => { console.error(`not as promised: ${text}`); process.exit(1); };
const accepts = (Verifier, secret, call, body) => {
  try {
    new Verifier(secret).verify(body ?? call.body, call.headers);
    return true;
  } catch {
    return false;
  }
};

// judge wants every library to accept the call under the good secrets, and to
// refuse it under the bad ones and when anything of it was changed.
function judge(what, call, good, bad) {
  for (const [name, Verifier] of Object.entries(libraries)) {
    const want = (wanted, how, got) => {
      checks++;
      if (got !== wanted) fail(`${name}: ${what}: ${how}: ${got ? "accepted" : "refused"}`);
    };
    good.forEach((s, i) => want(true, `secret ${i + 1} of ${good.length}`, accepts(Verifier, s, call)));
    bad.forEach((s) => want(false, "a secret that signs no more", accepts(Verifier, s, call)));
    want(false, "another body", accepts(Verifier, good[0], call, call.body + " "));
    want(false, "another webhook-id", accepts(Verifier, good[0], { ...call, headers: { ...call.headers, "webhook-id": "evt_other" } }));
    const late = String(Number(call.headers["webhook-timestamp"]) - 600);
    want(false, "a time of ten minutes ago", accepts(Verifier, good[0], { ...call, headers: { ...call.headers, "webhook-timestamp": late } }));
  }
}

async function main() {
  const calls = [];
  const waiting = [];
  let status = 200;
  const receiver = http.createServer((request, response) => {
    const chunks = [];
    request.on("data", (c) => chunks.push(c));
    request.on("end", () => {
      const call = { body: Buffer.concat(chunks).toString("utf8"), headers: request.headers };
      response.writeHead(status);
      response.end();
      waiting.length > 0 ? waiting.shift()(call) : calls.push(call);
    });
  });
  await new Promise((ready) => receiver.listen(0, "127.0.0.1", ready));
  const next = () =>
    new Promise((got, late) => {
      if (calls.length > 0) return got(calls.shift());
      const timer = setTimeout(() => late(new Error("nothing was delivered within 20 s")), 20_000);
      waiting.push((call) => { clearTimeout(timer); got(call); });
    });
  const send = async (payload) => {
    const event = ask("send", "--type", "invoice.paid", "--payload", payload);
    const call = await next();
    if (call.body !== payload) fail(`the payload ${payload} arrived as ${call.body}`);
    if (call.headers["webhook-id"] !== event.id) fail(`event ${event.id} arrived as ${call.headers["webhook-id"]}`);
    return { event, call };
  };

  const added = ask("endpoint", "add", `http://127.0.0.1:${receiver.address().port}/in`);
  const id = added.endpoint.id;
  const first = added.secret;
  const strange = "whsec_" + Buffer.alloc(32, 7).toString("base64");
  for (const payload of ['{"id":17}', '{ "id" : 17,\n  "name":"Zoë \u{1F30A}" }\n', "[]", '"text"']) {
    judge(`payload ${JSON.stringify(payload)}`, (await send(payload)).call, [first], [strange]);
  }

  const second = ask("endpoint", "rotate", id, "--overlap", "1h").secret;
  judge("during a rotation", (await send('{"n":1}')).call, [second, first], [strange]);
  const third = ask("endpoint", "rotate", id, "--overlap", "30m").secret;
  judge("during two rotations", (await send('{"n":2}')).call, [third, second, first], [strange]);
  const last = ask("endpoint", "rotate", id, "--overlap", "0s").secret;
  judge("after the rotations", (await send('{"n":3}')).call, [last], [first, second, third]);

  status = 503;
  const { event, call } = await send('{"n":4}');
  judge("a first attempt that fails", call, [last], [strange]);
  status = 200;
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  await pause(1100); // the time that is signed has seconds
  for (let i = 0; ask("deliveries", event.deliveries[0].id).state === "running" && i < 100; i++) await pause(100);
  ask("redrive", event.deliveries[0].id);
  const again = await next();
  judge("a retry", again, [last], [strange]);
  if (again.headers["webhook-id"] !== event.id) fail("the webhook-id of a retry is another");
  if (again.headers["webhook-timestamp"] === call.headers["webhook-timestamp"]) fail("a retry has the time of the attempt before");
  receiver.close();
  receiver.closeAllConnections();
  console.log(`${checks} verdicts of ${Object.keys(libraries).join(" and ")} are as promised`);
}

main().catch((e) => fail(e.message));
