//! Many requests in one call: each has the answer that a call of its own would have.

use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{
    Answer, InProcess, Level, Sale, Service, ServiceOptions, Wire, lines, new_key, post, shared_api,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

async fn bulk(sale: &Sale, key: &str, requests: &[Value]) -> Answer {
    let body = json!({"requests": requests});
    let answer = sale.api.call("POST", &sale.at("/reservations/bulk")).key(key).json(&body).send().await;
    answer.expect(200, "")
}

fn results(answer: &Answer) -> &Vec<Value> {
    answer.body["results"].as_array().unwrap()
}

/// One unit of `a`, under a key of its own.
fn one(key: &str) -> Value {
    json!({"idempotency_key": key, "lines": [{"sku": "a", "quantity": 1}]})
}

/// Status and word of each result, which has a reservation or a problem, never both.
fn said(answer: &Answer) -> Vec<(u64, String)> {
    let id = answer.header("x-request-id");
    let said = |(place, result): (usize, &Value)| {
        let (reservation, problem) = (&result["reservation"], &result["problem"]);
        assert!(reservation.is_null() != problem.is_null(), "{result}");
        let status = result["status"].as_u64().unwrap();
        if problem.is_null() {
            return (status, reservation["status"].as_str().unwrap().to_owned());
        }
        assert_eq!(problem["status"], status, "{result}");
        assert_eq!(problem["instance"], format!("{id}#{place}"));
        (status, problem["code"].as_str().unwrap().to_owned())
    };
    results(answer).iter().enumerate().map(said).collect()
}

#[tokio::test]
async fn five_hundred_requests_have_an_answer_each_in_their_order() {
    let stock = json!({"a": {"initial": 101}, "b": {"initial": 9, "buyer_limit": 2}, "c": {"initial": 1}});
    let sale = Sale::put(&shared_api(), json!({"stock": stock})).await;
    sale.hold(1).await; // whose deadline is the `retry_at` of all that follow
    let more_of_b = json!({"buyer": "jane", "lines": [{"sku": "b", "quantity": 3}]});
    let of = |n: usize| match n % 5 {
        0 => one(&n.to_string()),
        1 => one(&(n - 1).to_string()),
        2 => lines(&[("c", 2)]),
        3 => more_of_b.clone(),
        _ => lines(&[("a", 1), ("nothing", 1)]),
    };
    let requests: Vec<Value> = (0..500).map(of).collect();
    let answer = bulk(&sale, &new_key(), &requests).await;
    let kinds = [(201, "held"), (200, "held"), (409, "sold_out"), (409, "buyer_limit"), (404, "unknown_sku")];
    let kinds = kinds.map(|(status, word)| (status, word.to_owned()));
    assert_eq!(said(&answer), (0..500).map(|n| kinds[n % 5].clone()).collect::<Vec<_>>());
    assert_eq!(answer.outcome(), "held");
    assert_eq!(sale.level("a").await, Level(0, 101, 0));
    assert_eq!((sale.level("b").await, sale.level("c").await), (Level(9, 0, 0), Level(1, 0, 0)));

    // The same documents as from calls of their own.
    let results = results(&answer);
    for n in 0..5 {
        let body = if n < 2 { lines(&[("a", 1)]) } else { requests[n].clone() };
        let key = if n < 2 { "0".to_owned() } else { new_key() };
        let mut alone = sale.reserve(&key, body).await.body;
        let mut part = results[n][if n < 2 { "reservation" } else { "problem" }].clone();
        for differs in ["instance", "server_time"] {
            let (alone, part) = (alone.as_object_mut().unwrap(), part.as_object_mut().unwrap());
            assert_eq!(alone.remove(differs).is_some(), part.remove(differs).is_some());
        }
        assert_eq!(alone, part);
    }
}

#[tokio::test]
async fn a_repeat_of_the_whole_call_holds_nothing_twice() {
    let sale = Sale::of(&shared_api(), 2_000).await;
    let requests = vec![lines(&[("a", 1)]); 500];
    let ids = |answer: &Answer| -> Vec<String> {
        let id = |result: &Value| result["reservation"]["id"].as_str().unwrap().to_owned();
        results(answer).iter().map(id).collect()
    };
    let first = bulk(&sale, "\"drop 7\"", &requests).await;
    assert_eq!(said(&first), vec![(201, "held".to_owned()); 500]);
    assert_eq!((first.outcome(), first.header("idempotent-replayed")), ("held", ""));
    let again = bulk(&sale, "\"drop 7\"", &requests).await;
    assert_eq!(said(&again), vec![(200, "held".to_owned()); 500]);
    assert_eq!((again.outcome(), again.header("idempotent-replayed")), ("replayed", "true"));
    assert_eq!(ids(&again), ids(&first));
    assert_eq!(sale.level("a").await, Level(1_500, 500, 0));

    // Another order, or another body, is another request at that place.
    let mut changed = requests[..3].to_vec();
    changed[1] = lines(&[("a", 2)]);
    let changed = said(&bulk(&sale, "\"drop 7\"", &changed).await);
    assert_eq!(changed.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 422, 200]);
    // No key of a call is that of a place.
    for key in ["drop 7", "drop 7#0", "drop 70"] {
        sale.reserve(key, lines(&[("a", 1)])).await.expect(201, "");
    }

    // Without any key each call is another one.
    for held in [504, 505] {
        let body = json!({"requests": [lines(&[("a", 1)])]});
        let answer = sale.post("/reservations/bulk", body).await.expect(200, "");
        assert_eq!(answer.outcome(), "held");
        assert_eq!(sale.level("a").await, Level(2_000 - held, held, 0));
    }
}

