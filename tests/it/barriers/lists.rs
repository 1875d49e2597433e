//! Lists by page: of participants, and of barriers over all buckets.

use super::{Barrier, names, says};
use crate::redis_server::RedisServer;
use crate::service::{Api, InProcess, shared_api};
use crate::support::store_on;
use futures_util::future::join_all;
use serde_json::{Value, json};
use stockade::domain::*;
use stockade::store::MustBeNew;

/// All items, page after page.
async fn all(api: &Api, path: &str, limit: usize) -> Vec<Value> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let sign = if path.contains('?') { '&' } else { '?' };
        let page = api.get(&format!("{path}{sign}limit={limit}{after}")).await.expect(200, "").body;
        let of_page = page["items"].as_array().unwrap();
        assert!(of_page.len() <= limit);
        items.extend_from_slice(of_page);
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return items,
        }
    }
}

fn named(items: &[Value], field: &str) -> Vec<String> {
    items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn two_thousand_five_hundred_participants_are_listed_once_each() {
    let barrier = Barrier::put(&shared_api(), json!({})).await;
    let people = names(2_500);
    for some in people.chunks(1_000) {
        barrier.post("/participants", json!({"participants": some})).await.expect(200, "");
    }
    let reports = people.iter().enumerate().filter(|(n, _)| n % 2 == 0);
    let reports: Vec<_> = reports.collect();
    for some in reports.chunks(50) {
        join_all(some.iter().map(async |(n, name)| match n % 10 {
            0 => barrier.fail(name, &format!("note of {name}")).await.expect(200, ""),
            _ => barrier.arrive(name).await.expect(200, ""),
        }))
        .await;
    }
    for limit in [500, 137] {
        let missing = all(&barrier.api, &barrier.at("/participants"), limit).await;
        let found = named(&missing, "participant");
        let mut expected: Vec<String> = people.iter().skip(1).step_by(2).cloned().collect();
        expected.sort();
        assert_eq!(found, expected);
        says(&missing[0], json!({"outcome": null, "note": null, "arrived_at": null}));
        let arrived = all(&barrier.api, &barrier.at("/participants?status=arrived"), limit).await;
        let mut found = named(&arrived, "participant");
        let times = named(&arrived, "arrived_at");
        assert!(times.is_sorted());
        found.sort();
        let mut expected: Vec<String> = people.iter().step_by(2).cloned().collect();
        expected.sort();
        assert_eq!(found, expected);
        let failed = all(&barrier.api, &barrier.at("/participants?status=failed"), limit).await;
        assert_eq!(failed.len(), 250);
        for item in &failed {
            let name = item["participant"].as_str().unwrap();
            says(item, json!({"outcome": "failed", "note": format!("note of {name}")}));
        }
        assert_eq!(arrived.iter().filter(|item| item["outcome"] == "failed").count(), 250);
    }
    let one = failed_then_completed(&barrier).await;
    says(&one, json!({"outcome": "completed", "note": null}));
}

async fn failed_then_completed(barrier: &Barrier) -> Value {
    barrier.arrive("p0").await.expect(200, "");
    let arrived = all(&barrier.api, &barrier.at("/participants?status=arrived"), 500).await;
    assert_eq!(all(&barrier.api, &barrier.at("/participants?status=failed"), 500).await.len(), 249);
    arrived.into_iter().find(|item| item["participant"] == "p0").unwrap()
}

#[tokio::test]
async fn a_barrier_that_keeps_numbers_lists_nobody() {
    let barrier = Barrier::put(&shared_api(), json!({"expected": 2, "mode": "count"})).await;
    barrier.arrive("a").await.expect(200, "");
    for status in ["missing", "arrived", "failed"] {
        barrier.read(&format!("/participants?status={status}")).await.expect(422, "names_not_kept");
    }
}

#[tokio::test]
async fn barriers_of_all_buckets_are_listed_by_name() {
    let service = InProcess::start();
    let put = async |name: String| {
        let barrier = Barrier { api: service.api.clone(), name };
        barrier.put_again(json!({"expected": 1})).await.expect(201, "");
        barrier
    };
    let mut expected = Vec::new();
    for n in 0..130 {
        let barrier = put(format!("job.{}-{n}", if n % 2 == 0 { "even" } else { "odd" })).await;
        if n % 10 == 0 {
            barrier.arrive("a").await.expect(200, "");
        }
        expected.push(barrier.name);
    }
    put("other".into()).await;
    expected.sort();
    for limit in [500, 17, 1] {
        let list = async |query: &str| {
            named(&all(&service.api, &format!("/v1/barriers{query}"), limit).await, "barrier")
        };
        assert_eq!(list("?prefix=job.").await, expected);
        let odd: Vec<String> = expected.iter().filter(|name| name.contains("odd")).cloned().collect();
        assert_eq!(list("?prefix=job.o").await, odd);
        let everything = list("").await;
        assert_eq!(everything.len(), 131);
        assert_eq!(everything.last().unwrap(), "other");
        let done: Vec<String> = expected.iter().filter(|name| name.ends_with('0')).cloned().collect();
        assert_eq!(list("?status=completed").await, done);
        assert_eq!(list("?status=open&prefix=job.").await.len(), 130 - done.len());
        assert_eq!(list("?status=failed").await.len(), 0);
        assert_eq!(list("?prefix=nothing").await.len(), 0);
    }
}

/// By the store itself, since so many calls of HTTP would take long.
#[tokio::test]
async fn a_barrier_has_a_hundred_thousand_participants_and_no_more() {
    let store = store_on(RedisServer::shared());
    let name: BarrierId = format!("b{}", uuid::Uuid::new_v4().simple()).parse().unwrap();
    let spec = PutBarrier::default().spec().unwrap();
    store.put_barrier(&name, spec, MustBeNew::Yes).await.unwrap();
    let declare = async |from: usize, count: usize| {
        let names = (from..from + count).map(|n| format!("p{n}").parse().unwrap()).collect();
        store.declare(&name, Declare { participants: Names::new(names).unwrap() }).await.unwrap()
    };
    for n in 0..100 {
        let answer = declare(n * 1_000, 1_000).await;
        assert!(matches!(answer, Decision::Done(Outcome::Declared, _)), "{answer:?}");
    }
    assert_eq!(
        declare(99_999, 2).await,
        Decision::Refused(Refusal::Barrier(BarrierRefusal::TooManyParticipants))
    );
    let arrive = async |name_of: &str| {
        let participant = name_of.parse().unwrap();
        let request = Arrive { participant, outcome: ArrivalOutcome::Completed, note: None };
        store.arrive(&name, request).await.unwrap()
    };
    assert_eq!(
        arrive("stranger").await,
        Decision::Refused(Refusal::Barrier(BarrierRefusal::TooManyParticipants))
    );
    let sealed = store.seal(&name, Seal::default()).await.unwrap();
    assert!(matches!(&sealed, Decision::Done(Outcome::Sealed, now) if now.expected == Some(100_000)));
    let mut fired = 0;
    let people: Vec<String> = names(100_000);
    for some in people.chunks(4_000) {
        for answer in join_all(some.iter().map(|name| arrive(name))).await {
            match answer {
                Decision::Done(_, progress) => fired += usize::from(progress.fired),
                Decision::Refused(refusal) => panic!("{refusal:?}"),
            }
        }
    }
    assert_eq!(fired, 1);
    let Decision::Done(_, now) = store.barrier(&name).await.unwrap() else { panic!() };
    assert_eq!((now.status, now.completed), (BarrierStatus::Completed, 100_000));
}
