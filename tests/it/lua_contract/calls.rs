//! The calls of each script, as `src/store` makes them.

use super::rig::{DAY, HOUR, Rig, SECOND, Step, id};
use stockade::store::ids::bucket;
use stockade::store::intake::GROUP;

/// Long beside what a slow machine takes between two calls.
const PAGE_FRESH_MS: i64 = 60 * SECOND;
const PAGE_STALE_MS: i64 = 600 * SECOND;
const PAGE_GUARD_MS: i64 = HOUR;

/// A cart.
#[derive(Debug, Clone, Default)]
pub struct Take {
    name: String,
    buyer: String,
    hold_ms: String,
    replaces: String,
    order: String,
    /// Lock, token, fence.
    fence: Option<(String, String, u64)>,
    fingerprint: String,
    lines: Vec<(String, u64)>,
}

/// A cart of some units of one SKU.
pub fn take(name: &str, sku: &str, units: u64) -> Take {
    Take { name: name.into(), fingerprint: "fp".into(), ..Take::default() }.and(sku, units)
}

impl Take {
    pub fn and(mut self, sku: &str, units: u64) -> Self {
        self.lines.push((sku.into(), units));
        self
    }
    pub fn by(self, buyer: &str) -> Self {
        Self { buyer: buyer.into(), ..self }
    }
    pub fn for_ms(self, ms: i64) -> Self {
        Self { hold_ms: ms.to_string(), ..self }
    }
    pub fn replacing(self, name: &str) -> Self {
        Self { replaces: id(name), ..self }
    }
    pub fn fenced(self, lock: &str, token: &str, fence: u64) -> Self {
        Self { fence: Some((lock.into(), token.into(), fence)), ..self }
    }
    pub fn part_of(self, order: &str) -> Self {
        Self { order: id(order), ..self }
    }
    pub fn fingerprint(self, fingerprint: &str) -> Self {
        Self { fingerprint: fingerprint.into(), ..self }
    }
    fn lines(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(|(sku, units)| format!("{sku}={units}")).collect();
        lines.join(",")
    }
    fn tail(&self) -> String {
        [&self.fingerprint, &self.order, &self.lines(), &self.buyer, "ref", ""].join("\n")
    }
    /// What it has in common with others; `locks`: those of the call.
    fn cart(&self, locks: &[String]) -> String {
        let mut more = match (self.replaces.as_str(), &self.fence) {
            ("", None) => String::new(),
            ("", Some(_)) => "-".into(),
            _ => "+".into(),
        };
        if let Some((lock, token, fence)) = &self.fence {
            let place = locks.iter().position(|known| known == lock).unwrap() + 1;
            more += &format!("{place}:{token}:{fence}");
        }
        [&self.hold_ms, &more, &self.lines()].map(String::as_str).join("\n")
    }
}

/// Rules of a sale: changes to the usual ones.
#[derive(Debug, Clone)]
pub struct Rules(pub [String; 8]);

impl Default for Rules {
    fn default() -> Self {
        let ms = |ms: i64| ms.to_string();
        let none = String::new;
        Self([none(), none(), ms(600 * SECOND), ms(HOUR), none(), none(), ms(30 * DAY), ms(DAY)])
    }
}

impl Rules {
    pub fn buyer_limit(mut self, units: u64) -> Self {
        self.0[4] = units.to_string();
        self
    }
    pub fn buyer_holds_max(mut self, holds: u64) -> Self {
        self.0[5] = holds.to_string();
        self
    }
    pub fn opens_at(mut self, ms: i64) -> Self {
        self.0[0] = ms.to_string();
        self
    }
    pub fn closes_at(mut self, ms: i64) -> Self {
        self.0[1] = ms.to_string();
        self
    }
}

