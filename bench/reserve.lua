-- wrk: reserve one unit of the hot SKU, with a buyer and an Idempotency-Key that no other request has.
-- SALE, SKU and RUN come from the environment; RUN makes the keys and buyers of this run its own. With SKUS=n each request draws
-- one of the SKUs s00000 to n - 1 instead.
-- Everything that can be is built once: a request costs three joins and one format. There is no `response` function,
-- since one would make wrk hand every answer to Lua.
local sale, sku, run = os.getenv('SALE') or 'bench', os.getenv('SKU') or 'hot', os.getenv('RUN') or 'r'
local skus = tonumber(os.getenv('SKUS') or '0')
local threads = 0

function setup(thread)
  thread:set('thread_id', threads)
  threads = threads + 1
end

local number, before_key, before_buyer, after_buyer = 0, nil, nil, nil
local endings = {}

local function ending(name)
  return '","lines":[{"sku":"' .. name .. '","quantity":1}]}'
end

function init(_)
  local unique = run .. '-' .. thread_id .. '-'
  for n = 1, skus do
    endings[n] = ending(string.format('s%05d', n - 1))
  end
  after_buyer = endings[1] or ending(sku)
  math.randomseed(thread_id + 1)
  local start = '{"buyer":"b-' .. unique
  -- Numbers have nine digits, so the length never changes.
  local length = #start + 9 + #after_buyer
  before_key = 'POST /v1/sales/' .. sale .. '/reservations HTTP/1.1\r\nHost: ' .. wrk.host .. ':' .. wrk.port
    .. '\r\nContent-Type: application/json\r\nContent-Length: ' .. length .. '\r\nIdempotency-Key: k-' .. unique
  before_buyer = '\r\n\r\n' .. start
end

function request()
  number = number + 1
  local n = string.format('%09d', number)
  return before_key .. n .. before_buyer .. n .. (skus > 0 and endings[math.random(skus)] or after_buyer)
end
