//! Every key, built in this file alone; `lua/README.md` shows them in full. All keys of a sale carry the hash tag
//! `{<sale>}`, so they share one slot, and follow from (sale, id) alone, so that nothing must be read to declare them.

use crate::domain::{BarrierId, LockName, SaleId};
use sha2::{Digest, Sha256};
use std::fmt::Display;

/// `st:sales`: zset of `<sale>:<generation>`, all of score 0.
pub const SALES: &str = "st:sales";

/// `st:audit`: hash, what the last background audit has found: `violations`, `finished_at_ms`.
pub const AUDIT: &str = "st:audit";

/// `st:audit:turn`: string that expires, whose turn it is to audit.
pub const AUDIT_TURN: &str = "st:audit:turn";

/// `st:secret`: string, 32 random bytes in hex, made at first use; what ids and secrets outside of sales follow from.
pub const SECRET: &str = "st:secret";

/// `st:webhooks`: hash, id of an endpoint -> its registration.
pub const WEBHOOKS: &str = "st:webhooks";

/// `st:notify`: zset, URLs of targets of `notify` that have deliveries, by a random number that is new with each use.
pub const NOTIFY: &str = "st:notify";

/// `st:webhooks:gone`: zset, ids of deleted endpoints by the time until which what is left of their deliveries is removed.
pub const WEBHOOKS_GONE: &str = "st:webhooks:gone";

/// Keys of the deliveries of one endpoint. They carry the hash tag `{w:<id>}`.
#[derive(Debug)]
pub struct QueueKeys {
    /// `due done dead`: events that wait by the time of their next try, those that ended by the time until which they are
    /// kept.
    pub fixed: [String; 3],
    prefix: String,
}

impl QueueKeys {
    /// Keys of the endpoint with this id, in its 22-character form.
    pub fn new(webhook: impl Display) -> Self {
        let prefix = format!("st:{{w:{webhook}}}:");
        Self { fixed: ["due", "done", "dead"].map(|name| format!("{prefix}{name}")), prefix }
    }

    /// Events that wait.
    pub fn due(&self) -> &str {
        &self.fixed[0]
    }

    /// The record of a delivery; `event` in its 22-character form.
    pub fn record(&self, event: impl Display) -> String {
        format!("{}d:{event}", self.prefix)
    }
}

/// `st:barriers`: a channel, names of barriers that have changed, with spaces between them; a hint to read them.
pub const BARRIER_HINTS: &str = "st:barriers";

/// Buckets of barriers.
pub const BARRIER_BUCKETS: usize = 16;

/// Keys of one bucket of barriers. They carry the hash tag `{b:<bucket>}`: a colon in the tag, so no sale can have it.
#[derive(Debug)]
pub struct BucketKeys {
    /// Names of its barriers, all of score 0.
    pub index: String,
    /// Names by deadline while they wait, by removal time once they have ended.
    pub due: String,
    /// The stream of events.
    pub events: String,
    prefix: String,
}

impl BucketKeys {
    /// Keys of the bucket of this number, below [`BARRIER_BUCKETS`].
    pub fn new(bucket: usize) -> Self {
        let prefix = format!("st:{{b:{bucket:x}}}:");
        let [index, due, events] = ["index", "due", "events"].map(|name| format!("{prefix}{name}"));
        Self { index, due, events, prefix }
    }

    /// Of each bucket.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..BARRIER_BUCKETS).map(Self::new)
    }

    /// Keys of one of its barriers: the barrier itself, `marks`, `missing`, `failed`.
    pub fn barrier(&self, barrier: impl Display) -> [String; 4] {
        let own = format!("{}b:{barrier}", self.prefix);
        let [marks, missing, failed] = ["marks", "missing", "failed"].map(|name| format!("{own}:{name}"));
        [own, marks, missing, failed]
    }
}

/// The bucket of a barrier: the first hex digit of SHA-256 of its name.
pub fn barrier_bucket(barrier: &BarrierId) -> usize {
    usize::from(Sha256::digest(barrier.as_str())[0] >> 4)
}

/// Buckets of free-standing locks.
pub const LOCK_BUCKETS: usize = 16;

/// Keys of a free-standing lock: the lock itself, and the fence counter of its bucket, the first hex digit of SHA-256 of
/// the name. They carry the hash tag `{l:<bucket>}`.
pub fn free_lock(name: &LockName) -> [String; 2] {
    let bucket = Sha256::digest(name.as_str())[0] >> 4;
    lock_in(&format!("{bucket:x}"), name)
}

/// The same in a bucket of this name; the self-test has one that no lock is in.
pub fn lock_in(bucket: &str, name: &LockName) -> [String; 2] {
    [format!("st:{{l:{bucket}}}:lock:{name}"), format!("st:{{l:{bucket}}}:fence")]
}

/// Buckets of complex orders.
pub const ORDER_BUCKETS: usize = 16;

/// Keys of one bucket of orders. They carry the hash tag `{o:<bucket>}`.
#[derive(Debug)]
pub struct OrderKeys {
    /// `index due done events`: ids, all of score 0; ids by the time when somebody must look after them; ended ones by
    /// the time until which they are kept; the stream of events.
    pub fixed: [String; 4],
    prefix: String,
}

impl OrderKeys {
    /// Keys of the bucket of this number, below [`ORDER_BUCKETS`].
    pub fn new(bucket: usize) -> Self {
        Self::named(&format!("{bucket:x}"))
    }

    /// The same of a bucket that no order is in (self-test).
    pub fn named(bucket: &str) -> Self {
        let prefix = format!("st:{{o:{bucket}}}:");
        Self { fixed: ["index", "due", "done", "events"].map(|name| format!("{prefix}{name}")), prefix }
    }

