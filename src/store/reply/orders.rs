//! Orders, as the scripts of `lua/order` keep and tell them: `id LF record`, a record of twelve fields.

use super::{Fields, StoreError, bad, name, number, optional, reservation_id, time};
use crate::domain::reservation::Metadata;
use crate::domain::*;
use crate::store::checks::SELF_TEST;
use crate::store::ids;

/// What a record says.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderRecord {
    /// As callers see it.
    pub order: Order,
    /// Whoever works on the order knows it; it is another one with every step that begins something.
    pub attempt: String,
    /// What an order that is being undone will be: `released`, `expired`, or `refused`, and then its record goes.
    pub goal: String,
}

/// Reads an order: `id`, then `status attempt created_ms expires_ms ended_ms goal lines fingerprint hold_ms buyer
/// reference metadata`, one a line. Lines are `sale=sku=asked_sku=quantity=part`, with commas between them. `expires_ms` is
/// empty until it was held once.
pub fn order(now: Timestamp, fields: &mut Fields<'_>) -> Result<OrderRecord, StoreError> {
    let id = ids::long(fields.text()?).map(OrderId).ok_or_else(|| bad("not an id"))?;
    let status = status(fields.text()?)?;
    let attempt = fields.text()?.to_owned();
    let created_at = time(fields.text()?)?;
    let expires_at = optional(fields.text()?, time)?.filter(|_| status == OrderStatus::Held);
    let ended_at = optional(fields.text()?, time)?;
    let goal = fields.text()?.to_owned();
    let lines = fields.text()?.split(',').map(line).collect::<Result<_, _>>()?;
    let _fingerprint = fields.text()?;
    let _hold_ms = optional(fields.text()?, number::<u64>)?;
    let buyer = optional(fields.text()?, name)?;
    let reference = optional(fields.text()?, name)?;
    let metadata = optional(fields.text()?, |text| {
        serde_json::from_str::<Metadata>(text).map_err(|_| bad("not metadata"))
    })?;
    let order = Order {
        id,
        status,
        buyer,
        lines,
        reference,
        metadata,
        created_at,
        expires_at,
        ended_at,
        server_time: now,
    };
    Ok(OrderRecord { order, attempt, goal })
}

/// A word of an order's state.
pub fn status(word: &str) -> Result<OrderStatus, StoreError> {
    OrderStatus::from_word(word).ok_or_else(|| bad("unknown status of an order"))
}

fn line(text: &str) -> Result<OrderLine, StoreError> {
    let parts: Vec<&str> = text.split('=').collect();
    let [sale, sku, asked_sku, quantity, reservation] = parts[..] else {
        return Err(bad("not a line of an order"));
    };
    Ok(OrderLine {
        sale: sale_id(sale)?,
        sku: name(sku)?,
        asked_sku: name(asked_sku)?,
        quantity: number(quantity)?,
        reservation: reservation_id(reservation)?,
    })
}

