-- The stock service that one would build on PostgreSQL: the UPDATE guards the stock, the rest are INSERTs.
-- `reserve` does the work of bench/single_reserve.lua in one statement, which is a transaction of its own.

CREATE TABLE rules (
    sale        text PRIMARY KEY,
    hold        interval NOT NULL,
    buyer_limit integer NOT NULL
);

-- Room on the page lets the hot row's next version stay beside the last one, so that no index grows.
CREATE TABLE stock (
    sale      text,
    sku       text,
    available bigint NOT NULL CHECK (available >= 0),
    held      bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
    PRIMARY KEY (sale, sku)
) WITH (fillfactor = 50);

CREATE TABLE reservation (
    id          uuid PRIMARY KEY,
    sale        text NOT NULL,
    sku         text NOT NULL,
    buyer       text NOT NULL,
    quantity    integer NOT NULL CHECK (quantity > 0),
    status      text NOT NULL DEFAULT 'held',
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    fingerprint bytea NOT NULL
);
-- For whoever ends the holds that are overdue.
CREATE INDEX reservation_due ON reservation (expires_at) WHERE status = 'held';

-- A row to count in: two reservations of one buyer at once could each count the other's out.
CREATE TABLE buyer (
    sale  text,
    buyer text,
    units integer NOT NULL,
    PRIMARY KEY (sale, buyer)
);

CREATE TABLE event (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reservation uuid NOT NULL,
    kind        text NOT NULL
);

-- The row of a hot SKU is locked from the UPDATE until the commit is on the disk, and everybody queues for it. So the UPDATE
-- comes last, and nothing goes back and forth between it and the commit.
CREATE FUNCTION reserve(a_sale text, a_sku text, a_buyer text, a_quantity integer, a_key text,
    OUT outcome text, OUT id uuid, OUT created_at timestamptz, OUT expires_at timestamptz)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    rule rules;
    known reservation;
    seen bytea := sha256(convert_to(a_buyer || '|' || a_sku || '=' || a_quantity, 'UTF8'));
BEGIN
    SELECT * INTO rule FROM rules WHERE sale = a_sale;
    IF NOT FOUND THEN outcome := 'sale_not_open'; RETURN; END IF;
    -- The same key is the same reservation.
    id := md5(a_sale || '|' || a_key)::uuid;
    created_at := clock_timestamp();
    expires_at := created_at + rule.hold;

    -- A look without a lock, so that the crowd after the sale waits for nobody.
    PERFORM FROM stock WHERE sale = a_sale AND sku = a_sku AND available >= a_quantity;
    IF NOT FOUND THEN
        SELECT * INTO known FROM reservation r WHERE r.id = reserve.id;
        outcome := CASE WHEN NOT FOUND THEN 'sold_out' WHEN known.fingerprint = seen THEN 'replayed' ELSE 'reused' END;
        RETURN;
    END IF;

    INSERT INTO reservation (id, sale, sku, buyer, quantity, created_at, expires_at, fingerprint)
    VALUES (reserve.id, a_sale, a_sku, a_buyer, a_quantity, reserve.created_at, reserve.expires_at, seen)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        SELECT * INTO known FROM reservation r WHERE r.id = reserve.id;
        outcome := CASE WHEN known.fingerprint = seen THEN 'replayed' ELSE 'reused' END;
        created_at := known.created_at;
        expires_at := known.expires_at;
        RETURN;
    END IF;

    INSERT INTO buyer AS b (sale, buyer, units) VALUES (a_sale, a_buyer, a_quantity)
    ON CONFLICT (sale, buyer) DO UPDATE SET units = b.units + a_quantity WHERE b.units + a_quantity <= rule.buyer_limit;
    -- An exception takes the INSERTs back: the caller answers 409 by its name.
    IF NOT FOUND OR a_quantity > rule.buyer_limit THEN RAISE EXCEPTION 'buyer_limit'; END IF;
    INSERT INTO event (reservation, kind) VALUES (reserve.id, 'held');

    UPDATE stock SET available = available - a_quantity, held = held + a_quantity
    WHERE sale = a_sale AND sku = a_sku AND available >= a_quantity;
    IF NOT FOUND THEN RAISE EXCEPTION 'sold_out'; END IF;
    outcome := 'held';
END $$;
