use super::*;

fn spec(json: &str) -> Result<BarrierSpec, String> {
    let put: PutBarrier = serde_json::from_str(json).map_err(|error| error.to_string())?;
    put.spec().map_err(|bad| bad.field)
}

#[test]
fn names_are_the_number_unless_a_larger_one_is_given() {
    assert_eq!(spec("{}").unwrap().expected, None);
    assert_eq!(spec(r#"{"participants":["a","b"]}"#).unwrap().expected, Some(2));
    assert_eq!(spec(r#"{"participants":["a","b"],"expected":3}"#).unwrap().expected, Some(3));
    assert_eq!(spec(r#"{"expected":100000,"mode":"count"}"#).unwrap().expected, Some(100_000));
}

#[test]
fn what_cannot_be_waited_for_names_its_field() {
    for (json, field) in [
        (r#"{"participants":["a","b"],"expected":1}"#, "/expected"),
        (r#"{"expected":0}"#, "/expected"),
        (r#"{"expected":100001}"#, "/expected"),
        (r#"{"participants":["a"],"mode":"count"}"#, "/participants"),
        (r#"{"deadline_seconds":0}"#, "/deadline_seconds"),
        (r#"{"deadline_seconds":2592001}"#, "/deadline_seconds"),
        (r#"{"retention_seconds":0}"#, "/retention_seconds"),
        (r#"{"tolerated_failures":100001}"#, "/tolerated_failures"),
        (r#"{"notify":[{"url":"http://a/"},{"url":"http://a/"}]}"#, "/notify"),
    ] {
        assert_eq!(spec(json), Err(field.to_owned()), "{json}");
    }
    for bad in [
        r#"{"participants":[]}"#,
        r#"{"participants":["a","a"]}"#,
        r#"{"participants":["a b"]}"#,
        r#"{"mode":"all"}"#,
        r#"{"notify":[{"url":"ftp://a/"}]}"#,
        r#"{"retention":1}"#,
    ] {
        assert!(serde_json::from_str::<PutBarrier>(bad).is_err(), "{bad}");
    }
}

#[test]
fn notes_are_counted_in_characters() {
    let arrive = |note: String| {
        serde_json::from_value::<Arrive>(serde_json::json!({"participant": "a", "note": note}))
    };
    assert_eq!(arrive("é\n".repeat(128)).unwrap().outcome, ArrivalOutcome::Completed);
    assert!(arrive("é".repeat(257)).is_err());
}
