//! The self-test of locks: one in a sale, and one in a bucket that no lock is in.

use super::*;
use crate::store::checks::CheckError;

const TTL_MS: &str = "60000";

impl Store {
    /// Runs every script of locks, also those for the servers of Redlock, as this server's user.
    pub(in crate::store) async fn try_locks(&self, sale: &SaleId) -> Result<(), CheckError> {
        let name = LockName::internal(sale.as_str());
        if let Some(home) = self.home(&LockPlace::Sale(sale.clone()), &name).await? {
            self.try_leases(&home).await?;
        }
        let [lock, fence] = keys::lock_in(sale.as_str(), &name);
        let home = Home { lock, fence, sale: None, ids: self.ids().await?.clone() };
        self.try_leases(&home).await?;
        let (token, scripts) = (Source::random()?.token(&home.ids, &name)?.to_string(), self.scripts());
        for (script, word, has_ttl) in [
            (&scripts.take_node, "taken", true),
            (&scripts.extend_node, "extended", true),
            (&scripts.drop_node, "dropped", false),
        ] {
            let mut cmd = script.call(1);
            cmd.arg(&home.lock).arg(&token).arg(has_ttl.then_some(TTL_MS));
            said(script, word, &self.call(script, &cmd).await?)?;
        }
        let mut delete = redis::cmd("DEL");
        delete.arg(&home.fence);
        self.query(&delete).await?;
        Ok(())
    }

    /// A lease that is released, and one that is abandoned: that leaves nothing.
    async fn try_leases(&self, home: &Home) -> Result<(), CheckError> {
        let name = LockName::internal("_selftest");
        let new_token = || Ok::<_, CheckError>(Source::random()?.token(&home.ids, &name)?.to_string());
        let (first, second, ttl) = (new_token()?, new_token()?, TTL_MS.to_owned());
        let scripts = self.scripts();
        let steps: [(&Script, &str, bool, Vec<String>); 5] = [
            (&scripts.acquire_lock, "acquired", true, vec![first.clone(), ttl.clone()]),
            (&scripts.renew_lock, "renewed", false, vec![first.clone(), ttl.clone()]),
            (&scripts.read_lock, "lock_held", false, Vec::new()),
            (&scripts.release_lock, "released", false, vec![first]),
            (&scripts.acquire_lock, "acquired", true, vec![second.clone(), ttl]),
        ];
        let mut written = String::new();
        for (script, word, with_fence, args) in steps {
            let texts = self.call_at(home, script, with_fence, &args).await?;
            said(script, word, &texts)?;
            if let [_, _, fence, deadline] = &*texts {
                written = format!("{second}:{fence}:{deadline}");
            }
        }
        let script = &scripts.abandon_lock;
        let mut cmd = script.call(1);
        cmd.arg(&home.lock).arg(written);
        said(script, "abandoned", &self.call(script, &cmd).await?)
    }
}

fn said(script: &Script, word: &str, texts: &[String]) -> Result<(), CheckError> {
    match texts.first() {
        Some(first) if first == word => Ok(()),
        first => Err(CheckError::SelfTest(format!("{} answered {first:?}", script.name))),
    }
}
