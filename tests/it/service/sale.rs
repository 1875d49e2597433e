//! One sale, as a test's own.

use super::{Answer, Api, Listener};
use serde_json::{Value, json};
use uuid::Uuid;

/// Units of a SKU: available, held, sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(pub u64, pub u64, pub u64);

#[derive(Clone)]
pub struct Sale {
    pub api: Api,
    pub name: String,
}

impl Sale {
    /// Makes one with a name that no other test has.
    pub async fn put(api: &Api, rules: Value) -> Self {
        let sale = Self { api: api.clone(), name: format!("t{}", Uuid::new_v4().simple()) };
        api.put(&sale.at(""), &rules).await.expect(201, "");
        sale
    }

    /// With units of one SKU named `a`.
    pub async fn of(api: &Api, units: u64) -> Self {
        Self::put(api, json!({"stock": {"a": {"initial": units}}})).await
    }

    /// A path below the sale's.
    pub fn at(&self, rest: &str) -> String {
        format!("/v1/sales/{}{rest}", self.name)
    }

    pub async fn get(&self, rest: &str) -> Answer {
        self.api.get(&self.at(rest)).await
    }

    /// Follows its events; `query` with its `?`.
    pub async fn listen(&self, query: &str) -> Listener {
        self.api.listen(&self.at(&format!("/events/live{query}")), None).await
    }

    pub async fn post(&self, rest: &str, body: Value) -> Answer {
        self.api.post(&self.at(rest), &body).await
    }

    pub async fn reserve(&self, key: &str, body: Value) -> Answer {
        self.api.call("POST", &self.at("/reservations")).key(key).json(&body).send().await
    }

    /// Units of `a`, under a key that no other call has.
    pub async fn take(&self, units: u64) -> Answer {
        self.reserve(&new_key(), lines(&[("a", units)])).await
    }

    /// A hold of units of `a`: its id.
    pub async fn hold(&self, units: u64) -> String {
        self.take(units).await.expect(201, "").id()
    }

    /// A verb on a reservation; null: no body.
    pub async fn settle(&self, id: &str, verb: &str, body: Value) -> Answer {
        self.post(&format!("/reservations/{id}/{verb}"), body).await
    }

    pub async fn reservation(&self, id: &str) -> Value {
        self.get(&format!("/reservations/{id}")).await.expect(200, "").body
    }

    /// Of a SKU, as it is now; fails unless its units add up.
    pub async fn level(&self, sku: &str) -> Level {
        let level = self.get(&format!("/stock/{sku}?fresh=true")).await.expect(200, "").body;
        let [available, held, sold, granted] =
            ["available", "held", "sold", "granted"].map(|field| level[field].as_u64().unwrap());
        assert_eq!(available + held + sold, granted, "{level}");
        Level(available, held, sold)
    }

    /// All items of a list, page after page.
    pub async fn all(&self, list: &str, limit: usize) -> Vec<Value> {
        let (mut items, mut after) = (Vec::new(), String::new());
        loop {
            let sign = if list.contains('?') { '&' } else { '?' };
            let page = self.get(&format!("{list}{sign}limit={limit}{after}")).await.expect(200, "").body;
            let of_page = page["items"].as_array().unwrap();
            assert!(of_page.len() <= limit);
            items.extend_from_slice(of_page);
            match page["next"].as_str() {
                Some(_) if list.starts_with("/events") && of_page.is_empty() => return items,
                Some(next) => after = format!("&after={next}"),
                None => return items,
            }
        }
    }
}

/// Lines of a cart.
pub fn lines(of: &[(&str, u64)]) -> Value {
    let lines: Vec<Value> = of.iter().map(|(sku, units)| json!({"sku": sku, "quantity": units})).collect();
    json!({"lines": lines})
}

pub fn new_key() -> String {
    Uuid::new_v4().to_string()
}
