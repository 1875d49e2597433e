//! The self-test of orders, in a bucket that no order is in: nobody hears of what happens there.

use super::hold::new_attempt;
use super::*;
use crate::store::checks::CheckError;

impl Store {
    /// Runs every script of orders once: an order is held and given back, and its record deleted.
    pub(in crate::store) async fn try_orders(&self, sale: &SaleId) -> Result<(), CheckError> {
        let (keys, id) = (OrderKeys::named(sale.as_str()), OrderId(uuid::Uuid::new_v4()));
        let (attempt, lease, scripts) = (new_attempt(), LEASE_MS.to_string(), self.scripts());
        let lines = format!("shop=unit=unit=1={attempt}");
        let begin = [&*attempt, &lease, &lines, "fingerprint", "", "", "", ""];
        // Long over: whoever calls next gives it back.
        let steps: [(&Script, &[&str], &str); 5] = [
            (&scripts.begin_order, &begin, "begun"),
            (&scripts.hold_order, &[&attempt, &lines, "1"], "held"),
            (&scripts.read_order, &[], "found"),
            (&scripts.claim_order, &[&attempt, &lease, "recover"], "aborting"),
            (&scripts.step_order, &[&attempt, &lease, "undone", "", ""], "expired"),
        ];
        for (script, args, word) in steps {
            let answer = self.order_call_in(&keys, script, id, args).await?;
            if answer.word != word {
                return Err(CheckError::SelfTest(format!("{} answered {}", script.name, answer.word)));
            }
        }
        let short = ids::short(id.0);
        if self.orders_due(&keys, 1).await?.next_at.is_none()
            || self.forget_orders(&keys, std::slice::from_ref(&short)).await? != 0
        {
            return Err(CheckError::SelfTest("an order that has ended is not kept".into()));
        }
        let mut delete = redis::cmd("DEL");
        delete.arg(&keys.fixed).arg(keys.record(&short));
        self.query(&delete).await?;
        Ok(())
    }
}
