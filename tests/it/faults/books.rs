//! After the faults: the books balance, and agree with what the clients were told.

use super::driver::{SKUS, UNITS};
use super::history::{History, Told};
use crate::service::Sale;
use crate::support::shared_with;
use serde_json::Value;
use std::collections::BTreeMap;
use stockade::store::Store;

/// Units of the lines of some reservations, by SKU.
fn units(of: &[&Value], sku: &str, count: fn(&Value) -> u64) -> u64 {
    let lines = of.iter().flat_map(|reservation| reservation["lines"].as_array().unwrap());
    lines.filter(|line| line["sku"] == sku).map(count).sum()
}

fn number(line: &Value, field: &str) -> u64 {
    line[field].as_u64().unwrap()
}

/// Nothing acknowledged is lost, nothing is there twice, no unit is missing or made.
pub async fn check(sale: &Sale, redis_url: &str, history: &History) {
    let told: BTreeMap<&String, &Told> = history
        .reservations
        .iter()
        .filter(|(_, told)| told.tried.contains(&super::history::Kind::Reserve))
        .collect();
    assert!(told.len() > 20, "too little happened: {}", told.len());
    // Short holds may be expired while we look: wait until no clock can change anything.
    crate::sandbox::eventually("the brief holds are over", async || {
        let held = sale.all("/reservations", 500).await;
        held.iter()
            .all(|one| one["extendable_until"].is_string() && one["expires_at"].is_string() && !is_brief(one))
    })
    .await;
    let held = sale.all("/reservations", 500).await;
    let ended = sale.all("/reservations?status=ended", 500).await;
    let mut all = BTreeMap::new();
    for reservation in held.iter().chain(&ended) {
        let name = reservation["reference"].as_str().unwrap();
        assert!(all.insert(name, reservation).is_none(), "two reservations of {name}");
    }
    for (name, told) in &told {
        match (all.get(name.as_str()), &told.id) {
            (Some(found), id) => {
                assert!(id.as_ref().is_none_or(|id| found["id"] == id.as_str()), "{name}: another id");
                let status = found["status"].as_str().unwrap();
                assert!(told.allows(status), "{name} is {status}, but its client was told {told:?}");
            }
            (None, None) => {}
            (None, Some(id)) => panic!("{name} was acknowledged as {id} and is lost: {told:?}"),
        }
    }
    assert!(
        all.keys().all(|name| told.keys().any(|known| known == name)),
        "a reservation that nobody asked for"
    );
    check_levels(sale, &all.into_values().collect::<Vec<_>>(), history).await;
    check_events(sale).await;
    // And as the operator's tool sees it.
    let store = Store::open(&shared_with(redis_url.to_owned())).unwrap();
    let report = store.audit(Some(&sale.name.parse().unwrap())).await.unwrap();
    assert!(report.is_clean(), "{report}");
}

fn is_brief(held: &Value) -> bool {
    let time = |field: &str| held[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    time("expires_at").duration_since(time("created_at")).as_secs() < 60
}

async fn check_levels(sale: &Sale, all: &[&Value], history: &History) {
    let held: Vec<&Value> = all.iter().copied().filter(|one| one["status"] == "held").collect();
    let mut added = 0;
    for sku in SKUS {
        let level = sale.level(sku).await;
        let sold = units(all, sku, |line| number(line, "confirmed") - number(line, "returned"));
        assert_eq!((level.1, level.2), (units(&held, sku, |line| number(line, "quantity")), sold), "{sku}");
        let ledger = sale.all(&format!("/stock/{sku}/adjustments"), 500).await;
        let sum: i64 = ledger.iter().map(|entry| entry["delta"].as_i64().unwrap()).sum();
        let granted = level.0 + level.1 + level.2;
        assert_eq!(sum, i64::try_from(granted).unwrap(), "{sku}: the ledger");
        added += granted - UNITS;
    }
    // Each addition was repeated until it was acknowledged, so all are in, once.
    assert_eq!(i64::try_from(added).unwrap(), history.added.values().sum::<i64>(), "units added");
}

/// One event a transition: per reservation they are a path through the states.
async fn check_events(sale: &Sale) {
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for event in sale.all("/events", 500).await {
        let kind = event["type"].as_str().unwrap();
        let Some(word) = kind.strip_prefix("dev.stockade.reservation.") else { continue };
        let id = event["subject"].as_str().unwrap().to_owned();
        let before = last.get(&id).map_or("", String::as_str);
        let is_next = match word {
            "held" => before.is_empty(),
            "extended" | "confirmed" | "released" | "expired" => matches!(before, "held" | "extended"),
            "returned" => before == "confirmed",
            _ => false,
        };
        assert!(is_next, "{word} after {before:?}: {event}");
        last.insert(id, word.to_owned());
    }
    let words = sale.all("/reservations?status=ended", 500).await;
    for one in words {
        let word = last.get(one["id"].as_str().unwrap()).map(String::as_str);
        assert_eq!(word, one["status"].as_str(), "the last event of {one}");
    }
}
