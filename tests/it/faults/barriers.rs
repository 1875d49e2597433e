//! A thousand barriers, while the service or its Redis is killed: one notification each, and one participant that fires.

use super::Chance;
use crate::receiver::{Behaviour, Receiver, distinct};
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{Answer, Api, Service};
use futures_util::{StreamExt, stream};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PARTICIPANTS: usize = 20;
const AT_ONCE: usize = 32;
/// Messages that are taken in and not answered, with each kill.
const CUTS: usize = 3;
/// How long a call may go without an answer: the service comes back within seconds.
const TRIES_MAX: usize = 3_000;
/// What a killed process had begun is begun again when its lease is over; that is half a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// The barriers of one test, and what their participants were told.
struct Crowd {
    api: Api,
    barriers: usize,
    answered: AtomicUsize,
    failures: AtomicUsize,
    /// By barrier: the participants that were told that they fired it.
    fired: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// What the messages are signed with.
    secret: Mutex<String>,
}

fn name(barrier: usize) -> String {
    format!("import-{barrier}")
}

impl Crowd {
    fn new(api: Api, barriers: usize) -> Self {
        let (answered, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { api, barriers, answered, failures, fired: Mutex::default(), secret: Mutex::default() }
    }

    /// Asks until there is a good answer. No call here may be refused.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        for _ in 0..TRIES_MAX {
            match self.api.call(method, path).json(body).try_send().await {
                Ok(answer) if answer.status < 300 => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    return answer;
                }
                Ok(answer) => assert_eq!(answer.status, 503, "{path}: {}", answer.text),
                Err(_) => {}
            }
            self.failures.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await; // as Retry-After asks, in small
        }
        panic!("{path} is not answered");
    }

    async fn put(&self, barrier: usize, url: &str) {
        let participants: Vec<String> = (0..PARTICIPANTS).map(|n| format!("p{n}")).collect();
        let spec = json!({"participants": participants, "notify": [{"url": url}]});
        let put = self.ask("PUT", &format!("/v1/barriers/{}", name(barrier)), &spec).await;
        *self.secret.lock().unwrap() = put.body["notify"][0]["secret"].as_str().unwrap().to_owned();
    }

    async fn arrive(&self, barrier: usize, participant: usize) {
        let (barrier, participant) = (name(barrier), format!("p{participant}"));
        let path = format!("/v1/barriers/{barrier}/arrivals");
        let answer = self.ask("POST", &path, &json!({"participant": participant})).await;
        if answer.body["fired"].as_bool().unwrap() {
            self.fired.lock().unwrap().entry(barrier).or_default().insert(participant);
        }
    }

    /// All that is to be done, in any order; one in ten arrivals is repeated though it was answered.
    async fn run(&self, chance: &mut Chance, url: &str) {
        let put =
            stream::iter(0..self.barriers).for_each_concurrent(AT_ONCE, |barrier| self.put(barrier, url));
        put.await;
        let all = (0..self.barriers).flat_map(|barrier| (0..PARTICIPANTS).map(move |n| (barrier, n)));
        let mut arrivals: Vec<(usize, usize)> = all.collect();
        let again = arrivals.iter().copied().filter(|_| chance.rng.random_ratio(1, 10));
        arrivals.extend(again.collect::<Vec<_>>());
        arrivals.shuffle(&mut chance.rng);
        let arrivals = stream::iter(arrivals);
        arrivals.for_each_concurrent(AT_ONCE, |(barrier, n)| self.arrive(barrier, n)).await;
    }

    /// Waits until so many more calls are answered.
    async fn answers(&self, calls: usize) {
        let target = self.answered.load(Ordering::Relaxed) + calls;
        eventually("calls are answered", async || self.answered.load(Ordering::Relaxed) >= target).await;
    }

    /// How many calls are answered between faults, so that all faults fall into the run.
    fn calls_until_fault(&self, moments: &mut StdRng, faults: usize) -> usize {
        let share = self.barriers * (PARTICIPANTS + 1) / (faults + 1);
        moments.random_range(share / 2..share)
    }

    /// One participant of each barrier fired it, whatever answers were lost: the repeat was told so again.
    fn check_fired(&self) {
        assert!(self.failures.load(Ordering::Relaxed) > 0, "nobody noticed");
        let fired = self.fired.lock().unwrap();
        assert_eq!(fired.len(), self.barriers, "barriers that somebody fired");
        let several: Vec<_> = fired.iter().filter(|(_, by)| by.len() != 1).collect();
        assert!(several.is_empty(), "fired by several: {several:?}");
    }

    /// Dropping repeats by id, the receiver has heard once of each barrier.
    async fn check_received(&self, receiver: &Receiver, kills: usize) {
        // What was cut comes again, each time.
        let wanted = self.barriers + kills * CUTS;
        let all = receiver.wait_within(PATIENCE, "all barriers, and repeats of what was cut", |received| {
            received.len() >= wanted && distinct(received).len() >= self.barriers
        });
        let received = all.await;
        let secret = self.secret.lock().unwrap().clone();
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for message in &received {
            assert!(message.is_signed_with(&secret), "{message:?}");
            let event = message.json();
            assert_eq!(event["id"], message.id(), "{event}");
            assert_eq!(event["type"], "dev.stockade.barrier.completed", "{event}");
            assert_eq!(event["data"]["completed"], PARTICIPANTS, "{event}");
            let subject = event["subject"].as_str().unwrap().to_owned();
            ids.entry(subject).or_default().insert(message.id().to_owned());
        }
        let missing: Vec<_> = (0..self.barriers).map(name).filter(|name| !ids.contains_key(name)).collect();
        assert!(missing.is_empty(), "nobody heard of {missing:?}");
        assert_eq!(ids.len(), self.barriers, "heard of barriers that nobody made");
        let twice: Vec<_> = ids.iter().filter(|(_, ids)| ids.len() > 1).collect();
        assert!(twice.is_empty(), "heard under several ids: {twice:?}");
        let (failures, repeats) = (self.failures.load(Ordering::Relaxed), received.len() - self.barriers);
        println!("{failures} calls failed, {repeats} messages came again");
    }
}

