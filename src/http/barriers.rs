//! Barriers: made, filled, ended, and waited for.

use super::answer::{self, Answer, carried_out, done, found};
use super::body::Body;
use super::extract::{At, BarrierList, ParticipantList, Query, WaitSeconds};
use super::idempotency::Key;
use super::layer::Draining;
use super::precondition::Precondition;
use super::problem::{Code, Problem};
use super::streams::{self, Open, Streams};
use crate::domain::{
    Arrive, Barrier, BarrierId, BarrierParticipant, BarrierProgress, BarrierStatus, Declare, Expect,
    ExtendDeadline, Outcome, Page, PutBarrier, Seal,
};
use crate::store::{MustBeNew, Store};
use actix_web::http::StatusCode;
use actix_web::web::{Bytes, Data};
use futures_util::stream;
use std::time::Duration;

/// Path of the stream, and its label.
pub const LIVE: &str = "/v1/barriers/{barrier}/live";
/// Path of the wait, and its label.
pub const WAIT: &str = "/v1/barriers/{barrier}/wait";

/// Make a barrier
///
/// The same again gets the barrier as it is now, also after its end, until it is removed. The answer shows the secrets
/// that messages to `notify` are signed with: the same for the same URL, whoever asks.
#[utoipa::path(
    put, path = "/v1/barriers/{barrier}", operation_id = "put_barrier", tag = "Barriers",
    params(
        ("barrier" = BarrierId, Path, description = "Name of the barrier"),
        ("If-None-Match" = Option<String>, Header, pattern = "^\\*$", description = "`*`: only if there is no barrier of this name"),
    ),
    request_body = PutBarrier,
    responses(
        (status = 201, description = "The barrier was made", body = Barrier),
        (status = 200, description = "It was there already, as it is now", body = Barrier),
    ),
)]
pub async fn put_barrier(
    store: Data<Store>,
    At(barrier): At<BarrierId>,
    _key: Key,
    Precondition(expect): Precondition,
    Body(request): Body<PutBarrier>,
) -> Answer {
    let must_be_new = match expect {
        Expect::Anything => MustBeNew::No,
        Expect::Absent => MustBeNew::Yes,
        Expect::Present | Expect::Etags(_) => {
            return Err(Problem::invalid("If-Match", "has no use here: a barrier has no ETag"));
        }
    };
    let done = done(store.put_barrier(&barrier, request.spec()?, must_be_new).await)?;
    let status = if done.outcome == Outcome::Created { StatusCode::CREATED } else { StatusCode::OK };
    carried_out(status, &done)
}

/// Arrive at a barrier
///
/// `fired` is true for exactly one call of a barrier: the one that ended it, also when it is repeated. A repeat counts
/// once. `failed` then `completed` counts as completed; `failed` after `completed` changes nothing. After the end those
/// who had arrived get 200 with the final state.
#[utoipa::path(
    post, path = "/v1/barriers/{barrier}/arrivals", operation_id = "arrive", tag = "Barriers",
    params(("barrier" = BarrierId, Path, description = "Name of the barrier")),
    request_body = Arrive,
    responses((status = 200, description = "Counted, now or before", body = BarrierProgress)),
)]
pub async fn arrive(
    store: Data<Store>,
    At(barrier): At<BarrierId>,
    _key: Key,
    Body(request): Body<Arrive>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.arrive(&barrier, request).await)?)
}

/// Declare participants that are still to come
///
/// Names that are known already do no harm. All of them are declared, or none.
#[utoipa::path(
    post, path = "/v1/barriers/{barrier}/participants", operation_id = "declare", tag = "Barriers",
    params(("barrier" = BarrierId, Path, description = "Name of the barrier")),
    request_body = Declare,
    responses((status = 200, description = "They are known", body = Barrier)),
)]
pub async fn declare(
    store: Data<Store>,
    At(barrier): At<BarrierId>,
    _key: Key,
    Body(request): Body<Declare>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.declare(&barrier, request).await)?)
}

/// Seal a barrier: settle how many it waits for
///
/// Without `expected` those declared until now. It may complete the barrier; `fired` says so, also when it is repeated.
#[utoipa::path(
    post, path = "/v1/barriers/{barrier}/seal", operation_id = "seal", tag = "Barriers",
    params(("barrier" = BarrierId, Path, description = "Name of the barrier")),
    request_body = Option<Seal>,
    responses((status = 200, description = "Sealed, now or before", body = BarrierProgress)),
)]
pub async fn seal(
    store: Data<Store>,
    At(barrier): At<BarrierId>,
    _key: Key,
    Body(request): Body<Seal>,
) -> Answer {
    request.check()?;
    carried_out(StatusCode::OK, &done(store.seal(&barrier, request).await)?)
}

/// Move the deadline of an open barrier away
///
/// It is then so many seconds from now, unless it was later already.
#[utoipa::path(
    post, path = "/v1/barriers/{barrier}/extend", operation_id = "extend_barrier", tag = "Barriers",
    params(("barrier" = BarrierId, Path, description = "Name of the barrier")),
    request_body = ExtendDeadline,
    responses((status = 200, description = "The barrier as it is now", body = Barrier)),
)]
pub async fn extend_barrier(
    store: Data<Store>,
    At(barrier): At<BarrierId>,
    _key: Key,
    Body(request): Body<ExtendDeadline>,
) -> Answer {
    request.check()?;
    carried_out(StatusCode::OK, &done(store.extend_barrier(&barrier, request).await)?)
}

