//! The service is killed, frozen, or cut off, at every step of an order: before each of its requests reaches Redis, and
//! before each answer reaches the service. Another process finishes or undoes what it left.

use super::*;
use crate::proxy::{Proxy, Side};
use crate::redis_server::RedisServer;
use crate::sandbox::signal;
use crate::service::Service;
use crate::support::shared_on;
use std::collections::BTreeMap;
use stockade::domain::*;
use stockade::store::{ReservationFilter, Store};
use stockade::workers::recovery;

/// What an order asks of Redis: its own record, the locks of its sales, its parts.
const MARKERS: &[&str] = &["}:o:", ":lock:_order", "}:r:"];
/// More than the lease of a step: on the clock of the other process whatever the first one left is abandoned.
const LATER_MS: i64 = 20_000;
/// The same, and more than the time of an order.
const EXPIRED_MS: i64 = 90_000;

/// What is done to the service at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Killed,
    /// Stopped, and continued after another process has done its work.
    Frozen,
    /// Its connection to Redis is cut.
    Cut,
}

/// What the call is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Hold,
    /// With a line that finds its first choice sold out.
    HoldAnother,
    /// With a line that nobody can have: the order is undone.
    HoldInVain,
    Confirm,
    /// Of an order that has expired.
    Retake,
    Release,
}

const STEPS: [Step; 6] =
    [Step::Hold, Step::HoldAnother, Step::HoldInVain, Step::Confirm, Step::Retake, Step::Release];

struct Scene {
    /// It goes with the scene.
    _redis: RedisServer,
    proxy: Proxy,
    /// Behind the proxy.
    service: Service,
    /// Another process, later.
    other: Store,
    /// The same for each step.
    later: [Store; 2],
    caller: Caller,
    runs: usize,
}

impl Scene {
    async fn new() -> Self {
        let redis = RedisServer::start();
        let proxy = Proxy::before(&redis);
        let service = Service::on(proxy.url()).await;
        let later = [LATER_MS, EXPIRED_MS].map(|ms| {
            let shared = shared_on(&redis);
            shared.clock.advance_ms(ms);
            Store::open(&shared).unwrap()
        });
        let other = later[0].clone();
        Self { _redis: redis, proxy, service, other, later, caller: Caller::default(), runs: 0 }
    }

    /// Sales `<run>-a` and `<run>-b`, five units of `a` in each, none of `none`.
    async fn sales(&mut self) -> [SaleId; 2] {
        self.runs += 1;
        let mut sales = Vec::new();
        for name in ["a", "b"] {
            let sale: SaleId = format!("run{}-{name}", self.runs).parse().unwrap();
            let rules = PutSale::default().rules().unwrap();
            let stock = crate::shop::skus(&[("a", 5), ("none", 0)]);
            let put = self.other.put_sale(&sale, &self.caller, None, &Expect::Absent, rules, stock).await;
            assert!(matches!(put, Ok(Decision::Done(..))), "{put:?}");
            sales.push(sale);
        }
        sales.try_into().unwrap()
    }

    fn request(&self, step: Step, [one, two]: &[SaleId; 2]) -> Value {
        let second = match step {
            Step::HoldAnother => json!({"sale": two, "sku": "none", "quantity": 1, "alternatives": ["a"]}),
            Step::HoldInVain => json!({"sale": two, "sku": "none", "quantity": 1}),
            _ => json!({"sale": two, "sku": "a", "quantity": 2}),
        };
        json!({"lines": [{"sale": one, "sku": "a", "quantity": 1}, second], "hold_seconds": 60})
    }

    /// Everything that nobody works on is finished or undone, as the workers of another process do it.
    async fn recover(&self, sales: &[SaleId; 2]) {
        while recovery::round(&self.other).await.unwrap().recovered > 0 {}
        for sale in sales {
            let due = self.other.due(sale, 100).await.unwrap();
            self.other.expire(sale, &due.overdue).await.unwrap();
            for part in &due.pinned {
                self.other.resolve_part(sale, part).await.unwrap();
            }
        }
    }

    /// All parts of every order are sold, or held, or none is; and the books balance.
    async fn assert_whole(&self, sales: &[SaleId; 2], said: &str) {
        let mut parts: BTreeMap<OrderId, Vec<Reservation>> = BTreeMap::new();
        for sale in sales {
            for filter in [ReservationFilter::Held, ReservationFilter::Ended] {
                let page = PageRequest { limit: 500, after: None };
                let Decision::Done(_, page) = self.other.reservations(sale, filter, &page).await.unwrap()
                else {
                    panic!("{said}: no {sale}")
                };
                for part in page.items {
                    parts.entry(part.order.unwrap()).or_default().push(part);
                }
            }
        }
        for (id, parts) in parts {
            let order = match self.other.order(id, &self.caller).await.unwrap() {
                Decision::Done(_, order) => Some(order),
                Decision::Refused(_) => None,
            };
            let status = order.as_ref().map(|order| order.status);
            let of_order: Vec<ReservationId> =
                order.iter().flat_map(|order| order.lines.iter().map(|line| line.reservation)).collect();
            let expected = match status {
                Some(OrderStatus::Confirmed) => ReservationStatus::Confirmed,
                Some(OrderStatus::Held) => ReservationStatus::Held,
                Some(OrderStatus::Released | OrderStatus::Expired) | None => ReservationStatus::Released,
                Some(status) => panic!("{said}: nobody finished the order: {status:?}"),
            };
            let is_back = |part: &Reservation| {
                matches!(part.status, ReservationStatus::Released | ReservationStatus::Expired)
            };
            for part in &parts {
                let is_right = match of_order.contains(&part.id) && expected != ReservationStatus::Released {
                    true => part.status == expected,
                    false => is_back(part),
                };
                assert!(is_right, "{said}: half done: {status:?} {parts:#?}");
            }
            if expected != ReservationStatus::Released {
                let there = parts.iter().filter(|part| of_order.contains(&part.id)).count();
                assert_eq!(there, 2, "{said}: a part is missing");
            }
        }
        for sale in sales {
            let audit = self.other.audit(Some(sale)).await.unwrap();
            assert!(audit.is_clean(), "{said}:\n{audit}");
        }
    }

