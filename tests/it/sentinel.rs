//! A real Sentinel set: the store follows the master, wherever it is. All are the users that are shipped, and may do no more.

use crate::redis_server::{PASSWORD, RedisServer, ServerOptions, USERS, installed_program};
use crate::sandbox::{Sandbox, eventually, own_address};
use crate::shop::*;
use crate::support::shared_with;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use stockade::domain::*;

const SENTINELS: usize = 3;
/// Of a user of the Sentinels themselves.
const WATCH_PASSWORD: &str = "watched";

/// Two servers, one the other's replica, and three Sentinels that watch over them.
struct Watched {
    servers: [RedisServer; 2],
    /// The address that each also tells the others: they vote only if they reach each other.
    sentinels: Vec<SocketAddr>,
    _running: Vec<Child>,
    /// Where the Sentinels run, as long as this lives.
    _sandbox: Sandbox,
}

impl Watched {
    async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With these settings of the first master.
    async fn with(settings: &[&str]) -> Self {
        let server = |more: &[&str]| {
            let users = ["--aclfile", USERS, "--masteruser", "replica", "--masterauth", PASSWORD];
            let users = users.iter().chain(&["--repl-diskless-sync-delay", "0"]);
            let args = users.chain(more).map(|word| (*word).to_owned()).collect();
            RedisServer::with(ServerOptions { tcp: true, args, ..Default::default() })
        };
        let first = server(settings);
        let master_port = first.port().to_string();
        let second = server(&["--replicaof", "127.0.0.1", &master_port]);
        let sandbox = Sandbox::new();
        let sentinels: Vec<SocketAddr> = (0..SENTINELS).map(|_| own_address()).collect();
        let mut running = Vec::new();
        for address in &sentinels {
            let folder = sandbox.path().join(address.port().to_string());
            std::fs::create_dir(&folder).unwrap();
            let settings = format!(
                "bind {}\nport {}\nlogfile sentinel.log\nsentinel announce-ip {}\nsentinel monitor main 127.0.0.1 {master_port} 2\n\
                 sentinel auth-user main sentinel\nsentinel auth-pass main {PASSWORD}\n\
                 user watch on >{WATCH_PASSWORD} -@all +role +sentinel|masters +sentinel|slaves\n\
                 sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
                address.ip(),
                address.port(),
                address.ip(),
            );
            std::fs::write(folder.join("sentinel.conf"), settings).unwrap();
            let mut sentinel = Command::new(installed_program());
            sentinel.args(["sentinel.conf", "--sentinel"]).current_dir(folder);
            sentinel.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            running.push(sentinel.spawn().unwrap());
        }
        let watched = Self { servers: [first, second], sentinels, _running: running, _sandbox: sandbox };
        eventually("the Sentinels know the replica and each other", async || watched.is_complete().await)
            .await;
        watched
    }

    /// Whether each Sentinel sees one replica that can be promoted, and all the others.
    async fn is_complete(&self) -> bool {
        for at in 0..SENTINELS {
            let Some(master) = self.ask_sentinel(at, &["SENTINEL", "MASTER", "main"]).await else {
                return false;
            };
            let master: std::collections::BTreeMap<String, String> = redis::from_redis_value(master).unwrap();
            if master["num-slaves"] != "1"
                || master["num-other-sentinels"] != "2"
                || master["flags"] != "master"
            {
                return false;
            }
            let Some(replicas) = self.ask_sentinel(at, &["SENTINEL", "REPLICAS", "main"]).await else {
                return false;
            };
            let replicas: Vec<std::collections::BTreeMap<String, String>> =
                redis::from_redis_value(replicas).unwrap();
            if replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
                return false;
            }
        }
        true
    }

    fn url(&self) -> String {
        let sentinels: Vec<String> = self.sentinels.iter().map(SocketAddr::to_string).collect();
        let query = format!("sentinel_user=watch&sentinel_pass={WATCH_PASSWORD}");
        format!("redis+sentinel://stockade:{PASSWORD}@{}/main?{query}", sentinels.join(","))
    }

    /// Waits until the replica has all that the master has answered.
    async fn are_level(&self, master: usize) {
        let offset = async |at: usize| {
            let info: String =
                redis_cmd(&mut self.servers[at].connection().await, &["INFO", "replication"]).await;
            let field = |line: &str| line.strip_prefix("master_repl_offset:").map(str::to_owned);
            info.lines().find_map(field).unwrap()
        };
        let to = offset(master).await.parse::<u64>().unwrap();
        let reached = async || offset(1 - master).await.parse::<u64>().unwrap() >= to;
        eventually("the replica has it all", reached).await;
    }

    /// None at the moment in which it changes: Sentinels end all connections then.
    async fn role(&self, at: usize) -> Option<String> {
        let redis::Value::Array(role) = ask(&self.servers[at].url(), &["ROLE"]).await? else { return None };
        redis::from_redis_value(role.into_iter().next()?).ok()
    }

    async fn ask_sentinel(&self, at: usize, words: &[&str]) -> Option<redis::Value> {
        ask(&format!("redis://{}", self.sentinels[at]), words).await
    }
}

