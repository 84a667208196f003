// The child's side of the benchmark's protocol: one JSON line in, one out.
// package child in Go describes the orders.
import { createInterface } from 'node:readline'

export const number = (n) => ({ n })
// One clock for all processes of this machine.
export const micros = () => Number(process.hrtime.bigint() / 1000n)
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

export async function timed(f) {
  const began = performance.now()
  await f()
  return { seconds: (performance.now() - began) / 1000 }
}

// A URL of a database behind a unix socket, as node-postgres wants it.
export function connection(dsn) {
  const url = new URL(dsn)
  const given = (name) => url.searchParams.get(name)
  return { host: given('host'), port: Number(given('port')), user: given('user'), database: url.pathname.slice(1) }
}

export async function serve(handlers) {
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line)
    let answer
    try {
      const handler = handlers[request.op]
      if (!handler) throw new Error(`no such order: ${request.op}`)
      answer = (await handler(request)) ?? {}
    } catch (e) {
      answer = { error: String(e.stack ?? e) }
    }
    process.stdout.write(JSON.stringify({ seconds: 0, ...answer }) + '\n')
    if (request.op === 'close') break
  }
  process.exit(0)
}