/// Cancel an open barrier
///
/// It ends, and whoever is to be told of its end is told. It is kept like any ended one.
#[utoipa::path(
    delete, path = "/v1/barriers/{barrier}", operation_id = "cancel_barrier", tag = "Barriers",
    params(("barrier" = BarrierId, Path, description = "Name of the barrier")),
    responses((status = 200, description = "Cancelled, now or before", body = Barrier)),
)]
pub async fn cancel_barrier(store: Data<Store>, At(barrier): At<BarrierId>, _key: Key) -> Answer {
    carried_out(StatusCode::OK, &done(store.cancel_barrier(&barrier).await)?)
}

/// Read a barrier
#[utoipa::path(
    get, path = "/v1/barriers/{barrier}", operation_id = "barrier", tag = "Barriers",
    params(("barrier" = BarrierId, Path, description = "Name of the barrier")),
    responses((status = 200, description = "The barrier", body = Barrier)),
)]
pub async fn barrier(store: Data<Store>, At(barrier): At<BarrierId>) -> Answer {
    found(store.barrier(&barrier).await)
}

/// List the barriers
///
/// By name. Where most are not of the status that is asked for, a page may be short: go on while there is a `next`.
#[utoipa::path(
    get, path = "/v1/barriers", operation_id = "barriers", tag = "Barriers",
    params(super::docs::BarrierParameters, super::docs::PageParameters),
    responses((status = 200, description = "A page of barriers", body = Page<Barrier>)),
)]
pub async fn barriers(store: Data<Store>, Query(BarrierList(filter, page)): Query<BarrierList>) -> Answer {
    answer::json(StatusCode::OK, &store.barriers(&filter, &page).await?)
}

/// List the participants of a barrier
///
/// The missing ones by name, the others by the time of their arrival. Not in mode `count`.
#[utoipa::path(
    get, path = "/v1/barriers/{barrier}/participants", operation_id = "participants", tag = "Barriers",
    params(
        ("barrier" = BarrierId, Path, description = "Name of the barrier"),
        super::docs::ParticipantParameters, super::docs::PageParameters,
    ),
    responses((status = 200, description = "A page of participants", body = Page<BarrierParticipant>)),
)]
pub async fn participants(
    store: Data<Store>,
    At(barrier): At<BarrierId>,
    Query(ParticipantList(filter, page)): Query<ParticipantList>,
) -> Answer {
    found(store.participants(&barrier, filter, &page).await)
}

fn open(streams: Data<Streams>, route: &'static str) -> Result<Open, Problem> {
    streams.into_inner().open(route).ok_or_else(|| Problem::new(Code::TooManyStreams))
}

/// Wait for the end of a barrier
///
/// Answers when the barrier has ended, when the time is up, or when the process stops: `status` says whether to ask
/// again.
#[utoipa::path(
    get, path = "/v1/barriers/{barrier}/wait", operation_id = "wait_for_barrier", tag = "Barriers",
    params(("barrier" = BarrierId, Path, description = "Name of the barrier"), super::docs::WaitParameter),
    responses((status = 200, description = "The barrier", body = Barrier)),
)]
pub async fn wait_for_barrier(
    store: Data<Store>,
    streams: Data<Streams>,
    draining: Data<Draining>,
    At(barrier): At<BarrierId>,
    Query(WaitSeconds(seconds)): Query<WaitSeconds>,
) -> Answer {
    if seconds == 0 || draining.has_begun() {
        return found(store.barrier(&barrier).await);
    }
    let _open = open(streams, WAIT)?;
    let mut watching = done(store.watch_barrier(&barrier).await)?.value;
    tokio::select! {
        _ = watching.ended() => {}
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
        () = draining.begun() => {}
    }
    match watching.now() {
        Some(now) => answer::json(StatusCode::OK, &*now),
        None => Err(Problem::new(Code::UnknownBarrier)),
    }
}

/// Follow a barrier
///
/// Server-Sent Events: the barrier as it is, then whenever it has changed; many changes at once are one. The stream ends
/// after the final state, and when the process stops.
#[utoipa::path(
    get, path = "/v1/barriers/{barrier}/live", operation_id = "live_barrier", tag = "Barriers",
    params(("barrier" = BarrierId, Path, description = "Name of the barrier")),
    responses((status = 200, description = "A stream that ends with the barrier", body = String, content_type = "text/event-stream")),
)]
pub async fn live_barrier(
    store: Data<Store>,
    streams: Data<Streams>,
    draining: Data<Draining>,
    At(barrier): At<BarrierId>,
) -> Answer {
    if draining.has_begun() {
        return Err(Problem::new(Code::Draining));
    }
    let open = open(streams, LIVE)?;
    let watching = done(store.watch_barrier(&barrier).await)?.value;
    let states = stream::unfold((watching, true), |(mut watching, is_first)| async move {
        let state = if is_first { watching.now() } else { watching.next().await };
        state.map(|barrier| (frame(&barrier), (watching, false)))
    });
    Ok(streams::answer(open, draining.begun(), states))
}

/// As an event of Server-Sent Events: its status, and the barrier in one line.
fn frame(barrier: &Barrier) -> Bytes {
    let event = if barrier.status == BarrierStatus::Open { "changed" } else { barrier.status.as_str() };
    let mut frame = format!("event: {event}\ndata: ").into_bytes();
    // Writing to memory fails only where a map's key is no string, and all keys here are.
    if serde_json::to_writer(&mut frame, barrier).is_err() {
        frame.clear();
    }
    frame.extend_from_slice(b"\n\n");
    frame.into()
}
