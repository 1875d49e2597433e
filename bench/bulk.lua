-- wrk: reserve one unit of the hot SKU for each of 200 buyers in one bulk call, with an Idempotency-Key of its own.
-- SALE, SKU, RUN and BULK (requests a call) come from the environment. The body is built once but for its number, which stands in
-- it as `@`.
local sale, sku, run = os.getenv('SALE') or 'bench', os.getenv('SKU') or 'hot', os.getenv('RUN') or 'r'
local count = tonumber(os.getenv('BULK') or '200')
local threads = 0

function setup(thread)
  thread:set('thread_id', threads)
  threads = threads + 1
end

local number, head, body = 0, nil, nil

function init(_)
  local unique = run .. '-' .. thread_id .. '-'
  local requests = {}
  for n = 1, count do
    requests[n] = string.format('{"buyer":"b-%s@-%03d","lines":[{"sku":"%s","quantity":1}]}', unique, n, sku)
  end
  body = '{"requests":[' .. table.concat(requests, ',') .. ']}'
  -- Numbers have nine digits, so the length never changes.
  local length = #body + 8 * count
  head = 'POST /v1/sales/' .. sale .. '/reservations/bulk HTTP/1.1\r\nHost: ' .. wrk.host .. ':' .. wrk.port
    .. '\r\nContent-Type: application/json\r\nContent-Length: ' .. length .. '\r\nIdempotency-Key: k-' .. unique .. '@\r\n\r\n'
end

function request()
  number = number + 1
  local n = string.format('%09d', number)
  return (string.gsub(head .. body, '@', n))
end
