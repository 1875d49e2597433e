//! A script's header is its contract: it must say what the body does.

use super::files;
use std::collections::BTreeSet;
use stockade::store::keys::SaleKeys;
use stockade::store::scripts::Scripts;

/// A full Redis must be able to give back and to empty itself.
const ALLOW_OOM: &[&str] = &[
    "barrier/cancel",
    "barrier/sweep",
    "lock/abandon",
    "lock/node_drop",
    "lock/release",
    "order/claim",
    "order/forget",
    "order/step",
    "reservation/archive",
    "reservation/confirm",
    "reservation/expire",
    "reservation/pin",
    "reservation/release",
    "reservation/return_reservation",
    "sale/delete",
    "sale/purge",
    "sale/repair",
    "sale/repair_buyers",
    "sale/switch",
    "sale/trim",
    "webhook/claim",
    "webhook/dismiss",
    "webhook/forget",
    "webhook/register",
    "webhook/settle",
];
const NO_WRITES: &[&str] = &[
    "barrier/due",
    "barrier/read",
    "lock/read",
    "order/due",
    "order/read",
    "reservation/due",
    "reservation/inspect",
    "reservation/list",
    "reservation/read",
    "sale/read",
    "sale/read_levels",
    "webhook/due",
];

struct Source {
    name: &'static str,
    shebang: String,
    uses: String,
    header: String,
    body: String,
    /// With the fragments that it names.
    joined: String,
}

fn sources() -> Vec<Source> {
    let files = files("lua", ".lua");
    let scripts = Scripts::new();
    scripts
        .all()
        .into_iter()
        .map(|script| {
            let source = &files[&format!("lua/{}.lua", script.name)];
            let (head, rest) =
                source.split_once("--[[").unwrap_or_else(|| panic!("{} has no header", script.name));
            let (header, body) = rest.split_once("]]").unwrap();
            let mut lines = head.lines().map(str::to_owned);
            let (shebang, uses) = (lines.next().unwrap(), lines.next().unwrap());
            // Without the header, which names keys that the code may not.
            let joined = script.code.replace(&format!("--[[{header}]]"), "");
            Source { name: script.name, shebang, uses, header: header.into(), body: body.into(), joined }
        })
        .collect()
}

/// `KEYS[3]`, `KEYS[1..7]`, `KEYS[24..]` of a header: first and last number, and what the line says of them.
fn documented<'a>(header: &'a str, what: &str) -> Vec<(usize, usize, &'a str)> {
    let lines = header.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix('[')?.split_once(']'));
    let mut found = Vec::new();
    for (range, said) in lines {
        let (first, last) = match range.split_once("..") {
            None if range == "last" => continue,
            None => (range, range),
            Some((first, "")) => (first, "999"),
            Some((first, last)) => (first, last),
        };
        found.push((first.parse().unwrap(), last.parse().unwrap(), said.trim()));
    }
    found
}

/// Numbers in `KEYS[3]` and the like.
fn used(code: &str, what: &str) -> BTreeSet<usize> {
    let start = format!("{what}[");
    code.split(&start).skip(1).filter_map(|rest| rest.split(']').next()?.parse().ok()).collect()
}

fn has_number(code: &str, number: usize) -> bool {
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == number.to_string())
}

#[test]
fn headers_document_the_keys_and_arguments_that_bodies_use() {
    for source in sources() {
        let name = source.name;
        for what in ["KEYS", "ARGV"] {
            let ranges = documented(&source.header, what);
            let next = |at: usize| ranges.iter().find(|(first, ..)| *first == at);
            let mut at = 1;
            while let Some((_, last, _)) = next(at) {
                at = last + 1;
            }
            let gap = ranges.iter().find(|(first, ..)| *first >= at);
            assert!(gap.is_none(), "{name}: {what}[{at}] is not documented");
            for n in used(&source.joined, what) {
                assert!(
                    ranges.iter().any(|(first, last, _)| (*first..=*last).contains(&n)),
                    "{name}: {what}[{n}]"
                );
            }
            for (first, last, said) in ranges {
                let walks = last - first > 6; // a list, or the buckets of buyers: from a number that the code names
                let reads = |n| {
                    used(&source.joined, what).contains(&n)
                        || !source.uses.contains("_book") && has_number(&source.body, n)
                };
                let walks_all = source.body.contains("for at = 2, RECORDS_AT - 1 do") && first > 1;
                let is_used = if walks {
                    has_number(&source.joined, first)
                } else {
                    walks_all || (first..=last).any(reads)
                };
                assert!(is_used, "{name} does not use {what}[{first}]: {said}");
            }
        }
    }
}