#[tokio::test]
async fn a_key_has_one_reservation_wherever_it_comes_from() {
    let sale = Sale::of(&shared_api(), 100).await;
    let alone = sale.reserve("\"first; of all\"", lines(&[("a", 1)])).await.expect(201, "").id();
    let other = json!({"idempotency_key": "second", "lines": [{"sku": "a", "quantity": 2}]});
    let requests = [one("first; of all"), one("second"), one("second"), other, one("\"second\"")];
    let answer = bulk(&sale, "unused", &requests).await;
    let expected =
        [(200, "held"), (201, "held"), (200, "held"), (422, "idempotency_key_reused"), (201, "held")];
    assert_eq!(said(&answer), expected.map(|(status, word)| (status, word.to_owned())));
    let results = results(&answer);
    assert_eq!(results[0]["reservation"]["id"], alone);
    assert_eq!(results[1]["reservation"]["id"], results[2]["reservation"]["id"]);
    let found = sale.get("/reservations?idempotency_key=second").await.expect(200, "").body;
    assert_eq!(found["items"][0]["id"], results[1]["reservation"]["id"]);
    assert_eq!(sale.level("a").await, Level(97, 3, 0));
}

#[tokio::test]
async fn every_field_of_reserve_is_known() {
    let sale =
        Sale::put(&shared_api(), json!({"hold_seconds_max": 900, "stock": {"a": {"initial": 10}}})).await;
    let old = sale.hold(4).await;
    let full = json!({"buyer": "jane", "lines": [{"sku": "a", "quantity": 1}], "hold_seconds": 60,
                      "reference": "order 7", "metadata": {"k": "v"}, "replaces": null, "idempotency_key": null});
    let too_long = json!({"lines": [{"sku": "a", "quantity": 1}], "hold_seconds": 901});
    let instead = json!({"lines": [{"sku": "a", "quantity": 9}], "replaces": old});
    let answer = bulk(&sale, &new_key(), &[full, too_long, instead]).await;
    let expected = [(201, "held"), (422, "hold_too_long"), (201, "held")];
    assert_eq!(said(&answer), expected.map(|(status, word)| (status, word.to_owned())));
    let results = results(&answer);
    let made = &results[0]["reservation"];
    assert_eq!([&made["buyer"], &made["reference"], &made["metadata"]["k"]], ["jane", "order 7", "v"]);
    assert_eq!(results[1]["problem"]["errors"][0]["field"], "/hold_seconds");
    assert_eq!(results[2]["reservation"]["replaces"], old);
    assert_eq!(sale.level("a").await, Level(0, 10, 0));
}

