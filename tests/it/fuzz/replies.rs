//! What Redis answers. The scripts write it, so anything else is an error of the store, and nothing worse: neither a
//! script of another version nor a record that somebody wrote by hand may stop the service.

use super::{character, config, noise};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use redis::Value;
use stockade::domain::{Decision, SaleId, Timestamp};
use stockade::store::StoreError;
use stockade::store::events::read_bucket_entries;
use stockade::store::reply::{self, Fields};

const ID: &str = "AAAAAAAAAAAAAAAAAAAAAQ";

/// One of each form, as the scripts write them.
fn written() -> Vec<String> {
    let record = "held\n9000\n1000\n\n99000\n\n\n\n\n\n\n\nfp\n\na=2,b=1\nbo\nref\n{\"k\":\"v\"}";
    let expired = record.replacen("held", "expired", 1);
    let barrier = "import\nfailed\nmembers\n4\n1\n2\n4\n1\n1000\n9000\n5000\n60000\nhttp://a/";
    let order = format!("{ID}\nheld\nx\n1000\n61000\n\n\ndrop=a=a=2={ID}\nf\n60000\nbo\nr\n{{}}");
    let sale = "9f3c\n4\nactive\n1000\n\n600000\n3600000\n4\n\n2592000000\n86400000\n2\n5\n3\n2\n10";
    let level = "a\n5\n3\n2\n10\n4";
    let plain = ["buyer_holds\n3\n3", "buyer_limit\na\n4\n3\n2", "unknown_sku\nz", "sale_not_open\n1000"];
    let mut all: Vec<String> = plain.map(str::to_owned).to_vec();
    all.extend([
        format!("held\n\n{ID}\n{record}"),
        format!("expired\nheld\n{ID}\n{expired}"),
        format!("confirm_expired\n1\na=2,1,3;b=1,0,1\nheld\n{ID}\n{expired}"),
        format!("retake_sold_out\na=2,1,3\nheld\n{ID}\n{expired}"),
        "sold_out\na=2,1,3;b=1,0,1".to_owned(),
        format!("adjusted\n{ID}\n{level}\n-3\nbroken\nref\n1000"),
        format!("granted_changed\n{level}"),
        format!("failed\nopen\n{barrier}\n\nd\nb \"lost\"\nc"),
        format!("held\nholding\n{order}\u{1e}held\nholding\n{order}"),
        format!("{ID}\n{record}"),
        order,
        barrier.to_owned(),
        sale.to_owned(),
        level.to_owned(),
        "3-4-5".to_owned(),
    ]);
    all
}

/// Fields that some reader might stumble over.
fn field() -> impl Strategy<Value = String> {
    let numbers = [i64::MIN.to_string(), u64::MAX.to_string(), "-1".into(), "0".into(), "1e3".into()];
    let bad = ["", ",", "=", ";", "a=", "a=1,", "a=18446744073709551615,b=1", "a=1,2,3", "held", "expired"];
    prop_oneof![
        select(numbers.to_vec()),
        select(bad.map(str::to_owned).to_vec()),
        vec(character(), 0..6).prop_map(String::from_iter),
    ]
}

/// The same text with some fields changed, gone or put in between.
fn changed(texts: Vec<String>) -> impl Strategy<Value = String> {
    let edit = (any::<Index>(), 0usize..2, vec(field(), 0..2));
    (select(texts), vec(edit, 1..4)).prop_map(|(text, edits)| {
        let mut fields: Vec<String> = text.split('\n').map(str::to_owned).collect();
        for (place, gone, put) in edits {
            let from = place.index(fields.len() + 1);
            let to = (from + gone).min(fields.len());
            fields.splice(from..to, put);
        }
        fields.join("\n")
    })
}

/// Reads a text in every way there is.
fn read(text: &str) {
    let (sale, now) = (sale(), Timestamp::NEVER);
    let fields = || Fields::of(text);
    drop(reply::decision(&sale, now, Some(now), text));
    drop(reply::adjust_decision(now, text));
    drop(reply::swept(text));
    drop(reply::reservation(&sale, now, &mut fields()));
    drop(reply::level(now, &mut fields()));
    drop(reply::adjustment(&mut fields()));
    drop(reply::sale(&sale, now, &mut fields()));
    drop(reply::barrier(now, &mut fields()));
    drop(reply::order_record(now, &mut fields()));
    drop(reply::shortfalls(text));
    drop(reply::barrier_note(text));
    reply::newly_expired(now, text);
    reply::newly_expired(Timestamp::default(), text);
    reply::fell_short(text);
    reply::ids_of(text);
    drop(read_bucket_entries(entry("7-3", "5000", text)));
    drop(read_bucket_entries(entry(text, "5000", "")));
    drop(reply::barrier_end("open", &mut fields()));
}

fn entry(id: &str, time: &str, events: &str) -> Value {
    let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    let fields = ["t", time, "e", events].map(bulk).to_vec();
    Value::Array(vec![Value::Array(vec![bulk(id), Value::Array(fields)])])
}

fn sale() -> SaleId {
    "sale".parse().unwrap()
}

/// Whatever is changed in these answers is read or refused.
pub fn do_no_harm(answers: Vec<String>) {
    let verdict = TestRunner::new(config()).run(&changed(answers), |text| {
        read(&text);
        Ok(())
    });
    verdict.unwrap();
}