/// SKU, initial, limit; each as `put.lua` takes it.
pub type Skus<'a> = &'a [(&'a str, &'a str, &'a str)];

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

impl Rig {
    /// A sale with these SKUs and the usual rules.
    pub async fn with(skus: Skus<'_>) -> Self {
        Self::with_rules(Rules::default(), skus).await
    }

    pub async fn with_rules(rules: Rules, skus: Skus<'_>) -> Self {
        let mut rig = Self::empty().await;
        let made = rig.put("", "made:fp", Some(&rules), skus).await;
        assert_eq!(made.head[0], "created");
        rig.remember("t", &made);
        rig
    }

    pub async fn put(
        &mut self,
        expect: &str,
        operation: &str,
        rules: Option<&Rules>,
        skus: Skus<'_>,
    ) -> Step {
        let (keys, args) = self.put_call(expect, operation, rules, skus);
        self.step("sale/put", &keys, &args).await
    }

    pub fn put_call(
        &self,
        expect: &str,
        operation: &str,
        rules: Option<&Rules>,
        skus: Skus<'_>,
    ) -> (Vec<String>, Vec<String>) {
        let k = &self.keys;
        let keys = owned(&[k.rules(), k.stock(), &k.skus, k.events(), &k.adjustments]);
        let mut args = self.with_head(owned(&["idkey", expect, operation]));
        args.push(if rules.is_some() { "rules" } else { "skus" }.into());
        args.extend(rules.map_or_else(Default::default, |rules| rules.0.clone()));
        args.extend(skus.iter().flat_map(|(sku, initial, limit)| owned(&[sku, initial, limit])));
        (keys, args)
    }

    pub async fn reserve(&mut self, takes: &[Take]) -> Step {
        let (keys, args) = self.reserve_call(takes);
        // Of a new hold the script tells what the caller does not know.
        let complete = |place: usize, text: String| match text.strip_prefix("new\n") {
            Some(head) => format!("held\n\n{}\n{head}{}", id(&takes[place].name), takes[place].tail()),
            None => text,
        };
        self.step_of("reservation/reserve", &keys, &args, complete).await
    }

    pub fn reserve_call(&self, takes: &[Take]) -> (Vec<String>, Vec<String>) {
        let (mut carts, mut requests) = (Vec::<String>::new(), Vec::new());
        let (mut records, mut locks) = (Vec::new(), Vec::new());
        for take in takes {
            if let Some((lock, ..)) = &take.fence
                && !locks.contains(lock)
            {
                locks.push(lock.clone());
            }
            records.push(self.keys.record(&id(&take.name)));
            if !take.replaces.is_empty() {
                records.push(self.keys.record(&take.replaces));
            }
            let cart = take.cart(&locks);
            let number = carts.iter().position(|known| *known == cart).unwrap_or_else(|| {
                carts.push(cart);
                carts.len() - 1
            });
            let bucket = if take.buyer.is_empty() { String::new() } else { bucket(&take.buyer).to_string() };
            requests.extend([(number + 1).to_string(), bucket, take.buyer.clone(), take.tail()]);
        }
        let mut args = self.with_head([locks.len(), carts.len()].map(|count| count.to_string()));
        args.extend(carts);
        args.extend(requests);
        records.extend(locks.iter().map(|lock| self.lock_key(lock)));
        (self.with_fixed(records), args)
    }

    fn lock_key(&self, lock: &str) -> String {
        format!("{}lock:{lock}", self.prefix)
    }

    /// The same call, whose requests depend on these locks.
    pub fn with_locks(
        &self,
        (mut keys, mut args): (Vec<String>, Vec<String>),
        locks: &[&str],
    ) -> (Vec<String>, Vec<String>) {
        keys.extend(locks.iter().map(|lock| self.lock_key(lock)));
        args[2] = locks.len().to_string();
        (keys, args)
    }

    /// Takes a lock, past its scripts: `left_ms` from now on.
    pub async fn lock(&mut self, lock: &str, token: &str, fence: u64, left_ms: i64) {
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(&mut self.admin).await.unwrap();
        let deadline = seconds * 1_000 + micros / 1_000 + self.offset_ms + left_ms;
        self.tamper("SET", &format!("lock:{lock}"), &[&format!("{token}:{fence}:{deadline}")]).await;
    }

    /// Any verb that takes ids; of each request its id and its arguments. Those that are left out at the end are empty.
    pub async fn settle(&mut self, verb: &str, requests: &[(&str, &[&str])]) -> Step {
        let (keys, args) = self.settle_call(verb, requests);
        self.step(&format!("reservation/{verb}"), &keys, &args).await
    }

    pub fn settle_call(&self, verb: &str, requests: &[(&str, &[&str])]) -> (Vec<String>, Vec<String>) {
        let keys = self.with_fixed(requests.iter().map(|(name, _)| self.keys.record(&id(name))));
        let count = match verb {
            "confirm" => 5,
            "extend" | "release" => 2,
            "pin" => 1,
            _ => 0,
        };
        let lock_count = matches!(verb, "confirm" | "release").then(|| "0".to_owned());
        let padded = |args: &[&str]| {
            let mut args = owned(args);
            args.resize(count, String::new());
            args
        };
        let args = requests.iter().flat_map(|(_, args)| padded(args));
        (keys, self.with_head(lock_count.into_iter().chain(args)))
    }

    /// `pin`, `release`, or `confirm` of all, in the name of an order.
    pub async fn settle_part(&mut self, verb: &str, name: &str, order: &str) -> Step {
        let order = if order.is_empty() { String::new() } else { id(order) };
        let args = if verb == "confirm" { vec!["refuse", "", "", &order] } else { vec![order.as_str()] };
        self.settle(verb, &[(name, &args)]).await
    }

    /// `confirm`, refusing what has expired.
    pub async fn confirm(&mut self, name: &str, lines: &str) -> Step {
        self.settle("confirm", &[(name, &["refuse", "", lines])]).await
    }

    pub async fn retake(&mut self, name: &str, lines: &str) -> Step {
        self.settle("confirm", &[(name, &["retake", "", lines])]).await
    }

    /// `release`, `expire`, `archive`, `read`.
    pub async fn each(&mut self, verb: &str, names: &[&str]) -> Step {
        let requests: Vec<(&str, &[&str])> = names.iter().map(|name| (*name, &[][..])).collect();
        self.settle(verb, &requests).await
    }

    pub async fn extend(&mut self, name: &str, hold_ms: i64, operation: &str) -> Step {
        let (operation, fingerprint) = operation.split_once(':').unwrap_or((operation, ""));
        let operation = id(operation) + fingerprint;
        self.settle("extend", &[(name, &[&hold_ms.to_string(), &operation])]).await
    }

    /// Name, operation, lines, restock, fingerprint of each.
    pub async fn give_back(&mut self, requests: &[(&str, &str, &str, &str, &str)]) -> Step {
        let (keys, args) = self.return_call(requests);
        self.step("reservation/return_reservation", &keys, &args).await
    }

    pub fn return_call(&self, requests: &[(&str, &str, &str, &str, &str)]) -> (Vec<String>, Vec<String>) {
        let mut keys = self.with_fixed([]);
        let mut args = self.with_head([]);
        for (name, operation, lines, restock, fingerprint) in requests {
            keys.extend([self.keys.record(&id(name)), self.keys.operation(&id(operation))]);
            args.extend(owned(&[lines, restock, fingerprint]));
        }
        keys.push(self.keys.adjustments.clone());
        (keys, args)
    }

    /// Operation, SKU, delta, if_granted, fingerprint of each.
    pub async fn adjust(&mut self, requests: &[(&str, &str, i64, &str, &str)]) -> Step {
        let (keys, args) = self.adjust_call(requests);
        self.step("sale/adjust", &keys, &args).await
    }

    pub fn adjust_call(&self, requests: &[(&str, &str, i64, &str, &str)]) -> (Vec<String>, Vec<String>) {
        let k = &self.keys;
        let mut keys = owned(&[k.rules(), k.stock(), k.events(), &k.adjustments]);
        let mut args = self.with_head(["0".to_owned()]);
        for (operation, sku, delta, if_granted, fingerprint) in requests {
            keys.push(k.operation(&id(operation)));
            args.extend(owned(&[sku, &delta.to_string(), if_granted, fingerprint, "why", "ref", ""]));
        }
        (keys, args)
    }

    pub async fn switch(&mut self, status: &str) -> Step {
        let (keys, args) = self.switch_call(status);
        self.step("sale/switch", &keys, &args).await
    }

    pub fn switch_call(&self, status: &str) -> (Vec<String>, Vec<String>) {
        let k = &self.keys;
        let keys = owned(&[k.rules(), k.stock(), &k.skus, k.events()]);
        (keys, vec![self.offset_ms.to_string(), status.to_owned()])
    }

    pub async fn delete(&mut self) -> Step {
        let (keys, _) = self.switch_call("");
        let args = [self.offset_ms.to_string()];
        self.step("sale/delete", &keys, &args).await
    }

    pub async fn purge(&mut self, names: &[&str]) -> Step {
        let (keys, args) = self.purge_call(names);
        self.step("sale/purge", &keys, &args).await
    }

    pub fn purge_call(&self, names: &[&str]) -> (Vec<String>, Vec<String>) {
        let more = owned(&[&self.keys.skus, &self.keys.adjustments, &self.keys.fence]);
        let records = names.iter().map(|name| self.keys.record(&id(name)));
        (self.with_fixed(more.into_iter().chain(records)), vec![self.generation.clone(), String::new()])
    }

    /// SKU, revision, counters as they were read, held, sold and granted of the books, whether the ledger adds up.
    pub fn repair_call(&self, skus: &[[&str; 7]]) -> (Vec<String>, Vec<String>) {
        let k = &self.keys;
        let keys = [k.rules(), k.stock(), &k.skus, k.due(), k.pinned(), k.events(), &k.adjustments];
        let mut args = self.with_head([]);
        for [sku, rest @ ..] in skus {
            args.extend([(*sku).to_owned(), id(&format!("op{sku}"))]);
            args.extend(owned(rest));
        }
        (owned(&keys), args)
    }

    /// Bucket, buyer, entry as it was read, entry as it must be.
    pub fn repair_buyers_call(&self, revisions: &str, buyers: &[[&str; 4]]) -> (Vec<String>, Vec<String>) {
        let k = &self.keys;
        let mut keys = owned(&[k.rules(), k.stock(), &k.skus]);
        keys.extend((0..16).map(|bucket| k.buyers(bucket).to_owned()));
        let mut args = vec![self.generation.clone(), revisions.to_owned()];
        args.extend(buyers.iter().flat_map(|buyer| owned(buyer)));
        (keys, args)
    }

    pub async fn read_sale(&mut self) -> Step {
        let (keys, args) = self.read_sale_call();
        self.step("sale/read", &keys, &args).await
    }

    pub fn read_sale_call(&self) -> (Vec<String>, Vec<String>) {
        let keys = owned(&[self.keys.rules(), self.keys.stock(), &self.keys.skus]);
        (keys, vec![self.offset_ms.to_string()])
    }

    /// One SKU, or a page of up to `limit` after it.
    pub async fn levels(&mut self, mode: &str, sku: &str, limit: usize) -> Step {
        let (keys, mut args) = self.read_sale_call();
        args.extend(owned(&[mode, sku, &limit.to_string()]));
        self.step("sale/read_levels", &keys, &args).await
    }

    /// A page that all processes share, and the right to make it anew.
    pub async fn find_page(&mut self, page: usize) -> Step {
        let (keys, args) = self.find_page_call(page);
        self.step("sale/find_page", &keys, &args).await
    }

    pub fn find_page_call(&self, page: usize) -> (Vec<String>, Vec<String>) {
        let k = &self.keys;
        let keys = owned(&[k.rules(), &k.skus, &k.levels(page), &k.rebuild(page)]);
        (
            keys,
            [self.offset_ms, PAGE_FRESH_MS, PAGE_STALE_MS, PAGE_GUARD_MS].map(|ms| ms.to_string()).to_vec(),
        )
    }

    /// With the number of SKUs of its sale and the time of its levels.
    pub async fn keep_page(&mut self, page: usize, skus: &str, as_of: i64, levels: &str) -> Step {
        let (keys, args) = self.keep_page_call(page, skus, as_of, levels);
        self.step("sale/keep_page", &keys, &args).await
    }

    pub fn keep_page_call(
        &self,
        page: usize,
        skus: &str,
        as_of: i64,
        levels: &str,
    ) -> (Vec<String>, Vec<String>) {
        let keys = owned(&[self.keys.rules(), &self.keys.skus, &self.keys.levels(page)]);
        (keys, owned(&[&self.generation, skus, &as_of.to_string(), levels, &PAGE_STALE_MS.to_string()]))
    }

    pub async fn due(&mut self, limit: usize) -> Step {
        let keys = owned(&[
            self.keys.rules(),
            self.keys.due(),
            self.keys.pinned(),
            self.keys.done(),
            self.keys.orphans(),
            self.keys.events(),
        ]);
        let args = [self.offset_ms.to_string(), limit.to_string()];
        self.step("reservation/due", &keys, &args).await
    }

    /// Keeps what is younger than `retention_ms`, and at most `entries_max`.
    pub async fn trim(&mut self, retention_ms: i64, entries_max: u64, limit: usize) -> Step {
        let (keys, args) = self.trim_call(retention_ms, entries_max, limit);
        self.step("sale/trim", &keys, &args).await
    }

    pub fn trim_call(&self, retention_ms: i64, entries_max: u64, limit: usize) -> (Vec<String>, Vec<String>) {
        let numbers = [retention_ms.to_string(), entries_max.to_string(), limit.to_string()];
        let args = self.with_head(numbers.into_iter().chain([GROUP.to_owned()]));
        (owned(&[self.keys.rules(), self.keys.events()]), args)
    }

    pub fn inspect_call(&self, names: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut keys = owned(&[self.keys.due(), self.keys.done(), self.keys.pinned()]);
        keys.extend(names.iter().map(|name| self.keys.record(&id(name))));
        (keys, Vec::new())
    }

    pub async fn list(&mut self, key: &str, score: &str, name: &str, limit: usize) -> Step {
        let after = if name.is_empty() { String::new() } else { id(name) };
        let keys = [format!("{}{key}", self.prefix)];
        self.step("reservation/list", &keys, &[score.to_owned(), after, limit.to_string()]).await
    }
}
