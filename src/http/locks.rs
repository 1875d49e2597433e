//! Locks: leases on names, by themselves or in a sale.

use super::answer::{Answer, carried_out, done, found};
use super::body::Body;
use super::extract::{At, Who, Within};
use super::idempotency::Key;
use super::layer::Draining;
use super::problem::{Code, Problem};
use super::streams::Streams;
use crate::domain::{
    AcquireLock, Caller, IdempotencyKey, Lock, LockName, LockPlace, LockState, Outcome, ReleaseLock,
    RenewLock, SaleId,
};
use crate::store::Store;
use actix_web::http::StatusCode;
use actix_web::web::Data;

/// Path of a free-standing lock, and its label.
pub const FREE: &str = "/v1/locks/{name}";
/// Path of a lock in a sale, and its label.
pub const IN_A_SALE: &str = "/v1/sales/{sale}/locks/{name}";

/// What taking a lock needs of the worker.
struct Taking {
    store: Data<Store>,
    streams: Data<Streams>,
    draining: Data<Draining>,
}

impl Taking {
    /// Whoever waits counts as a listener, and leaves when the process stops. A call that is dropped gives back what it
    /// may get.
    async fn acquire(
        self,
        route: &'static str,
        place: LockPlace,
        name: LockName,
        caller: Caller,
        key: Option<IdempotencyKey>,
        mut request: AcquireLock,
    ) -> Answer {
        if self.draining.has_begun() {
            request.wait_ms = 0;
        }
        let acquire = self.store.acquire_lock(&place, &name, &caller, key.as_ref(), request);
        let decided = if request.wait_ms == 0 {
            acquire.await
        } else {
            let open = self.streams.into_inner().open(route);
            let _open = open.ok_or_else(|| Problem::new(Code::TooManyStreams))?;
            tokio::select! {
                decided = acquire => decided,
                () = self.draining.begun() => return Err(Problem::new(Code::Draining)),
            }
        };
        let done = done(decided)?;
        let is_new = done.outcome == Outcome::Acquired;
        carried_out(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &done)
    }
}

/// Acquire a lock that belongs to no sale
///
/// For callers who must compute outside Redis and want their turn. The lease ends at `expires_at` unless it is renewed;
/// `fence` is larger than that of every lease of this lock before, so that whatever is written under the lock can refuse
/// one that is over. Send an `Idempotency-Key`: a repeat then meets its own lease. With `wait_ms` it waits while somebody
/// else has it, first come, first served; a caller who leaves gets nothing.
#[utoipa::path(
    post, path = "/v1/locks/{name}", operation_id = "acquire_lock", tag = "Locks",
    params(("name" = LockName, Path, description = "Name of the lock")),
    request_body = AcquireLock,
    responses(
        (status = 201, description = "Acquired", body = Lock),
        (status = 200, description = "A repeat: the caller's own lease, as it is now", body = Lock),
    ),
)]
pub async fn acquire_lock(
    store: Data<Store>,
    streams: Data<Streams>,
    draining: Data<Draining>,
    At(name): At<LockName>,
    Who(caller): Who,
    Key(key): Key,
    Body(request): Body<AcquireLock>,
) -> Answer {
    let taking = Taking { store, streams, draining };
    taking.acquire(FREE, LockPlace::Free, name, caller, key, request).await
}

/// Read a lock that belongs to no sale
#[utoipa::path(
    get, path = "/v1/locks/{name}", operation_id = "lock", tag = "Locks",
    params(("name" = LockName, Path, description = "Name of the lock")),
    responses((status = 200, description = "Whether somebody has it", body = LockState)),
)]
pub async fn lock(store: Data<Store>, At(name): At<LockName>) -> Answer {
    found(store.lock_state(&LockPlace::Free, &name).await)
}

/// Renew a lease on a lock that belongs to no sale
///
/// It then ends `ttl_ms` from now, unless that was later already.
#[utoipa::path(
    post, path = "/v1/locks/{name}/renew", operation_id = "renew_lock", tag = "Locks",
    params(("name" = LockName, Path, description = "Name of the lock")),
    request_body = RenewLock,
    responses((status = 200, description = "Renewed", body = Lock)),
)]
pub async fn renew_lock(
    store: Data<Store>,
    At(name): At<LockName>,
    _key: Key,
    Body(request): Body<RenewLock>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.renew_lock(&LockPlace::Free, &name, request).await)?)
}

