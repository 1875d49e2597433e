//! Server-Sent Events: how many streams a process serves, and what every stream has in common.

use crate::metrics::Metrics;
use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt, stream};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A stream that has nothing to say says so this often, so that nobody on the way takes it for dead.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
/// A comment, which clients skip.
const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");
/// The first thing said: a client that was cut off comes back after this.
const RETRY: Bytes = Bytes::from_static(b"retry: 2000\n\n");
/// Tells nginx, and whoever copies it, to pass on each event at once.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The streams of a process.
pub struct Streams {
    open: AtomicUsize,
    max: usize,
    heartbeat: Duration,
    metrics: Arc<Metrics>,
}

/// One of them; it counts until it is dropped.
pub struct Open {
    streams: Arc<Streams>,
    route: &'static str,
    since: Instant,
}

impl Streams {
    /// At most `max` at the same time; idle ones speak every `heartbeat`.
    pub fn new(max: usize, heartbeat: Duration, metrics: Arc<Metrics>) -> Self {
        Self { open: AtomicUsize::new(0), max, heartbeat, metrics }
    }

    /// Counts one more; none if there are all there may be.
    pub fn open(self: Arc<Self>, route: &'static str) -> Option<Open> {
        let one_more = |open| (open < self.max).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        self.metrics.stream_opened(route);
        Some(Open { streams: self, route, since: Instant::now() })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.open.fetch_sub(1, Ordering::Relaxed);
        self.streams.metrics.stream_ended(self.route, self.since.elapsed());
    }
}

struct Body<S, E> {
    source: Pin<Box<S>>,
    end: Pin<Box<E>>,
    open: Open,
    has_begun: bool,
}

impl<S: Stream<Item = Bytes>, E: Future<Output = ()>> Body<S, E> {
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(RETRY);
        }
        tokio::select! {
            biased;
            () = &mut self.end => None,
            frames = self.source.next() => frames,
            () = tokio::time::sleep(self.open.streams.heartbeat) => Some(HEARTBEAT),
        }
    }
}

/// The answer that sends `source` until it ends, or `end` comes.
pub fn answer(
    open: Open,
    end: impl Future<Output = ()> + 'static,
    source: impl Stream<Item = Bytes> + 'static,
) -> HttpResponse {
    let body = Body { source: Box::pin(source), end: Box::pin(end), open, has_begun: false };
    let body = stream::unfold(body, |mut body| async move {
        body.next().await.map(|frames| (Ok::<_, Infallible>(frames), body))
    });
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")))
        .insert_header((X_ACCEL_BUFFERING, HeaderValue::from_static("no")))
        .streaming(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::body::MessageBody;
    use std::future::{pending, poll_fn};

    fn streams(max: usize) -> Arc<Streams> {
        let metrics = Arc::new(Metrics::new().expect("buckets are legal"));
        Arc::new(Streams::new(max, Duration::from_millis(1), metrics))
    }

    async fn said(answer: HttpResponse, times: usize) -> Vec<Bytes> {
        let mut body = Box::pin(answer.into_body());
        let mut chunks = Vec::new();
        while chunks.len() < times
            && let Some(chunk) = poll_fn(|context| body.as_mut().poll_next(context)).await
        {
            chunks.push(chunk.expect("no stream fails"));
        }
        chunks
    }

    #[actix_web::test]
    async fn a_stream_without_events_beats() {
        let open = streams(1).open("/").expect("room");
        let answer = answer(open, pending(), stream::pending());
        assert_eq!(said(answer, 3).await, [RETRY, HEARTBEAT, HEARTBEAT]);
    }

    #[actix_web::test]
    async fn a_stream_ends_with_its_source_or_when_it_is_told_to() {
        let events = || stream::iter([Bytes::from_static(b"data: 1\n\n")]);
        let one = answer(streams(1).open("/").expect("room"), pending(), events());
        assert_eq!(said(one, 9).await, [RETRY, Bytes::from_static(b"data: 1\n\n")]);
        let told = answer(streams(1).open("/").expect("room"), async {}, events());
        assert_eq!(said(told, 9).await, [RETRY]);
    }

    #[test]
    fn one_that_ends_makes_room_for_another() {
        let streams = streams(2);
        let open = || Arc::clone(&streams).open("/v1/sales/{sale}/events/live");
        let (one, _two) = (open(), open());
        assert!(one.is_some() && open().is_none());
        let gauge = "stockade_http_streams_open{route=\"/v1/sales/{sale}/events/live\"} ";
        assert!(streams.metrics.render().contains(&format!("{gauge}2")));
        drop(one);
        assert!(streams.metrics.render().contains(&format!("{gauge}1")));
        assert!(open().is_some());
    }
}
