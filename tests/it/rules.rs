//! Changes of rules race, are forestalled, lose their answers and their connections: none is lost, none is done twice.

use crate::proxy::Proxy;
use crate::redis_server::RedisServer;
use crate::shop::*;
use futures_util::future::join_all;
use std::sync::Arc;
use stockade::domain::*;
use stockade::store::pool::{Pool, slot_of};
use stockade::store::scripts::Scripts;
use stockade::store::transaction::{Executed, Transaction};
use stockade::store::{Decided, PoolConfig, PutAnswer, Store, StoreError};

async fn patch(shop: &Shop, name: Option<&str>, expect: &Expect, patch: PatchSale) -> Decided<PutAnswer> {
    let key = name.map(key);
    shop.store.patch_sale(&shop.sale, &Caller::default(), key.as_ref(), expect, patch).await
}

fn limit(units: u64) -> PatchSale {
    PatchSale { buyer_limit: Some(Some(units)), ..PatchSale::default() }
}

fn holds_max(holds: u64) -> PatchSale {
    PatchSale { buyer_holds_max: Some(Some(holds)), ..PatchSale::default() }
}

async fn read(shop: &Shop) -> Sale {
    match shop.store.sale(&shop.sale).await.unwrap() {
        Decision::Done(_, sale) => sale,
        Decision::Refused(refusal) => panic!("{refusal:?}"),
    }
}

fn etag(sale: &Sale) -> Expect {
    Expect::Etags(vec![format!("{}-{}", sale.generation, sale.version)])
}

/// 1,000 increments of one rule by 8 tasks, each read, computed and written under the ETag that was read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn increments_under_an_etag_are_never_lost() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 1)]).await;
    patch(&shop, None, &Expect::Anything, limit(1)).await.unwrap();
    let tasks = (0..8).map(|_| {
        let shop = shop.another();
        tokio::spawn(async move {
            let (mut done, mut lost) = (0, 0);
            while done < 125 {
                let sale = read(&shop).await;
                let next = limit(sale.buyer_limit.unwrap() + 1);
                match word(&patch(&shop, None, &etag(&sale), next).await) {
                    "changed" => done += 1,
                    "precondition_failed" => lost += 1,
                    other => panic!("{other}"),
                }
            }
            lost
        })
    });
    let lost: usize = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    eprintln!("{lost} races were lost");
    let sale = read(&shop).await;
    assert_eq!((sale.buyer_limit, sale.version), (Some(1_001), 1_002));
}