#[test]
fn headers_name_as_many_keys_as_they_count() {
    let keys = SaleKeys::new("sale");
    let fixed: Vec<&str> = keys.fixed.iter().map(|key| key.strip_prefix("st:{sale}:").unwrap()).collect();
    for source in sources() {
        for (first, last, said) in documented(&source.header, "KEYS") {
            if last == 999 {
                continue;
            }
            // A key without a tag stands alone.
            let tags = ["st:{sale}:", "st:{b:x}:", "st:{l:x}:", "st:{o:x}:", "st:{w:id}:", "st:"];
            // The same keys of a lock in no sale.
            let said = said.split("  or st:{l:x}:").next().unwrap();
            let names = tags.into_iter().find_map(|tag| said.strip_prefix(tag));
            let names = names.unwrap_or_else(|| panic!("{}: {said}", source.name));
            let names: Vec<&str> = names.split_whitespace().collect();
            match (first, last) {
                (8, 23) | (4, 19) => assert_eq!(names, ["buyers:<0..f>"], "{}", source.name),
                (1, 7) => assert_eq!(names, fixed[..7], "{}", source.name),
                (1, 1) if names[1..] == ["or", "done", "or", "pinned"] => {}
                _ => assert_eq!(
                    names.len(),
                    last - first + 1,
                    "{}: KEYS[{first}..{last}] are {said}",
                    source.name
                ),
            }
        }
    }
}

#[test]
fn flags_say_who_may_run_when_redis_is_full() {
    for source in sources() {
        let flags = match source.name {
            name if ALLOW_OOM.contains(&name) => "#!lua flags=allow-oom",
            name if NO_WRITES.contains(&name) => "#!lua flags=no-writes",
            _ => "#!lua",
        };
        assert_eq!(source.shebang, flags, "{}", source.name);
        assert!(source.uses.starts_with("-- uses: _read"), "{}", source.name);
        let reads_only = source.header.contains("\nWrites       nothing.");
        assert_eq!(reads_only, flags.ends_with("no-writes"), "{}", source.name);
    }
}

#[test]
fn headers_have_their_parts_in_order() {
    for source in sources() {
        let mut parts = vec!["\nKEYS[1", "\nARGV[1]", "\nReturns ", "\nErrors ", "\nWrites "];
        if used(&source.joined, "ARGV").is_empty() {
            parts.remove(1);
        }
        let place =
            |part: &&str| source.header.find(part).unwrap_or_else(|| panic!("{}: {part}", source.name));
        let places: Vec<usize> = parts.iter().map(place).collect();
        assert!(places.is_sorted(), "{}", source.name);
        assert!(source.header.contains("Cost O("), "{}", source.name);
        assert!(source.header.lines().all(|line| line.chars().count() <= 120), "{}", source.name);
    }
}

/// `unpack` fails near 8,000 values, `tostring` of a large number loses digits.
#[test]
fn bodies_keep_away_from_known_traps() {
    for (path, source) in files("lua", ".lua") {
        for trap in
            ["tostring(", "redis.sha1hex", "math.random", "os.", "'KEYS'", "HGETALL", "SMEMBERS", "redis.log"]
        {
            assert!(!source.contains(trap), "{path} has {trap}");
        }
    }
}

#[test]
fn the_page_about_lua_names_every_script_fragment_and_key() {
    let page = std::fs::read_to_string(super::root().join("lua/README.md")).unwrap();
    for path in files("lua", ".lua").keys() {
        let name = path.trim_start_matches("lua/").trim_start_matches("shared/").trim_end_matches(".lua");
        assert!(page.contains(&format!("`{name}`")), "lua/README.md does not name {name}");
    }
    let keys = SaleKeys::new("<sale>");
    let mut names: Vec<String> = keys.fixed[..7].to_vec();
    names.extend([keys.skus.clone(), keys.adjustments.clone(), keys.record("<id>"), keys.operation("<id>")]);
    names.extend([
        format!("{}<page>", keys.levels(0).trim_end_matches('0')),
        format!("{}<page>", keys.rebuild(0).trim_end_matches('0')),
    ]);
    names.extend(["st:{<sale>}:buyers:<0..f>".to_owned(), stockade::store::keys::SALES.to_owned()]);
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "lua/README.md does not name {name}");
    }
    for word in files("lua", ".lua").keys().filter(|path| !path.contains("shared")).flat_map(|path| {
        let source = std::fs::read_to_string(super::root().join(path)).unwrap();
        crate::lua_contract::words::words_of(source.split("]]").next().unwrap())
    }) {
        assert!(
            page.contains(&format!("`{word}`")) || page.contains(&word),
            "lua/README.md does not say {word}"
        );
    }
}
