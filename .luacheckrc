-- Scripts run inside Redis: Lua 5.1 and what the server adds. Their first line is `#!lua`, which luacheck skips.
std = "lua51"
read_globals = { "redis", "cjson", "cmsgpack", "struct", "bit", "KEYS", "ARGV" }
max_line_length = 110