/// Release a lock that belongs to no sale
///
/// Only with the token that acquire has answered. A repeat gets the same, until somebody else takes the lock.
#[utoipa::path(
    post, path = "/v1/locks/{name}/release", operation_id = "release_lock", tag = "Locks",
    params(("name" = LockName, Path, description = "Name of the lock")),
    request_body = ReleaseLock,
    responses((status = 200, description = "Released, now or before", body = LockState)),
)]
pub async fn release_lock(
    store: Data<Store>,
    At(name): At<LockName>,
    _key: Key,
    Body(request): Body<ReleaseLock>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.release_lock(&LockPlace::Free, &name, &request.token).await)?)
}

/// Acquire a lock of a sale
///
/// Like a lock that belongs to no sale; besides, reservations and adjustments of this sale can name it in `fence`, and are
/// refused once the lease is over.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/locks/{name}", operation_id = "acquire_sale_lock", tag = "Locks",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"),
        ("name" = LockName, Path, description = "Name of the lock"),
    ),
    request_body = AcquireLock,
    responses(
        (status = 201, description = "Acquired", body = Lock),
        (status = 200, description = "A repeat: the caller's own lease, as it is now", body = Lock),
    ),
)]
pub async fn acquire_sale_lock(
    store: Data<Store>,
    streams: Data<Streams>,
    draining: Data<Draining>,
    Within(sale, name): Within<SaleId, LockName>,
    Who(caller): Who,
    Key(key): Key,
    Body(request): Body<AcquireLock>,
) -> Answer {
    let taking = Taking { store, streams, draining };
    taking.acquire(IN_A_SALE, LockPlace::Sale(sale), name, caller, key, request).await
}

/// Read a lock of a sale
#[utoipa::path(
    get, path = "/v1/sales/{sale}/locks/{name}", operation_id = "sale_lock", tag = "Locks",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"),
        ("name" = LockName, Path, description = "Name of the lock"),
    ),
    responses((status = 200, description = "Whether somebody has it", body = LockState)),
)]
pub async fn sale_lock(store: Data<Store>, Within(sale, name): Within<SaleId, LockName>) -> Answer {
    found(store.lock_state(&LockPlace::Sale(sale), &name).await)
}

/// Renew a lease on a lock of a sale
///
/// It then ends `ttl_ms` from now, unless that was later already.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/locks/{name}/renew", operation_id = "renew_sale_lock", tag = "Locks",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"),
        ("name" = LockName, Path, description = "Name of the lock"),
    ),
    request_body = RenewLock,
    responses((status = 200, description = "Renewed", body = Lock)),
)]
pub async fn renew_sale_lock(
    store: Data<Store>,
    Within(sale, name): Within<SaleId, LockName>,
    _key: Key,
    Body(request): Body<RenewLock>,
) -> Answer {
    carried_out(StatusCode::OK, &done(store.renew_lock(&LockPlace::Sale(sale), &name, request).await)?)
}

/// Release a lock of a sale
///
/// Only with the token that acquire has answered. A repeat gets the same, until somebody else takes the lock.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/locks/{name}/release", operation_id = "release_sale_lock", tag = "Locks",
    params(
        ("sale" = SaleId, Path, description = "Name of the sale"),
        ("name" = LockName, Path, description = "Name of the lock"),
    ),
    request_body = ReleaseLock,
    responses((status = 200, description = "Released, now or before", body = LockState)),
)]
pub async fn release_sale_lock(
    store: Data<Store>,
    Within(sale, name): Within<SaleId, LockName>,
    _key: Key,
    Body(request): Body<ReleaseLock>,
) -> Answer {
    carried_out(
        StatusCode::OK,
        &done(store.release_lock(&LockPlace::Sale(sale), &name, &request.token).await)?,
    )
}
