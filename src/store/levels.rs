//! Reads of levels: as they are, or as they were a moment ago.
//!
//! A level of a moment ago comes from the cache of this process. A list is cut from pages by rank, which come from the
//! same cache, and behind it from Redis, where all processes share them: one of them makes a page anew, the others show
//! the old one meanwhile (`docs/adr/0012-reads-from-caches.md`).

use super::keys::SaleKeys;
use super::reply::{self, Fields};
use super::{Clock, Decided, Store, StoreError};
use crate::domain::level_page::{LEVELS_OF_A_PAGE, LevelList, Need, SkuSet};
use crate::domain::*;
use bytes::Bytes;
use redis::Value;
use std::sync::Arc;

/// Between the levels of a shared page, which hold LF themselves.
const BETWEEN_LEVELS: char = '\x1e';
/// What the script of levels found.
struct Found {
    now: Timestamp,
    skus: SkuSet,
    levels: Vec<String>,
}

/// Who is asked for levels.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// Who decides: as they are now.
    Master,
    /// A replica, where such are read from: as they were a moment ago.
    Near,
}

/// What there is of a shared page.
enum Shared {
    Page(LevelPage),
    /// None, and it is ours to make one.
    Ours,
    /// None, and others make one.
    Others,
    UnknownSale,
}

impl Store {
    /// Reads the level of one SKU.
    pub async fn level(&self, sale: &SaleId, sku: &Sku) -> Decided<Level> {
        self.level_from(Source::Master, sale, sku).await
    }

    async fn level_from(&self, source: Source, sale: &SaleId, sku: &Sku) -> Decided<Level> {
        let found = match self.read_levels(source, sale, "one", sku.as_str(), 1).await? {
            Decision::Done(_, found) => found,
            Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
        };
        Ok(match levels_of(found.now, found.levels.iter())?.pop() {
            Some(level) => Decision::Done(Outcome::Unchanged, level),
            None => Decision::Refused(Refusal::UnknownSku(sku.clone())),
        })
    }

    /// Reads a page of levels by name of the SKU.
    pub async fn levels(&self, sale: &SaleId, page: &PageRequest) -> Decided<Page<Level>> {
        let after = page.after.as_deref().unwrap_or_default();
        self.read_levels(Source::Master, sale, "page", after, page.limit).await?.try_map(|found| {
            let items = levels_of(found.now, found.levels.iter())?;
            let next = items.last().filter(|_| items.len() == page.limit).map(|level| level.sku.to_string());
            Ok(Page { items, next })
        })
    }

    /// The level of one SKU as it was a moment ago, as JSON.
    pub async fn recent_level(&self, sale: SaleId, sku: Sku) -> Decided<Bytes> {
        let key = (sale, sku);
        let read = async || {
            let _turn = self.turn().await?;
            self.level_from(Source::Near, &key.0, &key.1).await?.try_map(|level| json(&level))
        };
        self.cache.levels.get(&key, self.clock(), read).await
    }

    /// A page of levels by name of the SKU, each as it was a moment ago, as JSON.
    pub async fn recent_levels(&self, sale: SaleId, request: &PageRequest) -> Decided<Bytes> {
        let mut key = match &request.after {
            None => (sale, 0),
            Some(after) => {
                let place = (sale, after.clone());
                let number = self.cache.places.get(&place, self.clock(), || self.place(&place)).await?;
                (place.0, number)
            }
        };
        let mut list = LevelList::new(request);
        loop {
            let page = match self.cache.pages.get(&key, self.clock(), || self.page(&key)).await? {
                Decision::Done(_, page) => page,
                Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
            };
            match list.take(&page) {
                Need::NextPage => key.1 += 1,
                Need::Nothing => return Ok(Decision::Done(Outcome::Unchanged, list.into_json().into())),
                Need::Anew => break,
            }
        }
        // SKUs were added between the pages. By name nothing is left out, and nothing comes twice.
        self.levels(&key.0, request).await?.try_map(|page| json(&page))
    }

    fn clock(&self) -> &Clock {
        &self.committer.clock
    }

