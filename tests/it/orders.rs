//! Complex orders: all parts or none, whatever happens.

mod alternatives;
mod calls;
mod killed;
mod races;
mod wrong;

use crate::service::{Answer, Api, Sale, new_key};
use serde_json::{Value, json};

/// Two sales with units of `a`, the first by name first.
async fn two_sales(api: &Api, units: u64) -> [Sale; 2] {
    let mut sales = [Sale::of(api, units).await, Sale::of(api, units).await];
    sales.sort_by(|one, other| one.name.cmp(&other.name));
    sales
}

/// A line of an order.
fn line(sale: &Sale, sku: &str, quantity: u64) -> Value {
    json!({"sale": sale.name, "sku": sku, "quantity": quantity})
}

/// The order of these lines.
fn order(lines: &[Value]) -> Value {
    json!({ "lines": lines })
}

async fn place(api: &Api, key: &str, order: &Value) -> Answer {
    api.call("POST", "/v1/orders").key(key).json(order).send().await
}

/// An order that is held: its id.
async fn held(api: &Api, lines: &[Value]) -> String {
    place(api, &new_key(), &order(lines)).await.expect(201, "").id()
}

async fn verb(api: &Api, id: &str, verb: &str, body: Value) -> Answer {
    api.post(&format!("/v1/orders/{id}/{verb}"), &body).await
}

async fn read(api: &Api, id: &str) -> Value {
    api.get(&format!("/v1/orders/{id}")).await.expect(200, "").body
}