/// Events in the streams of all buckets.
async fn events(redis_url: &str) -> usize {
    let client = redis::Client::open(redis_url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut count = 0;
    for bucket in 0..16 {
        let key = format!("st:{{b:{bucket:x}}}:events");
        let entries: Vec<(String, BTreeMap<String, String>)> =
            redis::cmd("XRANGE").arg(key).arg("-").arg("+").query_async(&mut connection).await.unwrap();
        count += entries.iter().map(|(_, fields)| fields["e"].split('\u{1e}').count()).sum::<usize>();
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_a_thousand_barriers_is_heard_of_once_though_the_service_is_killed() {
    const KILLS: usize = 10;
    let mut chance = Chance::new("each_of_a_thousand_barriers_is_heard_of_once_though_the_service_is_killed");
    let receiver = Receiver::start().await;
    let mut service = Service::start().await;
    let crowd = Crowd::new(service.api(), 1_000);
    let mut moments = StdRng::seed_from_u64(chance.seed);
    let faults = async {
        for _ in 0..KILLS {
            crowd.answers(crowd.calls_until_fault(&mut moments, KILLS)).await;
            receiver.next(CUTS, Behaviour::Cut);
            service.kill();
            service.restart().await;
        }
    };
    let url = receiver.url();
    tokio::join!(crowd.run(&mut chance, &url), faults);
    crowd.check_fired();
    crowd.check_received(&receiver, KILLS).await;
    let engine = format!("unix://{}", service.data_dir().join("stockade.sock").display());
    assert_eq!(events(&engine).await, crowd.barriers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_barrier_is_heard_of_once_though_redis_is_killed() {
    const KILLS: usize = 2;
    let mut chance = Chance::new("each_barrier_is_heard_of_once_though_redis_is_killed");
    let receiver = Receiver::start().await;
    let mut redis = RedisServer::start();
    let service = Service::on(redis.url()).await;
    let crowd = Crowd::new(service.api(), 200);
    let mut moments = StdRng::seed_from_u64(chance.seed);
    let url = receiver.url();
    let faults = async {
        for _ in 0..KILLS {
            crowd.answers(crowd.calls_until_fault(&mut moments, KILLS)).await;
            receiver.next(CUTS, Behaviour::Cut);
            redis.restart();
        }
    };
    tokio::join!(crowd.run(&mut chance, &url), faults);
    crowd.check_fired();
    crowd.check_received(&receiver, KILLS).await;
    assert_eq!(events(&redis.url()).await, crowd.barriers);
}
