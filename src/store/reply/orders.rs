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
    /// How long its parts are held; none: as each sale says.
    pub hold_seconds: Option<u64>,
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
    let hold_seconds = optional(fields.text()?, number::<u64>)?.map(|ms| ms / 1000);
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
    Ok(OrderRecord { order, attempt, goal, hold_seconds })
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
