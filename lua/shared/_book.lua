-- The book of one call: rules, levels, buyers and records in memory. Requests read and change the tables one
-- after the other, so the second copy of a key in a batch is a replay; `write_book` writes what changed.

local rules_key, stock_key, due_key, pinned_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local done_key, orphans_key, events_key = KEYS[5], KEYS[6], KEYS[7]
local BUYERS_AT, RECORDS_AT = 8, 24 -- KEYS[8..23] are the buyers' buckets
local LINES_READ_MAX = 512
local clock_offset_ms, generation = tonumber(ARGV[1]), ARGV[2]

-- Fields of a record, in their order; the first twelve change, the rest is as the caller packed it.
local STATUS, EXPIRES_AT, CREATED_AT, ENDED_AT, UNTIL, COUNTED = 1, 2, 3, 4, 5, 6
local REPLACES, REPLACED_BY, RETAKEN, CONFIRMED, RETURNED, EXTEND_OP = 7, 8, 9, 10, 11, 12
local FINGERPRINT, ORDER, LINES, BUYER, REFERENCE = 13, 14, 15, 16, 17
local RECORD_PATTERN = '^(%l+)\n(%d+)\n(%d+)\n(%d*)\n(%d+)\n(%x?H?U?[%d,]*)\n([%w_-]*)\n([%w_-]*)\n(1?)\n([%d,]*)\n'
  .. '([%d,]*)\n([%w_-]*)\n([%w_-]+)\n([^\n]*)\n([%w._=,-]+)\n([^\n]*)\n([^\n]*)\n([^\n]*)$'
local NEVER = '253402214400000' -- the deadline of a pinned part of an order: the largest time there is
local PINNED_MS = 30000 -- its order has decided by then, or somebody looks after it
local STATUSES = { held = true, confirmed = true, released = true, expired = true, returned = true }

