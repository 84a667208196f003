// pg-boss, driven by its own fetch, complete and fail in batches of 2,000 by
// four loops: several times what its work() does with one job at a time.
import { PgBoss } from 'pg-boss'
import { connection, micros, number, serve, sleep, timed } from './child.mjs'

const queue = 'noop'
const loops = 4
const batchSize = 2000

let boss
let numbers = 0
let latencies

async function insert(n, batch, due) {
  const startAfter = due ? new Date(Date.now() + due * 1000) : undefined
  while (n > 0) {
    const jobs = Array.from({ length: Math.min(n, batch) }, () => ({ data: number(++numbers), startAfter }))
    await boss.insert(queue, jobs)
    n -= jobs.length
  }
}

// drain fetches until n jobs succeeded; what fails is decided before.
async function drain(n, fails) {
  let done = 0
  const loop = async () => {
    while (done < n) {
      const jobs = await boss.fetch(queue, { batchSize })
      if (jobs.length === 0) {
        await sleep(1)
        continue
      }
      const failed = []
      const completed = []
      for (const job of jobs) (fails(job) ? failed : completed).push(job.id)
      if (failed.length > 0) await boss.fail(queue, failed, { message: 'upstream answered 503, try again' })
      if (completed.length > 0) await boss.complete(queue, completed)
      done += completed.length
    }
  }
  await Promise.all(Array.from({ length: loops }, loop))
}

await serve({
  async setup({ dsn }) {
    boss = new PgBoss({ ...connection(dsn), max: 10, schedule: false, useListenNotify: true })
    boss.on('error', (e) => console.error('pg-boss:', e.message))
    await boss.start()
    await boss.createQueue(queue, { retryLimit: 2, retryDelay: 0, notify: true })
  },
  insert: ({ n, batch, due }) => timed(() => insert(n, batch, due)),
  drain: ({ n }) => timed(() => drain(n, () => false)),
  failonce({ n }) {
    const seen = new Set()
    return timed(() => drain(n, (job) => {
      if (seen.has(job.id)) return false
      seen.add(job.id)
      return true
    }))
  },
  async serve() {
    latencies = []
    // Woken by LISTEN/NOTIFY; the least polling interval that it accepts.
    await boss.work(queue, { batchSize: 100, pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5 }, async (jobs) => {
      const now = micros()
      for (const job of jobs) latencies.push((now - job.data.n) / 1000)
    })
    await sleep(500)
  },
  async enqueue({ n, millis }) {
    for (let i = 0; i < n; i++) {
      await sleep(millis)
      await boss.send(queue, number(micros()))
    }
  },
  async collect({ n }) {
    for (let i = 0; latencies.length < n; i++) {
      if (i > 6000) throw new Error(`only ${latencies.length} of ${n} jobs started`)
      await sleep(10)
    }
    await boss.offWork(queue)
    return { values: latencies }
  },
  async close() {
    await boss.stop({ graceful: false })
  }
})
