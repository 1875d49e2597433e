//! The servers, and the tills of a shop on them.

use crate::buy::Strategy;
use crate::redlock::Redlock;
use crate::till::Till;
use anyhow::{Context, Result, bail};
use rand::SeedableRng;
use rand::rngs::StdRng;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stockade::domain::sale::{PutSale, SkuSpec, Skus};
use stockade::domain::{Caller, Decision, Expect, SaleId};
use stockade::embedded_redis::{AppendFsync, EmbeddedRedis, EngineError, Options, Role};
use stockade::metrics::Metrics;
use stockade::store::{PoolConfig, Shared, Store};
use tempfile::TempDir;
use tokio::sync::Mutex;

/// Servers of the lock of f, beside the one that has the stock.
const NODES: usize = 3;
/// A loaded machine may keep us waiting; nothing here depends on giving up early.
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine as Stockade starts it, or the one that runs there.
pub async fn engine(folder: &Path) -> Result<EmbeddedRedis, EngineError> {
    let options = Options { appendfsync: AppendFsync::Always, ..Options::from_env()? };
    EmbeddedRedis::start_with(folder, Role::Tool, options).await
}

/// Servers of our own: private, each with a folder and a socket, durable before each answer.
pub struct Servers {
    folder: TempDir,
    engines: Vec<EmbeddedRedis>,
}

impl Servers {
    /// All of them, empty.
    pub fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("stockade-strategies-").tempdir()?;
        Ok(Self { folder, engines: Vec::new() })
    }

    /// Starts them. Those that have started are stopped by [`Servers::stop`] also when one does not.
    pub async fn start(&mut self) -> Result<()> {
        for n in 0..=NODES {
            self.engines.push(engine(&self.folder.path().join(n.to_string())).await?);
        }
        Ok(())
    }

    /// The folder of the one that has the stock.
    pub fn folder(&self) -> std::path::PathBuf {
        self.folder.path().join("0")
    }

    /// URLs: the one that has the stock, and those of the lock.
    pub fn urls(&self) -> Vec<String> {
        self.engines.iter().map(EmbeddedRedis::url).collect()
    }

    /// They would run on without us.
    pub async fn stop(self) -> Result<()> {
        for engine in self.engines {
            engine.stop().await?;
        }
        Ok(())
    }
}

/// A connection that waits for its answers.
async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    let client = redis::Client::open(url)?;
    client.get_multiplexed_async_connection_with_config(&config).await.with_context(|| url.to_owned())
}

/// What the tills of one process have in common.
pub struct Shop {
    strategy: Strategy,
    server: String,
    nodes: Vec<String>,
    shared: Shared,
    /// The store that purchases share, if they do.
    common: Option<Store>,
    mutex: Arc<Mutex<()>>,
    sale: SaleId,
    seed: u64,
}

impl Shop {
    /// On these servers; the first has the stock.
    pub fn new(strategy: Strategy, urls: &[String], seed: u64) -> Result<Self> {
        let Some((server, nodes)) = urls.split_first() else { bail!("a shop needs a server") };
        let config = PoolConfig {
            url: server.clone(),
            size: 2,
            response_timeout: PATIENCE,
            wait_timeout: PATIENCE,
            replica_timeout: None,
            reads_replicas: false,
        };
        let shared = Shared::new(config, Arc::new(Metrics::new()?));
        let common = if strategy == Strategy::H { Some(Store::open(&shared)?) } else { None };
        let sale = "hot".parse().map_err(anyhow::Error::msg)?;
        let (server, nodes, mutex) = (server.clone(), nodes.to_vec(), Arc::default());
        Ok(Self { strategy, server, nodes, shared, common, mutex, sale, seed })
    }

    fn store(&self) -> Result<Store> {
        self.common.clone().map_or_else(|| Ok(Store::open(&self.shared)?), Ok)
    }

    /// One a task, each with its own connections, which are there before the doors open.
    pub async fn tills(&self, tasks: u32) -> Result<Vec<Till>> {
        let mut tills = Vec::new();
        for task in 0..tasks {
            let store = self.store()?;
            if matches!(self.strategy, Strategy::G | Strategy::H) {
                // A store connects, and learns the sale, when it is first asked: here for what is not there.
                let nothing = serde_json::from_str(r#"{"lines": [{"sku": "nothing", "quantity": 1}]}"#)?;
                store.reserve(&self.sale, &Caller::default(), None, nothing).await?;
            }
            let mut nodes = Vec::new();
            for node in &self.nodes {
                nodes.push(connect(node).await?);
            }
            tills.push(Till {
                connection: connect(&self.server).await?,
                mutex: Arc::clone(&self.mutex),
                redlock: Redlock::new(nodes),
                store,
                sale: self.sale.clone(),
                retries: 0,
                rng: StdRng::seed_from_u64(self.seed ^ u64::from(task)),
                pause_ms: 1,
            });
        }
        Ok(tills)
    }

    /// Puts the hot SKU up, in both forms: a to f sell from the counter `stock`, g and h from a sale.
    pub async fn fill(&self, stock: u32) -> Result<()> {
        let mut connection = connect(&self.server).await?;
        let () = redis::cmd("FLUSHALL").query_async(&mut connection).await?;
        let () = redis::cmd("SET").arg("stock").arg(stock).query_async(&mut connection).await?;
        let rules = PutSale { buyer_limit: Some(1), ..PutSale::default() }
            .rules()
            .map_err(|bad| anyhow::anyhow!("rules of the sale: {bad:?}"))?;
        let spec = SkuSpec { initial: stock.into(), buyer_limit: None };
        let skus = Skus([("hot".parse().map_err(anyhow::Error::msg)?, spec)].into());
        let (store, nobody) = (self.store()?, Caller::default());
        match store.put_sale(&self.sale, &nobody, None, &Expect::Anything, rules, skus).await? {
            Decision::Refused(refusal) => bail!("the sale was refused: {refusal:?}"),
            Decision::Done(..) => Ok(()),
        }
    }

    /// What the counters say is sold; one of the two has not been touched.
    pub async fn counted(&self, stock: u32) -> Result<i64> {
        let mut connection = connect(&self.server).await?;
        let left: i64 = redis::cmd("GET").arg("stock").query_async(&mut connection).await?;
        let sku = "hot".parse().map_err(anyhow::Error::msg)?;
        match self.store()?.level(&self.sale, &sku).await? {
            Decision::Done(_, level) => Ok(i64::from(stock) - left + level.held as i64),
            Decision::Refused(refusal) => bail!("the level was refused: {refusal:?}"),
        }
    }
}
