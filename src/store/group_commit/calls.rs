//! The calls that carry batches: their keys and arguments, as the headers of the scripts list them.

use super::lane::Pending;
use super::rounds::call_for;
use super::{Body, Committer, Entry, Verb};
use crate::domain::{Fence, LockName};
use crate::store::SaleHandle;
use crate::store::pool::Call;
use redis::Cmd;
use std::collections::HashMap;

impl Committer {
    /// A call of a verb, for the requests that it carries.
    pub(super) fn carrying<'a>(&'a self, verb: Verb, cmd: &'a Cmd, batch: &[Pending]) -> Call<'a> {
        call_for(verb.script(&self.scripts), cmd, batch)
    }

    /// EVALSHA with the fixed keys of a verb, `more` keys to follow.
    pub(super) fn head(&self, verb: Verb, sale: &SaleHandle, more: usize) -> Cmd {
        let script = verb.script(&self.scripts);
        if verb == Verb::Adjust {
            let mut cmd = script.call(4 + more);
            cmd.arg(sale.keys.rules())
                .arg(sale.keys.stock())
                .arg(sale.keys.events())
                .arg(&sale.keys.adjustments);
            return cmd;
        }
        let mut cmd = script.call(sale.keys.fixed.len() + more);
        for key in &sale.keys.fixed {
            cmd.arg(key);
        }
        cmd
    }

    /// The call that carries a batch.
    pub(super) fn call(&self, verb: Verb, sale: &SaleHandle, batch: &[Pending]) -> Cmd {
        match verb {
            Verb::Reserve => self.reserve_call(sale, batch),
            _ => self.settle_call(verb, sale, batch),
        }
    }

    fn settle_call(&self, verb: Verb, sale: &SaleHandle, batch: &[Pending]) -> Cmd {
        let key_count = if verb == Verb::Return { 2 * batch.len() + 1 } else { batch.len() };
        let locks = Locks::of(batch);
        let mut cmd = self.head(verb, sale, key_count + locks.0.len());
        for Pending { request, .. } in batch {
            if verb == Verb::Adjust {
                cmd.arg(sale.keys.operation(&request.id));
            } else {
                cmd.arg(sale.keys.record(&request.id));
            }
            if let Body::Settle { operation: Some(operation), .. } = &request.body {
                cmd.arg(sale.keys.operation(operation));
            }
        }
        if verb == Verb::Return {
            cmd.arg(&sale.keys.adjustments);
        }
        locks.add_keys(sale, &mut cmd);
        cmd.arg(self.clock.offset_ms()).arg(&sale.generation);
        let may_depend = matches!(verb, Verb::Confirm | Verb::Release | Verb::Adjust);
        if may_depend {
            cmd.arg(locks.0.len());
        }
        for Pending { request, .. } in batch {
            if let Body::Settle { args, .. } = &request.body {
                for arg in args {
                    cmd.arg(arg);
                }
            }
            if may_depend {
                cmd.arg(locks.claim(request.fence.as_ref()));
            }
        }
        cmd
    }

    /// Distinct SKUs and buyers go first, so that the script walks flat arrays.
    fn reserve_call(&self, sale: &SaleHandle, batch: &[Pending]) -> Cmd {
        let takes = || {
            batch.iter().filter_map(|pending| match &pending.request.body {
                Body::Take { buyer, hold_ms, entry, tail, lines } => {
                    Some((&pending.request, buyer, hold_ms, entry, tail, lines))
                }
                Body::Settle { .. } => None,
            })
        };
        let key_count =
            takes().map(|(_, _, _, entry, ..)| 1 + usize::from(entry.replaces().is_some())).sum::<usize>();
        let locks = Locks::of(batch);
        let mut cmd = self.head(Verb::Reserve, sale, key_count + locks.0.len());
        let (mut skus, mut buyers) = (Index::default(), Index::default());
        for (request, buyer, _, entry, _, lines) in takes() {
            cmd.arg(sale.keys.record(&request.id));
            if let Some(replaced) = entry.replaces() {
                cmd.arg(sale.keys.record(replaced));
            }
            if let Some((bucket, buyer)) = buyer {
                buyers.add(buyer, *bucket);
            }
            for (sku, _) in lines.iter() {
                skus.add(sku.as_str(), 0);
            }
        }
        locks.add_keys(sale, &mut cmd);
        cmd.arg(self.clock.offset_ms()).arg(&sale.generation);
        cmd.arg(locks.0.len()).arg(skus.list.len()).arg(buyers.list.len());
        for (sku, _) in &skus.list {
            cmd.arg(sku);
        }
        for (buyer, bucket) in &buyers.list {
            cmd.arg(bucket).arg(buyer);
        }
        for (request, buyer, hold_ms, entry, tail, lines) in takes() {
            match hold_ms {
                Some(hold_ms) => cmd.arg(hold_ms),
                None => cmd.arg(""),
            };
            cmd.arg(buyer.as_ref().map_or("", |(_, buyer)| buyer));
            match (entry, &request.fence) {
                (Entry::Plain, None) => cmd.arg(""),
                (entry, fence) => cmd.arg(format!("{}{}", entry.sign(), locks.claim(fence.as_ref()))),
            };
            cmd.arg(tail).arg(lines.count());
            for (sku, units) in lines.iter() {
                cmd.arg(skus.place(sku.as_str())).arg(units);
            }
        }
        cmd
    }
}

/// The locks that the requests of a call depend on, each once.
struct Locks<'a>(Vec<&'a LockName>);

impl<'a> Locks<'a> {
    fn of(batch: &'a [Pending]) -> Self {
        let mut locks = Vec::new();
        for Fence { lock, .. } in batch.iter().filter_map(|pending| pending.request.fence.as_ref()) {
            if !locks.contains(&lock) {
                locks.push(lock);
            }
        }
        Self(locks)
    }

    fn add_keys(&self, sale: &SaleHandle, cmd: &mut Cmd) {
        for lock in &self.0 {
            cmd.arg(sale.keys.lock(lock));
        }
    }

    /// `<number of its lock>:<token>:<fence>`, counted from 1 as Lua does; nothing where there is no fence.
    fn claim(&self, fence: Option<&Fence>) -> String {
        let place =
            |fence: &Fence| self.0.iter().position(|lock| **lock == fence.lock).map_or(0, |at| at + 1);
        fence.map(|fence| format!("{}:{}:{}", place(fence), fence.token, fence.fence)).unwrap_or_default()
    }
}

/// Distinct names in the order of their first use, counted from 1 as Lua does.
#[derive(Debug, Default)]
struct Index<'a> {
    places: HashMap<&'a str, usize>,
    list: Vec<(&'a str, u8)>,
}

impl<'a> Index<'a> {
    fn add(&mut self, name: &'a str, bucket: u8) {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.places.entry(name) {
            self.list.push((name, bucket));
            entry.insert(self.list.len());
        }
    }

    fn place(&self, name: &str) -> usize {
        self.places.get(name).copied().unwrap_or_default()
    }
}
