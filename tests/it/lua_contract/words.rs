//! Every word of every header is answered by some script here, with all that it changes; and the store knows it.

use super::{
    batches, words_barrier, words_fence, words_lock, words_order, words_parts, words_repair, words_sale,
    words_settle, words_sweep, words_take, words_webhook, wrong_types,
};
use std::collections::BTreeSet;
use stockade::domain::{SaleId, Timestamp};
use stockade::store::StoreError;
use stockade::store::reply;

/// Script, word and whole text of answers.
pub type Answered = BTreeSet<(String, String, String)>;

/// Words that a script's header names: in `Returns` those in quotes, in `Answers` the first word between bars, and
/// the code of an error.
pub fn words_of(header: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut section = "";
    for line in header.lines() {
        let begins = |c: char| c.is_ascii_uppercase();
        let first = line.split(' ').next().unwrap_or_default();
        if line.starts_with(begins) {
            section = first;
        }
        let rest = line.strip_prefix(first).filter(|_| line.starts_with(begins)).unwrap_or(line).trim();
        match section {
            "Returns" => words.extend(rest.split('"').skip(1).step_by(2).map(str::to_owned)),
            "Answers" => words.extend(rest.split('|').map(first_word)),
            "Errors" if !first.is_empty() => {
                words.insert(rest.split(' ').next().unwrap().to_owned());
            }
            _ => {}
        }
    }
    words.remove("");
    words.remove("ok");
    words.remove("nothing"); // no error
    words
}

/// They answer with what they list, not with words.
const LISTS: [&str; 7] = [
    "reservation/list",
    "reservation/due",
    "reservation/inspect",
    "barrier/due",
    "order/due",
    "order/forget",
    "webhook/due",
];

fn first_word(piece: &str) -> String {
    piece.trim().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect()
}

#[tokio::test]
async fn each_word_of_each_header_is_answered_and_no_other() {
    let mut answered = Answered::new();
    for more in [
        words_take::held_then_repeats().await,
        words_take::refused_by_the_sale().await,
        words_take::refused_for_the_cart().await,
        words_take::met_by_replaces().await,
        words_settle::confirm().await,
        words_settle::retake().await,
        words_settle::release().await,
        words_settle::extend().await,
        words_settle::give_back().await,
        words_fence::refused().await,
        words_parts::pin().await,
        words_parts::deferred().await,
        words_sweep::sweep().await,
        words_sweep::unknown().await,
        words_sweep::inspect().await,
        words_sweep::trim().await,
        words_sale::put().await,
        words_sale::adjust().await,
        words_sale::switch_and_delete().await,
        words_sale::read().await,
        words_sale::shared_pages().await,
        words_repair::levels().await,
        words_repair::buyers().await,
        words_webhook::deliveries().await,
        words_webhook::wrong_types().await,
        words_webhook::dismiss().await,
        words_webhook::register().await,
        batches::deferred().await,
        words_barrier::fill().await,
        words_barrier::count().await,
        words_barrier::seal().await,
        words_barrier::end().await,
        words_barrier::sweep().await,
        words_barrier::wrong_types().await,
        words_lock::in_a_sale().await,
        words_lock::free().await,
        words_lock::on_a_node().await,
        words_lock::wrong_types().await,
        words_order::confirmed().await,
        words_order::undone().await,
        words_order::taken_over().await,
        words_order::kept().await,
        words_order::wrong_types().await,
        wrong_types::wrong_types().await,
    ] {
        answered.extend(more);
    }
    let scripts = stockade::store::scripts::Scripts::new();
    let (mut expected, mut found) = (BTreeSet::new(), BTreeSet::new());
    for script in scripts.all() {
        let path = format!("{}/lua/{}.lua", env!("CARGO_MANIFEST_DIR"), script.name);
        let source = std::fs::read_to_string(path).unwrap();
        let words = words_of(source.split("]]").next().unwrap());
        expected.extend(words.into_iter().map(|word| (script.name.to_owned(), word)));
    }
    let is_word = |script: &str, word: &str| {
        word != "ok" && (["CORRUPT", "wrong_type"].contains(&word) || !LISTS.contains(&script))
    };
    let words = answered.iter().filter(|(script, word, _)| is_word(script, word));
    found.extend(words.map(|(script, word, _)| (script.clone(), word.clone())));
    let missing: Vec<_> = expected.difference(&found).collect();
    let unknown: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty(), "words of a header that no test meets: {missing:?}");
    assert!(unknown.is_empty(), "words that no header names: {unknown:?}");
    the_store_knows(&answered);
    crate::fuzz::replies::do_no_harm(answered.into_iter().map(|(_, _, text)| text).collect());
}

/// Answers about reservations and adjustments are read by `reply.rs`; an unknown word would be an error there.
fn the_store_knows(answered: &Answered) {
    let sale: SaleId = "sale".parse().unwrap();
    let now = Timestamp::from_ms(1).unwrap();
    for (script, word, text) in answered {
        let for_the_committer = ["ok", "unknown_sale", "stale_generation", "deferred", "new", "CORRUPT"];
        if for_the_committer.contains(&word.as_str()) {
            continue;
        }
        let read = match script.as_str() {
            "sale/adjust" => reply::adjust_decision(now, text).map(drop),
            "reservation/archive" | "reservation/expire" => reply::swept(text).map(drop),
            script if LISTS.contains(&script) => continue,
            script if script.starts_with("reservation/") => reply::decision(&sale, now, None, text).map(drop),
            _ => continue,
        };
        match read {
            Ok(()) => assert_ne!(word, "corrupt"),
            Err(StoreError::Corrupt(_)) => assert_eq!(word, "corrupt"),
            Err(error) => panic!("{script} answers {text:?}: {error}"),
        }
    }
}

/// The others are read where they are asked for.
#[test]
fn each_word_of_each_header_stands_in_the_store() {
    let store = format!("{}/src/store", env!("CARGO_MANIFEST_DIR"));
    let folders = ["", "/audit", "/barriers", "/deliveries", "/group_commit", "/intake", "/locks", "/orders"]
        .map(|folder| format!("{store}{folder}"));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let source: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let scripts = stockade::store::scripts::Scripts::new();
    for script in scripts.all().into_iter().filter(|script| !LISTS.contains(&script.name)) {
        let path = format!("{}/lua/{}.lua", env!("CARGO_MANIFEST_DIR"), script.name);
        let header = std::fs::read_to_string(path).unwrap();
        for word in words_of(header.split("]]").next().unwrap()) {
            assert!(
                source.contains(&format!("\"{word}\"")),
                "{}: src/store does not know {word}",
                script.name
            );
        }
    }
}
