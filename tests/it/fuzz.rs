//! Every parser of what comes from outside, fed with chance: with what the documented grammar makes, with the same
//! but for a few characters, and with noise. None may panic. What is accepted fits the grammar, written here once more
//! and in another way, and reads back as it is printed; what does not fit is refused.
//!
//! A failure prints the smallest input that shows it: it belongs into the table of the parser's own tests.

mod cursors;
mod headers;
mod keys;
mod names;
pub mod replies;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Nothing is written to disk.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Characters that mean something to some parser, or are the neighbours of those that do.
const TELLING: &str = " \t\r\n\0\u{1}\u{1e}\u{7f}\u{80}\u{e9}\u{39c}\"'\\,;:=-_.*/@#?%&+[]{}~`^09azAZgG";

fn character() -> impl Strategy<Value = char> {
    prop_oneof![3 => select(TELLING.chars().collect::<Vec<_>>()), 1 => any::<char>()]
}

/// Text of no grammar.
fn noise() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(character(), 0..40).prop_map(String::from_iter),
        vec(any::<char>(), 0..40).prop_map(String::from_iter),
        "[ -~]{0,300}",
    ]
}

/// Where, of the whole; how many characters go; what comes in their place.
fn edit() -> impl Strategy<Value = (prop::sample::Index, usize, Vec<char>)> {
    (any::<prop::sample::Index>(), 0usize..3, vec(character(), 0..3))
}

/// Something legal, the same with up to three places changed, or noise.
fn around(legal: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> {
    let edited = (legal, vec(edit(), 0..4)).prop_map(|(text, edits)| {
        let mut text: Vec<char> = text.chars().collect();
        for (place, gone, put) in edits {
            let from = place.index(text.len() + 1);
            let to = (from + gone).min(text.len());
            text.splice(from..to, put);
        }
        String::from_iter(text)
    });
    prop_oneof![4 => edited, 1 => noise()]
}

/// Whether a text has so many characters, the first and the others of these kinds.
fn is_word(text: &str, chars_max: usize, first: fn(char) -> bool, others: fn(char) -> bool) -> bool {
    let count = text.chars().count();
    (1..=chars_max).contains(&count) && text.starts_with(first) && text.chars().skip(1).all(others)
}

/// `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`
fn is_name(text: &str) -> bool {
    is_word(text, 64, |c| c.is_ascii_alphanumeric(), |c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// Digits of a number that fits 64 bits.
fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches('0');
    let fits = digits.len() < 20 || (digits.len() == 20 && digits <= "18446744073709551615");
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) && fits
}
