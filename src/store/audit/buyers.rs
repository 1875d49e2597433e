//! Buyers' counts against records. They are checked when nothing moves meanwhile, some buckets at a time, so that
//! memory stays bounded.

use super::Levels;
use super::records::{Place, Record};
use super::report::SaleFindings;
use crate::store::ids::bucket as bucket_of;
use crate::store::keys::{BUYER_BUCKETS, SaleKeys};
use crate::store::{Store, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Buyers that are added up in one walk; a single bucket may have more, up to the next bound.
const BUYERS_A_WALK: u64 = 200_000;
/// Buyers beyond which a bucket is not checked.
const BUYERS_MAX: usize = 500_000;
/// How often a sale that moved meanwhile is tried again.
const TRIES_MAX: usize = 3;

/// A buyer whose entry is not what the records say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrongBuyer {
    pub bucket: u8,
    pub name: String,
    /// The entry; empty where there is none.
    pub seen: String,
    /// What it must be; empty: none. Not known where records were archived that may have counted for him.
    pub right: Option<String>,
}

/// What is counted for a buyer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    holds: u64,
    units: u64,
    skus: BTreeMap<String, u64>,
}

impl Counted {
    /// Reads `holds|units|sku=n,...`.
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '|');
        let (holds, units) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let entries = parts.next()?.split(',').filter(|entry| !entry.is_empty());
        let skus = entries.map(|entry| {
            let (sku, units) = entry.split_once('=')?;
            Some((sku.to_owned(), units.parse().ok()?))
        });
        Some(Self { holds, units, skus: skus.collect::<Option<_>>()? })
    }

    /// As the scripts write it.
    fn text(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        let skus: Vec<String> = self.skus.iter().map(|(sku, units)| format!("{sku}={units}")).collect();
        format!("{}|{}|{}", self.holds, self.units, skus.join(","))
    }

    /// Adds what `record` counts: H the hold, U its units, and the numbers of the lines whose SKU has a limit.
    fn add(&mut self, record: &Record) {
        let flags = record.counted.get(1..).unwrap_or_default();
        let units = |held: u64, sold: u64| held + sold;
        if flags.contains('H') && record.is_held {
            self.holds += 1;
        }
        if flags.contains('U') {
            self.units += record.lines.iter().map(|line| units(line.held, line.sold)).sum::<u64>();
        }
        for number in flags.trim_start_matches(['H', 'U']).split(',') {
            let line =
                number.parse::<usize>().ok().and_then(|number| record.lines.get(number.checked_sub(1)?));
            if let Some(line) = line.filter(|line| units(line.held, line.sold) > 0) {
                *self.skus.entry(line.sku.clone()).or_default() += units(line.held, line.sold);
            }
        }
    }
}

/// Which SKUs, and whether any, have sold units whose records were archived: buyers keep those, records don't.
struct Archived<'a>(&'a Levels);

impl Archived<'_> {
    fn any(&self) -> bool {
        self.0.values().flatten().any(|level| level.archived > 0)
    }

    fn of(&self, sku: &str) -> bool {
        self.0.get(sku).and_then(Option::as_ref).is_none_or(|level| level.archived > 0)
    }

    /// What an entry says that records can't explain.
    fn unexplained(&self, entry: &Counted, records: &Counted) -> bool {
        let wrong =
            |entry: u64, records: u64, archived: bool| entry < records || (entry > records && !archived);
        let of = |counted: &Counted, sku: &str| counted.skus.get(sku).copied().unwrap_or_default();
        entry.holds != records.holds
            || wrong(entry.units, records.units, self.any())
            || entry
                .skus
                .keys()
                .chain(records.skus.keys())
                .any(|sku| wrong(of(entry, sku), of(records, sku), self.of(sku)))
    }
}

