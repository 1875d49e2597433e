//! Events as they happen: nothing left out, nothing twice, whatever is cut, killed or slow.

mod cost;
mod ends;
pub mod outages;
mod streams;
mod trim;

use crate::service::{Heard, Sale};
use serde_json::Value;
use std::collections::BTreeMap;
use stockade::domain::sale::{PutSale, Skus};
use stockade::domain::{Caller, Decision, Expect, SaleId};
use stockade::store::{EventsAfter, Follower, Store};

/// Whether what was heard is exactly this part of the feed.
#[track_caller]
fn same(heard: &[Heard], feed: &[Value]) {
    let ids = |events: &mut dyn Iterator<Item = &Value>| {
        events.map(|event| event["cursor"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let cursors = ids(&mut heard.iter().map(|event| &event.data));
    assert_eq!(cursors, ids(&mut feed.iter()));
    assert!(heard.iter().map(|event| &event.data).eq(feed.iter()));
}

/// The cursor of the last event there is.
async fn end(sale: &Sale) -> String {
    let page = sale.get("/events?after=latest").await.expect(200, "").body;
    page["next"].as_str().unwrap().to_owned()
}

/// A sale without SKUs, and its generation.
pub async fn put(store: &Store) -> (SaleId, String) {
    let sale: SaleId = format!("t{}", uuid::Uuid::new_v4().simple()).parse().unwrap();
    let (rules, stock) = (PutSale::default().rules().unwrap(), Skus(BTreeMap::default()));
    let put = store.put_sale(&sale, &Caller::default(), None, &Expect::Absent, rules, stock).await.unwrap();
    let Decision::Done(_, made) = put else { panic!("{put:?}") };
    (sale, made.sale.generation)
}

pub async fn follow(store: &Store, sale: &SaleId, after: EventsAfter) -> Follower {
    match store.follow(sale, after).await.unwrap() {
        Decision::Done(_, follower) => follower,
        Decision::Refused(refusal) => panic!("{refusal:?}"),
    }
}

/// What the feed has behind a cursor.
async fn feed_after(sale: &Sale, cursor: &str) -> Vec<Value> {
    let (mut events, mut after) = (Vec::new(), cursor.to_owned());
    loop {
        let page = sale.get(&format!("/events?limit=500&after={after}")).await.expect(200, "").body;
        let items = page["items"].as_array().unwrap();
        if items.is_empty() {
            return events;
        }
        events.extend_from_slice(items);
        after = page["next"].as_str().unwrap().to_owned();
    }
}