#[tokio::test]
async fn what_stands_against_the_sale_stands_against_every_request() {
    let sale = Sale::of(&shared_api(), 10).await;
    sale.post("/pause", Value::Null).await.ok();
    let answer = bulk(&sale, &new_key(), &[one("1"), one("2")]).await;
    assert_eq!(said(&answer), vec![(409, "sale_paused".to_owned()); 2]);
    assert_eq!(answer.outcome(), "unchanged");
    // The refusals are not stored.
    sale.post("/resume", Value::Null).await.ok();
    assert_eq!(
        said(&bulk(&sale, &new_key(), &[one("1"), one("2")]).await),
        vec![(201, "held".to_owned()); 2]
    );
}

#[tokio::test]
async fn a_call_that_is_wrong_anywhere_changes_nothing() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5_000).await;
    let before = service.dump().await;
    let path = sale.at("/reservations/bulk");
    let send = async |body: &str| sale.api.call("POST", &path).key("k").raw(body).send().await;
    let good = r#"{"lines":[{"sku":"a","quantity":1}]}"#;
    for (bad, field) in [
        (r#"{"lines":[{"sku":"a","quantity":0}]}"#, "/requests/2/lines/0/quantity"),
        (r#"{"lines":[{"sku":"a","quantity":1},{"sku":"a b","quantity":1}]}"#, "/requests/2/lines/1/sku"),
        (r#"{"lines":[]}"#, "/requests/2/lines"),
        ("{}", "/requests/2/lines"),
        ("7", "/requests/2"),
        ("null", "/requests/2"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"price":1}"#, "/requests/2/price"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"buyer":"a","buyer":"b"}"#, "/requests/2/buyer"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"hold_seconds":0}"#, "/requests/2/hold_seconds"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"replaces":"x"}"#, "/requests/2/replaces"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"idempotency_key":""}"#, "/requests/2/idempotency_key"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"idempotency_key":7}"#, "/requests/2/idempotency_key"),
        (r#"{"lines":[{"sku":"a","quantity":1}],"idempotency_key":"\u00e9"}"#, "/requests/2/idempotency_key"),
    ] {
        send(&format!(r#"{{"requests":[{good},{good},{bad},{good}]}}"#)).await.names(field);
    }
    let many = |count: usize| format!(r#"{{"requests":[{}]}}"#, vec![good; count].join(","));
    for count in [0, 501, 5_000] {
        send(&many(count)).await.names("/requests");
    }
    for (body, field) in
        [("{}", "/requests"), (r#"{"requests":{}}"#, "/requests"), ("[]", ""), (good, "/lines")]
    {
        send(body).await.names(field);
    }
    send(&format!(r#"{{"requests":[{good}],"more":1}}"#)).await.names("/more");
    send(&format!(r#"{{"requests":[{good}],"requests":[{good}]}}"#)).await.names("/requests");
    send("").await.expect(400, "malformed_json");
    send(&many(3)[..40]).await.expect(400, "malformed_json");
    let twice = sale.api.call("POST", &path).key("k;a=1").raw(many(1)).send().await;
    twice.expect(400, "idempotency_key_invalid");
    let padded = |length: usize| format!("{}{}", " ".repeat(length - good.len()), good);
    send(&padded(1024 * 1024)).await.names("/lines");
    send(&padded(1024 * 1024 + 1)).await.expect(413, "payload_too_large");
    assert_eq!(service.dump().await, before, "it changed something");
    assert_eq!(send(&many(500)).await.expect(200, "").outcome(), "held");
}

#[tokio::test]
async fn every_request_is_counted_as_one() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 2).await;
    bulk(&sale, &new_key(), &[one("1"), one("1"), one("2"), one("3"), one("4")]).await;
    let metrics = service.api.metrics().await;
    let value = |series: &str| {
        metrics.iter().find(|(name, _)| name == series).unwrap_or_else(|| panic!("{series}")).1
    };
    for (outcome, count) in [("held", 2.0), ("replayed", 1.0), ("sold_out", 2.0)] {
        let series = format!("stockade_reservations_total{{verb=\"reserve\",outcome=\"{outcome}\"}}");
        assert_eq!(value(&series), count, "{outcome}");
    }
    assert_eq!(value("stockade_reservation_units_total{transition=\"held\"}"), 2.0);
    let route = "{route=\"/v1/sales/{sale}/reservations/bulk\",method=\"POST\",status=\"200\"}";
    assert_eq!(value(&format!("stockade_http_requests_total{route}")), 1.0);
}

/// One worker, so that all requests meet in the same queues, on a Redis that can be frozen.
async fn one_worker(redis: &RedisServer) -> Service {
    let args = ["--workers", "1", "--redis-timeout-ms", "30000"].map(String::from).to_vec();
    Service::with(ServiceOptions { redis_url: Some(redis.url()), args, ..ServiceOptions::default() }).await
}

async fn waiting(sale: &Sale) -> f64 {
    let metrics = sale.api.metrics().await;
    metrics.iter().find(|(name, _)| name == "stockade_commit_queue_depth").unwrap().1
}

/// The clients go while the first step of one call is on its way to Redis, and that of the other waits.
#[tokio::test]
async fn a_call_goes_on_when_its_client_has_gone() {
    let redis = RedisServer::start();
    let service = one_worker(&redis).await;
    let sale = Sale::of(&service.api(), 2_000).await;
    sale.hold(1).await;
    redis.freeze();
    let body = json!({"requests": vec![lines(&[("a", 1)]); 500]}).to_string();
    let mut wires = Vec::new();
    for key in ["first", "second"] {
        let mut wire = Wire::connect(service.address()).await.unwrap();
        wire.send(post(&sale.at("/reservations/bulk"), key, &body)).await.unwrap();
        wires.push(wire);
    }
    eventually("both calls have begun", async || waiting(&sale).await == 256.0).await;
    wires.into_iter().for_each(Wire::reset);
    redis.thaw();
    eventually("all is held", async || sale.level("a").await == Level(999, 1_001, 0)).await;
}

#[tokio::test]
async fn a_full_queue_refuses_bulk_items_and_nobody_else() {
    let redis = RedisServer::start();
    let service = one_worker(&redis).await;
    let sale = Sale::of(&service.api(), 50_000).await;
    sale.hold(1).await;
    redis.freeze();
    let requests = vec![lines(&[("a", 1)]); 500];
    let call = |n: usize| {
        let (sale, requests) = (sale.clone(), requests.clone());
        tokio::spawn(async move { bulk(&sale, &n.to_string(), &requests).await })
    };
    // 256 requests of one call are on their way, and 256 of each of 16 others wait: the queue is full.
    let mut calls = vec![call(0), call(1)];
    eventually("a round is under way", async || waiting(&sale).await == 256.0).await;
    calls.extend((2..40).map(call));
    let ended = || calls.iter().filter(|call| call.is_finished()).count();
    eventually("the queue is full", async || ended() == 23 && waiting(&sale).await == 4_096.0).await;
    let alone = tokio::spawn({
        let sale = sale.clone();
        async move { sale.take(1).await }
    });
    eventually("the one request waits", async || waiting(&sale).await == 4_097.0).await;
    redis.thaw();
    alone.await.unwrap().expect(201, "");
    let (mut held, mut refused) = (1, Vec::new());
    for (n, answer) in join_all(calls).await.into_iter().enumerate() {
        let answer = answer.unwrap();
        let said = said(&answer);
        let of_call = said.iter().filter(|(status, word)| (*status, word.as_str()) == (201, "held")).count();
        let full =
            said.iter().filter(|(status, word)| (*status, word.as_str()) == (503, "queue_full")).count();
        // One that came in may find the queue full again at its next step.
        assert!(of_call + full == 500 && (of_call == 0 || of_call >= 256), "{of_call} held, {full} refused");
        assert_eq!(answer.outcome(), if of_call > 0 { "held" } else { "unchanged" });
        held += of_call as u64;
        if of_call == 0 {
            let problem = &results(&answer)[7]["problem"];
            assert_eq!((&problem["retryable"], &problem["outcome"]), (&json!(true), &json!("not_applied")));
            refused.push(n.to_string());
        }
    }
    assert_eq!(refused.len(), 23);
    assert_eq!(sale.level("a").await, Level(50_000 - held - 1, held + 1, 0));
    // What was refused is tried again with the same key, and held.
    let again = bulk(&sale, &refused[0], &requests).await;
    assert_eq!(said(&again), vec![(201, "held".to_owned()); 500]);
}