/// Patches of different rules, without a condition: none takes back what another has set.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn patches_of_different_rules_leave_each_other_alone() {
    let shop = Arc::new(Shop::open(RedisServer::shared(), &[("red", 1)]).await);
    let tasks = (0..4).map(|task| {
        let shop = shop.another();
        tokio::spawn(async move {
            for n in 1..=50 {
                let (change, mine): (PatchSale, fn(&Sale) -> Option<u64>) = match task {
                    0 => (limit(n), |sale| sale.buyer_limit),
                    1 => (holds_max(n), |sale| sale.buyer_holds_max),
                    2 => {
                        let change = PatchSale { hold_seconds: Some(Some(n)), ..PatchSale::default() };
                        (change, |sale| Some(sale.hold_seconds))
                    }
                    _ => {
                        let seconds = 86_400 + n;
                        let change = PatchSale {
                            ended_retention_seconds: Some(Some(seconds)),
                            ..PatchSale::default()
                        };
                        (change, |sale| Some(sale.ended_retention_seconds - 86_400))
                    }
                };
                assert_eq!(word(&patch(&shop, None, &Expect::Anything, change).await), "changed");
                assert_eq!(mine(&read(&shop).await), Some(n));
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    assert_eq!(read(&shop).await.version, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_copies_of_one_patch_one_has_an_effect() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 1)]).await;
    let expect = etag(&read(&shop).await);
    let copies = (0..50).map(|_| patch(&shop, Some("copy"), &expect, limit(7)));
    let answers = join_all(copies).await;
    let count = |wanted: &str| answers.iter().filter(|answer| word(answer) == wanted).count();
    assert_eq!((count("changed"), count("replayed")), (1, 49));
    assert_eq!(read(&shop).await.version, 2);
    assert_eq!(word(&patch(&shop, Some("copy"), &expect, limit(8)).await), "idempotency_key_reused");
    assert_eq!(word(&patch(&shop, Some("other"), &expect, limit(8)).await), "precondition_failed");
}

/// A sale seen directly, and by a process whose wire can be cut.
async fn wired() -> (Proxy, Shop, Shop) {
    let direct = Shop::open(RedisServer::shared(), &[("red", 10)]).await;
    // The server knows the script.
    patch(&direct, None, &Expect::Anything, limit(1)).await.unwrap();
    let proxy = Proxy::before(RedisServer::shared());
    let shared = proxy.shared(&direct.shared);
    let behind = Shop { store: Store::open(&shared).unwrap(), shared, sale: direct.sale.clone() };
    (proxy, behind, direct)
}

#[tokio::test]
async fn a_lost_answer_of_exec_is_told_by_the_repeat() {
    let (proxy, behind, direct) = wired().await;
    let before = read(&direct).await;
    for expect in [etag(&before), Expect::Anything] {
        let name = format!("{expect:?}");
        let before = read(&direct).await;
        let change = limit(before.buyer_limit.unwrap() + 1);
        proxy.lose_answer_to("\r\nEXEC\r\n");
        let lost = patch(&behind, Some(&name), &expect, change.clone()).await;
        assert!(matches!(lost, Err(StoreError::Unknown(_))), "{lost:?}");
        let once = read(&direct).await;
        assert_eq!((once.version, once.buyer_limit), (before.version + 1, change.buyer_limit.unwrap()));
        for shop in [&behind, &direct] {
            assert_eq!(word(&patch(shop, Some(&name), &expect, change.clone()).await), "replayed");
        }
        assert_eq!(read(&direct).await, once);
    }
    assert_eq!(proxy.lost(), 2);
}

#[tokio::test]
async fn a_connection_that_ends_before_exec_changes_nothing() {
    let (proxy, behind, direct) = wired().await;
    for (marker, outcome) in
        // EVALSHA is queued and EXEC does not come; the script does not come; nor does what is watched.
        [
            ("*1\r\n$4\r\nEXEC", "outcome_unknown"),
            ("*1\r\n$5\r\nMULTI", "outcome_unknown"),
            ("HMGET", "store_unavailable"),
        ]
    {
        let (before, name) = (read(&direct).await, outcome.to_owned() + &marker.len().to_string());
        proxy.cut_before(marker);
        let cut = patch(&behind, Some(&name), &etag(&before), limit(9)).await;
        assert_eq!(word(&cut), outcome, "{marker}: {cut:?}");
        assert_eq!(read(&direct).await, before, "{marker}");
        // The pool is sound, and the repeat is the first that has an effect.
        let request = Reserve { buyer: Some(name.parse().unwrap()), ..cart("red=1") };
        assert_eq!(word(&behind.reserve(&name, request).await), "held");
        assert_eq!(word(&patch(&behind, Some(&name), &etag(&before), limit(9)).await), "changed");
        patch(&direct, None, &Expect::Anything, limit(1)).await.unwrap();
    }
    assert_eq!(proxy.lost(), 3);
    direct.assert_books_balance().await;
}

/// A pool of one connection, so that a half-open one would be the next user's.
#[tokio::test]
async fn only_a_connection_that_is_through_goes_back_to_the_pool() {
    let shop = Shop::open(RedisServer::shared(), &[("red", 1)]).await;
    let config = PoolConfig { size: 1, ..shop.shared.config.clone() };
    let pool = Pool::open(&config, &shop.shared.metrics).unwrap();
    let key = shop.key("rules");
    let client = async || {
        let mut cmd = redis::cmd("CLIENT");
        cmd.arg("ID");
        redis::from_redis_value::<u64>(pool.get(slot_of(&cmd)).await.unwrap().query(&cmd).await.unwrap())
            .unwrap()
    };
    let watch = async || {
        let mut read = redis::cmd("HGET");
        read.arg(&key).arg("version");
        Transaction::watch(&pool, &key, read).await.unwrap()
    };
    let scripts = Scripts::new();
    let mut call = scripts.due.call(6);
    call.arg(&key)
        .arg(shop.key("due"))
        .arg(shop.key("pinned"))
        .arg(shop.key("done"))
        .arg(shop.key("orphans"));
    call.arg(shop.key("events")).arg(0).arg(1);
    let first = client().await;
    // Through: given up, carried out, lost.
    watch().await.0.unwatch().await;
    let done = watch().await.0.exec(&scripts.due, &call, true).await.unwrap();
    assert!(matches!(done, Executed::Done(_)), "{done:?}");
    let (transaction, _) = watch().await;
    let mut other = RedisServer::shared().connection().await;
    let _: u64 = redis_cmd(&mut other, &["HSET", &key, "touched", "1"]).await;
    assert_eq!(transaction.exec(&scripts.due, &call, false).await.unwrap(), Executed::Lost);
    // An error reply inside ends it as well.
    let mut wrong = scripts.due.call(1);
    wrong.arg(&key);
    assert!(watch().await.0.exec(&scripts.due, &wrong, false).await.is_err());
    assert_eq!(client().await, first);
    // Not through: dropped while it watches, and while EXEC is under way.
    drop(watch().await);
    let second = client().await;
    assert_ne!(second, first);
    let (transaction, _) = watch().await;
    let mut exec = Box::pin(transaction.exec(&scripts.due, &call, false));
    tokio::select! {
        biased;
        done = &mut exec => panic!("it is there already: {done:?}"),
        () = std::future::ready(()) => {}
    }
    drop(exec);
    assert_ne!(client().await, second);
}
