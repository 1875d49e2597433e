//! The part of the self-test that is about orders: their parts, and the fences that guard them.

use super::{CheckError, expect, one};
use crate::domain::{
    Caller, Decision, Fence, LockName, OrderId, Outcome, Refusal, ReservationId, Reserve, Return, SaleId, Sku,
};
use crate::store::{Store, ids};
use uuid::Uuid;

fn failed(what: &str) -> CheckError {
    CheckError::SelfTest(what.to_owned())
}

impl Store {
    /// Pins two parts of an order: one is confirmed, and returned after that; one is released.
    pub(super) async fn try_parts(&self, sale: &SaleId, sku: &Sku) -> Result<(), CheckError> {
        let (order, sold, freed) = (OrderId(Uuid::new_v4()), Uuid::new_v4(), Uuid::new_v4());
        for part in [sold, freed].map(ReservationId) {
            expect("reserve", self.reserve_part(sale, part, order, one(sku)?).await?, Outcome::Held)?;
            expect("pin", self.pin_part(sale, part, order).await?, Outcome::Pinned)?;
        }
        let (sold, freed) = (ReservationId(sold), ReservationId(freed));
        expect("confirm", self.confirm_part(sale, sold, order).await?, Outcome::Confirmed)?;
        expect("release", self.release_part(sale, freed, order).await?, Outcome::Released)?;
        let back = self.return_reservation(sale, sold, &Caller::default(), None, Return::default()).await?;
        expect("return", back, Outcome::Returned)?;
        Ok(())
    }

    /// Reserves in the name of a lock that nobody has.
    pub(super) async fn try_fence(&self, sale: &SaleId, sku: &Sku) -> Result<(), CheckError> {
        let token = ids::short(Uuid::new_v4()).parse().map_err(|_| failed("no token"))?;
        let fence = Some(Fence { lock: LockName::internal("_selftest"), token, fence: 1 });
        match self.reserve(sale, &Caller::default(), None, Reserve { fence, ..one(sku)? }).await? {
            Decision::Refused(Refusal::StaleFence) => Ok(()),
            _ => Err(failed("a fence that is none was believed")),
        }
    }
}
