//! A sale of one's own, and short words for what tests do with it.

use crate::redis_server::RedisServer;
use crate::support::shared_on;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use redis::aio::MultiplexedConnection;
use std::collections::BTreeMap;
use stockade::domain::quantity::Line;
use stockade::domain::sale::{SkuSpec, Skus};
use stockade::domain::*;
use stockade::store::sweep::EventsKept;
use stockade::store::{Decided, EventsAfter, Shared, Store, StoreError};
use stockade::workers::sweeper;

/// A sale, a store like a worker's, and what another worker would share with it.
pub struct Shop {
    pub store: Store,
    pub shared: Shared,
    pub sale: SaleId,
}

impl Shop {
    /// An open sale with this stock and default rules.
    pub async fn open(server: &RedisServer, stock: &[(&str, u64)]) -> Self {
        Self::with(shared_on(server), PutSale::default(), stock).await
    }

    pub async fn with(shared: Shared, rules: PutSale, stock: &[(&str, u64)]) -> Self {
        let sale: SaleId = format!("t-{:016x}", rand::random::<u64>()).parse().unwrap();
        let store = Store::open(&shared).unwrap();
        let (caller, rules) = (Caller::default(), rules.rules().unwrap());
        let put = store.put_sale(&sale, &caller, None, &Expect::Absent, rules, skus(stock)).await;
        assert!(matches!(put, Ok(Decision::Done(Outcome::Created, _))), "{put:?}");
        Self { store, shared, sale }
    }

    /// The same sale as another worker, or another process on the same clock, sees it.
    pub fn another(&self) -> Self {
        let store = Store::open(&self.shared).unwrap();
        Self { store, shared: self.shared.clone(), sale: self.sale.clone() }
    }

    pub async fn take(&self, key: &str, lines: &str) -> Decided<Reservation> {
        self.reserve(key, cart(lines)).await
    }

    pub async fn reserve(&self, name: &str, request: Reserve) -> Decided<Reservation> {
        self.store.reserve(&self.sale, &Caller::default(), Some(&key(name)), request).await
    }

    /// A hold that must succeed.
    pub async fn hold(&self, key: &str, lines: &str) -> Reservation {
        held(self.take(key, lines).await)
    }

    pub async fn confirm(&self, id: ReservationId) -> Decided<Reservation> {
        self.store.confirm(&self.sale, id, Confirm::default()).await
    }

    pub async fn release(&self, id: ReservationId) -> Decided<Reservation> {
        self.store.release(&self.sale, id, Release::default()).await
    }

    pub async fn extend(&self, name: &str, id: ReservationId, hold_seconds: u64) -> Decided<Reservation> {
        let (key, extend) = (key(name), Extend { hold_seconds });
        self.store.extend(&self.sale, id, &Caller::default(), Some(&key), extend).await
    }

    pub async fn give_back(&self, name: &str, id: ReservationId, request: Return) -> Decided<Reservation> {
        self.store.return_reservation(&self.sale, id, &Caller::default(), Some(&key(name)), request).await
    }

    pub async fn adjust(&self, name: &str, sku: &str, delta: i64) -> Decided<Adjustment> {
        let reason = "test".parse().unwrap();
        let request = Adjust { delta, reason, reference: None, if_granted: None, fence: None };
        let (key, sku) = (key(name), sku.parse().unwrap());
        self.store.adjust(&self.sale, &Caller::default(), Some(&key), &sku, request).await
    }

    /// `[available, held, sold, granted]`.
    pub async fn level(&self, sku: &str) -> [u64; 4] {
        match self.store.level(&self.sale, &sku.parse().unwrap()).await.unwrap() {
            Decision::Done(_, level) => [level.available, level.held, level.sold, level.granted],
            Decision::Refused(refusal) => panic!("{refusal:?}"),
        }
    }

    /// Expires, as the sweeper does, until nothing is overdue.
    pub async fn sweep(&self) -> usize {
        let mut expired = 0;
        loop {
            let due = self.store.due(&self.sale, 100).await.unwrap();
            if due.overdue.is_empty() {
                return expired;
            }
            expired += self.store.expire(&self.sale, &due.overdue).await.unwrap();
        }
    }

    /// A round of the sweeper over all sales of this store's server.
    pub async fn sweep_all(&self) -> Result<sweeper::Round, StoreError> {
        sweeper::round(&self.store, &EventsKept { retention_ms: i64::MAX, entries_max: u64::MAX }).await
    }

