//! The table of states: what each verb answers about a reservation in each.

use crate::sandbox::eventually;
use crate::service::{Answer, InProcess, Sale, lines, new_key};
use serde_json::{Value, json};

const STATES: [&str; 6] = ["held", "overdue", "confirmed", "released", "expired", "returned"];
const HOLD_SECONDS: i64 = 600;

/// Status, `Stockade-Outcome`, and status of the reservation after it.
type Row = (&'static str, [&'static str; 6]);

const TABLE: [Row; 6] = [
    (
        "reserve",
        [
            "200 replayed held",
            "410 hold_expired expired",
            "200 replayed confirmed",
            "409 already_released released",
            "410 hold_expired expired",
            "409 already_returned returned",
        ],
    ),
    (
        "confirm",
        [
            "200 confirmed confirmed",
            "410 hold_expired expired",
            "200 replayed confirmed",
            "409 already_released released",
            "410 hold_expired expired",
            "409 already_returned returned",
        ],
    ),
    (
        "retake",
        [
            "200 confirmed confirmed",
            "200 retaken confirmed",
            "200 replayed confirmed",
            "409 already_released released",
            "200 retaken confirmed",
            "409 already_returned returned",
        ],
    ),
    (
        "release",
        [
            "200 released released",
            "200 expired expired",
            "409 already_confirmed confirmed",
            "200 replayed released",
            "200 expired expired",
            "409 already_returned returned",
        ],
    ),
    (
        "extend",
        [
            "200 extended held",
            "410 hold_expired expired",
            "409 already_confirmed confirmed",
            "409 already_released released",
            "410 hold_expired expired",
            "409 already_returned returned",
        ],
    ),
    (
        "return",
        [
            "409 not_confirmed held",
            "409 not_confirmed expired",
            "200 returned returned",
            "409 not_confirmed released",
            "409 not_confirmed expired",
            "200 replayed returned",
        ],
    ),
];

/// One reservation of two units.
struct Subject {
    sale: Sale,
    key: String,
    id: String,
}

impl Subject {
    async fn in_state(service: &InProcess, state: &str) -> Self {
        let sale = Sale::of(&service.api, 10).await;
        let key = new_key();
        let id = sale.reserve(&key, lines(&[("a", 2)])).await.expect(201, "").id();
        let subject = Self { sale, key, id };
        match state {
            "confirmed" => drop(subject.act("confirm").await.ok()),
            "released" => drop(subject.act("release").await.ok()),
            "returned" => {
                subject.act("confirm").await.ok();
                subject.act("return").await.ok();
            }
            "overdue" => service.advance_seconds(HOLD_SECONDS),
            "expired" => {
                service.advance_seconds(HOLD_SECONDS);
                eventually("it is swept", async || subject.sale.level("a").await.1 == 0).await;
            }
            _ => {}
        }
        subject
    }

    async fn act(&self, verb: &str) -> Answer {
        match verb {
            "reserve" => self.sale.reserve(&self.key, lines(&[("a", 2)])).await,
            "retake" => self.sale.settle(&self.id, "confirm", json!({"if_expired": "retake"})).await,
            "extend" => self.sale.settle(&self.id, "extend", json!({"hold_seconds": 900})).await,
            verb => self.sale.settle(&self.id, verb, Value::Null).await,
        }
    }
}

fn told(answer: &Answer) -> String {
    let reservation = if answer.status < 300 { &answer.body } else { &answer.body["reservation"] };
    format!("{} {} {}", answer.status, answer.outcome(), reservation["status"].as_str().unwrap_or("-"))
}

