//! The table is complete, and a problem is written as the contract says.

use super::*;
use crate::domain::Shortfall;
use crate::domain::outcome::Retake;
use crate::domain::{Level, Reservation, ReservationId, ReservationStatus, Timestamp};
use serde_json::{Value, json};
use std::collections::HashSet;

fn moment() -> Timestamp {
    Timestamp::from_ms(1_796_061_600_000).expect("in range")
}

fn reservation() -> Box<Reservation> {
    Box::new(Reservation {
        id: ReservationId(uuid::Uuid::nil()),
        sale: "drop".parse().expect("a name"),
        status: ReservationStatus::Expired,
        buyer: None,
        lines: vec![],
        reference: None,
        metadata: None,
        created_at: moment(),
        expires_at: None,
        extendable_until: moment(),
        ended_at: Some(moment()),
        retaken: false,
        replaces: None,
        replaced_by: None,
        order: None,
        server_time: moment(),
    })
}

fn level() -> Box<Level> {
    let sku = "a".parse().expect("a name");
    Box::new(Level { sku, available: 1, held: 2, sold: 3, granted: 6, buyer_limit: None, as_of: moment() })
}

fn refusals() -> Vec<Refusal> {
    let sku = || "a".parse().expect("a name");
    let shortfall = Shortfall { sku: sku(), requested: 3, available: 2, held: 1 };
    vec![
        Refusal::UnknownSale,
        Refusal::UnknownSku(sku()),
        Refusal::UnknownReservation,
        Refusal::SaleNotOpen { opens_at: Some(moment()) },
        Refusal::SalePaused,
        Refusal::SaleClosed,
        Refusal::SaleDeleting,
        Refusal::SaleNotEmpty { held: 1, sold: 2 },
        Refusal::PreconditionFailed,
        Refusal::StockExists { sku: sku(), initial: 5 },
        Refusal::InitialRequired,
        Refusal::TooManySkus,
        Refusal::TooManyUnits,
        Refusal::HoldTooLong { extendable_until: moment() },
        Refusal::BuyerRequired,
        Refusal::BuyerHolds { limit: 1, held: 1, retry_at: None },
        Refusal::BuyerLimit { sku: None, limit: 2, counted: 1, requested: 2 },
        Refusal::SoldOut { shortfalls: vec![shortfall], retry_at: Some(moment()), reservation: None },
        Refusal::IdempotencyKeyReused,
        Refusal::IdempotencyKeyRequired,
        Refusal::HoldExpired(reservation(), Some(Retake { possible: true, shortfalls: vec![] })),
        Refusal::AlreadyConfirmed(reservation()),
        Refusal::AlreadyReleased(reservation()),
        Refusal::AlreadyReturned(reservation()),
        Refusal::NotConfirmed(reservation()),
        Refusal::PartOfOrder(reservation()),
        Refusal::QuantityExceedsReservation(reservation()),
        Refusal::InsufficientAvailable(level()),
        Refusal::GrantedChanged(level()),
        Refusal::CursorExpired { oldest: None },
    ]
}

fn written(problem: &Problem) -> Value {
    serde_json::from_slice(&problem.to_json("req-1")).expect("JSON")
}

#[test]
fn codes_are_words_used_once_and_statuses_are_errors() {
    let words: HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(words.len(), Code::ALL.len());
    for code in Code::ALL {
        assert!(code.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", code.as_str());
        assert!((400..600).contains(&code.status()));
        assert_eq!(Code::from_word(code.as_str()), Some(*code));
        assert_eq!(code.outcome().is_some(), code.status() >= 500, "outcome is for 5xx");
        assert!(code.advice().ends_with('.') && !code.title().ends_with('.'), "{}", code.as_str());
    }
}

#[test]
fn the_table_knows_every_refusal_by_its_own_word() {
    for refusal in refusals() {
        assert_eq!(Code::from(&refusal).as_str(), refusal.code());
    }
}

#[test]
fn the_table_knows_every_word_of_the_store() {
    let words =
        ["queue_full", "draining", "store_full", "store_unavailable", "store_read_only", "store_busy"];
    for word in words.into_iter().chain(["store_loading", "slot_moving"]) {
        let problem = Problem::from(StoreError::NotApplied(word));
        assert_eq!(problem.code().as_str(), word);
        let json = written(&problem);
        assert_eq!((&json["status"], &json["outcome"]), (&json!(503), &json!("not_applied")), "{word}");
        assert_eq!(json["retryable"], true);
    }
    let unknown = written(&Problem::from(StoreError::Unknown("timed out at 10.0.0.7".into())));
    assert_eq!(unknown["code"], "outcome_unknown");
    assert_eq!(unknown["outcome"], "unknown");
    assert!(!unknown.to_string().contains("10.0.0.7"), "no text of Redis in an answer");
}

#[test]
fn every_refusal_has_the_members_of_a_problem() {
    for refusal in refusals() {
        let json = written(&Problem::from(refusal.clone()));
        assert_eq!(json["type"], format!("/problems/{}", refusal.code()));
        assert_eq!(json["instance"], "req-1");
        assert_eq!(json["retryable"], false);
        assert!(json["detail"].as_str().is_some_and(|text| text.ends_with('.')), "{json}");
        assert_eq!(json.get("errors").is_some(), json["status"] == 422, "{json}");
        assert_eq!(json.get("reservation").is_some(), refusal.reservation().is_some());
        assert!(json.get("outcome").is_none());
    }
}

#[test]
fn a_shortfall_says_what_may_come_back_and_when() {
    let sold_out = refusals().into_iter().find(|refusal| refusal.code() == "sold_out").expect("in the list");
    let json = written(&Problem::from(sold_out));
    assert_eq!(json["shortfalls"], json!([{"sku": "a", "requested": 3, "available": 2, "held": 1}]));
    assert_eq!(json["may_return"], true);
    assert_eq!(json["retry_at"], "2026-11-30T18:00:00.000Z");
    assert_eq!(json["detail"], "2 of 3 units of a are available.");
}