/// None where nobody answers.
async fn ask(url: &str, words: &[&str]) -> Option<redis::Value> {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.ok()?;
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await.ok()
}

/// Takes a unit under this key, as often as it needs; a caller who is told nothing asks again with the same key.
async fn take_in_the_end(shop: &Shop, key: &str) -> ReservationId {
    let mut id = None;
    eventually("a unit is taken", async || match shop.take(key, "red=1").await {
        Ok(Decision::Done(_, reservation)) => {
            id = Some(reservation.id);
            true
        }
        Ok(Decision::Refused(refusal)) => panic!("{refusal:?}"),
        Err(error) => {
            assert!(error.code().starts_with("store_") || error.code() == "outcome_unknown", "{error}");
            false
        }
    })
    .await;
    id.unwrap()
}

#[tokio::test]
async fn a_killed_master_is_followed_by_its_replica() {
    let mut watched = Watched::start().await;
    let shop = Shop::with(shared_with(watched.url()), PutSale::default(), &[("red", 100)]).await;
    let mut taken = Vec::new();
    for number in 0..10 {
        taken.push(shop.hold(&format!("before-{number}"), "red=1").await.id);
    }
    watched.are_level(0).await;

    watched.servers[0].kill();
    for number in 0..10 {
        taken.push(take_in_the_end(&shop, &format!("after-{number}")).await);
    }
    assert_eq!(watched.role(1).await.as_deref(), Some("master"));
    // The old master comes back with what it had, and is told what has happened since.
    watched.servers[0].restart();
    eventually("the old master is a replica", async || watched.role(0).await.as_deref() == Some("slave"))
        .await;
    taken.push(shop.hold("last", "red=1").await.id);
    assert_eq!(shop.level("red").await, [79, 21, 0, 100]);
    for id in taken {
        let found = shop.store.reservation(&shop.sale, id).await;
        assert!(
            matches!(&found, Ok(Decision::Done(_, it)) if it.status == ReservationStatus::Held),
            "{found:?}"
        );
    }
    shop.assert_books_balance().await;
}

#[tokio::test]
async fn connections_to_an_old_master_are_given_up() {
    let watched = Watched::start().await;
    let shop = Shop::with(shared_with(watched.url()), PutSale::default(), &[("red", 100)]).await;
    let first = shop.hold("first", "red=1").await.id;
    watched.are_level(0).await;
    let promoted = watched.ask_sentinel(0, &["SENTINEL", "FAILOVER", "main"]).await;
    assert_eq!(promoted, Some(redis::Value::Okay));
    eventually("the replica is the master", async || watched.role(1).await.as_deref() == Some("master"))
        .await;
    eventually("the master is a replica", async || watched.role(0).await.as_deref() == Some("slave")).await;
    // All that the store has are connections to a server that is a replica now.
    let second = take_in_the_end(&shop, "second").await;
    assert_eq!(take_in_the_end(&shop, "first").await, first);
    assert_ne!(second, first);
    assert_eq!(shop.level("red").await, [98, 2, 0, 100]);
    shop.assert_books_balance().await;
}

/// For a while, or for ever if it can't be told, an old master takes writes that are not kept.
#[tokio::test]
async fn an_old_master_that_still_believes_in_itself_is_left() {
    // Nobody can make a replica of it.
    let watched =
        Watched::with(&["--rename-command", "SLAVEOF", "", "--rename-command", "REPLICAOF", ""]).await;
    let shop = Shop::with(shared_with(watched.url()), PutSale::default(), &[("red", 1_000_000)]).await;
    shop.hold("first", "red=1").await;
    watched.are_level(0).await;
    let promoted = watched.ask_sentinel(0, &["SENTINEL", "FAILOVER", "main"]).await;
    assert_eq!(promoted, Some(redis::Value::Okay));
    eventually("the replica is the master", async || watched.role(1).await.as_deref() == Some("master"))
        .await;
    let stock = shop.key("stock");
    let mut number = 0;
    eventually("units are taken from the new master", async || {
        number += 1;
        take_in_the_end(&shop, &format!("later-{number}")).await;
        let held: u64 =
            redis_cmd(&mut watched.servers[1].connection().await, &["HGET", &stock, "red:h"]).await;
        held > 1
    })
    .await;
    assert_eq!(watched.role(0).await.as_deref(), Some("master"));
    shop.assert_books_balance().await;
}