    /// One run: a fault at the nth request of a step, on one side of it. False: there are not so many.
    async fn run(&mut self, fault: Fault, step: Step, nth: usize, side: Side) -> bool {
        let said = format!("{fault:?} {step:?} {nth} {side:?}");
        self.proxy.halt_at(&[], 1, side); // at nothing
        self.other = self.later[usize::from(step == Step::Retake)].clone();
        let sales = self.sales().await;
        let request = self.request(step, &sales);
        let api = self.service.api();
        let mut path = "/v1/orders".to_owned();
        let mut body = request.clone();
        let mut id = None;
        if matches!(step, Step::Confirm | Step::Retake | Step::Release) {
            let placed = place(&api, &said, &request).await.expect(201, "").id();
            id = Some(OrderId(placed.parse().unwrap()));
            let verb = if step == Step::Release { "release" } else { "confirm" };
            path = format!("/v1/orders/{placed}/{verb}");
            body = if step == Step::Retake { json!({"if_expired": "retake"}) } else { Value::Null };
            if step == Step::Retake {
                self.expire(&sales).await;
            }
        }
        self.proxy.halt_at(MARKERS, nth, side);
        let call = api.call("POST", &path).key(&said).json(&body);
        let sending = tokio::spawn(call.try_send());
        let mut sending = std::pin::pin!(sending);
        tokio::select! {
            () = self.proxy.halted() => {}
            answer = &mut sending => {
                let answer = answer.unwrap().unwrap();
                let refused = step == Step::HoldInVain;
                assert_eq!(answer.status < 300, !refused, "{said}: {}", answer.text);
                self.assert_whole(&sales, &said).await;
                return false;
            }
        }
        match fault {
            Fault::Killed => {
                self.service.kill();
                self.proxy.go_on(false);
            }
            Fault::Frozen => self.service.signal("STOP"),
            Fault::Cut => {
                self.proxy.go_on(false);
                let answer = (&mut sending).await.unwrap().unwrap();
                assert!(answer.status < 500 || answer.body["retryable"] == true, "{said}: {}", answer.text);
            }
        }
        self.recover(&sales).await;
        self.assert_whole(&sales, &said).await;
        match fault {
            Fault::Killed => self.service.restart().await,
            Fault::Cut => {}
            Fault::Frozen => {
                self.proxy.go_on(true);
                signal("CONT", self.service.pid());
                let answer = sending.await.unwrap().unwrap();
                assert!(answer.status < 500 || answer.body["retryable"] == true, "{said}: {}", answer.text);
                self.recover(&sales).await;
                self.assert_whole(&sales, &said).await;
            }
        }
        // Whoever had no answer asks again, and is told how it ended.
        let decided = match step {
            Step::Hold | Step::HoldAnother | Step::HoldInVain => {
                let request = serde_json::from_value(request).unwrap();
                self.other.place_order(&self.caller, Some(&said.parse().unwrap()), request).await
            }
            Step::Release => self.other.release_order(id.unwrap(), &self.caller).await,
            Step::Confirm => {
                self.other.confirm_order(id.unwrap(), &self.caller, ConfirmOrder::default()).await
            }
            Step::Retake => {
                let retake = ConfirmOrder { if_expired: IfExpired::Retake };
                self.other.confirm_order(id.unwrap(), &self.caller, retake).await
            }
        };
        let word = match decided {
            Ok(Decision::Done(outcome, _)) => outcome.as_str(),
            Ok(Decision::Refused(refusal)) => refusal.code(),
            Err(error) => panic!("{said}: {error}"),
        };
        let expected: &[&str] = match step {
            Step::Hold | Step::HoldAnother => &["held", "replayed"],
            Step::HoldInVain => &["sold_out"],
            Step::Confirm | Step::Retake => &["confirmed", "replayed", "already_released"],
            Step::Release => &["released", "replayed"],
        };
        assert!(expected.contains(&word), "{said}: {word}");
        self.assert_whole(&sales, &said).await;
        true
    }

    /// Makes the deadlines of all holds in these sales come, as if time had passed.
    async fn expire(&self, sales: &[SaleId; 2]) {
        for sale in sales {
            let due = self.other.due(sale, 100).await.unwrap();
            assert_eq!(self.other.expire(sale, &due.overdue).await.unwrap(), 1);
        }
    }
}

async fn every_step(fault: Fault) {
    let mut scene = Scene::new().await;
    let mut runs = BTreeMap::new();
    for step in STEPS {
        for side in [Side::Before, Side::After] {
            let mut nth = 1;
            while scene.run(fault, step, nth, side).await {
                *runs.entry(format!("{step:?}")).or_insert(0) += 1;
                nth += 1;
            }
        }
    }
    let total: usize = runs.values().sum();
    println!("{fault:?} at every step: {total} runs {runs:?}, 0 half-done orders");
    assert!(runs["Hold"] >= 16 && runs["Confirm"] >= 14 && runs["Retake"] >= 20, "{runs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_service_leaves_no_half_done_order() {
    every_step(Fault::Killed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thawed_service_finds_its_order_finished_by_another() {
    every_step(Fault::Frozen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_leaves_no_half_done_order() {
    every_step(Fault::Cut).await;
}
