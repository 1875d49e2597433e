//! The self-test of barriers. It ends none: whoever listens to events would hear of it.

use super::MustBeNew;
use crate::domain::*;
use crate::store::checks::CheckError;
use crate::store::{Store, StoreError};

impl Store {
    /// Runs every script of barriers once, on a barrier that is named like the sale of the self-test.
    pub(in crate::store) async fn try_barriers(&self, sale: &SaleId) -> Result<(), CheckError> {
        let barrier = BarrierId::internal(sale.as_str());
        let failed = |step: &str| CheckError::SelfTest(format!("a barrier could not be {step}"));
        let name = |name: &str| name.parse::<Participant>().map_err(|_| failed("named"));
        let spec = PutBarrier { deadline_seconds: Some(600), ..PutBarrier::default() };
        let spec = spec.spec().map_err(|_| failed("described"))?;
        let made = self.put_barrier(&barrier, spec, MustBeNew::Yes).await?;
        expect(made, Outcome::Created).ok_or_else(|| failed("made"))?;
        let participants = Names::new(vec![name("a")?, name("b")?]).map_err(failed)?;
        let declared = self.declare(&barrier, Declare { participants }).await?;
        expect(declared, Outcome::Declared).ok_or_else(|| failed("declared"))?;
        let arrive = |participant, outcome| Arrive { participant, outcome, note: None };
        let arrived = self.arrive(&barrier, arrive(name("a")?, ArrivalOutcome::Failed)).await?;
        expect(arrived, Outcome::Failed).ok_or_else(|| failed("filled"))?;
        let arrived = self.arrive(&barrier, arrive(name("a")?, ArrivalOutcome::Completed)).await?;
        expect(arrived, Outcome::Completed).ok_or_else(|| failed("filled"))?;
        let sealed = self.seal(&barrier, Seal { expected: Some(3) }).await?;
        expect(sealed, Outcome::Sealed).ok_or_else(|| failed("sealed"))?;
        let extended = self.extend_barrier(&barrier, ExtendDeadline { deadline_seconds: 700 }).await?;
        expect(extended, Outcome::Extended).ok_or_else(|| failed("extended"))?;
        let page = PageRequest { limit: 1, after: None };
        let listed = self.participants(&barrier, ParticipantFilter::Arrived, &page).await?;
        let listed = expect(listed, Outcome::Unchanged).ok_or_else(|| failed("listed"))?;
        self.barriers(&super::BarrierFilter::default(), &page).await?;
        let nobody = BarrierId::internal(&format!("{barrier}-"));
        let is_unknown = matches!(
            self.cancel_barrier(&nobody).await?,
            Decision::Refused(Refusal::Barrier(BarrierRefusal::Unknown))
        );
        if listed.items.len() != 1 || !is_unknown {
            return Err(failed("read"));
        }
        self.forget(&barrier).await?.then_some(()).ok_or_else(|| failed("removed"))
    }

    /// Takes the state of an open barrier away, and lets the sweeper's script remove the rest.
    async fn forget(&self, barrier: &BarrierId) -> Result<bool, StoreError> {
        let bucket = crate::store::keys::barrier_bucket(barrier);
        let [own, ..] = self.buckets[bucket].keys.barrier(barrier);
        self.query(redis::cmd("DEL").arg(own)).await?;
        self.barriers_due(bucket, 1).await?;
        Ok(self.sweep_barriers(bucket, &[barrier.to_string()]).await? == (0, 1))
    }
}

fn expect<T>(decision: Decision<T>, outcome: Outcome) -> Option<T> {
    match decision {
        Decision::Done(done, value) if done == outcome => Some(value),
        _ => None,
    }
}