local rules, now
local levels, buyers, records = {}, {}, {} -- by SKU; by name; by key
local events = {}
local due_add, due_remove, done_add = {}, {}, {} -- score and id in turn; ids; score and id in turn
local pinned_add, pinned_remove = {}, {} -- score and id in turn; ids
local dirty_records, dirty_buyers = {}, {}
local new_records, new_at = {}, {} -- key and text in turn; where in that list the text of a key is
local HEX = { [0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f' }

-- Rules of the sale into `rules`; a word instead when there is no such sale or incarnation.
local function open_book()
  local v = read('rules', 'HMGET', rules_key, 'generation', 'status', 'opens_at_ms', 'closes_at_ms', 'hold_ms',
    'hold_ms_max', 'buyer_limit', 'buyer_holds_max', 'confirmed_retention_ms', 'ended_retention_ms')
  if not v[1] or v[2] == 'deleted' then
    return 'unknown_sale'
  end
  if v[1] ~= generation then
    return 'stale_generation'
  end
  if not SALE_STATUSES[v[2]] then
    corrupt('rules')
  end
  rules = {
    status = v[2], opens_at = whole_or_nil(v[3], 'rules'), closes_at = whole_or_nil(v[4], 'rules'),
    hold_ms = whole(v[5], 'rules'), hold_ms_max = whole(v[6], 'rules'),
    buyer_limit = whole_or_nil(v[7], 'rules'), buyer_holds_max = whole_or_nil(v[8], 'rules'),
    confirmed_retention = whole(v[9], 'rules'), ended_retention = whole(v[10], 'rules'),
  }
  now = now_ms(clock_offset_ms)
end

-- Names and numbers of `name=number,...`; nil when the text has another form.
local function parse_amounts(text)
  local names, amounts, length = {}, {}, 0
  for name, amount in gmatch(text, '([^=,]+)=(%d+)') do
    names[#names + 1], amounts[#amounts + 1] = name, tonumber(amount)
    length = length + #name + #amount + 2
    if amounts[#amounts] >= 1e15 then
      return nil
    end
  end
  if length == #text + 1 then
    return names, amounts
  end
end

-- The numbers of `1,2,...`: as many as `most`, and none larger than its. nil when the text has another form.
local function numbers(text, most)
  local list = {}
  for number in gmatch(text, '%d+') do
    local n = #list + 1
    list[n] = tonumber(number)
    if not most[n] or list[n] > most[n] then
      return nil
    end
  end
  if #list == #most and concat(list, ',') == text then
    return list
  end
end

-- Whether what was counted begins with a bucket and names lines that there are.
local function is_counted(text, line_count)
  local bucket, limited = match(text, '^(%x?)H?U?([%d,]*)$')
  for n in gmatch(limited, '%d+') do
    if tonumber(n) < 1 or tonumber(n) > line_count then
      return false
    end
  end
  return bucket ~= '' or text == ''
end

-- The record that `raw` says: its fields, and `skus`, `quantity`, `confirmed`, `returned` by line. nil: corrupt.
local function parse_record(key, raw)
  local record = { match(raw, RECORD_PATTERN) }
  local status = record[STATUS]
  if not STATUSES[status] or (status == 'held') ~= (record[ENDED_AT] == '') then
    return nil
  end
  if #record[EXPIRES_AT] > 15 or #record[CREATED_AT] > 15 or #record[UNTIL] > 15 then
    return nil
  end
  local skus, quantity = parse_amounts(record[LINES])
  if not skus or not is_counted(record[COUNTED], #skus) or (record[COUNTED] == '') ~= (record[BUYER] == '') then
    return nil
  end
  if status == 'confirmed' or status == 'returned' then
    record.confirmed = numbers(record[CONFIRMED], quantity)
    if not record.confirmed then
      return nil
    end
  elseif record[CONFIRMED] ~= '' or record[RETURNED] ~= '' then
    return nil
  end
  if record[RETURNED] ~= '' then
    record.returned = numbers(record[RETURNED], record.confirmed)
    if not record.returned then
      return nil
    end
  end
  record.skus, record.quantity = skus, quantity
  record.key, record.id, record.expires_at = key, sub(key, -22), tonumber(record[EXPIRES_AT])
  return record
end

-- The record under `key`, as the call has left it: a table, false when there is none, nil when it is corrupt.
local function get_record(key)
  if records[key] == nil then
    local raw = new_at[key] and new_records[new_at[key]] or read_text(key)
    records[key] = raw ~= false and { parsed = raw and parse_record(key, raw) }
  end
  local entry = records[key]
  return entry and entry.parsed
end

-- A changed record moves the revision of its SKUs, also where no level moves: the audit adds up records of SKUs
-- whose revision stands still.
local function put_record(record)
  records[record.key] = { parsed = record }
  dirty_records[record.key] = record
  for n = 1, #record.skus do
    levels[record.skus[n]].revised = true
  end
end

-- A hold that is made now: the record from its status on, and from its fingerprint on.
local function add_record(key, id, head, tail)
  local record, place = head .. tail, #new_records + 1
  new_records[place], new_records[place + 1], new_at[key] = key, record, place + 1
  if records[key] ~= nil then
    records[key] = nil -- read anew, should the call name it again
  end
  events[#events + 1] = 'held\n\n' .. id .. '\n' .. record
end

local function is_overdue(record)
  return record[STATUS] == 'held' and now >= record.expires_at
end

-- A part of an order that only its order can end: it is held without a deadline.
local function is_pinned(record)
  return record[STATUS] == 'held' and record[EXPIRES_AT] == NEVER
end

-- `<word> LF <previous status> LF <id> LF <record>`: the same line is the event and the answer.
local function line(word, previous, record)
  return word .. '\n' .. previous .. '\n' .. record.id .. '\n' .. concat(record, '\n')
end

-- What a reader sees: an overdue hold is expired, whether it was swept or not.
local function seen(record)
  if not is_overdue(record) then
    return record
  end
  local copy = { unpack(record) }
  copy[STATUS], copy[ENDED_AT], copy.id = 'expired', record[EXPIRES_AT], record.id
  return copy
end

-- Buyers. An entry is `holds|units|sku=n,...`; kept only where a limit counts, and removed at zero.
local function parse_buyer(bucket, buyer, text)
  local entry = { bucket = bucket, buyer = buyer, holds = 0, units = 0, skus = false }
  if text then
    local holds, units, skus = match(text, '^(%d+)|(%d+)|(.*)$')
    entry.holds, entry.units = whole(holds, 'buyers'), whole(units, 'buyers')
    if skus ~= '' then
      local names, counts = parse_amounts(skus)
      if not names then
        corrupt('buyers')
      end
      entry.skus = {}
      for n = 1, #names do
        entry.skus[names[n]] = counts[n]
      end
    end
  end
  return entry
end

-- Units of a SKU that count for its limit.
local function counted_of(entry, sku)
  return entry.skus and entry.skus[sku] or 0
end

local function count_sku(entry, sku, units)
  entry.skus = entry.skus or {}
  entry.skus[sku] = (entry.skus[sku] or 0) + units
end

-- Enters a buyer into `wanted`, the lists of names to read by bucket (0..15).
local function want_buyer(wanted, bucket, buyer)
  if buyers[buyer] then
    return
  end
  buyers[buyer] = true -- read below
  local names = wanted[bucket]
  if names then
    names[#names + 1] = buyer
  else
    wanted[bucket] = { buyer }
  end
end

-- Reads the entries of those that are wanted into `buyers` by name.
local function read_buyers(wanted)
  for bucket, names in pairs(wanted) do
    local texts = read('buyers', 'HMGET', KEYS[BUYERS_AT + bucket], unpack(names))
    for n = 1, #names do
      buyers[names[n]] = parse_buyer(bucket, names[n], texts[n])
    end
  end
end

local function buyer_of(record)
  return buyers[record[BUYER]]
end

-- Counts where there are limits now, and answers the buyer's bucket and what was counted, for the record:
-- H the hold, U its units for the sale's limit, and the numbers of the lines whose SKU has a limit.
local function count_take(entry, record_skus, units, is_hold)
  if not entry then
    return '' -- no buyer
  end
  local counted, is_dirty, separator = HEX[entry.bucket], false, ''
  if is_hold and rules.buyer_holds_max then
    entry.holds, counted, is_dirty = entry.holds + 1, counted .. 'H', true
  end
  if rules.buyer_limit then
    for n = 1, #record_skus do
      entry.units = entry.units + units[n]
    end
    counted, is_dirty = counted .. 'U', true
  end
  for n = 1, #record_skus do
    if levels[record_skus[n]].l and units[n] > 0 then
      count_sku(entry, record_skus[n], units[n])
      counted, separator, is_dirty = counted .. separator .. format('%d', n), ',', true
    end
  end
  if is_dirty then
    dirty_buyers[entry] = true
  end
  return counted
end

-- Takes `units` by line off what was counted; `ends_hold` takes the hold off, too.
local function uncount(record, units, ends_hold)
  local entry = buyer_of(record)
  if not entry then
    return
  end
  local bucket, flags, limited = match(record[COUNTED], '^(%x)([HU]*)([%d,]*)$')
  local total = 0
  for n = 1, #units do
    total = total + units[n]
  end
  if ends_hold and find(flags, 'H') then
    entry.holds, flags = entry.holds - 1, string.gsub(flags, 'H', '')
  end
  if find(flags, 'U') then
    entry.units = entry.units - total
  end
  for n in gmatch(limited, '%d+') do
    n = tonumber(n)
    count_sku(entry, record.skus[n], -(units[n] or 0))
  end
  record[COUNTED] = bucket .. flags .. limited
  dirty_buyers[entry] = true
end

-- Reads the levels of `skus`. A record that names a SKU which the sale doesn't have is corrupt.
local function read_stock(skus)
  levels = read_levels(stock_key, skus)
  local is_complete = true
  for n = 1, #skus do
    is_complete = is_complete and levels[skus[n]]
  end
  for _, entry in pairs(is_complete and {} or records) do
    local record = entry and entry.parsed
    for n = 1, record and #record.skus or 0 do
      if not levels[record.skus[n]] then
        entry.parsed = nil
      end
    end
  end
end

-- Reads the records of KEYS[RECORDS_AT], every `step`th up to `last`, and what they concern; answers how many
-- requests fit the bound of lines: the rest is deferred.
local function read_records(step, last)
  local skus, known, wanted, lines, fit = {}, {}, {}, 0, 0
  for at = RECORDS_AT, last, step do
    if lines >= LINES_READ_MAX then
      break
    end
    fit = fit + 1
    local record = get_record(KEYS[at])
    if record then
      lines = lines + #record.skus
      for n = 1, #record.skus do
        local sku = record.skus[n]
        if not known[sku] then
          known[sku], skus[#skus + 1] = true, sku
        end
      end
      if record[COUNTED] ~= '' then
        want_buyer(wanted, tonumber(sub(record[COUNTED], 1, 1), 16), record[BUYER])
      end
    end
  end
  read_stock(skus)
  read_buyers(wanted)
  return fit
end

local function zeros(count)
  local list = {}
  for n = 1, count do
    list[n] = 0
  end
  return list
end

-- Enters an ended record into `done`, by the time until which it is kept.
local function keep(record)
  local retention = record[STATUS] == 'confirmed' and rules.confirmed_retention or rules.ended_retention
  done_add[#done_add + 1], done_add[#done_add + 2] = format('%d', now + retention), record.id
end

-- Enters the status that a record takes now, its place in `done`, and the event.
local function enter_status(record, status, word, previous)
  if record[STATUS] ~= status then
    record[STATUS] = status
    record[ENDED_AT] = status == 'expired' and record[EXPIRES_AT] or format('%d', now)
  end
  keep(record)
  put_record(record)
  events[#events + 1] = line(word, previous, record)
  return events[#events]
end

-- Ends a hold: `kept` units by line are sold, the rest is available again.
local function end_hold(record, status, kept)
  local back = {}
  for n = 1, #record.skus do
    back[n] = record.quantity[n] - kept[n]
    move(levels, record.skus[n], back[n], -record.quantity[n], kept[n], 0)
  end
  uncount(record, back, true)
  if status == 'confirmed' then
    record.confirmed, record[CONFIRMED] = kept, concat(kept, ',')
  else
    record[COUNTED] = sub(record[COUNTED], 1, 1)
  end
  due_remove[#due_remove + 1] = record.id
  if record[EXPIRES_AT] == NEVER then
    pinned_remove[#pinned_remove + 1] = record.id
  end
  return enter_status(record, status, status, 'held')
end

local function expire(record)
  return end_hold(record, 'expired', zeros(#record.skus))
end

-- Enters a part into `pinned`, by the time when somebody looks after its order.
local function enter_pinned(record)
  pinned_add[#pinned_add + 1], pinned_add[#pinned_add + 2] = format('%d', now + PINNED_MS), record.id
end

-- Every key that phase 2 writes besides stock, buyers, records and `pinned` must be of its type.
local function check_types(with_orphans)
  read('due', 'ZCARD', due_key)
  read('done', 'ZCARD', done_key)
  read('events', 'XLEN', events_key)
  if with_orphans then
    read('orphans', 'ZCARD', orphans_key)
  end
end

-- Units by line as a request asks for them: `text` is '' (then `all`) or sku=quantity,... sorted by SKU.
-- nil when it asks for more than `all` has.
local function asked(record, text, all)
  if text == '' then
    return all
  end
  local units, line_of = zeros(#record.skus), {}
  for n = 1, #record.skus do
    line_of[record.skus[n]] = n
  end
  for sku, quantity in gmatch(text, '([^=,]+)=(%d+)') do
    local n = line_of[sku]
    if not n or tonumber(quantity) > all[n] then
      return nil
    end
    units[n] = tonumber(quantity)
  end
  return units
end

-- The lines that fall short, as sku=requested,available,held;...
local function shortfalls_of(record_skus, units)
  local short = ''
  for n = 1, #record_skus do
    local level = levels[record_skus[n]]
    if level.a < units[n] then
      short = short .. (short == '' and '' or ';')
        .. format('%s=%d,%d,%d', record_skus[n], units[n], level.a, level.h)
    end
  end
  return short
end

-- The limit that a cart of `entry` would exceed, as `buyer_limit LF sku LF limit LF counted LF requested`, or nil.
local function limit_of(entry, record_skus, units)
  if rules.buyer_limit then
    local total = 0
    for n = 1, #record_skus do
      total = total + units[n]
    end
    if entry.units + total > rules.buyer_limit then
      return format('buyer_limit\n\n%d\n%d\n%d', rules.buyer_limit, entry.units, total)
    end
  end
  for n = 1, #record_skus do
    local limit = levels[record_skus[n]].l
    if limit and units[n] > 0 then
      local counted = counted_of(entry, record_skus[n])
      if counted + units[n] > limit then
        return format('buyer_limit\n%s\n%d\n%d\n%d', record_skus[n], limit, counted, units[n])
      end
    end
  end
end

-- The head of an answer: read before anything is written. When a request fell short it tells the earliest deadline,
-- and up to 100 overdue ids.
local function answers_head(fell_short)
  local head = { 'ok', format('%d', now), '', '' }
  if fell_short then
    local first = redis.call('ZRANGE', due_key, 0, 0, 'WITHSCORES')
    if first[2] and first[2] ~= 'inf' then
      head[3] = format('%d', tonumber(first[2]))
      if tonumber(first[2]) <= now then
        head[4] = concat(redis.call('ZRANGE', due_key, '-inf', format('%d', now), 'BYSCORE', 'LIMIT', 0, 100), ',')
      end
    end
  end
  return head
end

-- What an entry of a buyer looks like: most are alike, so texts are kept. '' when nothing is left of it.
local buyer_texts = {}
local function buyer_text(entry)
  local holds, units, skus = entry.holds, entry.units, ''
  if holds < 0 or units < 0 then
    corrupt('buyers')
  end
  if entry.skus then
    local list = {}
    for sku, count in pairs(entry.skus) do
      if count < 0 then
        corrupt('buyers')
      elseif count > 0 then
        list[#list + 1] = sku .. '=' .. format('%d', count)
      end
    end
    table.sort(list)
    skus = concat(list, ',')
  end
  local same = units < 16777216 and holds * 16777216 + units -- else they could be another pair
  local text = same and buyer_texts[same]
  if not text then
    text = format('%d|%d|', holds, units)
    buyer_texts[same or ''] = text
  end
  return (holds > 0 or units > 0 or skus ~= '') and text .. skus or ''
end

-- What to set and what to remove, by bucket.
local function changed_buyers()
  local set, gone = {}, {}
  for entry in pairs(dirty_buyers) do
    local text, bucket = buyer_text(entry), entry.bucket
    local values = (text == '' and gone or set)[bucket]
    if not values then
      values = {}
      if text == '' then
        gone[bucket] = values
      else
        set[bucket] = values
      end
    end
    values[#values + 1] = entry.buyer
    if text ~= '' then
      values[#values + 1] = text
    end
  end
  return set, gone
end

-- Phase 2: only writes, and none of them can fail; what could is done in the first lines.
local function write_book()
  local changed = changed_levels(levels, events)
  local buyers_set, buyers_gone = changed_buyers()
  if #pinned_add > 0 or #pinned_remove > 0 then
    read('pinned', 'ZCARD', pinned_key)
  end
  for key, record in pairs(dirty_records) do
    new_records[#new_records + 1], new_records[#new_records + 2] = key, concat(record, '\n')
  end
  for first = 1, #new_records, 3000 do
    redis.call('MSET', unpack(new_records, first, math.min(first + 2999, #new_records)))
  end
  call_chunked('HSET', stock_key, changed)
  call_chunked('ZADD', due_key, due_add)
  call_chunked('ZREM', due_key, due_remove)
  call_chunked('ZADD', done_key, done_add)
  call_chunked('ZADD', pinned_key, pinned_add)
  call_chunked('ZREM', pinned_key, pinned_remove)
  for bucket, values in pairs(buyers_set) do
    call_chunked('HSET', KEYS[BUYERS_AT + bucket], values)
  end
  for bucket, names in pairs(buyers_gone) do
    call_chunked('HDEL', KEYS[BUYERS_AT + bucket], names)
  end
  write_events(events_key, now, events)
end

-- Ends the call: {"ok", now, retry_at, overdue ids, answer...}.
local function close_book(answers, fell_short)
  local head = answers_head(fell_short)
  write_book()
  for n = 1, #answers do
    head[4 + n] = answers[n]
  end
  return head
end
