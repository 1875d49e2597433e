//! Clients that work without pause and keep a record of what they were told.

use super::history::{Asked, History, Kind};
use crate::service::{Answer, Api, Sale};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CLIENTS: usize = 8;
pub const SKUS: [&str; 3] = ["a", "b", "c"];
/// Enough for some and too few for all.
pub const UNITS: u64 = 2_000;
/// A service that does not come back within this has failed the test.
const PATIENCE: Duration = Duration::from_secs(60);

/// The load: it goes on until it is stopped.
pub struct Driver {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
}

struct Shared {
    /// The processes that serve the sale; clients go from one to the next.
    services: Vec<Api>,
    sale: String,
    history: Mutex<History>,
    answered: AtomicUsize,
    stopped: AtomicBool,
}

impl Driver {
    /// Opens a sale at the first service and sends the clients to all of them.
    pub async fn start(services: Vec<Api>, seed: u64) -> Self {
        let stock: Value = SKUS.iter().map(|sku| (sku.to_string(), json!({"initial": UNITS}))).collect();
        let sale = Sale::put(&services[0], json!({"stock": stock})).await.name;
        let shared = Arc::new(Shared {
            services,
            sale,
            history: Mutex::default(),
            answered: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let rng = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
            clients.spawn(Client { number, rng, shared: Arc::clone(&shared), made: 0 }.run());
        }
        Self { shared, clients }
    }

    /// The sale that they are about.
    pub fn sale(&self) -> &str {
        &self.shared.sale
    }

    /// Waits until so many more calls have been answered.
    pub async fn answers(&mut self, calls: usize) {
        let target = self.shared.answered.load(Ordering::Relaxed) + calls;
        let since = Instant::now();
        while self.shared.answered.load(Ordering::Relaxed) < target {
            assert!(since.elapsed() < PATIENCE, "the clients are stuck");
            tokio::select! {
                // A client ends before its time only by a failed assertion.
                Some(ended) = self.clients.join_next() => ended.unwrap(),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
    }

    /// Lets every client finish what it has begun: all is definite then.
    pub async fn stop(mut self) -> (Sale, History) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        let shared = Arc::into_inner(self.shared).unwrap();
        let history = shared.history.into_inner().unwrap();
        println!("{} answers, {} failures, {} replays", history.answers, history.failures, history.replays);
        (Sale { api: shared.services[0].clone(), name: shared.sale }, history)
    }
}

struct Client {
    number: usize,
    rng: StdRng,
    shared: Arc<Shared>,
    made: usize,
}

impl Client {
    async fn run(mut self) {
        while !self.shared.stopped.load(Ordering::Relaxed) {
            self.made += 1;
            let name = format!("{}-{}", self.number, self.made);
            if self.rng.random_ratio(1, 10) {
                let sku = SKUS[self.rng.random_range(0..SKUS.len())];
                let body = json!({"delta": self.rng.random_range(1..4), "reason": name});
                self.ask(&name, Kind::Adjust, format!("/stock/{sku}/adjustments"), body).await;
            } else {
                self.shop(&name).await;
            }
        }
    }

    /// One shopper's way: a hold, and what becomes of it.
    async fn shop(&mut self, name: &str) {
        let lines: Vec<Value> = SKUS[..self.rng.random_range(1..=SKUS.len())]
            .iter()
            .map(|sku| json!({"sku": sku, "quantity": self.rng.random_range(1..4)}))
            .collect();
        // Some hold so briefly that they may be late.
        let hold_seconds = if self.rng.random_ratio(1, 8) { 1 } else { 600 };
        let body = json!({"lines": lines, "hold_seconds": hold_seconds, "reference": name});
        let answer = self.ask(name, Kind::Reserve, "/reservations".into(), body.clone()).await;
        if answer.status >= 400 {
            return;
        }
        let at = |verb: &str| format!("/reservations/{}/{verb}", answer.id());
        let settle = match self.rng.random_range(0..10) {
            0 => return, // walks away
            1..5 => Kind::Release,
            5..9 => Kind::Confirm,
            _ => {
                self.ask(name, Kind::Extend, at("extend"), json!({"hold_seconds": 700})).await;
                Kind::Confirm
            }
        };
        if self.rng.random_ratio(1, 5) {
            self.ask(name, Kind::Reserve, "/reservations".into(), body).await;
        }
        let verb = if settle == Kind::Release { "release" } else { "confirm" };
        let settled = self.ask(name, settle, at(verb), Value::Null).await;
        if settled.status == 200 && settle == Kind::Confirm && self.rng.random_ratio(2, 3) {
            self.ask(name, Kind::Return, at("return"), Value::Null).await;
        }
    }

    /// Asks with one key until the answer is definite.
    async fn ask(&mut self, name: &str, kind: Kind, rest: String, body: Value) -> Answer {
        let path = format!("/v1/sales/{}{rest}", self.shared.sale);
        let key = if kind == Kind::Reserve { name.to_owned() } else { format!("{name} {kind:?}") };
        let asked = Asked { path, key, body, kind };
        let since = Instant::now();
        for turn in self.number.. {
            let api = &self.shared.services[turn % self.shared.services.len()];
            let call = api.call("POST", &asked.path).key(&asked.key).json(&asked.body);
            let answer = call.try_send().await.ok();
            let definite = self.shared.history.lock().unwrap().note(&asked, name, answer.as_ref());
            match answer {
                Some(answer) if definite => {
                    self.shared.answered.fetch_add(1, Ordering::Relaxed);
                    return answer;
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await, // as Retry-After asks, in small
            }
            assert!(
                since.elapsed() < PATIENCE,
                "{asked:?} is not answered: {answer:?}",
                answer = self.number
            );
        }
        unreachable!("the loop has no end")
    }
}
