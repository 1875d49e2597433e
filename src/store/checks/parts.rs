//! The part of the self-test that is about parts of orders.

use super::{CheckError, expect, one};
use crate::domain::{Caller, OrderId, Outcome, ReservationId, Return, SaleId, Sku};
use crate::store::Store;
use uuid::Uuid;

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
}
