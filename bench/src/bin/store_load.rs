//! The store without HTTP: how many reservations a second group commit carries from `--clients` tasks of one thread.
//! Prints accepted a second, and CPU microseconds a reservation of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};
use stockade::domain::sale::{PutSale, SkuSpec, Skus};
use stockade::domain::*;
use stockade::metrics::Metrics;
use stockade::store::{PoolConfig, Shared, Store};

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = text.rsplit(')').next().expect("a name").split_whitespace().collect();
    (fields[11].parse::<f64>().expect("a number") + fields[12].parse::<f64>().expect("a number")) / 100.0
}

async fn client(store: Store, sale: SaleId, client: usize, until: Instant) -> u64 {
    let mut accepted = 0;
    for n in 0.. {
        if Instant::now() >= until {
            break;
        }
        let request: Reserve = serde_json::from_str(&format!(
            r#"{{"buyer":"b-{client}-{n}","lines":[{{"sku":"hot","quantity":1}}]}}"#
        ))
        .expect("a request");
        let key: IdempotencyKey = format!("k-{client}-{n}").parse().expect("a key");
        match store.reserve(&sale, &Caller::default(), Some(&key), request).await {
            Ok(Decision::Done(Outcome::Held, _)) => accepted += 1,
            other => panic!("{other:?}"),
        }
    }
    accepted
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().expect("usage: store_load URL CLIENTS SECONDS");
    let clients: usize = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(128);
    let seconds: u64 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(5);
    let config = PoolConfig {
        url,
        size: 4,
        response_timeout: Duration::from_secs(2),
        wait_timeout: Duration::from_millis(500),
        replica_timeout: None,
        reads_replicas: false,
    };
    let metrics = Arc::new(Metrics::new().expect("metrics"));
    let store = Store::open(&Shared::new(config, Arc::clone(&metrics))).expect("a URL");
    let sale: SaleId = format!("load-{}", std::process::id()).parse().expect("a name");
    let rules = PutSale { buyer_limit: Some(4), hold_seconds: Some(3600), ..Default::default() };
    let stock =
        Skus([("hot".parse().expect("a SKU"), SkuSpec { initial: 100_000_000, buyer_limit: None })].into());
    let rules = rules.rules().expect("rules");
    store.put_sale(&sale, &Caller::default(), None, &Expect::Anything, rules, stock).await.expect("a sale");
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let until = begun + Duration::from_secs(seconds);
    let tasks: Vec<_> =
        (0..clients).map(|n| tokio::spawn(client(store.clone(), sale.clone(), n, until))).collect();
    let mut accepted = 0;
    for task in tasks {
        accepted += task.await.expect("a client");
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let cpu = (cpu_seconds() - cpu) * 1e6 / accepted as f64;
    println!("{:.0}/s accepted, {cpu:.1} us of this process each", accepted as f64 / elapsed);
    metrics.upkeep();
    for line in metrics
        .render()
        .lines()
        .filter(|line| line.contains("batch_size_sum") || line.contains("batch_size_count"))
    {
        println!("{line}");
    }
}