impl Store {
    pub(super) async fn audit_buyers(
        &self,
        keys: &SaleKeys,
        counts_for_buyers: bool,
        found: &mut SaleFindings,
    ) -> Result<(), StoreError> {
        for _ in 0..TRIES_MAX {
            let before = self.audit_levels(keys).await?;
            let mut wrong = Some(Vec::new());
            for buckets in self.walks(keys, counts_for_buyers).await? {
                let walk = self.audit_buckets(keys, &buckets, &Archived(&before)).await?;
                wrong = wrong.zip(walk).map(|(wrong, walk)| [wrong, walk].concat());
            }
            if before == self.audit_levels(keys).await? {
                found.revisions = before.values().flatten().map(|level| level.revision).sum();
                match wrong {
                    Some(buyers) => buyers.into_iter().for_each(|buyer| found.buyer(buyer)),
                    None => found.not_checked("buyers: too many"),
                }
                return Ok(());
            }
        }
        found.not_checked("buyers");
        Ok(())
    }

    /// Buckets by the walk that adds them up.
    async fn walks(&self, keys: &SaleKeys, counts_for_buyers: bool) -> Result<Vec<Vec<u8>>, StoreError> {
        let (mut walks, mut buyers) = (vec![Vec::new()], 0u64);
        let mut any = 0;
        for bucket in 0..BUYER_BUCKETS as u8 {
            let mut cmd = redis::cmd("HLEN");
            cmd.arg(keys.buyers(bucket));
            let count: u64 = read(self.query(&cmd).await?)?;
            if buyers > 0 && buyers + count > BUYERS_A_WALK {
                walks.push(Vec::new());
                buyers = 0;
            }
            buyers += count;
            any += count;
            if let Some(walk) = walks.last_mut() {
                walk.push(bucket);
            }
        }
        Ok(if any > 0 || counts_for_buyers { walks } else { Vec::new() })
    }

    /// Buyers of these buckets whose counts are wrong; none when there are too many to add up.
    async fn audit_buckets(
        &self,
        keys: &SaleKeys,
        buckets: &[u8],
        archived: &Archived<'_>,
    ) -> Result<Option<Vec<WrongBuyer>>, StoreError> {
        let mut records: HashMap<String, Counted> = HashMap::new();
        for place in [Place::Due, Place::Done] {
            self.walk(keys, place, |seen| {
                let Some(record) = seen.record.as_ref().filter(|_| seen.counts_in(place)) else { return };
                let bucket = record.counted.get(..1).and_then(|digit| u8::from_str_radix(digit, 16).ok());
                if record.counts_for_buyer()
                    && bucket.is_some_and(|bucket| buckets.contains(&bucket))
                    && records.len() <= BUYERS_MAX
                {
                    records.entry(record.buyer.clone()).or_default().add(record);
                }
            })
            .await?;
        }
        if records.len() > BUYERS_MAX {
            return Ok(None);
        }
        let mut wrong = BTreeMap::new();
        let is_known = !archived.any();
        let right = |of_records: &Counted| is_known.then(|| of_records.text());
        let mut with_entry = HashSet::new();
        for &bucket in buckets {
            let mut cursor = 0u64;
            loop {
                let begun = std::time::Instant::now();
                let mut cmd = redis::cmd("HSCAN");
                cmd.arg(keys.buyers(bucket)).arg(cursor).arg("COUNT").arg(self.audit_page());
                let (next, page): (u64, Vec<(String, String)>) = read(self.query(&cmd).await?)?;
                for (buyer, text) in page {
                    // HSCAN may show one twice.
                    let nothing = Counted::default();
                    let is_its_bucket = bucket == bucket_of(&buyer);
                    let of_records = records.get(&buyer).filter(|_| is_its_bucket).unwrap_or(&nothing);
                    if Counted::read(&text).is_none_or(|entry| archived.unexplained(&entry, of_records)) {
                        let (name, right) = (buyer.clone(), right(of_records));
                        wrong.insert(buyer.clone(), WrongBuyer { bucket, name, seen: text, right });
                    }
                    with_entry.insert(buyer);
                }
                self.audit_rest(begun).await;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        for (name, counted) in records {
            if counted != Counted::default() && !with_entry.contains(&name) {
                let (bucket, right) = (bucket_of(&name), right(&counted));
                wrong.insert(name.clone(), WrongBuyer { bucket, name, seen: String::new(), right });
            }
        }
        Ok(Some(wrong.into_values().collect()))
    }
}

fn read<T: redis::FromRedisValue>(value: redis::Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|error| StoreError::Reply(error.to_string()))
}