/// Its name, also of one of our own.
fn sale_id(text: &str) -> Result<SaleId, StoreError> {
    if text.starts_with(SELF_TEST) { Ok(SaleId::internal(text)) } else { name(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::events::read_bucket_entries;
    use redis::Value;

    const ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";
    const PART: &str = "AAAAAAAAAAAAAAAAAAAAAQ";
    /// Where the fields stand.
    const STATUS: usize = 1;
    const LINES: usize = 7;

    fn fields() -> [String; 13] {
        let lines = format!("drop=tea=cup=2={PART},plain=cup=cup=1={PART}");
        [ID, "held", "x", "1000", "61000", "", "", &lines, "f", "60000", "bo", "r 1", r#"{"k":"v=,"}"#]
            .map(str::to_owned)
    }

    /// The same with another field.
    fn with(n: usize, text: &str) -> String {
        let mut fields = fields();
        fields[n] = text.to_owned();
        fields.join("\n")
    }

    fn read(text: &str) -> Result<OrderRecord, StoreError> {
        order(Timestamp::from_ms(5_000).expect("a time"), &mut Fields::of(text))
    }

    fn events(events: &str) -> Result<serde_json::Value, StoreError> {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let fields = ["t", "5000", "e", events].map(bulk).to_vec();
        let entry = Value::Array(vec![bulk("7-3"), Value::Array(fields)]);
        let (_, events) = read_bucket_entries(Value::Array(vec![entry]))?.remove(0);
        Ok(serde_json::to_value(events).expect("JSON"))
    }

    #[test]
    fn a_record_is_read_into_an_order() {
        let read = read(&fields().join("\n")).expect("readable");
        assert_eq!((&*read.attempt, &*read.goal), ("x", ""));
        let json = serde_json::to_value(&read.order).expect("JSON");
        let (id, part) = ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001");
        let expected = serde_json::json!({
            "id": id, "status": "held", "buyer": "bo", "reference": "r 1", "metadata": {"k": "v=,"},
            "lines": [
                {"sale": "drop", "sku": "tea", "asked_sku": "cup", "quantity": 2, "reservation": part},
                {"sale": "plain", "sku": "cup", "asked_sku": "cup", "quantity": 1, "reservation": part},
            ],
            "created_at": "1970-01-01T00:00:01.000Z", "expires_at": "1970-01-01T00:01:01.000Z",
            "ended_at": null, "server_time": "1970-01-01T00:00:05.000Z",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn what_may_be_empty_is_null_and_only_a_held_one_has_a_deadline() {
        let text = format!("{ID}\nconfirmed\nx\n1000\n61000\n2000\n\ndrop=a=a=1={PART}\nf\n\n\n\n");
        let read = read(&text).expect("readable");
        let order = read.order;
        assert_eq!((order.buyer, order.reference, order.metadata), (None, None, None));
        assert_eq!(order.expires_at, None);
        assert_eq!(order.ended_at.map(Timestamp::as_ms), Some(2_000));
    }

    #[test]
    fn a_corrupt_record_is_refused() {
        let long = "x".repeat(129);
        let line = |line: &str| with(LINES, line);
        let wrong = [
            with(0, "AAAA"),
            with(0, "not an id, but 22 char"),
            with(STATUS, "open"),
            with(STATUS, ""),
            with(3, ""),
            with(3, "x"),
            with(4, "-1"),
            with(5, "x"),
            line(""),
            line("drop=a=a=1"),
            line(&format!("drop=a=a=1={PART}=1")),
            line(&format!("drop=a=a=1={PART},")),
            line(&format!("_drop=a=a=1={PART}")),
            line(&format!("drop==a=1={PART}")),
            line(&format!("drop=a=a=-1={PART}")),
            line("drop=a=a=1=part"),
            with(9, "x"),
            with(10, &long),
            with(11, &long),
            with(12, "{"),
            with(12, "[]"),
            fields()[..12].join("\n"),
            String::new(),
        ];
        for text in wrong {
            assert!(read(&text).is_err(), "{text:?}");
        }
        assert!(read(&line(&format!("{SELF_TEST}1=a=a=1={PART}"))).is_ok(), "one of our own");
    }

    #[test]
    fn an_entry_of_a_bucket_is_read_into_events_of_its_orders() {
        let order = fields().join("\n");
        let confirmed = with(STATUS, "confirmed");
        let json = events(&format!("held\nholding\n{order}\u{1e}confirmed\nconfirming\n{confirmed}"));
        let json = json.expect("readable");
        let id = "00000000-0000-0000-0000-000000000000";
        for (n, word, previous) in [(0, "held", "holding"), (1, "confirmed", "confirming")] {
            let event = &json[n];
            assert_eq!(event["type"], format!("dev.stockade.order.{word}"));
            assert_eq!(event["source"], format!("/v1/orders/{id}"));
            assert_eq!((&event["subject"], &event["cursor"]), (&id.into(), &format!("0-7-3-{n}").into()));
            assert_eq!(event["time"], "1970-01-01T00:00:05.000Z");
            let data = &event["data"];
            assert_eq!((&data["status"], &data["previous_status"]), (&word.into(), &previous.into()));
        }
        assert_ne!(json[0]["id"], json[1]["id"]);
    }

    #[test]
    fn an_event_that_no_script_writes_is_refused() {
        let order = fields().join("\n");
        let holding = with(STATUS, "holding");
        for wrong in [
            format!("confirmed\nholding\n{order}"),
            format!("holding\n\n{holding}"),
            format!("held\nopen\n{order}"),
            format!("held\n{order}"),
            "held\nholding".to_owned(),
            "held".to_owned(),
        ] {
            assert!(events(&wrong).is_err(), "{wrong:?}");
            let neighbour = format!("held\nholding\n{order}\u{1e}{wrong}");
            assert!(events(&neighbour).is_err(), "an entry is read whole: {wrong:?}");
        }
    }
}
