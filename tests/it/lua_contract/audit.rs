//! What must be true of the keys of a sale after every call, computed anew from records and ledger.

use super::snapshot::Snapshot;
use std::collections::BTreeMap;

/// The deadline of a pinned part of an order.
pub const NEVER: &str = "253402214400000";

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    available: i64,
    held: i64,
    sold: i64,
    granted: i64,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    holds: i64,
    units: i64,
    skus: BTreeMap<String, i64>,
}

struct Record<'a> {
    fields: Vec<&'a str>,
    skus: Vec<(&'a str, i64)>,
}

impl<'a> Record<'a> {
    fn read(text: &'a str) -> Self {
        let fields: Vec<&str> = text.split('\n').collect();
        assert_eq!(fields.len(), 18, "{text}");
        let skus = fields[14].split(',').map(|line| {
            let (sku, units) = line.split_once('=').unwrap();
            (sku, units.parse().unwrap())
        });
        Self { skus: skus.collect(), fields }
    }

    fn numbers(&self, field: usize) -> Vec<i64> {
        let text = self.fields[field];
        if text.is_empty() {
            return vec![0; self.skus.len()];
        }
        text.split(',').map(|number| number.parse().unwrap()).collect()
    }

    /// Units by line that the buyer has: held, or sold and not returned.
    fn kept(&self) -> Vec<i64> {
        if self.fields[0] == "held" {
            return self.skus.iter().map(|(_, units)| *units).collect();
        }
        let (confirmed, returned) = (self.numbers(9), self.numbers(10));
        confirmed.iter().zip(returned).map(|(confirmed, returned)| confirmed - returned).collect()
    }
}

/// Panics where the books are wrong. A tombstone is not looked at: it is being removed.
pub fn audit(snapshot: &Snapshot) {
    if snapshot.get("rules status").is_none_or(|status| status == "deleted") {
        return;
    }
    let records: BTreeMap<&str, Record<'_>> = snapshot
        .iter()
        .filter_map(|(leaf, text)| Some((leaf.strip_prefix("r:")?, Record::read(text))))
        .collect();
    audit_stock(snapshot, &records);
    audit_places(snapshot, &records);
    audit_buyers(snapshot, &records);
    let may_expire =
        |leaf: &str| ["op:", "lock:", "levels:", "rebuild:"].iter().any(|start| leaf.starts_with(start));
    let mut with_ttl = snapshot.keys().filter(|leaf| leaf.ends_with(" ttl"));
    assert!(
        with_ttl.all(|leaf| may_expire(leaf)),
        "only operation records, locks and caches expire: {snapshot:?}"
    );
}

fn audit_stock(snapshot: &Snapshot, records: &BTreeMap<&str, Record<'_>>) {
    let number = |leaf: String| snapshot.get(&leaf).map_or(0, |text| text.parse::<i64>().unwrap());
    let (mut expected, mut found): (BTreeMap<&str, Counts>, BTreeMap<&str, Counts>) = Default::default();
    for sku in snapshot.keys().filter_map(|leaf| leaf.strip_prefix("stock ")?.strip_suffix(":a")) {
        let get = |name: &str| number(format!("stock {sku}:{name}"));
        let counts = Counts { available: get("a"), held: get("h"), sold: get("s"), granted: get("g") };
        assert!(counts.available >= 0 && counts.held >= 0 && counts.sold >= 0, "{sku}: {counts:?}");
        assert_eq!(counts.available + counts.held + counts.sold, counts.granted, "{sku}: {counts:?}");
        found.insert(sku, counts);
        expected.insert(sku, Counts { sold: get("x"), ..Counts::default() });
    }
    for record in records.values() {
        for ((sku, units), kept) in record.skus.iter().zip(record.kept()) {
            let counts = expected.get_mut(sku).unwrap();
            if record.fields[0] == "held" {
                counts.held += units;
            } else {
                counts.sold += kept;
            }
        }
    }
    for (_, entry) in snapshot.iter().filter(|(leaf, _)| leaf.starts_with("adjustments[")) {
        let fields: Vec<&str> = entry.split('\n').collect();
        expected.get_mut(fields[1]).unwrap().granted += fields[7].parse::<i64>().unwrap();
    }
    let mut totals = Counts::default();
    for (sku, counts) in &mut expected {
        counts.available = counts.granted - counts.held - counts.sold;
        if !sku.is_empty() {
            totals.available += counts.available;
            totals.held += counts.held;
            totals.sold += counts.sold;
            totals.granted += counts.granted;
        }
    }
    expected.insert("", totals);
    assert_eq!(found, expected, "stock found, and what records and ledger say");
}

fn audit_places(snapshot: &Snapshot, records: &BTreeMap<&str, Record<'_>>) {
    for (id, record) in records {
        let due = snapshot.get(&format!("due {id}")).map(String::as_str);
        let is_done = snapshot.contains_key(&format!("done {id}"));
        let is_in_pinned = snapshot.contains_key(&format!("pinned {id}"));
        if record.fields[0] == "held" {
            let is_pinned = record.fields[1] == NEVER;
            let score = if is_pinned { "inf" } else { record.fields[1] };
            assert_eq!((due, is_done, is_in_pinned), (Some(score), false, is_pinned), "{id} is held");
        } else {
            assert_eq!((due, is_done, is_in_pinned), (None, true, false), "{id} has ended");
        }
    }
    for leaf in snapshot.keys() {
        if let Some((_, id)) =
            leaf.split_once(' ').filter(|(key, _)| matches!(*key, "due" | "done" | "pinned"))
        {
            assert!(records.contains_key(id), "{leaf} has no record");
        }
    }
}

fn audit_buyers(snapshot: &Snapshot, records: &BTreeMap<&str, Record<'_>>) {
    let mut expected: BTreeMap<String, Counted> = BTreeMap::new();
    for record in records.values().filter(|record| !record.fields[5].is_empty()) {
        let (bucket, what) = record.fields[5].split_at(1);
        let limited = what.trim_start_matches(['H', 'U']);
        let counted = expected.entry(format!("buyers:{bucket} {}", record.fields[15])).or_default();
        let kept = record.kept();
        counted.holds += i64::from(what.contains('H'));
        counted.units += if what.contains('U') { kept.iter().sum() } else { 0 };
        for n in limited.split(',').filter_map(|n| n.parse::<usize>().ok()) {
            *counted.skus.entry(record.skus[n - 1].0.to_owned()).or_default() += kept[n - 1];
        }
    }
    for counted in expected.values_mut() {
        counted.skus.retain(|_, units| *units != 0);
    }
    expected.retain(|_, counted| *counted != Counted::default());
    let mut found = BTreeMap::new();
    for (leaf, text) in snapshot.iter().filter(|(leaf, _)| leaf.starts_with("buyers:")) {
        let parts: Vec<&str> = text.split('|').collect();
        let skus = parts[2].split(',').filter_map(|part| part.split_once('='));
        let skus = skus.map(|(sku, units)| (sku.to_owned(), units.parse().unwrap())).collect();
        let counted = Counted { holds: parts[0].parse().unwrap(), units: parts[1].parse().unwrap(), skus };
        found.insert(leaf.clone(), counted);
    }
    // A buyer whose records were archived still counts: then only the entry knows.
    if !snapshot.keys().any(|leaf| leaf.ends_with(":x")) {
        assert_eq!(found, expected, "buyers found, and what records say");
    }
}