    pub async fn assert_books_balance(&self) {
        let report = self.store.audit(Some(&self.sale)).await.unwrap();
        assert!(report.is_clean() && report.is_complete() && report.sales == 1, "{report}");
    }

    /// A key of the sale.
    pub fn key(&self, name: &str) -> String {
        format!("st:{{{}}}:{name}", self.sale)
    }
}

pub fn skus(stock: &[(&str, u64)]) -> Skus {
    let spec = |initial: u64| SkuSpec { initial, buyer_limit: None };
    Skus(
        stock.iter().map(|(sku, initial)| (sku.parse().unwrap(), spec(*initial))).collect::<BTreeMap<_, _>>(),
    )
}

/// From `a=1,b=2`.
pub fn lines(text: &str) -> Lines {
    let line = |text: &str| {
        let (sku, quantity) = text.split_once('=').unwrap();
        Line { sku: sku.parse().unwrap(), quantity: Quantity::new(quantity.parse().unwrap()).unwrap() }
    };
    Lines::new(text.split(',').map(line).collect()).unwrap()
}

pub fn cart(text: &str) -> Reserve {
    Reserve {
        buyer: None,
        lines: lines(text),
        hold_seconds: None,
        reference: None,
        metadata: None,
        replaces: None,
        fence: None,
    }
}

pub fn key(text: &str) -> IdempotencyKey {
    text.parse().unwrap()
}

pub fn held(decided: Decided<Reservation>) -> Reservation {
    match decided {
        Ok(Decision::Done(Outcome::Held, reservation)) => reservation,
        other => panic!("not held: {other:?}"),
    }
}

/// The word of a decision: of its outcome, its refusal or its error.
pub fn word<T>(decided: &Decided<T>) -> &'static str {
    match decided {
        Ok(Decision::Done(outcome, _)) => outcome.as_str(),
        Ok(Decision::Refused(refusal)) => refusal.code(),
        Err(error) => error.code(),
    }
}

/// One command, by hand.
pub async fn redis_cmd<T: redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    words: &[&str],
) -> T {
    let mut cmd = redis::cmd(words[0]);
    cmd.arg(&words[1..]).query_async(connection).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Random numbers that a failed run can be repeated with: `STOCKADE_TEST_SEED=<number>`.
pub fn seeded(test: &str) -> StdRng {
    let seed = match std::env::var("STOCKADE_TEST_SEED") {
        Ok(seed) => seed.parse().expect("STOCKADE_TEST_SEED is a number"),
        Err(_) => rand::rng().random(),
    };
    eprintln!("{test}: STOCKADE_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

impl Shop {
    /// Checks that the events of each reservation make one life: held -> confirmed (-> returned) | released | expired
    /// (-> retaken), and that each key has one. Answers how often each event was written.
    pub async fn assert_lives_are_lived_once(&self) -> BTreeMap<String, usize> {
        let (mut states, mut counts) = (BTreeMap::new(), BTreeMap::new());
        let mut after = EventsAfter::Oldest;
        loop {
            let page = match self.store.events(&self.sale, after, 500).await.unwrap() {
                Decision::Done(_, page) => page,
                Decision::Refused(refusal) => panic!("{refusal:?}"),
            };
            for event in &page.items {
                let word = event.kind.rsplit('.').next().unwrap();
                *counts.entry(word.to_owned()).or_default() += 1;
                if let EventKind::Reservation { reservation, .. } = &event.data {
                    let before = states.insert(reservation.id, word.to_owned());
                    let legal: &[Option<&str>] = match word {
                        "held" => &[None],
                        "extended" | "confirmed" | "released" | "expired" => {
                            &[Some("held"), Some("extended")]
                        }
                        "retaken" => &[Some("expired")],
                        "returned" => &[Some("confirmed"), Some("retaken"), Some("returned")],
                        _ => &[],
                    };
                    assert!(legal.contains(&before.as_deref()), "{}: {before:?} -> {word}", reservation.id);
                }
            }
            match page.items.last() {
                Some(last) => after = EventsAfter::Cursor(last.cursor.clone()),
                None => return counts,
            }
        }
    }
}

/// The 22 characters that stand for an id in keys.
pub fn short(id: ReservationId) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(id.0.as_bytes())
}
