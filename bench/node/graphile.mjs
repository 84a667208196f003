// graphile-worker with its local queue and batched completions. It keeps no
// history: a job that succeeded is deleted.
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'
import { connection, micros, number, serve, sleep, timed } from './child.mjs'

const task = 'noop'
// Jobs at once and size of the local queue. Its manual publishes its figures
// with 24 and 500; a job that does nothing gains from more.
const [concurrency, size] = process.argv.slice(2).map(Number)

let pool
let utils
let numbers = 0
let latencies
let served

const options = () => ({
  pgPool: pool,
  noHandleSignals: true,
  logger: new Logger(() => () => {}),
  parsedCronItems: [],
  preset: {
    worker: { concurrentJobs: concurrency, localQueue: { size }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
  }
})

async function insert(n, batch, due) {
  const runAt = due ? new Date(Date.now() + due * 1000) : undefined
  while (n > 0) {
    const specs = Array.from({ length: Math.min(n, batch) }, () => ({ identifier: task, payload: number(++numbers), runAt }))
    await utils.addJobs(specs)
    n -= specs.length
  }
}

// settled waits until no job that matches is left in the database.
async function settled(where) {
  for (;;) {
    const { rows } = await pool.query(`SELECT EXISTS (SELECT FROM graphile_worker._private_jobs WHERE ${where}) AS left`)
    if (!rows[0].left) return
    await sleep(1)
  }
}

// pass works until n handlers ran and no job matches the condition.
async function pass(n, handler, where) {
  let ran = 0
  let all
  const finished = new Promise((resolve) => { all = resolve })
  let runner
  const took = await timed(async () => {
    runner = await run({
      ...options(),
      taskList: {
        [task]: async (payload, helpers) => {
          if (++ran === n) all()
          handler(payload, helpers)
        }
      }
    })
    await finished
    await settled(where)
  })
  await runner.stop()
  return took
}

const noop = () => {}

await serve({
  async setup({ dsn }) {
    pool = new pg.Pool({ ...connection(dsn), max: 20 })
    pool.on('error', () => {})
    pool.on('connect', (client) => client.on('error', () => {}))
    utils = await makeWorkerUtils({ pgPool: pool, logger: new Logger(() => () => {}) })
    await utils.migrate()
  },
  insert: ({ n, batch, due }) => timed(() => insert(n, batch, due)),
  drain: ({ n }) => pass(n, noop, 'run_at <= now()'),
  async failonce({ n }) {
    const first = await pass(n, () => { throw new Error('upstream answered 503, try again') }, 'locked_at IS NOT NULL')
    // Its backoff is fixed: the wait is taken away between the passes, and
    // that statement is not timed.
    await pool.query('UPDATE graphile_worker._private_jobs SET run_at = now()')
    const second = await pass(n, noop, 'run_at <= now()')
    return { seconds: first.seconds + second.seconds }
  },
  async serve() {
    latencies = []
    served = await run({ ...options(), taskList: { [task]: async (payload) => { latencies.push((micros() - payload.n) / 1000) } } })
    await sleep(500)
  },
  async enqueue({ n, millis }) {
    for (let i = 0; i < n; i++) {
      await sleep(millis)
      await utils.addJob(task, number(micros()))
    }
  },
  async collect({ n }) {
    for (let i = 0; latencies.length < n; i++) {
      if (i > 6000) throw new Error(`only ${latencies.length} of ${n} jobs started`)
      await sleep(10)
    }
    await served.stop()
    return { values: latencies }
  },
  async close() {
    await utils.release()
    await pool.end()
  }
})
