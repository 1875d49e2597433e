//! Cursors, and the rest of a query.

use super::{around, config, is_name, is_number};
use actix_web::FromRequest;
use actix_web::dev::Payload;
use actix_web::test::TestRequest;
use proptest::prelude::*;
use stockade::domain::page::*;
use stockade::domain::{Cursor, PageRequest};
use stockade::http::extract::{Feed, Query, QueryParameters, WaitSeconds, Wanted};
use stockade::store::EventsAfter;
use url::form_urlencoded;

const NUMBER: &str = "0|[1-9][0-9]{0,18}|1844674407370955161[0-9]";
const QUERY: &str = "((limit|after|status|idempotency_key|other)?=?\
                     (%[0-9a-fA-F]{0,2}|[a-z0-9+.;?/%-]|held|ended)*&?){0,5}";

/// `<generation>-<ms>-<seq>-<n>`, the numbers as they are printed.
fn is_event_cursor(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_printed = |part: &str| is_number(part) && (part == "0" || !part.starts_with('0'));
    let [generation, ms, seq, n] = parts[..] else { return false };
    let is_word = !generation.is_empty() && generation.chars().all(|c| c.is_ascii_alphanumeric());
    is_word && [ms, seq, n].into_iter().all(is_printed)
}

/// Cuts at the first dash, and asks both sides.
fn both(text: &str, left: fn(&str) -> bool, right: fn(&str) -> bool) -> bool {
    text.find('-').is_some_and(|at| left(&text[..at]) && right(&text[at + 1..]))
}

fn read<T: QueryParameters + 'static>(pairs: &[(&str, &str)]) -> Option<T> {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    read_raw(&query)
}

fn read_raw<T: QueryParameters + 'static>(query: &str) -> Option<T> {
    let request = TestRequest::with_uri(&format!("/?{query}")).to_http_request();
    Query::from_request(&request, &mut Payload::None).into_inner().ok().map(|Query(read)| read)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_cursor_of_an_event_is_read_as_it_is_printed(
        text in around(format!("[0-9a-f]{{1,16}}(-[+0]?({NUMBER})){{3}}").leak() as &str)
    ) {
        let read = text.parse::<Cursor>();
        prop_assert_eq!(read.is_ok(), is_event_cursor(&text));
        let feed = self::read::<Feed>(&[("after", &text)]).map(|feed| feed.after);
        if let Ok(cursor) = read {
            prop_assert_eq!(cursor.to_string(), text);
            prop_assert_eq!(feed, Some(EventsAfter::Cursor(cursor)));
        } else {
            let end = match &*text {
                "" => Some(EventsAfter::Oldest),
                "latest" => Some(EventsAfter::Latest),
                _ => None,
            };
            prop_assert_eq!(feed, end);
        }
    }

    #[test]
    fn the_cursor_of_a_reservation_is_a_score_and_an_id(
        text in around(format!("(({NUMBER})|inf)-[A-Za-z0-9_-]{{22}}").leak() as &str)
    ) {
        let score = |score: &str| score == "inf" || is_number(score);
        let id = |id: &str| {
            id.len() == 22 && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        prop_assert_eq!(is_reservation_cursor(&text), both(&text, score, id));
    }

    #[test]
    fn the_cursor_of_an_adjustment_is_two_numbers(
        text in around(format!("({NUMBER})-({NUMBER})").leak() as &str)
    ) {
        prop_assert_eq!(is_adjustment_cursor(&text), both(&text, is_number, is_number));
    }

    #[test]
    fn the_cursor_of_an_arrival_is_a_time_and_a_name(
        text in around(format!("({NUMBER})-[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}").leak() as &str)
    ) {
        prop_assert_eq!(is_arrival_cursor(&text), both(&text, is_number, is_name));
        prop_assert_eq!(is_name_cursor(&text), is_name(&text));
        prop_assert_eq!(is_level_cursor(&text), is_name(&text));
    }

    #[test]
    fn the_cursor_of_a_sale_is_its_name_and_its_generation(
        text in around("_{0,2}[A-Za-z0-9][A-Za-z0-9._-]{0,63}:[0-9a-f]{1,16}")
    ) {
        let fits = text.find(':').is_some_and(|at| {
            let (sale, generation) = (text[..at].trim_start_matches('_'), &text[at + 1..]);
            let is_word = !generation.is_empty() && generation.chars().all(|c| c.is_ascii_alphanumeric());
            is_name(sale) && is_word
        });
        prop_assert_eq!(is_sale_cursor(&text), fits);
    }

    #[test]
    fn a_page_has_1_to_500_items(limit in around("[+-]?[0-9]{1,4}"), after in around("[ -~]{0,20}")) {
        let page = read::<PageRequest>(&[("limit", &limit), ("after", &after)]);
        let digits = limit.trim_start_matches('0');
        let is_plain = digits.len() <= 3 && limit.chars().all(|c| c.is_ascii_digit());
        let expected = digits.parse::<usize>().ok().filter(|limit| is_plain && (1..=500).contains(limit));
        prop_assert_eq!(page.as_ref().map(|page| page.limit), expected);
        if let Some(page) = page {
            prop_assert_eq!(page.after.unwrap_or_default(), after);
        }
    }

    #[test]
    fn a_wait_has_0_to_50_seconds(seconds in around("[+-]?[0-9]{1,3}")) {
        let wait = read::<WaitSeconds>(&[("seconds", &seconds)]).map(|WaitSeconds(seconds)| seconds);
        let is_plain = !seconds.is_empty() && seconds.chars().all(|c| c.is_ascii_digit());
        let number = format!("0{}", seconds.trim_start_matches('0')).parse::<u64>();
        prop_assert_eq!(wait, number.ok().filter(|seconds| is_plain && *seconds <= 50));
    }

    #[test]
    fn a_query_is_read_or_refused(
        query in QUERY
    ) {
        if let Some(page) = read_raw::<PageRequest>(&query) {
            prop_assert!((1..=500).contains(&page.limit));
        }
        read_raw::<Feed>(&query);
        if let Some(Wanted::ByKey(key)) = read_raw::<Wanted>(&query) {
            let has = |name: &str| form_urlencoded::parse(query.as_bytes()).any(|pair| pair.0 == name);
            prop_assert!(has("idempotency_key") && !has("status"));
            prop_assert!((1..=255).contains(&key.as_str().len()));
        }
    }
}