#[tokio::test]
async fn every_verb_in_every_state() {
    let service = InProcess::start();
    for (verb, row) in TABLE {
        for (state, expected) in STATES.iter().zip(row) {
            let subject = Subject::in_state(&service, state).await;
            let answer = subject.act(verb).await;
            let said = format!("{verb} while {state}");
            assert_eq!(told(&answer), expected, "{said}: {}", answer.text);

            // What the answer says is what there is.
            let status = expected.rsplit(' ').next().unwrap();
            let read = subject.sale.reservation(&subject.id).await;
            assert_eq!((&read["status"], &read["id"]), (&json!(status), &json!(subject.id)), "{said}");
            assert_eq!(read["expires_at"].is_null(), status != "held", "{said}");
            assert_eq!(read["ended_at"].is_null(), status == "held", "{said}");
            let units = match status {
                "held" => (8, 2, 0),
                "confirmed" => (8, 0, 2),
                _ => (10, 0, 0),
            };
            // A repeated reserve reads, and leaves it to others to give an overdue hold back.
            eventually(&format!("units are back: {said}"), async || {
                (verb, *state) != ("reserve", "overdue") || subject.sale.level("a").await.1 == 0
            })
            .await;
            let level = subject.sale.level("a").await;
            assert_eq!((level.0, level.1, level.2), units, "{said}");

            // A repeat changes nothing, and is not told another end.
            let again = subject.act(verb).await;
            let repeated = subject.sale.reservation(&subject.id).await;
            assert_eq!(repeated["status"], status, "{said}, again: {}", again.text);
            assert_eq!(subject.sale.level("a").await, level, "{said}, again");
            assert_eq!(again.status, answer.status, "{said}, again: {}", again.text);
        }
    }
}

#[tokio::test]
async fn a_late_confirm_says_whether_a_retake_is_possible() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 3).await;
    let late = sale.hold(2).await;
    service.advance_seconds(HOLD_SECONDS);
    let answer = sale.settle(&late, "confirm", Value::Null).await.expect(410, "hold_expired");
    assert_eq!(answer.body["retake"], json!({"possible": true, "shortfalls": []}));

    // Somebody else takes them; he keeps them, and the late one is told what is missing.
    let other = sale.hold(2).await;
    sale.settle(&other, "confirm", Value::Null).await.expect(200, "");
    let shortfalls = json!([{"sku": "a", "requested": 2, "available": 1, "held": 0}]);
    let answer = sale.settle(&late, "confirm", Value::Null).await.expect(410, "hold_expired");
    assert_eq!(answer.body["retake"], json!({"possible": false, "shortfalls": shortfalls}));
    let retake = json!({"if_expired": "retake"});
    let answer = sale.settle(&late, "confirm", retake.clone()).await.expect(409, "sold_out");
    assert_eq!(answer.body["shortfalls"], shortfalls);
    assert_eq!(
        (&answer.body["reservation"]["id"], &answer.body["may_return"]),
        (&json!(late), &json!(false))
    );

    // The money is there: neither a pause nor the end of the window stands in its way.
    sale.post("/stock/a/adjustments", json!({"delta": 1, "reason": "found"})).await.expect(201, "");
    sale.post("/close", Value::Null).await.expect(200, "");
    let answer = sale.settle(&late, "confirm", retake).await.expect(200, "");
    assert_eq!((answer.outcome(), &answer.body["retaken"]), ("retaken", &json!(true)));
    let level = sale.level("a").await;
    assert_eq!((level.0, level.1, level.2), (0, 0, 4));
}

#[tokio::test]
async fn a_hold_that_nobody_settles_comes_back_by_itself() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 2).await;
    let id = sale.hold(2).await;
    service.advance_seconds(HOLD_SECONDS - 1);
    assert_eq!(sale.reservation(&id).await["status"], "held");
    sale.take(1).await.expect(409, "sold_out");
    service.advance_seconds(1);
    // A reader sees it at once; a buyer need not wait for the sweeper.
    assert_eq!(sale.reservation(&id).await["status"], "expired");
    sale.take(1).await.expect(201, "");
    let overdue = "stockade_holds_overdue";
    eventually("nothing is overdue", async || {
        let metrics = service.api.metrics().await;
        metrics.iter().any(|(name, value)| name == overdue && *value == 0.0)
    })
    .await;
}
