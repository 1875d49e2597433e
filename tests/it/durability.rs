//! `--durability replicated`: an answer says so when no replica has what it tells.

use crate::redis_server::{RedisServer, ServerOptions};
use crate::sandbox::eventually;
use crate::service::{Answer, Sale, Service, ServiceOptions};
use crate::shop::redis_cmd;
use serde_json::json;

/// A server and its replica.
async fn pair() -> (RedisServer, RedisServer) {
    let server = |args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        RedisServer::with(ServerOptions { tcp: true, args, ..Default::default() })
    };
    let master = server(&["--repl-diskless-sync-delay", "0"]);
    let replica = server(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    eventually("the replica is there", async || {
        let info: String = redis_cmd(&mut replica.connection().await, &["INFO", "replication"]).await;
        info.contains("master_link_status:up")
    })
    .await;
    (master, replica)
}

async fn service(redis: &RedisServer) -> Service {
    let args = ["--durability", "replicated", "--redis-timeout-ms", "1500"].map(str::to_owned).to_vec();
    let redis_url = Some(redis.url());
    Service::with(ServiceOptions { redis_url, args, ..ServiceOptions::default() }).await
}

/// Whether it says that one server alone has it; an answer of another kind than `status` has failed.
#[track_caller]
fn is_local(answer: Answer, status: u16) -> bool {
    let answer = answer.expect(status, "");
    match answer.headers.get("stockade-durability") {
        Some(word) => {
            assert_eq!(word, "local");
            true
        }
        None => false,
    }
}

#[tokio::test]
async fn an_answer_that_no_replica_has_says_so() {
    let (redis, replica) = pair().await;
    let service = service(&redis).await;
    let api = service.api();
    let sale = Sale::of(&api, 100).await;
    let body = json!({"lines": [{"sku": "a", "quantity": 1}]});
    assert!(!is_local(sale.reserve("before", body.clone()).await, 201));
    let held = sale.hold(1).await;
    let order = json!({"lines": [{"sale": sale.name, "sku": "a", "quantity": 1}]});
    let place = async |key: &str| api.call("POST", "/v1/orders").key(key).json(&order).send().await;
    assert!(!is_local(place("order-before").await, 201));

    replica.freeze();
    assert!(is_local(sale.reserve("during", body.clone()).await, 201));
    // What it repeats was on the replica already, but what was done since is not: it cannot tell them apart.
    assert!(is_local(sale.reserve("before", body.clone()).await, 200));
    assert!(is_local(sale.settle(&held, "confirm", json!({})).await, 200));
    let bulk = json!({"requests": [{"lines": [{"sku": "a", "quantity": 1}]}]});
    assert!(is_local(sale.post("/reservations/bulk", bulk).await, 200));
    assert!(is_local(place("order-during").await, 201));
    assert!(is_local(api.put("/v1/barriers/done", &json!({"participants": ["one"]})).await, 201));
    let arrival = json!({"participant": "one"});
    assert!(is_local(api.post("/v1/barriers/done/arrivals", &arrival).await, 200));
    assert!(is_local(api.post("/v1/locks/till", &json!({"ttl_ms": 60_000})).await, 201));
    let rules = json!({"stock": {"a": {"initial": 1}}});
    assert!(is_local(api.put("/v1/sales/durable", &rules).await, 201));
    let patched = api.call("PATCH", "/v1/sales/durable").json(&json!({"buyer_limit": 3})).send().await;
    assert!(is_local(patched, 200));
    // A read promises nothing, and a refusal that changed nothing is as good as what it is about.
    assert!(!is_local(sale.get("/stock/a?fresh=true").await, 200));

    replica.thaw();
    eventually("the replica has it all", async || !is_local(sale.reserve("during", body.clone()).await, 200))
        .await;
    assert!(!is_local(sale.reserve("before", body.clone()).await, 200));
}

#[tokio::test]
async fn where_nobody_asks_nothing_is_waited_for() {
    let (redis, replica) = pair().await;
    let service = Service::on(redis.url()).await;
    replica.freeze();
    let sale = Sale::of(&service.api(), 100).await;
    assert!(!is_local(sale.take(1).await, 201));
    replica.thaw();
}
