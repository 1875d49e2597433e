//! Writes that depend on a lock of the sale. What a lock is made of is set by hand here: this is about who compares it.

use crate::service::{Answer, InProcess, Level, Sale, lines, new_key};
use serde_json::{Value, json};
use stockade::store::keys::SaleKeys;

const TOKEN: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const OTHER: &str = "BBBBBBBBBBBBBBBBBBBBBB";
const FAR_MS: i64 = 253_402_214_400_000;

/// A sale with ten units of `a`, whose lock `till` has the fence 7.
struct Fenced {
    service: InProcess,
    sale: Sale,
}

impl Fenced {
    async fn new() -> Self {
        let service = InProcess::start();
        let sale = Sale::of(&service.api, 10).await;
        let fenced = Self { service, sale };
        fenced.lock(TOKEN, 7, FAR_MS).await;
        fenced
    }

    async fn lock(&self, token: &str, fence: u64, deadline_ms: i64) {
        let key = SaleKeys::new(&self.sale.name).lock(&"till".parse().unwrap());
        let mut set = redis::cmd("SET");
        set.arg(key).arg(format!("{token}:{fence}:{deadline_ms}"));
        let () = set.query_async(&mut self.service.redis.connection().await).await.unwrap();
    }

    async fn now_ms(&self) -> i64 {
        self.service.shared.clock.offset_ms()
            + redis::cmd("TIME")
                .query_async::<(i64, i64)>(&mut self.service.redis.connection().await)
                .await
                .map(|(seconds, micros)| seconds * 1_000 + micros / 1_000)
                .unwrap()
    }
}

fn fence(token: &str, fence: u64) -> Value {
    json!({"lock": "till", "token": token, "fence": fence})
}

/// A body with a fence.
fn with(mut body: Value, fence: Value) -> Value {
    body["fence"] = fence;
    body
}

fn is_stale(answer: Answer) {
    let answer = answer.expect(409, "stale_fence");
    assert_eq!(answer.outcome(), "stale_fence");
    assert_eq!((&answer.body["retryable"], answer.body.get("errors")), (&json!(false), None));
}

#[tokio::test]
async fn each_write_is_refused_while_the_lock_is_not_the_callers() {
    let Fenced { service, sale } = &Fenced::new().await;
    let (good, stale) = (fence(TOKEN, 7), [fence(OTHER, 7), fence(TOKEN, (1 << 53) - 1), fence(TOKEN, 6)]);
    let one = || lines(&[("a", 1)]);
    let (sold, freed) = (sale.hold(1).await, sale.hold(1).await);
    let before = service.dump().await;
    for stale in stale {
        is_stale(sale.reserve("k", with(one(), stale.clone())).await);
        is_stale(
            sale.reserve("k2", with(json!({"lines": one()["lines"], "replaces": sold}), stale.clone())).await,
        );
        is_stale(sale.settle(&sold, "confirm", json!({"fence": stale})).await);
        is_stale(sale.settle(&freed, "release", json!({"fence": stale})).await);
        let body = json!({"delta": 1, "reason": "more", "fence": stale});
        is_stale(sale.post("/stock/a/adjustments", body).await);
    }
    assert_eq!(service.dump().await, before, "a stale fence changed something");
    let held = sale.reserve("k", with(one(), good.clone())).await.expect(201, "");
    sale.settle(&sold, "confirm", json!({"fence": good})).await.expect(200, "");
    assert_eq!(
        sale.settle(&freed, "release", json!({"fence": good})).await.expect(200, "").outcome(),
        "released"
    );
    let body = json!({"delta": 1, "reason": "more", "fence": good});
    sale.post("/stock/a/adjustments", body).await.expect(201, "");
    assert_eq!(sale.level("a").await, Level(9, 1, 1));
    // The fence is no part of the request: a repeat finds its reservation with another, and with none.
    for again in [with(one(), fence(OTHER, 9)), one()] {
        let again = sale.reserve("k", again).await.expect(200, "");
        assert_eq!((again.outcome(), again.id()), ("replayed", held.id()));
    }
    let stale_count =
        |verb: &str| format!("stockade_reservations_total{{outcome=\"stale_fence\",verb=\"{verb}\"}}");
    let metrics = service.api.metrics().await;
    for (verb, count) in [("reserve", 6.0), ("confirm", 3.0), ("release", 3.0)] {
        let series = [
            stale_count(verb),
            format!("stockade_reservations_total{{verb=\"{verb}\",outcome=\"stale_fence\"}}"),
        ];
        let found =
            metrics.iter().find(|(name, _)| series.contains(name)).unwrap_or_else(|| panic!("{series:?}"));
        assert_eq!(found.1, count, "{verb}");
    }
}

