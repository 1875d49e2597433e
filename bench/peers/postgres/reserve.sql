-- pgbench: one unit of the hot SKU, with a buyer and a key that no other transaction has, as bench/reserve.lua asks for it.
-- `sale`, `run` and `n` (0) come by --define; each client counts for itself.
\set n :n + 1
SELECT * FROM reserve(:sale::text, 'hot', 'b-' || :run::text || '-' || :client_id::text || '-' || :n::text, 1,
    'k-' || :run::text || '-' || :client_id::text || '-' || :n::text);
