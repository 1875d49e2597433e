-- Scripts run inside Redis: Lua 5.1 and what the server adds. Their first line is `#!lua`, which luacheck skips.
-- Their second names the fragments of lua/shared that are put before them: what those define is known below.
std = "lua51"
max_line_length = 120

local server = { "redis", "cjson", "cmsgpack", "struct", "bit", "KEYS", "ARGV" }
local fragments = {
  _read = {
    "format", "find", "sub", "match", "gmatch", "concat", "floor", "tonumber", "SALE_STATUSES", "corrupt", "read", "read_text",
    "whole", "whole_or_nil", "now_ms", "call_chunked", "write_events",
  },
  _barrier = {
    "PARTICIPANTS_MAX", "LISTED_MAX", "barrier_events", "read_barrier", "the_barrier", "is_late", "number_text",
    "barrier_text", "end_text", "set", "end_barrier", "time_out_if_late", "end_if_done", "fired_text", "write_barrier",
  },
  _delivery = {
    "STATUS", "ATTEMPTS", "ENDED_AT", "SINCE", "LAST_STATUS", "LAST_ERROR", "TOKEN", "read_delivery", "id_of", "is_claimed",
    "write_deliveries",
  },
  _lock = { "parse_lock", "holds_lock" },
  _lease = { "LOCK_CLEANED_MS", "sale_refusal", "read_lease", "is_live", "lease_answer", "not_mine" },
  _order = {
    "index_key", "due_key", "done_key", "events_key", "order_key", "STATUS", "ATTEMPT", "EXPIRES_AT", "ENDED_AT", "GOAL",
    "LINES", "FINGERPRINT", "IS_UNDER_WAY", "CONFIRMED_KEPT_MS", "ENDED_KEPT_MS", "CORRUPT_REST_MS", "read_order", "is_late",
    "order_text", "seen_order",
  },
  _order_write = { "check_order_types", "go_on", "end_order", "tell" },
  _stock = { "read_levels", "move", "level_text", "changed_levels", "adjustment_text" },
  _lock = { "parse_lock", "holds_lock" },
  _fence = { "LAST_AT", "fence_refusal" },
  _rules = { "RULES", "read_rules", "sale_text" },
  _book = {
    "rules_key", "stock_key", "due_key", "pinned_key", "done_key", "orphans_key", "events_key", "RECORDS_AT", "rules", "now", "levels",
    "buyers", "STATUS", "EXPIRES_AT", "CREATED_AT", "ENDED_AT", "UNTIL", "COUNTED", "REPLACES", "REPLACED_BY", "RETAKEN",
    "CONFIRMED", "RETURNED", "EXTEND_OP", "FINGERPRINT", "ORDER", "LINES", "BUYER", "REFERENCE", "open_book",
    "parse_amounts", "parse_record", "get_record", "put_record", "add_record", "is_overdue", "line", "seen", "counted_of", "count_sku", "want_buyer",
    "read_buyers",
    "buyer_of", "count_take", "uncount", "read_stock", "read_records", "zeros", "keep", "enter_status", "end_hold", "expire",
    "NEVER", "is_pinned", "enter_pinned",
    "check_types", "asked", "shortfalls_of", "limit_of", "answers_head", "close_book",
  },
}
-- Tables of _book that its scripts write into.
local book_tables = { "records", "events", "due_add", "due_remove", "pinned_remove", "dirty_buyers", "new_records", "new_at" }

-- What a file of these fragments may use.
local function joined(...)
  local names = {}
  local lists = { server }
  for _, fragment in ipairs({ ... }) do
    lists[#lists + 1] = fragments[fragment]
  end
  for _, list in ipairs(lists) do
    for _, name in ipairs(list) do
      names[#names + 1] = name
    end
  end
  return names
end

read_globals = joined()
local book = { read_globals = joined("_read", "_stock", "_book", "_lock", "_fence"), globals = book_tables }
files["lua/reservation"] = book
files["lua/reservation/due.lua"] = { read_globals = joined("_read") }
files["lua/reservation/list.lua"] = { read_globals = joined("_read") }
files["lua/reservation/inspect.lua"] = { read_globals = joined("_read") }
files["lua/sale"] = { read_globals = joined("_read", "_stock", "_rules", "_lock", "_fence") }
files["lua/barrier"] = { read_globals = joined("_read", "_barrier") }
files["lua/lock"] = { read_globals = joined("_read", "_lock", "_lease") }
files["lua/order"] = { read_globals = joined("_read", "_order", "_order_write") }
files["lua/webhook"] = { read_globals = joined("_read", "_delivery") }
-- A fragment defines what others use.
files["lua/shared"] = { ignore = { "211" } }
files["lua/shared/_barrier.lua"] = { read_globals = joined("_read") }
files["lua/shared/_delivery.lua"] = { read_globals = joined("_read") }
files["lua/shared/_lock.lua"] = { read_globals = joined("_read") }
files["lua/shared/_lease.lua"] = { read_globals = joined("_read", "_lock") }
files["lua/shared/_order.lua"] = { read_globals = joined("_read") }
files["lua/shared/_order_write.lua"] = { read_globals = joined("_read", "_order") }
files["lua/shared/_stock.lua"] = { read_globals = joined("_read") }
files["lua/shared/_lock.lua"] = { read_globals = joined("_read") }
files["lua/shared/_fence.lua"] = { read_globals = joined("_read", "_lock") }
files["lua/shared/_rules.lua"] = { read_globals = joined("_read") }
files["lua/shared/_book.lua"] = { read_globals = joined("_read", "_stock") }
