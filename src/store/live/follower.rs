//! One listener: what it has missed it reads itself, the rest it hears.

use super::Seat;
use super::lane::frames;
use crate::domain::{Decision, Event, Outcome, Refusal, SaleId};
use crate::store::events::{Feed, Place};
use crate::store::{Decided, EventsAfter, Store, StoreError};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// While Redis is away.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Follows the events of a sale. Dropped, it has left.
pub struct Follower {
    store: Store,
    feed: Arc<Feed>,
    /// Everything up to here was given out.
    place: Place,
    /// There may be more in the stream than it can hear.
    is_behind: bool,
    has_ended: bool,
    /// Read before it was asked for.
    ready: Option<Bytes>,
    seat: Option<Seat>,
}

impl Store {
    /// Follows the events of a sale. What the beginning would miss is a refusal, now rather than in the middle.
    pub async fn follow(&self, sale: &SaleId, after: EventsAfter) -> Decided<Follower> {
        let Some(feed) = self.feed(sale).await? else {
            return Ok(Decision::Refused(Refusal::UnknownSale));
        };
        let (place, is_behind) = match after {
            EventsAfter::Oldest => (feed.trimmed, true),
            EventsAfter::Latest => (self.end(&feed).await?, false),
            EventsAfter::Cursor(cursor) if cursor.generation == feed.generation => {
                (Place::after(&cursor), true)
            }
            EventsAfter::Cursor(_) => return Ok(Decision::Refused(feed.expired())),
        };
        self.learn_sales_a_lane().await?;
        let (store, feed) = (self.clone(), Arc::new(feed));
        let mut follower =
            Follower { store, feed, place, is_behind, has_ended: false, ready: None, seat: None };
        if is_behind {
            match follower.catch_up().await? {
                Ok(frames) => follower.ready = frames,
                Err(refusal) => return Ok(Decision::Refused(refusal)),
            }
        }
        if follower.feed.is_deleted && follower.ready.is_none() {
            return Ok(Decision::Refused(Refusal::UnknownSale)); // and nothing will come
        }
        if !follower.is_behind && !follower.has_ended {
            follower.join();
        }
        Ok(Decision::Done(Outcome::Unchanged, follower))
    }
}

impl Follower {
    /// The next events, as frames of Server-Sent Events; none when the stream has ended: its sale was deleted, or what
    /// comes next was trimmed before this listener had it. It may be dropped at any time and called again.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.ready.is_some() {
            return self.ready.take();
        }
        while !self.has_ended {
            if self.is_behind {
                match self.catch_up().await {
                    Ok(Ok(None)) => {}
                    Ok(Ok(frames)) => return frames,
                    Ok(Err(_)) => return None,
                    Err(StoreError::NotApplied(_) | StoreError::Unknown(_)) => {
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                    Err(error) => {
                        tracing::error!(%error, sale.id = %self.feed.sale, "A listener cannot go on");
                        return None;
                    }
                }
                continue;
            }
            self.join();
            let receiver = self.seat.as_mut().and_then(|seat| seat.receiver.as_mut());
            let Some(receiver) = receiver.filter(|_| !self.is_behind) else { continue };
            match receiver.recv().await {
                Ok(entry) if entry.place.entry <= self.place.entry => {}
                Ok(entry) => {
                    self.place = entry.place;
                    self.has_ended = entry.is_last;
                    return Some(entry.frames);
                }
                Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => return None,
            }
        }
        None
    }

    /// Hears from now on, once it has read what there was.
    fn join(&mut self) {
        if self.seat.is_none() {
            let seat = self.store.live.join(&self.feed, self.place.entry);
            // What came between its last read and now is missing, if the reader has passed it.
            self.is_behind = self.place.entry < seat.read_to;
            self.seat = Some(seat);
        }
    }

    /// Reads the next events from the stream itself.
    async fn catch_up(&mut self) -> Result<Result<Option<Bytes>, Refusal>, StoreError> {
        let _turn = self.store.live.catching_up.acquire().await;
        let stretch = match self.store.stretch(&self.feed, Some(self.place)).await? {
            Ok(stretch) => stretch,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.is_behind = !stretch.at_end;
        let Some(last) = stretch.events.last() else { return Ok(Ok(None)) };
        self.place = Place::after(&last.cursor);
        self.has_ended = stretch.events.iter().any(Event::is_last);
        Ok(Ok(Some(frames(&stretch.events))))
    }
}
