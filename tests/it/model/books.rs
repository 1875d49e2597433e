//! The model: what a sale must do, in plain Rust. Time is in whole ticks of 20 minutes since the sale was made; the
//! scripts see the same moments a few milliseconds later, which never decides anything because windows and the longest
//! hold end half a tick off.

use std::collections::{BTreeMap, BTreeSet};
use stockade::domain::{ReservationStatus as Status, SaleStatus};

pub const SKUS: [&str; 4] = ["a", "b", "c", "d"];
pub const BUYERS: [&str; 3] = ["ann", "bob", "cid"];
pub const DAY: i64 = 24 * 3;

/// Units by number of the SKU, sorted, each SKU once.
pub type Cart = Vec<(usize, i64)>;
pub type Key = u8;
/// Keys from here on are of parts of one order.
pub const PARTS_FROM: Key = 11;

/// Whether a key is a part's.
pub fn is_part(key: Key) -> bool {
    key >= PARTS_FROM
}

/// The deadline of a pinned part.
const NEVER: i64 = i64::MAX;

/// Delta and if_granted.
type AdjustBody = (i64, Option<i64>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReserveOp {
    pub key: Key,
    pub cart: Cart,
    pub buyer: Option<usize>,
    pub hold: Option<i64>,
    pub replaces: Option<Key>,
    /// Number of the lease that it depends on.
    pub fence: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Pin {
        key: Key,
    },
    Confirm {
        key: Key,
        lines: Option<Cart>,
        retake: bool,
        reference: bool,
        fence: Option<i64>,
    },
    /// In the name of the order.
    ConfirmPart {
        key: Key,
    },
    Return {
        key: Key,
        op: u8,
        lines: Option<Cart>,
        restock: bool,
    },
    Extend {
        key: Key,
        op: u8,
        hold: i64,
    },
    Release {
        key: Key,
        fence: Option<i64>,
    },
    ReleasePart {
        key: Key,
    },
    Adjust {
        op: u8,
        sku: usize,
        delta: i64,
        if_granted: Option<i64>,
        fence: Option<i64>,
    },
    Reserve(ReserveOp),
}

impl Op {
    /// Place of its verb in a round of group commit.
    fn order(&self) -> usize {
        match self {
            Op::Pin { .. } => 0,
            Op::Confirm { .. } | Op::ConfirmPart { .. } => 1,
            Op::Return { .. } => 2,
            Op::Extend { .. } => 3,
            Op::Release { .. } | Op::ReleasePart { .. } => 4,
            Op::Adjust { .. } => 5,
            Op::Reserve(_) => 6,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    pub hold: i64,
    pub hold_max: i64,
    pub buyer_limit: Option<i64>,
    pub holds_max: Option<i64>,
    /// Ticks since the sale was made; half a tick is added.
    pub opens: Option<i64>,
    pub closes: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Anything,
    Absent,
    Present,
    Another,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// One round: requests that wait at the same moment.
    Round(Vec<Op>),
    Advance(i64),
    PutSku {
        sku: usize,
        initial: Option<i64>,
        limit: Option<i64>,
    },
    PutRules {
        op: u8,
        rules: Rules,
        expected: Expected,
    },
    Switch(Switched),
    /// Somebody takes the lock, by hand: the number of the lease, and ticks until its end.
    Lock {
        fence: i64,
        ticks: i64,
    },
    Sweep,
    Archive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switched {
    Active,
    Paused,
    Closed,
}

/// A reservation as an answer shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub status: Status,
    /// SKU, quantity, confirmed, returned.
    pub lines: Vec<(usize, i64, i64, i64)>,
    pub buyer: Option<usize>,
    pub created: i64,
    pub expires: Option<i64>,
    pub until: i64,
    pub ended: Option<i64>,
    pub retaken: bool,
    pub replaces: Option<Key>,
    pub replaced_by: Option<Key>,
    pub has_reference: bool,
}

/// An answer: its word, the reservation in it, and the rest as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub word: &'static str,
    pub view: Option<View>,
    pub rest: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    pub a: i64,
    pub h: i64,
    pub s: i64,
    pub g: i64,
    pub initial: i64,
    pub limit: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    pub holds: i64,
    pub units: i64,
    pub skus: [i64; SKUS.len()],
}

#[derive(Debug, Clone)]
pub struct Record {
    view: View,
    deadline: i64,
    body: (ReserveOp, bool),
    counts_hold: bool,
    counts_units: bool,
    counts_lines: BTreeSet<usize>,
    extended_by: Option<(u8, i64)>,
    keep_until: i64,
}

/// The whole sale.
#[derive(Debug, Clone)]
pub struct Books {
    pub now: i64,
    pub rules: Rules,
    pub switch: Switched,
    pub version: i64,
    pub skus: BTreeMap<usize, Level>,
    pub buyers: BTreeMap<usize, Counted>,
    pub records: BTreeMap<Key, Record>,
    /// Keys that ever had a reservation: their ids are known.
    pub known: BTreeSet<Key>,
    /// Events by key.
    pub paths: BTreeMap<Key, Vec<&'static str>>,
    pub adjusted: i64,
    pub history: Vec<Op>,
    /// What the last step must have answered.
    pub answers: Vec<Answer>,
    /// Number of the last lease of the lock, and its last tick.
    lock: Option<(i64, i64)>,
    returns: BTreeMap<(Key, u8), ((Cart, bool), View)>,
    adjustments: BTreeMap<(usize, u8), (AdjustBody, String)>,
    last_put: Option<(u8, Rules)>,
    /// Earliest deadline when the present call began.
    retry_at: Option<i64>,
}

fn answer(word: &'static str, view: Option<View>, rest: impl Into<String>) -> Answer {
    Answer { word, view, rest: rest.into() }
}

impl Record {
    /// The units, one number a line.
    fn units(&self, of: impl Fn(&(usize, i64, i64, i64)) -> i64) -> Vec<i64> {
        self.view.lines.iter().map(of).collect()
    }

    fn asked(&self, lines: Option<&Cart>, all: Vec<i64>) -> Option<Vec<i64>> {
        let Some(lines) = lines else { return Some(all) };
        let mut units = vec![0; all.len()];
        for (sku, quantity) in lines {
            let n = self.view.lines.iter().position(|line| line.0 == *sku)?;
            if *quantity > all[n] {
                return None;
            }
            units[n] = *quantity;
        }
        Some(units)
    }
}

impl Books {
    pub fn new(stock: &[i64], rules: Rules) -> Self {
        let level = |&initial: &i64| Level { a: initial, h: 0, s: 0, g: initial, initial, limit: None };
        Books {
            now: 0,
            rules,
            switch: Switched::Active,
            version: 1,
            skus: stock.iter().map(level).enumerate().collect(),
            buyers: BTreeMap::new(),
            records: BTreeMap::new(),
            known: BTreeSet::new(),
            paths: BTreeMap::new(),
            adjusted: stock.len() as i64,
            history: Vec::new(),
            answers: Vec::new(),
            lock: None,
            returns: BTreeMap::new(),
            adjustments: BTreeMap::new(),
            last_put: None,
            retry_at: None,
        }
    }

    pub fn step(&mut self, step: &Step) {
        self.answers = match step {
            Step::Round(ops) => self.round(ops),
            Step::Advance(ticks) => {
                self.now += ticks;
                Vec::new()
            }
            Step::PutSku { sku, initial, limit } => vec![self.put_sku(*sku, *initial, *limit)],
            Step::PutRules { op, rules, expected } => vec![self.put_rules(*op, rules, *expected)],
            Step::Switch(to) => {
                let word = if self.switch == *to { "unchanged" } else { "changed" };
                self.version += i64::from(word == "changed");
                self.switch = *to;
                vec![answer(word, None, "")]
            }
            Step::Lock { fence, ticks } => {
                self.lock = Some((*fence, self.now + ticks));
                Vec::new()
            }
            Step::Sweep => vec![answer("swept", None, self.sweep().to_string())],
            Step::Archive => {
                let over =
                    |record: &Record| record.view.status != Status::Held && record.keep_until <= self.now;
                let gone: Vec<Key> =
                    self.records.iter().filter(|(_, r)| over(r)).map(|(key, _)| *key).collect();
                gone.iter().for_each(|key| drop(self.records.remove(key)));
                vec![answer("archived", None, gone.len().to_string())]
            }
        };
    }

    /// One script call a verb; what fell short while holds were overdue is tried again after all calls.
    fn round(&mut self, ops: &[Op]) -> Vec<Answer> {
        let known = self.known.clone();
        let mut answers = vec![answer("", None, ""); ops.len()];
        let mut again: Vec<Vec<usize>> = Vec::new();
        for order in 0..7 {
            let (is_late, mut short) = (self.begin_call(), Vec::new());
            for (n, op) in ops.iter().enumerate().filter(|(_, op)| op.order() == order) {
                let (answer, fell_short) = self.one(op, &known);
                answers[n] = answer;
                if fell_short && is_late {
                    short.push(n);
                }
            }
            again.push(short);
        }
        for short in again.into_iter().filter(|short| !short.is_empty()) {
            self.sweep();
            self.begin_call();
            for n in short {
                answers[n] = self.one(&ops[n], &known).0;
            }
        }
        self.history.extend(ops.iter().cloned());
        let old = self.history.len().saturating_sub(12);
        self.history.drain(..old);
        answers
    }

    /// Whether any hold is overdue.
    fn begin_call(&mut self) -> bool {
        let held = self.records.values().filter(|record| record.view.status == Status::Held);
        self.retry_at = held.map(|record| record.deadline).filter(|deadline| *deadline != NEVER).min();
        self.retry_at.is_some_and(|deadline| deadline <= self.now)
    }

    fn one(&mut self, op: &Op, known: &BTreeSet<Key>) -> (Answer, bool) {
        let key = match op {
            Op::Reserve(request) => return self.reserve(request, known),
            Op::Adjust { op, sku, delta, if_granted, fence } => {
                return (self.adjust(*op, *sku, (*delta, *if_granted), *fence), false);
            }
            Op::Confirm { key, .. }
            | Op::Return { key, .. }
            | Op::Extend { key, .. }
            | Op::Release { key, .. }
            | Op::Pin { key }
            | Op::ConfirmPart { key }
            | Op::ReleasePart { key } => *key,
        };
        if !known.contains(&key) || !self.records.contains_key(&key) {
            return (answer("unknown_reservation", None, ""), false);
        }
        // A part moves in the order's name, and nothing else does; only a return is everybody's.
        let in_orders_name = matches!(op, Op::Pin { .. } | Op::ConfirmPart { .. } | Op::ReleasePart { .. });
        if in_orders_name != is_part(key) && !matches!(op, Op::Return { .. }) {
            return (self.about("part_of_order", key), false);
        }
        match op {
            Op::Pin { .. } => (self.pin(key), false),
            Op::Confirm { lines, retake, reference, fence, .. } => {
                self.confirm(key, lines.as_ref(), *retake, *reference, *fence)
            }
            Op::ConfirmPart { .. } => self.confirm(key, None, false, false, None),
            Op::Release { fence, .. } => (self.release(key, *fence), false),
            Op::Return { op, lines, restock, .. } => {
                (self.give_back(key, *op, lines.as_ref(), *restock), false)
            }
            Op::Extend { op, hold, .. } => (self.extend(key, *op, *hold), false),
            _ => (self.release(key, None), false),
        }
    }

    pub fn view(&self, key: Key) -> Option<View> {
        let record = self.records.get(&key)?;
        let mut view = record.view.clone();
        view.expires = (view.status == Status::Held && record.deadline != NEVER).then_some(record.deadline);
        if self.is_overdue(key) {
            (view.status, view.expires, view.ended) = (Status::Expired, None, Some(record.deadline));
        }
        Some(view)
    }

    fn is_overdue(&self, key: Key) -> bool {
        let record = &self.records[&key];
        record.view.status == Status::Held && record.deadline <= self.now
    }

    /// Whether a claim does not hold: the lease is over, or another's.
    fn is_stale(&self, fence: Option<i64>) -> bool {
        fence.is_some_and(|fence| self.lock.is_none_or(|(lease, last)| fence != lease || self.now > last))
    }

    fn pin(&mut self, key: Key) -> Answer {
        if self.is_overdue(key) {
            self.expire(key);
        }
        let record = self.records.get_mut(&key).expect("known");
        let word = match record.view.status {
            Status::Held if record.deadline != NEVER => {
                record.deadline = NEVER;
                "pinned"
            }
            Status::Held | Status::Confirmed => "replayed",
            Status::Released => "already_released",
            Status::Returned => "already_returned",
            Status::Expired => "hold_expired",
        };
        self.about(word, key)
    }

    fn about(&self, word: &'static str, key: Key) -> Answer {
        answer(word, self.view(key), "")
    }

    pub fn sale_status(&self) -> SaleStatus {
        if self.switch == Switched::Closed || self.rules.closes.is_some_and(|closes| self.now > closes) {
            SaleStatus::Closed
        } else if self.switch == Switched::Paused {
            SaleStatus::Paused
        } else if self.rules.opens.is_some_and(|opens| self.now <= opens) {
            SaleStatus::Scheduled
        } else {
            SaleStatus::Open
        }
    }

    fn reserve(&mut self, request: &ReserveOp, known: &BTreeSet<Key>) -> (Answer, bool) {
        let key = request.key;
        // The id of a part is known before it is there.
        let replaces_known = request.replaces.is_some_and(|old| known.contains(&old) || is_part(old));
        let body = (ReserveOp { fence: None, ..request.clone() }, replaces_known);
        if let Some(record) = self.records.get(&key) {
            let same = record.body == body;
            let word = match self.view(key).map(|view| view.status) {
                _ if !same => return (answer("idempotency_key_reused", None, ""), false),
                Some(Status::Held | Status::Confirmed) => "replayed",
                Some(Status::Released) => "already_released",
                Some(Status::Returned) => "already_returned",
                _ => "hold_expired",
            };
            return (self.about(word, key), false);
        }
        match self.sale_status() {
            SaleStatus::Closed => return (answer("sale_closed", None, ""), false),
            SaleStatus::Paused => return (answer("sale_paused", None, ""), false),
            SaleStatus::Scheduled => return (answer("sale_not_open", None, ""), false),
            SaleStatus::Open => {}
        }
        if self.is_stale(request.fence) {
            return (answer("stale_fence", None, ""), false);
        }
        let hold = request.hold.unwrap_or(self.rules.hold);
        let (mut deadline, mut until, mut old) = (self.now + hold, self.now + self.rules.hold_max, None);
        if deadline > until {
            return (answer("hold_too_long", None, until.to_string()), false);
        }
        if let Some(replaced) = request.replaces {
            match self.records.get(&replaced).filter(|_| replaces_known) {
                Some(record) if record.view.buyer == request.buyer && is_part(replaced) => {
                    return (self.about("part_of_order", replaced), false);
                }
                Some(record) if record.view.buyer == request.buyer => {
                    match self.view(replaced).map(|v| v.status) {
                        Some(Status::Expired) => {}
                        Some(Status::Held) => {
                            until = record.view.until;
                            deadline = request.hold.map_or(record.deadline, |_| deadline);
                            old = Some(replaced);
                        }
                        Some(Status::Confirmed) => return (self.about("already_confirmed", replaced), false),
                        Some(Status::Released) => return (self.about("already_released", replaced), false),
                        _ => return (self.about("already_returned", replaced), false),
                    }
                }
                _ => return (answer("unknown_reservation", None, ""), false),
            }
            if deadline > until {
                return (answer("hold_too_long", None, until.to_string()), false);
            }
        }
        let before = self.clone();
        if let Some(old) = old {
            self.end_hold(old, Status::Released, "released", None);
        }
        if let Some((refusal, fell_short)) = self.refusal(request) {
            *self = before;
            return (refusal, fell_short);
        }
        if let Some(record) = old.and_then(|old| self.records.get_mut(&old)) {
            record.view.replaced_by = Some(key);
        }
        let view = View {
            status: Status::Held,
            lines: request.cart.iter().map(|(sku, quantity)| (*sku, *quantity, 0, 0)).collect(),
            buyer: request.buyer,
            created: self.now,
            expires: None,
            until,
            ended: None,
            retaken: false,
            replaces: old,
            replaced_by: None,
            has_reference: false,
        };
        let record = Record {
            view,
            deadline,
            body,
            counts_hold: false,
            counts_units: false,
            counts_lines: BTreeSet::new(),
            extended_by: None,
            keep_until: 0,
        };
        self.records.insert(key, record);
        self.known.insert(key);
        for (sku, quantity) in &request.cart {
            self.move_units(*sku, -quantity, *quantity, 0, 0);
        }
        let units: Vec<i64> = request.cart.iter().map(|(_, quantity)| *quantity).collect();
        self.count(key, &units, true);
        self.event(key, "held");
        (self.about("held", key), false)
    }

    fn refusal(&self, request: &ReserveOp) -> Option<(Answer, bool)> {
        if let Some((sku, _)) = request.cart.iter().find(|(sku, _)| !self.skus.contains_key(sku)) {
            return Some((answer("unknown_sku", None, SKUS[*sku]), false));
        }
        let is_limited = self.rules.buyer_limit.or(self.rules.holds_max).is_some()
            || request.cart.iter().any(|(sku, _)| self.skus[sku].limit.is_some());
        let retry_at = self.retry_at;
        if let Some(buyer) = request.buyer {
            let counted = self.buyers.get(&buyer).cloned().unwrap_or_default();
            if let Some(limit) = self.rules.holds_max.filter(|limit| counted.holds >= *limit) {
                return Some((
                    answer("buyer_holds", None, format!("{limit} {} {retry_at:?}", counted.holds)),
                    true,
                ));
            }
            if let Some(refusal) = self.limit(buyer, &request.cart) {
                return Some((refusal, true));
            }
        } else if is_limited {
            return Some((answer("buyer_required", None, ""), false));
        }
        let shortfalls = self.shortfalls(&request.cart);
        (!shortfalls.is_empty())
            .then(|| (answer("sold_out", None, format!("{shortfalls} {retry_at:?}")), true))
    }

    fn limit(&self, buyer: usize, cart: &[(usize, i64)]) -> Option<Answer> {
        let counted = self.buyers.get(&buyer).cloned().unwrap_or_default();
        let total: i64 = cart.iter().map(|(_, units)| units).sum();
        if let Some(limit) = self.rules.buyer_limit.filter(|limit| counted.units + total > *limit) {
            return Some(answer("buyer_limit", None, format!("all {limit} {} {total}", counted.units)));
        }
        cart.iter().filter(|(_, units)| *units > 0).find_map(|(sku, units)| {
            let has = counted.skus[*sku];
            let limit = self.skus[sku].limit.filter(|limit| has + units > *limit)?;
            Some(answer("buyer_limit", None, format!("{} {limit} {has} {units}", SKUS[*sku])))
        })
    }

    fn shortfalls(&self, cart: &[(usize, i64)]) -> String {
        let short = cart.iter().filter(|(sku, units)| self.skus[sku].a < *units);
        short.map(|(sku, units)| shortfall(SKUS[*sku], *units, self.skus[sku].a, self.skus[sku].h)).collect()
    }

    fn move_units(&mut self, sku: usize, a: i64, h: i64, s: i64, g: i64) {
        let level = self.skus.get_mut(&sku).expect("a record names known SKUs");
        (level.a, level.h, level.s, level.g) = (level.a + a, level.h + h, level.s + s, level.g + g);
    }

    /// Counts what is taken where limits are set now.
    fn count(&mut self, key: Key, units: &[i64], is_hold: bool) {
        let record = self.records.get_mut(&key).expect("known");
        let Some(buyer) = record.view.buyer else { return };
        let counted = self.buyers.entry(buyer).or_default();
        record.counts_hold = is_hold && self.rules.holds_max.is_some();
        counted.holds += i64::from(record.counts_hold);
        record.counts_units = self.rules.buyer_limit.is_some();
        record.counts_lines.clear();
        for (n, taken) in units.iter().enumerate() {
            counted.units += if record.counts_units { *taken } else { 0 };
            let sku = record.view.lines[n].0;
            if self.skus[&sku].limit.is_some() && *taken > 0 {
                counted.skus[sku] += taken;
                record.counts_lines.insert(n);
            }
        }
    }

    fn uncount(&mut self, key: Key, units: &[i64], ends_hold: bool) {
        let record = self.records.get_mut(&key).expect("known");
        let Some(counted) = record.view.buyer.and_then(|buyer| self.buyers.get_mut(&buyer)) else { return };
        if ends_hold && std::mem::take(&mut record.counts_hold) {
            counted.holds -= 1;
        }
        for (n, back) in units.iter().enumerate() {
            counted.units -= if record.counts_units { *back } else { 0 };
            counted.skus[record.view.lines[n].0] -= if record.counts_lines.contains(&n) { *back } else { 0 };
        }
    }

    /// Ends a hold: `kept` units are sold, the rest is available again.
    fn end_hold(&mut self, key: Key, status: Status, event: &'static str, kept: Option<Vec<i64>>) {
        let quantities = self.records[&key].units(|line| line.1);
        let kept = kept.unwrap_or_else(|| vec![0; quantities.len()]);
        let back: Vec<i64> = quantities.iter().zip(&kept).map(|(all, kept)| all - kept).collect();
        for n in 0..kept.len() {
            let sku = self.records[&key].view.lines[n].0;
            self.move_units(sku, back[n], -quantities[n], kept[n], 0);
        }
        self.uncount(key, &back, true);
        let record = self.records.get_mut(&key).expect("known");
        if status == Status::Confirmed {
            kept.iter().zip(&mut record.view.lines).for_each(|(kept, line)| line.2 = *kept);
        } else {
            record.counts_units = false;
            record.counts_lines.clear();
        }
        self.enter(key, status, event);
    }

    fn enter(&mut self, key: Key, status: Status, event: &'static str) {
        let record = self.records.get_mut(&key).expect("known");
        if record.view.status != status {
            record.view.status = status;
            record.view.ended = Some(if status == Status::Expired { record.deadline } else { self.now });
        }
        record.keep_until = self.now + if status == Status::Confirmed { 30 * DAY } else { DAY };
        self.event(key, event);
    }

    fn event(&mut self, key: Key, event: &'static str) {
        self.paths.entry(key).or_default().push(event);
    }

    fn expire(&mut self, key: Key) {
        self.end_hold(key, Status::Expired, "expired", None);
    }

    fn sweep(&mut self) -> usize {
        let overdue: Vec<Key> = self.records.keys().copied().filter(|key| self.is_overdue(*key)).collect();
        overdue.iter().for_each(|key| self.expire(*key));
        overdue.len()
    }

    fn confirm(
        &mut self,
        key: Key,
        lines: Option<&Cart>,
        retake: bool,
        reference: bool,
        fence: Option<i64>,
    ) -> (Answer, bool) {
        let record = &self.records[&key];
        match record.view.status {
            Status::Confirmed => {
                let confirmed =
                    record.view.lines.iter().filter(|line| line.2 > 0).map(|line| (line.0, line.2));
                let same = lines.is_none_or(|lines| *lines == confirmed.collect::<Cart>());
                return (self.about(if same { "replayed" } else { "already_confirmed" }, key), false);
            }
            Status::Released => return (self.about("already_released", key), false),
            Status::Returned => return (self.about("already_returned", key), false),
            Status::Held | Status::Expired => {}
        }
        let Some(kept) = record.asked(lines, record.units(|line| line.1)) else {
            return (self.about("quantity_exceeds_reservation", key), false);
        };
        if self.is_overdue(key) {
            self.expire(key);
        }
        let is_stale = self.is_stale(fence);
        if self.records[&key].view.status == Status::Held {
            if is_stale {
                return (answer("stale_fence", None, ""), false);
            }
            self.end_hold(key, Status::Confirmed, "confirmed", Some(kept));
            self.note_reference(key, reference);
            return (self.about("confirmed", key), false);
        }
        let record = &self.records[&key];
        let cart: Cart = record.view.lines.iter().zip(&kept).map(|(line, kept)| (line.0, *kept)).collect();
        let shortfalls = self.shortfalls(&cart);
        let limit = record.view.buyer.and_then(|buyer| self.limit(buyer, &cart));
        if !retake {
            let possible = shortfalls.is_empty() && limit.is_none();
            return (answer("hold_expired", self.view(key), format!("{possible} {shortfalls}")), false);
        } else if is_stale {
            return (answer("stale_fence", None, ""), false);
        } else if let Some(limit) = limit {
            return (limit, true);
        } else if !shortfalls.is_empty() {
            let rest = format!("{shortfalls} {:?}", self.retry_at);
            return (answer("sold_out", self.view(key), rest), true);
        }
        for (sku, units) in &cart {
            self.move_units(*sku, -units, 0, *units, 0);
        }
        self.count(key, &kept, false);
        let record = self.records.get_mut(&key).expect("known");
        record.view.retaken = true;
        kept.iter().zip(&mut record.view.lines).for_each(|(kept, line)| line.2 = *kept);
        self.note_reference(key, reference);
        self.enter(key, Status::Confirmed, "retaken");
        (self.about("retaken", key), false)
    }

    fn note_reference(&mut self, key: Key, reference: bool) {
        self.records.get_mut(&key).expect("known").view.has_reference |= reference;
    }

    fn release(&mut self, key: Key, fence: Option<i64>) -> Answer {
        if self.is_overdue(key) {
            self.expire(key);
        }
        let word = match self.records[&key].view.status {
            Status::Held if self.is_stale(fence) => return answer("stale_fence", None, ""),
            Status::Held => {
                self.end_hold(key, Status::Released, "released", None);
                "released"
            }
            Status::Released => "replayed",
            Status::Expired => "expired",
            Status::Confirmed => "already_confirmed",
            Status::Returned => "already_returned",
        };
        self.about(word, key)
    }

    fn extend(&mut self, key: Key, op: u8, hold: i64) -> Answer {
        if self.is_overdue(key) {
            self.expire(key);
        }
        let record = self.records.get_mut(&key).expect("known");
        let word = match record.view.status {
            Status::Expired => "hold_expired",
            Status::Confirmed => "already_confirmed",
            Status::Released => "already_released",
            Status::Returned => "already_returned",
            Status::Held if record.extended_by == Some((op, hold)) => "replayed",
            Status::Held if record.extended_by.is_some_and(|(last, _)| last == op) => {
                return answer("idempotency_key_reused", None, "");
            }
            Status::Held => {
                let deadline = record.deadline.max(self.now + hold);
                if deadline > record.view.until {
                    return answer("hold_too_long", None, record.view.until.to_string());
                }
                (record.deadline, record.extended_by) = (deadline, Some((op, hold)));
                self.event(key, "extended");
                "extended"
            }
        };
        self.about(word, key)
    }

    fn give_back(&mut self, key: Key, op: u8, lines: Option<&Cart>, restock: bool) -> Answer {
        if let Some((body, view)) = lines.and(self.returns.get(&(key, op))) {
            let same = lines.is_some_and(|lines| *body == (lines.clone(), restock));
            return if same {
                answer("replayed", Some(view.clone()), "")
            } else {
                answer("idempotency_key_reused", None, "")
            };
        }
        if self.is_overdue(key) {
            self.expire(key);
        }
        let record = &self.records[&key];
        match record.view.status {
            Status::Confirmed => {}
            Status::Returned if lines.is_none() => return self.about("replayed", key),
            Status::Returned => {}
            _ => return self.about("not_confirmed", key),
        }
        let Some(units) = record.asked(lines, record.units(|line| line.2 - line.3)) else {
            return self.about("quantity_exceeds_reservation", key);
        };
        for (n, back) in units.iter().enumerate() {
            let sku = self.records[&key].view.lines[n].0;
            let out = if restock { 0 } else { *back };
            self.move_units(sku, back - out, 0, -back, -out);
            self.adjusted += i64::from(out > 0);
            self.records.get_mut(&key).expect("known").view.lines[n].3 += back;
        }
        self.uncount(key, &units, false);
        let rest: i64 = self.records[&key].units(|line| line.2 - line.3).iter().sum();
        self.enter(key, if rest == 0 { Status::Returned } else { Status::Confirmed }, "returned");
        let answer = self.about("returned", key);
        if let (Some(lines), Some(view)) = (lines, &answer.view) {
            self.returns.insert((key, op), ((lines.clone(), restock), view.clone()));
        }
        answer
    }

    fn adjust(&mut self, op: u8, sku: usize, asked: AdjustBody, fence: Option<i64>) -> Answer {
        let (delta, if_granted) = asked;
        if let Some((body, text)) = self.adjustments.get(&(sku, op)) {
            return if *body == asked {
                answer("replayed", None, text)
            } else {
                answer("idempotency_key_reused", None, "")
            };
        }
        if self.is_stale(fence) {
            return answer("stale_fence", None, "");
        }
        let Some(level) = self.skus.get(&sku) else { return answer("unknown_sku", None, SKUS[sku]) };
        if if_granted.is_some_and(|units| units != level.g) {
            return answer("granted_changed", None, level.text());
        } else if level.a + delta < 0 {
            return answer("insufficient_available", None, level.text());
        }
        self.move_units(sku, delta, 0, 0, delta);
        self.adjusted += 1;
        let text = format!("{delta} {}", self.skus[&sku].text());
        self.adjustments.insert((sku, op), (asked, text.clone()));
        answer("adjusted", None, text)
    }

    fn put_sku(&mut self, sku: usize, initial: Option<i64>, limit: Option<i64>) -> Answer {
        let word = match (self.skus.get_mut(&sku), initial) {
            (None, None) => return answer("initial_required", None, ""),
            (None, Some(initial)) => {
                self.skus.insert(sku, Level { a: initial, h: 0, s: 0, g: initial, initial, limit });
                self.adjusted += 1;
                "created"
            }
            (Some(level), Some(initial)) if level.initial != initial => {
                return answer("stock_exists", None, level.initial.to_string());
            }
            (Some(level), _) if level.limit == limit => "unchanged",
            (Some(level), _) => {
                level.limit = limit;
                "changed"
            }
        };
        if word != "unchanged" {
            self.version += 1;
            self.last_put = None;
        }
        answer(word, None, self.skus[&sku].text())
    }

    fn put_rules(&mut self, op: u8, rules: &Rules, expected: Expected) -> Answer {
        match &self.last_put {
            Some((last, body)) if *last == op => {
                return answer(if body == rules { "replayed" } else { "idempotency_key_reused" }, None, "");
            }
            _ if matches!(expected, Expected::Absent | Expected::Another) => {
                return answer("precondition_failed", None, "");
            }
            _ if self.rules == *rules => return answer("unchanged", None, ""),
            _ => {}
        }
        self.rules = rules.clone();
        self.version += 1;
        self.last_put = Some((op, rules.clone()));
        answer("changed", None, "")
    }
}

impl Level {
    pub fn text(&self) -> String {
        let Level { a, h, s, g, limit, .. } = self;
        format!("{a} {h} {s} {g} {limit:?}")
    }
}

pub fn shortfall(sku: &str, requested: i64, available: i64, held: i64) -> String {
    format!("{sku}={requested},{available},{held};")
}
