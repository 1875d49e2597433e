//! Exactly one firing, in both modes, whoever reports how often at the same time.

use super::{Barrier, fresh, names, says};
use crate::service::{InProcess, shared_api};
use futures_util::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn the_last_of_three_fires_and_its_repeat_says_so_again() {
    for mode in ["members", "count"] {
        let barrier = Barrier::put(&shared_api(), json!({"expected": 3, "mode": mode})).await;
        let first = barrier.arrive("a").await.expect(200, "");
        assert_eq!(first.outcome(), "completed");
        says(
            &first.body,
            json!({"status": "open", "fired": false, "completed": 1, "expected": 3, "ended_at": null}),
        );
        let again = barrier.arrive("a").await.expect(200, "");
        assert_eq!(again.outcome(), "replayed");
        says(&again.body, json!({"completed": 1, "fired": false}));
        barrier.arrive("b").await.expect(200, "");
        let last = barrier.arrive("c").await.expect(200, "");
        says(&last.body, json!({"status": "completed", "fired": true, "completed": 3, "failed": 0}));
        for (name, fired) in [("c", true), ("a", false), ("b", false)] {
            let repeat = barrier.arrive(name).await.expect(200, "");
            assert_eq!(repeat.outcome(), "replayed");
            says(&repeat.body, json!({"status": "completed", "fired": fired, "completed": 3}));
        }
        // The same participant with another outcome is another call.
        says(&barrier.fail("c", "").await.expect(200, "").body, json!({"fired": false, "failed": 0}));
    }
}

/// Each participant reports three times, over twenty connections at once.
#[tokio::test]
async fn every_participant_three_times_from_twenty_connections_fires_once() {
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for mode in ["members", "count"] {
        let barrier = Barrier::put(&service.api, json!({"expected": 100, "mode": mode})).await;
        let mut reports: Vec<String> = [names(100), names(100), names(100)].concat();
        reports.shuffle(&mut random);
        let connections = reports.chunks(15).map(|some| {
            let barrier = Barrier { api: fresh(&service.api), name: barrier.name.clone() };
            async move {
                let mut fired = Vec::new();
                for name in some {
                    let answer = barrier.arrive(name).await.expect(200, "").body;
                    fired.extend((answer["fired"] == true).then(|| name.clone()));
                }
                fired
            }
        });
        let fired: BTreeSet<String> = join_all(connections).await.concat().into_iter().collect();
        assert_eq!(fired.len(), 1, "calls of one participant fire: {fired:?}");
        says(&barrier.get().await, json!({"status": "completed", "completed": 100, "declared": 100}));
        assert_eq!(barrier.events(&mut redis).await.len(), 1);
    }
}

/// The last two come at the same moment, to both worker threads, a thousand times.
#[tokio::test]
async fn of_the_last_two_one_fires() {
    let service = InProcess::start();
    let mut redis = service.redis.connection().await;
    let apis: Vec<_> = (0..8).map(|_| fresh(&service.api)).collect();
    let rounds = (0..1_000usize).map(|n| (n, if n % 2 == 0 { "members" } else { "count" }));
    let rounds: Vec<_> = rounds.collect();
    for some in rounds.chunks(20) {
        let races = some.iter().map(|(n, mode)| {
            let one = Barrier::named(&apis[n % 4]);
            let other = Barrier { api: apis[4 + n % 4].clone(), name: one.name.clone() };
            async move {
                one.put_again(json!({"expected": 2, "mode": mode})).await.expect(201, "");
                let (a, b) = tokio::join!(one.arrive("a"), other.arrive("b"));
                let fired = [a, b].map(|answer| answer.expect(200, "").body["fired"] == true);
                assert_eq!(fired.iter().filter(|fired| **fired).count(), 1, "round {n}: {fired:?}");
            }
        });
        join_all(races).await;
    }
    let mut events = 0;
    for keys in stockade::store::keys::BucketKeys::all() {
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(keys.events).arg("-").arg("+");
        let entries =
            stockade::store::events::read_bucket_entries(cmd.query_async(&mut redis).await.unwrap());
        events += entries.unwrap().iter().map(|(_, events)| events.len()).sum::<usize>();
    }
    assert_eq!(events, 1_000);
    let metrics = service.api.metrics().await;
    for (series, value) in [
        ("stockade_barriers_total{outcome=\"created\"}", 1_000.0),
        ("stockade_barriers_total{outcome=\"completed\"}", 1_000.0),
        ("stockade_barrier_arrivals_total{outcome=\"completed\"}", 2_000.0),
        ("stockade_barrier_arrivals_total{outcome=\"replayed\"}", 0.0),
        ("stockade_barrier_open_seconds_count", 1_000.0),
    ] {
        assert!(metrics.contains(&(series.to_owned(), value)), "{series}");
    }
}

#[tokio::test]
async fn many_barriers_are_filled_in_the_same_calls() {
    let api = shared_api();
    let barriers: Vec<Barrier> = (0..60).map(|_| Barrier::named(&api)).collect();
    let specs = barriers.iter().map(|barrier| barrier.put_again(json!({"participants": names(5)})));
    join_all(specs).await.into_iter().for_each(|answer| drop(answer.expect(201, "")));
    let people = names(5);
    let arrivals = barriers.iter().flat_map(|barrier| people.iter().map(move |name| barrier.arrive(name)));
    let fired = join_all(arrivals).await.into_iter().filter(|answer| answer.body["fired"] == true).count();
    assert_eq!(fired, 60);
}
