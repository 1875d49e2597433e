-- wrk: arrive at a barrier, each time under a name that no other request has.
-- BARRIER (the start of the barriers' names) and SIZE (arrivals of one thread at one barrier) come from the environment. When a thread
-- has made SIZE arrivals it goes on to the next barrier, so all threads are at one or two at any time.
local barrier, size = os.getenv('BARRIER') or 'bench', tonumber(os.getenv('SIZE') or '1000')
local threads = 0

function setup(thread)
  thread:set('thread_id', threads)
  threads = threads + 1
end

local number, before_barrier, before_name, after_name = -1, nil, nil, '"}'

function init(_)
  local start = '{"participant":"p-' .. thread_id .. '-'
  -- Numbers have nine digits, so the length never changes.
  local length = #start + 9 + #after_name
  before_barrier = 'POST /v1/barriers/' .. barrier .. '-'
  before_name = '/arrivals HTTP/1.1\r\nHost: ' .. wrk.host .. ':' .. wrk.port
    .. '\r\nContent-Type: application/json\r\nContent-Length: ' .. length .. '\r\n\r\n' .. start
end

function request()
  number = number + 1
  return before_barrier .. string.format('%d', number / size - number / size % 1) .. before_name
    .. string.format('%09d', number) .. after_name
end