#[test]
fn no_changed_answer_does_harm() {
    let written = written();
    written.iter().for_each(|text| read(text));
    do_no_harm(written);
}

/// Any value of the protocol.
fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "ok|unknown_sale|stale_generation|[0-9]{1,20}|[A-Za-z0-9_-]{22}(,[A-Za-z0-9_-]{22})?".boxed(),
        field().boxed(),
        noise().boxed(),
    ];
    let leaf = prop_oneof![
        4 => text.clone().prop_map(|text| Value::BulkString(text.into_bytes())),
        2 => text.prop_map(Value::SimpleString),
        1 => vec(any::<u8>(), 0..9).prop_map(Value::BulkString),
        1 => any::<i64>().prop_map(Value::Int),
        1 => select(vec![Value::Nil, Value::Okay, Value::Boolean(true), Value::Double(f64::NAN)]),
    ];
    leaf.prop_recursive(3, 24, 8, |inner| vec(inner, 0..8).prop_map(Value::Array))
}

/// The texts of an array of nothing else.
fn texts_of(value: &Value) -> Option<Vec<String>> {
    let Value::Array(items) = value else { return None };
    let text = |item: &Value| match item {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    };
    items.iter().map(text).collect()
}

fn is_time(text: &str) -> bool {
    text.parse().ok().and_then(Timestamp::from_ms).is_some()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_value_does_harm(value in value()) {
        prop_assert_eq!(reply::texts(value.clone()).ok(), texts_of(&value));
        prop_assert!(reply::batch(value.clone()).is_err() || texts_of(&value).is_some());
        drop(read_bucket_entries(value));
    }

    #[test]
    fn a_batch_has_a_head_and_then_answers(
        head in prop_oneof![
            "ok|unknown_sale|stale_generation|[a-z_]{0,9}".prop_map(|word| vec![word]),
            ("ok|okay", "[0-9]{1,16}", "([0-9]{1,16})?", "(,?[A-Za-z0-9_-]{22}){0,3}")
                .prop_map(|(word, now, retry_at, overdue)| vec![word, now, retry_at, overdue]),
        ],
        answers in vec(noise(), 0..5),
    ) {
        let texts: Vec<String> = head.into_iter().chain(answers).collect();
        let read = reply::batch_of(texts.clone());
        match (&*texts[0], read) {
            ("ok", Ok(Ok(batch))) => {
                prop_assert_eq!(Ok(batch.now.as_ms()), texts[1].parse());
                prop_assert_eq!(batch.retry_at.is_some(), !texts[2].is_empty());
                prop_assert_eq!(batch.overdue.concat(), texts[3].replace(',', ""));
                prop_assert_eq!(&batch.answers[..], &texts[4..]);
            }
            ("ok", Err(_)) => {
                let has_times = texts.len() >= 4 && is_time(&texts[1]);
                prop_assert!(!(has_times && (texts[2].is_empty() || is_time(&texts[2]))));
            }
            ("unknown_sale" | "stale_generation", read) => prop_assert!(matches!(read, Ok(Err(_)))),
            (_, read) => prop_assert!(matches!(read, Err(StoreError::Reply(_)))),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written(
        word in "held|confirmed|released|expired|returned",
        times in prop::array::uniform3(0..Timestamp::NEVER.as_ms()),
        lines in vec(("[A-Za-z0-9][A-Za-z0-9._-]{0,9}", 1..=1_000_000u64, 0..9u64, 0..9u64), 1..5),
        buyer in "([ -~]{1,128})?",
        ids in prop::array::uniform3(any::<u128>()),
    ) {
        let short = |id| stockade::store::ids::short(uuid::Uuid::from_u128(id));
        let join = |texts: Vec<String>| texts.join(",");
        let cart = join(lines.iter().map(|line| format!("{}={}", line.0, line.1)).collect());
        let sold = join(lines.iter().map(|line| line.2.to_string()).collect());
        let back = join(lines.iter().map(|line| line.3.to_string()).collect());
        let [id, old, order] = ids.map(short);
        let [expires, created, until] = times;
        let text = format!(
            "released\n{word}\n{id}\n{word}\n{expires}\n{created}\n\n{until}\n\n{old}\n\n\n{sold}\n{back}\n\nfp\n\
             {order}\n{cart}\n{buyer}\n\n"
        );
        let read = reply::decision(&sale(), Timestamp::NEVER, None, &text);
        let Ok(Decision::Done(_, read)) = read else { panic!("{read:?}") };
        let read_lines: Vec<_> = read
            .lines
            .iter()
            .map(|line| (line.sku.to_string(), line.quantity, line.confirmed, line.returned))
            .collect();
        prop_assert_eq!(read_lines, lines);
        prop_assert_eq!(read.expires_at.map(Timestamp::as_ms), (word == "held").then_some(expires));
        prop_assert_eq!([read.created_at.as_ms(), read.extendable_until.as_ms()], [created, until]);
        prop_assert_eq!(read.status.as_str(), word);
        prop_assert_eq!(read.buyer.map_or(String::new(), |buyer| buyer.to_string()), buyer);
        prop_assert_eq!(short(read.id.0.as_u128()), id);
        prop_assert_eq!(read.replaces.map(|id| short(id.0.as_u128())), Some(old));
        prop_assert_eq!(read.order.map(|id| short(id.0.as_u128())), Some(order));
    }
}
