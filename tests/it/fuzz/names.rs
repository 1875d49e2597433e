//! Names, texts and times of requests.

use super::{around, config, is_name, is_word};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::str::FromStr;
use stockade::config::HostName;
use stockade::domain::*;

const NAME: &str = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}";
const PLAIN_URL: &str =
    "https?://[a-z]([a-z0-9]{0,20}[a-z])?(\\.example)?(:[1-9][0-9]{0,3})?(/[!-\"$-~]{0,60})?";
const URL: &str = "https?://([a-z]{1,3}:?[a-z]{0,3}@)?([a-z.]{1,9}|\\[::1\\])(:[0-9]{1,6})?/[!-~]{0,20}";
const TIME: &str = "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{1,9})?\
                    (Z|[+-][0-2][0-9]:[0-5][0-9])";
const WORD: &str = "held|confirmed|released|expired|returned|storefront|operator|barrier|metrics";

/// One answer for all ways in: parsed, and read from JSON.
fn agrees<T>(text: &str, fits: bool) -> Result<(), TestCaseError>
where
    T: FromStr + DeserializeOwned + serde::Serialize + Display,
{
    let json = serde_json::to_string(text).unwrap();
    let (parsed, read) = (text.parse::<T>(), serde_json::from_str::<T>(&json));
    prop_assert_eq!(parsed.is_ok(), fits, "parsed");
    prop_assert_eq!(read.is_ok(), fits, "from JSON");
    if let (Ok(parsed), Ok(read)) = (parsed, read) {
        prop_assert_eq!(parsed.to_string(), text);
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }
    Ok(())
}

fn is_printable(text: &str, chars_max: usize) -> bool {
    let printable = |c: char| (' '..='~').contains(&c);
    is_word(text, chars_max, printable, printable)
}

fn is_note(text: &str) -> bool {
    text.chars().count() <= 256
}

/// What a star may stand for, tried one by one.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|taken| glob(rest, &text[taken..])),
        Some((first, rest)) => text.first() == Some(first) && glob(rest, &text[1..]),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn names_are_what_the_pattern_says(text in around(NAME)) {
        let fits = is_name(&text);
        agrees::<SaleId>(&text, fits)?;
        agrees::<Sku>(&text, fits)?;
        agrees::<BarrierId>(&text, fits)?;
        agrees::<LockName>(&text, fits)?;
        agrees::<Participant>(&text, fits)?;
        agrees::<KeyName>(&text, fits)?;
    }

    #[test]
    fn texts_are_printable_and_not_too_long(text in around("[ -~]{1,260}")) {
        agrees::<Buyer>(&text, is_printable(&text, 128))?;
        agrees::<Reference>(&text, is_printable(&text, 128))?;
        agrees::<IdempotencyKey>(&text, is_printable(&text, 255))?;
    }

    #[test]
    fn tokens_have_22_characters(text in around("[A-Za-z0-9_-]{22}")) {
        let legal = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        agrees::<LockToken>(&text, text.len() == 22 && text.chars().all(legal))?;
    }

    #[test]
    fn patterns_of_sales_are_names_with_stars(text in around("[A-Za-z0-9._*-]{1,64}")) {
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-*".contains(c);
        agrees::<SalePattern>(&text, is_word(&text, 64, legal, legal))?;
    }

    #[test]
    fn a_pattern_matches_what_its_stars_can_stand_for(pattern in "[ab*]{1,7}", sale in "[ab]{1,9}") {
        let (pattern, sale): (SalePattern, SaleId) = (pattern.parse().unwrap(), sale.parse().unwrap());
        prop_assert_eq!(
            pattern.matches(&sale),
            glob(pattern.as_str().as_bytes(), sale.as_str().as_bytes())
        );
    }

    #[test]
    fn types_of_events_may_end_in_a_star(text in around("[a-z._]{0,63}[a-z._*]")) {
        let letter = |c: char| c.is_ascii_lowercase() || "._".contains(c);
        let star_is_last = text.find('*').is_none_or(|at| at + 1 == text.len());
        let legal = (1..=64).contains(&text.len()) && text.chars().all(|c| letter(c) || c == '*');
        agrees::<TypePattern>(&text, legal && star_is_last)?;
    }

    #[test]
    fn plain_urls_are_taken(text in PLAIN_URL) {
        agrees::<WebhookUrl>(&text, true)?;
    }

    #[test]
    fn a_url_that_is_taken_is_http_and_plain(text in around(URL)) {
        let taken = text.parse::<WebhookUrl>().is_ok();
        agrees::<WebhookUrl>(&text, taken)?;
        if taken {
            let after = text.strip_prefix("http://").or(text.strip_prefix("https://"));
            prop_assert!(after.is_some_and(|after| !after.is_empty()) && !text.contains('#'));
            prop_assert!(text.len() <= 2_048 && text.chars().all(|c| ('!'..='~').contains(&c)));
        }
    }

    #[test]
    fn notes_are_short(text in around("\\PC{200,300}")) {
        let json = serde_json::to_string(&text).unwrap();
        let read = serde_json::from_str::<Note>(&json).ok();
        prop_assert_eq!(read.as_ref().map(Note::as_str), is_note(&text).then_some(&*text));
        prop_assert_eq!(Note::try_from(text.clone()).ok(), read);
    }

    #[test]
    fn names_of_hosts_have_no_port(text in around("[A-Za-z0-9._-]{1,260}")) {
        let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let read = text.parse::<HostName>();
        prop_assert_eq!(read.is_ok(), is_word(&text, 253, legal, legal));
        prop_assert!(read.is_ok_and(|host| host.is(&text.to_uppercase())) == is_word(&text, 253, legal, legal));
    }

    #[test]
    fn times_are_written_as_they_are_read(ms in 0..=Timestamp::NEVER.as_ms()) {
        let time = Timestamp::from_ms(ms).unwrap();
        let json = serde_json::to_string(&time).unwrap();
        prop_assert_eq!(json.len(), "\"1970-01-01T00:00:00.000Z\"".len());
        prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), time);
    }

    #[test]
    fn no_text_of_a_time_does_harm(text in around(TIME)) {
        if let Ok(time) = serde_json::from_value::<Timestamp>(text.into()) {
            prop_assert!((0..=Timestamp::NEVER.as_ms()).contains(&time.as_ms()));
            let written = serde_json::to_value(time).unwrap();
            prop_assert_eq!(serde_json::from_value::<Timestamp>(written).unwrap(), time);
        }
    }

    #[test]
    fn words_are_known_or_refused(text in around(WORD)) {
        let statuses = ["held", "confirmed", "released", "expired", "returned"];
        prop_assert_eq!(text.parse::<ReservationStatus>().is_ok(), statuses.contains(&&*text));
        let scopes = ["storefront", "operator", "barrier", "metrics"];
        prop_assert_eq!(text.parse::<Scope>().is_ok(), scopes.contains(&&*text));
    }
}