#[tokio::test]
async fn a_lease_ends_by_the_clock_of_redis() {
    let fenced = Fenced::new().await;
    let Fenced { service, sale } = &fenced;
    fenced.lock(TOKEN, 7, fenced.now_ms().await + 60_000).await;
    let cart = || with(lines(&[("a", 1)]), fence(TOKEN, 7));
    sale.reserve("in time", cart()).await.expect(201, "");
    service.advance_seconds(60);
    is_stale(sale.reserve("late", cart()).await);
    assert_eq!(sale.level("a").await, Level(9, 1, 0));
}

/// Each request of a bulk call has its own fence, and each its own answer.
#[tokio::test]
async fn requests_of_a_bulk_call_have_their_own() {
    let Fenced { sale, .. } = &Fenced::new().await;
    let one = || lines(&[("a", 1)]);
    let never = json!({"lock": "never", "token": TOKEN, "fence": 7});
    let requests = [with(one(), fence(TOKEN, 7)), with(one(), fence(TOKEN, 6)), one(), with(one(), never)];
    let body = json!({"requests": requests});
    let call = sale.api.call("POST", &sale.at("/reservations/bulk")).key(&new_key()).json(&body);
    let answer = call.send().await.expect(200, "");
    let codes: Vec<&Value> =
        answer.body["results"].as_array().unwrap().iter().map(|result| &result["problem"]["code"]).collect();
    assert_eq!(codes, [&Value::Null, &json!("stale_fence"), &Value::Null, &json!("stale_fence")]);
    assert_eq!(sale.level("a").await, Level(8, 2, 0));
}

#[tokio::test]
async fn a_wrong_fence_is_named_by_its_field() {
    let Fenced { service, sale } = &Fenced::new().await;
    let id = sale.hold(1).await;
    let before = service.dump().await;
    let good = fence(TOKEN, 7);
    let but = |field: &str, value: Value| {
        let mut fence = good.clone();
        fence[field] = value;
        fence
    };
    let without = |field: &str| {
        let mut fence = good.clone();
        fence.as_object_mut().unwrap().remove(field);
        fence
    };
    for (wrong, field) in [
        (json!(7), "/fence"),
        (json!("till"), "/fence"),
        (json!([]), "/fence"),
        (without("lock"), "/fence/lock"),
        (without("token"), "/fence/token"),
        (without("fence"), "/fence/fence"),
        (but("lock", json!("_order")), "/fence/lock"),
        (but("lock", json!("a:b")), "/fence/lock"),
        (but("lock", json!("{x}")), "/fence/lock"),
        (but("lock", json!("")), "/fence/lock"),
        (but("lock", json!("x".repeat(65))), "/fence/lock"),
        (but("lock", Value::Null), "/fence/lock"),
        (but("token", json!("")), "/fence/token"),
        (but("token", json!("A".repeat(21))), "/fence/token"),
        (but("token", json!("A".repeat(23))), "/fence/token"),
        (but("token", json!("AAAAAAAAAAAAAAAAAAAAA:")), "/fence/token"),
        (but("token", json!(7)), "/fence/token"),
        (but("fence", json!(-1)), "/fence/fence"),
        (but("fence", json!(1_u64 << 53)), "/fence/fence"),
        (but("fence", json!(u64::MAX)), "/fence/fence"),
        (but("fence", json!("7")), "/fence/fence"),
        (but("fence", json!(1.5)), "/fence/fence"),
        (but("fence", json!(1e30)), "/fence/fence"),
        (but("fence", Value::Null), "/fence/fence"),
        (but("ttl_ms", json!(1)), "/fence/ttl_ms"),
    ] {
        sale.reserve("k", with(lines(&[("a", 1)]), wrong.clone())).await.names(field);
        for verb in ["confirm", "release"] {
            sale.settle(&id, verb, json!({"fence": wrong})).await.names(field);
        }
        let body = json!({"delta": 1, "reason": "more", "fence": wrong});
        sale.post("/stock/a/adjustments", body).await.names(field);
        let body = json!({"requests": [lines(&[("a", 1)]), with(lines(&[("a", 1)]), wrong)]});
        sale.post("/reservations/bulk", body).await.names(&format!("/requests/1{field}"));
    }
    // Only where it is compared.
    for (verb, body) in [("extend", json!({"hold_seconds": 9})), ("return", json!({}))] {
        sale.settle(&id, verb, with(body, good.clone())).await.names("/fence");
    }
    sale.settle(&id, "release", json!({"lines": []})).await.names("/lines");
    assert_eq!(service.dump().await, before, "it changed something");
    // None at all is none.
    sale.settle(&id, "confirm", json!({"fence": null})).await.expect(200, "");
}
