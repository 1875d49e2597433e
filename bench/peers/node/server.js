// The stock service that one would write in Node: fastify, ioredis as it comes, one EVALSHA a request.
//
// It does the work of bench/src/bin/plain_pool.rs (id and fingerprint by keyed hash, the same script, the same answer).
// ioredis has one connection a process and doesn't wait on it: a command is sent as soon as it is given, whatever is still
// under way, so Redis finds many at once. No pool has to be tuned.
//
// Environment: LISTEN, REDIS_URL (redis:// or unix://), WORKERS (1: a single process; more: so many of node:cluster).
import cluster from 'node:cluster'
import { createHmac, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import Fastify from 'fastify'
import { Redis } from 'ioredis'

const { LISTEN = '127.0.0.1:8092', REDIS_URL = 'redis://127.0.0.1:6379', WORKERS = '1' } = process.env
const SCRIPT = readFileSync(new URL('../../single_reserve.lua', import.meta.url), 'utf8')

const name = { type: 'string', pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' }
const buyer = { type: 'string', minLength: 1, maxLength: 128 }
const key = { type: 'string', minLength: 1, maxLength: 255 }
const object = (properties) => ({ type: 'object', additionalProperties: false, required: Object.keys(properties), properties })
const one = (item) => ({ type: 'array', minItems: 1, maxItems: 1, items: item })
const text = { type: 'string' }, count = { type: 'integer' }, nothing = { type: 'null' }

const schema = {
  params: object({ sale: name }),
  headers: { type: 'object', required: ['idempotency-key'], properties: { 'idempotency-key': key } },
  body: object({ buyer, lines: one(object({ sku: name, quantity: { type: 'integer', minimum: 1, maximum: 1_000_000 } })) }),
  response: {
    201: object({
      id: text, sale: text, status: text, buyer: text,
      lines: one(object({ sku: text, quantity: count, confirmed: count, returned: count })),
      reference: nothing, metadata: nothing, created_at: text, expires_at: text, extendable_until: text, ended_at: nothing,
      retaken: { type: 'boolean' }, replaces: nothing, replaced_by: nothing, order: nothing, server_time: text
    })
  }
}

async function serve (idKey) {
  const redis = new Redis(REDIS_URL.replace(/^unix:\/\//, ''))
  redis.defineCommand('reserve', { numberOfKeys: 6, lua: SCRIPT })
  const digest = (text) => createHmac('sha256', idKey).update(text).digest()
  const at = (ms) => new Date(Number(ms)).toISOString()
  const app = Fastify({ logger: false })

  app.post('/v1/sales/:sale/reservations', { schema }, async (request, reply) => {
    const { sale } = request.params
    const { buyer, lines: [{ sku, quantity }] } = request.body
    const id = digest(`|${request.headers['idempotency-key']}`).toString('base64url', 0, 16)
    const bucket = (digest(buyer)[0] >> 4).toString(16)
    const fingerprint = digest(`${buyer}|${sku}=${quantity}`).toString('base64url', 0, 8)
    const prefix = `st:{${sale}}:`
    const [outcome, created, expires, until] = await redis.reserve(
      prefix + 'rules', prefix + 'stock', prefix + 'buyers:' + bucket, prefix + 'due', prefix + 'events', prefix + 'r:' + id,
      id, buyer, sku, quantity, fingerprint)
    if (outcome !== 'held') {
      return reply.code(409).type('application/problem+json').send(`{"status":409,"code":"${outcome}"}`)
    }
    reply.code(201).header('location', `/v1/sales/${sale}/reservations/${id}`).header('stockade-outcome', 'held')
    return {
      id, sale, status: 'held', buyer, lines: [{ sku, quantity, confirmed: 0, returned: 0 }],
      reference: null, metadata: null, created_at: at(created), expires_at: at(expires), extendable_until: at(until),
      ended_at: null, retaken: false, replaces: null, replaced_by: null, order: null, server_time: at(created)
    }
  })

  const [host, port] = LISTEN.split(':')
  await redis.ping()
  await app.listen({ host, port: Number(port) })
}

// The one line that is written: until all listen, connections would go to the first alone.
const ready = () => console.log('ready')
const workers = Number(WORKERS)
if (cluster.isWorker) {
  await serve(Buffer.from(process.env.ID_KEY, 'hex'))
} else if (workers === 1) {
  await serve(randomBytes(16))
  ready()
} else {
  let listening = 0
  cluster.on('listening', () => { if (++listening === workers) ready() })
  // A service that has lost a worker is another one than was started.
  cluster.on('exit', () => process.exit(1))
  // The same key for all: a repeat may come to another worker.
  const ID_KEY = randomBytes(16).toString('hex')
  for (let n = 0; n < workers; n++) cluster.fork({ ID_KEY })
}
