//! What was read a moment ago: shared by all worker threads of the process, bounded, and read once for a whole crowd.
//!
//! `quick_cache` gives the bound and the placeholder at which a crowd waits; the time is added here, so that it is the
//! clock that tests move (`docs/adr/0012-reads-from-caches.md`).

use super::{Clock, StoreError};
use crate::metrics::CacheMetrics;
use quick_cache::sync::{Cache as Entries, DefaultLifecycle, EntryAction, EntryResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::hash::Hash;

/// How long an answer is given again, counted from before it was read.
pub const TTL_MS: u32 = 100;
/// So much less or more, or what was read together would run out together.
pub const TTL_JITTER_MS: u32 = 20;
/// Parts with a lock each. A fixed number, so that a part has room for the largest entry on any machine.
const SHARDS: usize = 16;
/// What an entry takes besides its key and value.
const ENTRY_BYTES: usize = 128;

/// Bytes in memory, about.
pub trait Weight {
    /// Without the place of the value itself.
    fn weight(&self) -> usize;
}

#[derive(Clone)]
struct Entry<V> {
    answer: Result<V, StoreError>,
    /// On the process's clock. Good for whoever came before.
    until_ms: i64,
}

#[derive(Clone)]
struct ByBytes;

impl<K: Weight, V: Weight> Weighter<K, Entry<V>> for ByBytes {
    fn weight(&self, key: &K, entry: &Entry<V>) -> u64 {
        (ENTRY_BYTES + key.weight() + entry.answer.as_ref().map_or(0, Weight::weight)) as u64
    }
}

/// Answers by what was asked.
pub struct Cache<K, V> {
    entries: Entries<K, Entry<V>, ByBytes>,
    metrics: CacheMetrics,
}

impl<K: Weight + Clone + Eq + Hash, V: Weight + Clone> Cache<K, V> {
    /// An empty one, for at most so many bytes.
    pub fn new(bytes_max: usize, metrics: CacheMetrics) -> Self {
        let mut options = OptionsBuilder::new();
        options.weight_capacity(bytes_max as u64).estimated_items_capacity(bytes_max / 1024).shards(SHARDS);
        let options = options.build().unwrap_or_else(|_| unreachable!("both capacities are given"));
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self { entries: Entries::with_options(options, ByBytes, hasher, lifecycle), metrics }
    }

    /// The answer that is there; if there is none, or an old one, what `read` finds. Of all who ask meanwhile one
    /// reads, and the others get the same, its error too: a crowd must not wait for one timeout after the other. Should
    /// that one go away, the next one reads.
    pub async fn get<F>(&self, key: &K, clock: &Clock, read: impl FnOnce() -> F) -> Result<V, StoreError>
    where
        F: Future<Output = Result<V, StoreError>>,
    {
        let arrived_ms = clock.elapsed_ms();
        match self.entries.get(key) {
            Some(entry) if arrived_ms < entry.until_ms => {
                self.metrics.hit.increment(1);
                entry.answer
            }
            // In a box: the future of a hit, which every request carries, stays small.
            _ => Box::pin(self.wait_or_read(key, clock, arrived_ms, read)).await,
        }
    }

    async fn wait_or_read<F>(
        &self,
        key: &K,
        clock: &Clock,
        arrived_ms: i64,
        read: impl FnOnce() -> F,
    ) -> Result<V, StoreError>
    where
        F: Future<Output = Result<V, StoreError>>,
    {
        let look = |_: &K, entry: &mut Entry<V>| match arrived_ms < entry.until_ms {
            true => EntryAction::Retain(entry.answer.clone()),
            false => EntryAction::ReplaceWithGuard,
        };
        let place = match self.entries.entry_async(key, look).await {
            EntryResult::Retained(answer) => {
                self.metrics.hit.increment(1);
                return answer;
            }
            EntryResult::Vacant(place) | EntryResult::Replaced(place, _) => place,
            EntryResult::Removed(..) | EntryResult::Timeout => unreachable!("never asked for"),
        };
        self.metrics.miss.increment(1);
        // From before the read: what is true at some time after that is not older.
        let begun_ms = clock.elapsed_ms();
        let answer = read().await;
        let until_ms = match &answer {
            Ok(_) => begun_ms + ttl_ms(),
            Err(_) => clock.elapsed_ms() + 1, // for those who wait, and nobody else
        };
        // Without a place the entry was pushed out meanwhile.
        let _ = place.insert(Entry { answer: answer.clone(), until_ms });
        answer
    }

    /// Bytes that are in use, about.
    pub fn weight(&self) -> u64 {
        self.entries.weight()
    }
}

fn ttl_ms() -> i64 {
    let random = getrandom::u32().unwrap_or(TTL_JITTER_MS);
    i64::from(TTL_MS - TTL_JITTER_MS + random % (2 * TTL_JITTER_MS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::cell::Cell;

    impl Weight for u32 {
        fn weight(&self) -> usize {
            0
        }
    }

    fn cache() -> (Cache<u32, u32>, Clock) {
        let clock = Clock::default();
        clock.stop();
        (Cache::new(1024 * 1024, CacheMetrics::default()), clock)
    }

    #[tokio::test]
    async fn an_answer_lasts_80_to_120_ms() {
        let (cache, clock) = cache();
        let read = Cell::new(0);
        let ask =
            async |key| cache.get(&key, &clock, async || Ok(read.replace(read.get() + 1))).await.unwrap();
        for key in 0..200 {
            ask(key).await;
        }
        clock.advance_ms(79);
        for key in 0..200 {
            assert_eq!(ask(key).await, key);
        }
        clock.advance_ms(21);
        for key in 0..200 {
            ask(key).await;
        }
        let made_anew = read.get() - 200;
        assert!((10..190).contains(&made_anew), "{made_anew} of 200 ran out by the mean");
        clock.advance_ms(121);
        for key in 0..200 {
            ask(key).await;
        }
        assert_eq!(read.get(), 400 + made_anew);
    }

    #[tokio::test]
    async fn the_time_begins_before_the_read() {
        let (cache, clock) = cache();
        let slow = async || {
            clock.advance_ms(300);
            Ok(1)
        };
        assert_eq!(cache.get(&0, &clock, slow).await, Ok(1));
        assert_eq!(cache.get(&0, &clock, async || Ok(2)).await, Ok(2));
    }

    /// Somebody who comes when the answer on its way is too old for him does not take it.
    #[tokio::test]
    async fn who_comes_late_reads_anew() {
        let (cache, clock) = cache();
        let (answer, wait) = tokio::sync::oneshot::channel();
        let first = cache.get(&0, &clock, async || Ok(wait.await.unwrap()));
        let joined = cache.get(&0, &clock, async || Ok(2));
        let late = async {
            clock.advance_ms(121);
            let late = cache.get(&0, &clock, async || Ok(3));
            answer.send(1).unwrap();
            late.await
        };
        let (first, joined, late) = tokio::join!(first, joined, late);
        assert_eq!((first, late), (Ok(1), Ok(3)));
        assert_ne!(joined, Ok(2), "one of those two is good for him");
    }

    #[tokio::test]
    async fn an_error_is_told_to_those_who_wait_and_to_nobody_later() {
        let (cache, clock) = cache();
        let failure = || StoreError::NotApplied("store_unavailable");
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let first = cache.get(&0, &clock, async || {
            let _ = wait.await;
            Err(failure())
        });
        let others = futures_util::future::join_all((0..50).map(|_| cache.get(&0, &clock, async || Ok(1))));
        let (first, others, ()) = tokio::join!(first, others, async { go.send(()).unwrap() });
        assert!(first == Err(failure()) && others.iter().all(|other| *other == Err(failure())));
        clock.advance_ms(1);
        assert_eq!(cache.get(&0, &clock, async || Ok(2)).await, Ok(2));
    }

    #[tokio::test]
    async fn who_reads_may_go_away() {
        let (cache, clock) = cache();
        let mut gone = Box::pin(cache.get(&0, &clock, std::future::pending));
        assert!((&mut gone).now_or_never().is_none());
        let mut waiting = Box::pin(cache.get(&0, &clock, async || Ok(7)));
        assert!((&mut waiting).now_or_never().is_none());
        drop(gone);
        assert_eq!(waiting.await, Ok(7));
    }

    #[tokio::test]
    async fn a_flood_of_names_does_not_fill_the_memory() {
        let clock = Clock::default();
        let cache = Cache::<u32, u32>::new(64 * 1024, CacheMetrics::default());
        for key in 0..10_000 {
            cache.get(&key, &clock, async || Ok(key)).await.unwrap();
            assert!(cache.weight() <= 64 * 1024);
        }
        assert!(cache.weight() > 32 * 1024, "it is used");
    }
}
