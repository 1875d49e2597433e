-- wrk: order one unit in each of two sales, every second order the other way round.
-- ONE and TWO (names of the sales) come from the environment.
local one, two = os.getenv('ONE'), os.getenv('TWO')

local function line(sale)
  return '{"sale":"' .. sale .. '","sku":"hot","quantity":1}'
end

local number, there, back = 0, nil, nil

function init(_)
  local function post(first, second)
    local body = '{"lines":[' .. line(first) .. ',' .. line(second) .. ']}'
    return 'POST /v1/orders HTTP/1.1\r\nHost: ' .. wrk.host .. ':' .. wrk.port
      .. '\r\nContent-Type: application/json\r\nContent-Length: ' .. #body .. '\r\n\r\n' .. body
  end
  there, back = post(one, two), post(two, one)
end

function request()
  number = number + 1
  return number % 2 == 0 and there or back
end
