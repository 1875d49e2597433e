//! A Redis that is full: what takes is refused before its first line, what gives back or only reads goes on.

use super::calls::{Rules, take};
use super::rig::{DAY, Rig};
use super::wrong_types::calls;
use crate::redis_server::{RedisServer, ServerOptions};

#[tokio::test]
async fn a_full_store_can_give_back_and_empty_itself() {
    let server = RedisServer::with(ServerOptions { cluster: true, ..ServerOptions::default() });
    let mut rig = Rig::on(&server).await;
    let rules = Rules::default().buyer_limit(9);
    rig.put("", "made:fp", Some(&rules), &[("one", "20", ""), ("two", "5", "")]).await;
    let ann = |name: &str| take(name, "one", 1).by("ann");
    rig.reserve(&[ann("b"), ann("c"), ann("o")]).await;
    rig.confirm("b", "").await;
    rig.each("release", &["c"]).await;
    rig.offset_ms = 2 * DAY;
    let part = |name: &str| ann(name).part_of("order");
    rig.reserve(&[ann("a"), ann("d"), part("p"), part("q")]).await;
    let maxmemory = |bytes: u64| {
        let mut cmd = redis::cmd("CONFIG");
        cmd.arg("SET").arg("maxmemory").arg(bytes);
        cmd
    };
    let () = maxmemory(1).query_async(&mut rig.admin).await.unwrap();
    let before = rig.bytes().await;
    let takes = [
        "sale/put",
        "sale/adjust",
        "sale/find_page",
        "sale/keep_page",
        "reservation/reserve",
        "reservation/extend",
    ];
    for call in calls(&rig).iter().filter(|call| takes.contains(&call.script)) {
        let refused = rig.run(call.script, &call.keys, &call.args).await.unwrap_err();
        assert!(refused.starts_with("OOM "), "{}: {refused}", call.script);
    }
    assert!(rig.bytes().await == before);
    rig.confirm("a", "").await.answer(&["confirmed/held/#a/*"]);
    rig.each("release", &["d"]).await.answer(&["released/held/#d/*"]);
    for (name, verb, word) in [("p", "confirm", "confirmed"), ("q", "release", "released")] {
        rig.settle_part("pin", name, "order").await.answer(&[&format!("pinned/held/#{name}/*")]);
        rig.settle_part(verb, name, "order").await.answer(&[&format!("{word}/held/#{name}/*")]);
    }
    rig.each("expire", &["o"]).await.answer(&["expired/held/#o/*"]);
    rig.retake("o", "").await.answer(&["retaken/expired/#o/*"]);
    rig.give_back(&[("b", "op", "", "0", "f"), ("o", "op", "", "1", "f")]).await;
    rig.each("archive", &["c"]).await.answer(&["archived"]);
    assert_eq!(rig.trim(DAY, 2, 99).await.head[0], "trimmed");
    rig.each("read", &["a"]).await.answer(&["found//#a/*"]);
    rig.read_sale().await;
    rig.levels("page", "", 9).await;
    rig.due(9).await;
    rig.list("due", "", "", 9).await;
    // Closing it takes memory; a sale that has sold nothing, or that closes by itself, can be deleted.
    rig.give_back(&[("a", "all", "", "1", "f"), ("p", "all", "", "1", "f")]).await;
    assert_eq!(rig.delete().await.head[0], "deleted");
    assert_eq!(rig.purge(&["a", "b", "d", "o", "p", "q"]).await.head, ["purged"]);
    assert!(rig.snapshot().await.is_empty());
}