    /// The stream of events.
    pub fn events(&self) -> &str {
        &self.fixed[3]
    }

    /// The record of an order; `id` in its 22-character form.
    pub fn record(&self, id: impl Display) -> String {
        format!("{}o:{id}", self.prefix)
    }
}

/// The bucket of an order: the first hex digit of SHA-256 of its id in the 22-character form.
pub fn order_bucket(id: &str) -> usize {
    usize::from(Sha256::digest(id)[0] >> 4)
}

/// Buckets of buyers in a sale.
pub const BUYER_BUCKETS: usize = 16;

/// Keys of one sale, built once.
#[derive(Debug)]
pub struct SaleKeys {
    /// `rules stock due pinned done orphans events buyers:<0..f>`: the first 23 KEYS of each reservation script.
    pub fixed: Vec<String>,
    /// Names of SKUs, for paging.
    pub skus: String,
    /// The ledger of supply.
    pub adjustments: String,
    /// The fence counter of its locks.
    pub fence: String,
    prefix: String,
}

impl SaleKeys {
    /// Keys of `sale`.
    pub fn new(sale: impl Display) -> Self {
        let prefix = format!("st:{{{sale}}}:");
        let names = ["rules", "stock", "due", "pinned", "done", "orphans", "events"];
        let mut fixed: Vec<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
        fixed.extend((0..BUYER_BUCKETS).map(|bucket| format!("{prefix}buyers:{bucket:x}")));
        Self {
            fixed,
            skus: format!("{prefix}skus"),
            adjustments: format!("{prefix}adjustments"),
            fence: format!("{prefix}fence"),
            prefix,
        }
    }

    /// Rules of the sale.
    pub fn rules(&self) -> &str {
        &self.fixed[0]
    }
    /// Levels of its SKUs.
    pub fn stock(&self) -> &str {
        &self.fixed[1]
    }
    /// Holds by deadline.
    pub fn due(&self) -> &str {
        &self.fixed[2]
    }
    /// Parts of orders under confirmation.
    pub fn pinned(&self) -> &str {
        &self.fixed[3]
    }
    /// Ended ones by the time until which they are kept.
    pub fn done(&self) -> &str {
        &self.fixed[4]
    }
    /// Ids whose record is missing or corrupt.
    pub fn orphans(&self) -> &str {
        &self.fixed[5]
    }
    /// The stream of events.
    pub fn events(&self) -> &str {
        &self.fixed[6]
    }
    /// Counts of the buyers of a bucket.
    pub fn buyers(&self, bucket: u8) -> &str {
        &self.fixed[7 + usize::from(bucket)]
    }

    /// The record of a reservation; `id` in its 22-character form.
    pub fn record(&self, id: &str) -> String {
        format!("{}r:{id}", self.prefix)
    }

    /// A lock of the sale.
    pub fn lock(&self, name: &LockName) -> String {
        format!("{}lock:{name}", self.prefix)
    }

    /// The answer of an operation; `id` in its 22-character form.
    pub fn operation(&self, id: &str) -> String {
        format!("{}op:{id}", self.prefix)
    }

    /// A page of levels that all processes share, by its number; it expires by itself.
    pub fn levels(&self, page: usize) -> String {
        format!("{}levels:{page}", self.prefix)
    }

    /// There while somebody makes that page anew; it expires by itself.
    pub fn rebuild(&self, page: usize) -> String {
        format!("{}rebuild:{page}", self.prefix)
    }
}

/// The entry of a sale in `st:sales`.
pub fn sales_entry(sale: &SaleId, generation: &str) -> String {
    format!("{sale}:{generation}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_bucket_share_one_hash_tag() {
        let name: BarrierId = "import".parse().unwrap();
        assert_eq!(barrier_bucket(&name), 13);
        let keys = BucketKeys::new(barrier_bucket(&name));
        assert_eq!(
            [&*keys.index, &*keys.due, &*keys.events],
            ["st:{b:d}:index", "st:{b:d}:due", "st:{b:d}:events"]
        );
        let own = "st:{b:d}:b:import";
        let expected = ["", ":marks", ":missing", ":failed"].map(|name| format!("{own}{name}"));
        assert_eq!(keys.barrier(&name), expected);
        assert_eq!(BucketKeys::all().last().unwrap().due, "st:{b:f}:due");
    }

    #[test]
    fn all_keys_of_a_sale_share_one_hash_tag() {
        let keys = SaleKeys::new("drop-1");
        assert_eq!(keys.fixed.len(), 23);
        assert_eq!(keys.events(), "st:{drop-1}:events");
        assert_eq!(keys.orphans(), "st:{drop-1}:orphans");
        assert_eq!(keys.buyers(15), "st:{drop-1}:buyers:f");
        assert_eq!(keys.record("x"), "st:{drop-1}:r:x");
        assert_eq!(keys.operation("x"), "st:{drop-1}:op:x");
        assert_eq!(keys.levels(39), "st:{drop-1}:levels:39");
        assert_eq!(keys.rebuild(39), "st:{drop-1}:rebuild:39");
        assert_eq!(keys.fence, "st:{drop-1}:fence");
        assert_eq!(keys.lock(&"till".parse().unwrap()), "st:{drop-1}:lock:till");
    }

    #[test]
    fn orders_and_free_standing_locks_have_their_own_hash_tags() {
        assert_eq!(free_lock(&"till".parse().unwrap()), ["st:{l:a}:lock:till", "st:{l:a}:fence"]);
        let keys = OrderKeys::new(order_bucket("AAAAAAAAAAAAAAAAAAAAAA"));
        assert_eq!(keys.fixed.last().unwrap(), "st:{o:8}:events");
        assert_eq!(keys.record("x"), "st:{o:8}:o:x");
    }
}
