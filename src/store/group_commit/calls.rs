//! The calls that carry batches: their keys and arguments, as the headers of the scripts list them.

use super::lane::Pending;
use super::rounds::call_for;
use super::{Body, Committer, Verb};
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

    /// Distinct carts go first, so that the script reads each once: a crowd's are alike.
    fn reserve_call(&self, sale: &SaleHandle, batch: &[Pending]) -> Cmd {
        let takes = || {
            batch.iter().filter_map(|pending| match &pending.request.body {
                Body::Take(take) => Some((&pending.request, take)),
                Body::Settle { .. } => None,
            })
        };
        let key_count =
            takes().map(|(_, take)| 1 + usize::from(take.entry.replaces().is_some())).sum::<usize>();
        let locks = Locks::of(batch);
        let mut cmd = self.head(Verb::Reserve, sale, key_count + locks.0.len());
        let mut carts = Carts::default();
        for (request, take) in takes() {
            cmd.arg(sale.keys.record(&request.id));
            if let Some(replaced) = take.entry.replaces() {
                cmd.arg(sale.keys.record(replaced));
            }
            carts.add(Cart {
                hold_ms: take.hold_ms,
                sign: take.entry.sign(),
                fence: request.fence.as_ref(),
                lines: &take.lines,
            });
        }
        locks.add_keys(sale, &mut cmd);
        cmd.arg(self.clock.offset_ms()).arg(&sale.generation).arg(locks.0.len()).arg(carts.list.len());
        for cart in &carts.list {
            cmd.arg(cart.text(&locks));
        }
        for ((_, take), number) in takes().zip(&carts.numbers) {
            cmd.arg(number);
            match &take.buyer {
                Some((bucket, buyer)) => cmd.arg(bucket).arg(buyer),
                None => cmd.arg("").arg(""),
            };
            cmd.arg(&take.tail);
        }
        cmd
    }
}

/// What requests of a call may have in common.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
struct Cart<'a> {
    hold_ms: Option<u64>,
    sign: char,
    fence: Option<&'a Fence>,
    lines: &'a str,
}

impl Cart<'_> {
    /// As `reserve.lua` has it.
    fn text(&self, locks: &Locks<'_>) -> String {
        let hold_ms = self.hold_ms.map(|ms| ms.to_string()).unwrap_or_default();
        match (self.sign, self.fence) {
            ('-', None) => format!("{hold_ms}\n\n{}", self.lines),
            (sign, fence) => format!("{hold_ms}\n{sign}{}\n{}", locks.claim(fence), self.lines),
        }
    }
}

/// Distinct carts in the order of their first use, and which each request has, counted from 1 as Lua does.
#[derive(Debug, Default)]
struct Carts<'a> {
    places: HashMap<Cart<'a>, usize>,
    list: Vec<Cart<'a>>,
    numbers: Vec<usize>,
}

impl<'a> Carts<'a> {
    fn add(&mut self, cart: Cart<'a>) {
        let number = self.places.entry(cart).or_insert_with(|| {
            self.list.push(cart);
            self.list.len()
        });
        self.numbers.push(*number);
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
