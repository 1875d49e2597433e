//! The queues of a sale: what waits, and what a round takes out of them.

use super::rounds::{self, Queues};
use super::{Answered, Body, Request, Verb};
use crate::domain::quantity::LINES_MAX;
use crate::store::StoreError;
use std::collections::VecDeque;

/// Most requests of one script call (`docs/adr/0026-calls-of-256.md`).
pub const BATCH_REQUESTS_MAX: usize = 256;
/// Most lines of one script call, where they are known beforehand.
const BATCH_LINES_MAX: usize = 512;
/// Most requests that wait in one queue of a sale.
pub const QUEUE_MAX: usize = 4_096;
/// Of each call, bulk items have at least this part while some wait: they go behind the crowd, and it cannot starve
/// them.
const BULK_SHARE: usize = 4;

/// Which queue a request waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Settling comes first.
    Settle,
    /// Taking, a request at a time.
    Take,
    /// Taking, many at once: with a queue of their own they neither delay nor shut out the others.
    Bulk,
}

impl Class {
    /// Of a request that comes alone.
    pub fn of(verb: Verb) -> Self {
        if verb == Verb::Reserve { Self::Take } else { Self::Settle }
    }
}

/// A request that waits for its round.
pub type Pending = rounds::Pending<Request, Answered>;
/// What its caller waits with.
pub type Waiting = rounds::Waiting<Answered>;

/// The queues of a sale.
#[derive(Debug, Default)]
pub struct SaleQueues {
    pub(super) settle: VecDeque<Pending>,
    take: VecDeque<Pending>,
    bulk: VecDeque<Pending>,
}

impl SaleQueues {
    /// Queues a request. A full queue refuses it before anything is sent.
    pub(super) fn push(&mut self, class: Class, request: Request) -> Waiting {
        let (pending, waiting) = Pending::new(request);
        let queue = match class {
            Class::Settle => &mut self.settle,
            Class::Take => &mut self.take,
            Class::Bulk => &mut self.bulk,
        };
        if queue.len() < QUEUE_MAX {
            queue.push_back(pending);
        } else {
            let _ = pending.sender.send(Err(StoreError::NotApplied("queue_full")));
        }
        waiting
    }
}

impl Queues for SaleQueues {
    type Request = Request;
    type Answer = Answered;

    fn len(&self) -> usize {
        self.settle.len() + self.take.len() + self.bulk.len()
    }

    /// What the next round carries: a call's worth to settle, and one to take.
    fn next_round(&mut self) -> Vec<Pending> {
        let mut round = Vec::with_capacity(self.len().min(2 * BATCH_REQUESTS_MAX));
        move_some(&mut self.settle, &mut round, CALL);
        let for_bulk = if self.bulk.is_empty() { (0, 0) } else { (CALL.0 / BULK_SHARE, CALL.1 / BULK_SHARE) };
        let taken = move_some(&mut self.take, &mut round, less(CALL, for_bulk));
        move_some(&mut self.bulk, &mut round, less(CALL, taken));
        round
    }
}

/// Requests and lines of one script call.
const CALL: (usize, usize) = (BATCH_REQUESTS_MAX, BATCH_LINES_MAX);
const _: () = assert!(LINES_MAX <= BATCH_LINES_MAX / BULK_SHARE, "the longest cart fits any share");

fn less(room: (usize, usize), taken: (usize, usize)) -> (usize, usize) {
    (room.0 - taken.0, room.1 - taken.1)
}

/// Moves what fits into so many requests and lines, and says how much that was.
fn move_some(
    queue: &mut VecDeque<Pending>,
    round: &mut Vec<Pending>,
    room: (usize, usize),
) -> (usize, usize) {
    let (mut requests, mut lines) = (0, 0);
    while let Some(pending) = queue.front() {
        let more = pending.request.line_count();
        if requests == room.0 || lines + more > room.1 {
            break;
        }
        requests += 1;
        lines += more;
        round.extend(queue.pop_front());
    }
    (requests, lines)
}

impl Request {
    fn line_count(&self) -> usize {
        match &self.body {
            Body::Take(take) => take.line_count,
            Body::Settle { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::group_commit::{Entry, Take};

    /// A cart of so many lines.
    fn cart(id: &str, count: usize) -> Request {
        let (tail, lines) = (String::new(), String::new());
        let take = Take { buyer: None, hold_ms: None, entry: Entry::Plain, tail, lines, line_count: count };
        Request { verb: Verb::Reserve, id: id.to_owned(), fence: None, body: Body::Take(take) }
    }

    fn push(queues: &mut SaleQueues, class: Class, id: &str, count: usize, lines: usize) {
        for _ in 0..count {
            drop(queues.push(class, cart(id, lines)));
        }
    }

    fn counts(round: &[Pending]) -> (usize, usize) {
        let bulk = round.iter().filter(|pending| pending.request.id == "bulk").count();
        (round.len() - bulk, bulk)
    }

    #[test]
    fn bulk_items_go_behind_the_crowd_and_are_not_starved_by_it() {
        let mut queues = SaleQueues::default();
        push(&mut queues, Class::Bulk, "bulk", 600, 1);
        assert_eq!(counts(&queues.next_round()), (0, 256), "alone they fill a call");
        push(&mut queues, Class::Take, "one", 3, 1);
        assert_eq!(counts(&queues.next_round()), (3, 253), "who comes later need not wait for those before");
        push(&mut queues, Class::Take, "one", 1_000, 1);
        assert_eq!(counts(&queues.next_round()), (192, 64));
        let mut left = 27;
        push(&mut queues, Class::Settle, "settled", 1, 1);
        while left > 0 {
            left -= counts(&queues.next_round()).1;
        }
        assert_eq!(counts(&queues.next_round()), (256, 0), "without them the crowd has all of it");
    }

    #[test]
    fn long_carts_leave_room_for_bulk_too() {
        let mut queues = SaleQueues::default();
        push(&mut queues, Class::Take, "one", 10, 100);
        push(&mut queues, Class::Bulk, "bulk", 10, 100);
        assert_eq!(counts(&queues.next_round()), (3, 2));
    }

    #[test]
    fn each_queue_is_full_for_itself() {
        let mut queues = SaleQueues::default();
        push(&mut queues, Class::Bulk, "bulk", QUEUE_MAX + 1, 1);
        assert_eq!(queues.len(), QUEUE_MAX);
        push(&mut queues, Class::Take, "one", 1, 1);
        assert_eq!(queues.len(), QUEUE_MAX + 1);
    }
}