    /// A turn to read for the caches. They have half of the pool at most: a flood of names that nobody has asked for
    /// before must leave connections to those who take and settle.
    async fn turn(&self) -> Result<impl Drop, StoreError> {
        let turn = tokio::time::timeout(self.turn_wait, self.turns.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or(StoreError::NotApplied("store_busy"))
    }

    /// The page that a name is in, or comes after the end of.
    async fn place(&self, (sale, after): &(SaleId, String)) -> Result<usize, StoreError> {
        let _turn = self.turn().await?;
        let mut cmd = redis::cmd("ZLEXCOUNT");
        cmd.arg(&SaleKeys::new(sale).skus).arg("-").arg(format!("[{after}"));
        match self.query(&cmd).await? {
            Value::Int(up_to_it) => Ok(usize::try_from(up_to_it - 1).unwrap_or(0) / LEVELS_OF_A_PAGE),
            _ => Err(StoreError::Reply("not a number".into())),
        }
    }

    /// A page that all processes share; where there is none, as it is now.
    async fn page(&self, (sale, number): &(SaleId, usize)) -> Decided<Arc<LevelPage>> {
        let _turn = self.turn().await?;
        // Replicas are there to be read: each process does so by itself.
        let shared = match self.reads_replicas {
            true => Ok(Shared::Others),
            false => self.shared_page(sale, *number).await,
        };
        let shared = match shared {
            // A store that takes no writes can still be read.
            Err(StoreError::NotApplied("store_full" | "store_read_only")) => Shared::Others,
            found => found?,
        };
        let is_ours = match shared {
            Shared::Page(page) => return Ok(Decision::Done(Outcome::Unchanged, Arc::new(page))),
            Shared::UnknownSale => return Ok(Decision::Refused(Refusal::UnknownSale)),
            Shared::Ours => true,
            Shared::Others => false,
        };
        self.cache.shared.miss.increment(1);
        let first = (number * LEVELS_OF_A_PAGE).to_string();
        let found = match self.read_levels(Source::Near, sale, "ranks", &first, LEVELS_OF_A_PAGE).await? {
            Decision::Done(_, found) => found,
            Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
        };
        if is_ours {
            self.keep_page(sale, *number, &found).await;
        }
        let levels = levels_of(found.now, found.levels.iter())?;
        let page = LevelPage::new(found.skus, *number, levels).map_err(unwritable)?;
        Ok(Decision::Done(Outcome::Unchanged, Arc::new(page)))
    }

    async fn shared_page(&self, sale: &SaleId, number: usize) -> Result<Shared, StoreError> {
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().find_page;
        let mut cmd = script.call(4);
        cmd.arg(keys.rules()).arg(&keys.skus).arg(keys.levels(number)).arg(keys.rebuild(number));
        let times = self.page_times;
        cmd.arg(self.offset_ms()).arg(times.fresh_ms).arg(times.stale_ms).arg(times.guard_ms);
        let texts = self.call(script, &cmd).await?;
        let words: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (result, [generation, count, as_of, levels]) = match words[..] {
            ["fresh", generation, count, as_of, levels] => {
                (&self.cache.shared.hit, [generation, count, as_of, levels])
            }
            ["stale", generation, count, as_of, levels] => {
                (&self.cache.shared.stale, [generation, count, as_of, levels])
            }
            ["yours"] => return Ok(Shared::Ours),
            ["none"] => return Ok(Shared::Others),
            ["unknown_sale"] => return Ok(Shared::UnknownSale),
            _ => return Err(StoreError::Reply("unknown word".into())),
        };
        let read = || {
            let skus = SkuSet { generation: generation.to_owned(), count: reply::number(count)? };
            let texts = levels.split(BETWEEN_LEVELS).filter(|level| !level.is_empty());
            let levels = levels_of(reply::time(as_of)?, texts)?;
            LevelPage::new(skus, number, levels).map_err(unwritable)
        };
        let Ok(page) = read() else {
            return Ok(Shared::Others); // a damaged page is none, and soon gone
        };
        result.increment(1);
        Ok(Shared::Page(page))
    }

    /// Shares a page. Should that fail, each process goes on reading by itself.
    async fn keep_page(&self, sale: &SaleId, number: usize, found: &Found) {
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().keep_page;
        let mut cmd = script.call(3);
        cmd.arg(keys.rules()).arg(&keys.skus).arg(keys.levels(number));
        cmd.arg(&found.skus.generation).arg(found.skus.count).arg(found.now.as_ms());
        cmd.arg(found.levels.join(&BETWEEN_LEVELS.to_string())).arg(self.page_times.stale_ms);
        match self.call(script, &cmd).await.as_deref() {
            Ok([word]) if word == "kept" || word == "stale_generation" => {}
            answer => tracing::debug!(%sale, number, ?answer, "A page of levels was not kept"),
        }
    }

    async fn read_levels(
        &self,
        source: Source,
        sale: &SaleId,
        mode: &str,
        at: &str,
        limit: usize,
    ) -> Decided<Found> {
        let keys = SaleKeys::new(sale);
        let script = &self.scripts().read_levels;
        let mut cmd = script.call(3);
        cmd.arg(keys.rules()).arg(keys.stock()).arg(&keys.skus);
        cmd.arg(self.offset_ms()).arg(mode).arg(at).arg(limit);
        let mut texts = match source {
            Source::Master => self.call(script, &cmd).await?,
            Source::Near => match self.call_near(script, &cmd).await? {
                // A replica may not have heard of it yet.
                texts if texts.first().is_some_and(|word| word != "found") => self.call(script, &cmd).await?,
                texts => texts,
            },
        };
        match &texts[..] {
            [word, now, generation, count, ..] if word == "found" => {
                let now = reply::time(now)?;
                let skus = SkuSet { generation: generation.clone(), count: reply::number(count)? };
                let levels = texts.split_off(4);
                Ok(Decision::Done(Outcome::Unchanged, Found { now, skus, levels }))
            }
            [word, sku] if word == "unknown_sku" => {
                let sku = sku.parse().map_err(|_| StoreError::Corrupt("skus".into()))?;
                Ok(Decision::Refused(Refusal::UnknownSku(sku)))
            }
            [word] if word == "unknown_sale" => Ok(Decision::Refused(Refusal::UnknownSale)),
            _ => Err(StoreError::Reply("unknown word".into())),
        }
    }
}

/// Each must add up, wherever it comes from.
fn levels_of(
    as_of: Timestamp,
    texts: impl Iterator<Item = impl AsRef<str>>,
) -> Result<Vec<Level>, StoreError> {
    texts.map(|text| reply::level(as_of, &mut Fields::of(text.as_ref()))).collect()
}

fn json<T: serde::Serialize>(value: &T) -> Result<Bytes, StoreError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> StoreError {
    StoreError::Reply(error.to_string())
}
