//! Barriers, as `barrier_text` and `end_text` of `lua/shared/_barrier.lua` write them.

use super::{Fields, StoreError, bad, name, number, optional, time};
use crate::domain::*;
use crate::store::checks::SELF_TEST;

/// Reads the 13 fields of a barrier.
pub fn barrier(now: Timestamp, fields: &mut Fields<'_>) -> Result<Barrier, StoreError> {
    let barrier = barrier_id(fields.text()?)?;
    let status = status(fields.text()?)?;
    let mode = BarrierMode::from_word(fields.text()?).ok_or_else(|| bad("unknown mode"))?;
    let expected = optional(fields.text()?, number)?;
    let [completed, failed, declared] =
        [number(fields.text()?)?, number(fields.text()?)?, number(fields.text()?)?];
    let tolerated_failures = optional(fields.text()?, number)?;
    let (created_at, deadline) = (time(fields.text()?)?, time(fields.text()?)?);
    let ended_at = optional(fields.text()?, time)?;
    let retention_seconds = number::<u64>(fields.text()?)? / 1000;
    let urls = fields.text()?.split(' ').filter(|url| !url.is_empty());
    let target = |url| Ok::<_, StoreError>(NotifyTarget { url: name(url)?, secret: None });
    Ok(Barrier {
        barrier,
        status,
        mode,
        sealed: expected.is_some(),
        expected,
        declared,
        completed,
        failed,
        tolerated_failures,
        created_at,
        deadline,
        ended_at,
        retention_seconds,
        notify: urls.map(target).collect::<Result<_, _>>()?,
        server_time: now,
    })
}

/// Its name, also of one of our own.
pub fn barrier_id(text: &str) -> Result<BarrierId, StoreError> {
    if text.starts_with(SELF_TEST) { Ok(BarrierId::internal(text)) } else { name(text) }
}

/// A word of a barrier's state.
pub fn status(word: &str) -> Result<BarrierStatus, StoreError> {
    BarrierStatus::from_word(word).ok_or_else(|| bad("unknown status of a barrier"))
}

/// A note as it is stored: JSON, which holds no line break.
pub fn note(text: &str) -> Result<Note, StoreError> {
    serde_json::from_str(text).map_err(|_| bad("not a note"))
}

/// Reads how a barrier ended, and who is to be told: the barrier, whether the lists are cut short, the missing ones,
/// then a line each that failed.
pub fn barrier_end(
    previous: &str,
    fields: &mut Fields<'_>,
) -> Result<(BarrierEnd, Vec<WebhookUrl>), StoreError> {
    let barrier = barrier(Timestamp::default(), fields)?;
    let truncated = fields.text()? == "1";
    let missing = fields.text()?.split(',').filter(|text| !text.is_empty());
    let missing = missing.map(name).collect::<Result<_, _>>()?;
    let mut failed_participants = Vec::new();
    while let Ok(line) = fields.text() {
        let (participant, said) = line.split_once(' ').unwrap_or((line, ""));
        let note = optional(said, note)?;
        failed_participants.push(FailedParticipant { participant: name(participant)?, note });
    }
    let is_listed = barrier.mode == BarrierMode::Members;
    let end = BarrierEnd {
        link: is_listed.then(|| format!("/v1/barriers/{}/participants?status=missing", barrier.barrier)),
        barrier: barrier.barrier,
        status: barrier.status,
        previous_status: status(previous)?,
        mode: barrier.mode,
        expected: barrier.expected,
        declared: barrier.declared,
        completed: barrier.completed,
        failed: barrier.failed,
        tolerated_failures: barrier.tolerated_failures,
        created_at: barrier.created_at,
        deadline: barrier.deadline,
        ended_at: barrier.ended_at.ok_or_else(|| bad("not the end of a barrier"))?,
        failed_participants,
        missing,
        truncated,
    };
    Ok((end, barrier.notify.into_iter().map(|target| target.url).collect()))
}

#[cfg(test)]
mod tests {
    use crate::store::events::read_bucket_entries;
    use redis::Value;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn an_entry_of_a_bucket_is_read_into_events_of_its_barriers() {
        let one = "failed\nopen\nimport\nfailed\nmembers\n4\n1\n2\n4\n1\n1000\n9000\n5000\n60000\nhttp://a/ http://b/\n\
                   \nd\nb \"lost\\n\u{fc}\"\nc";
        let other = "timed_out\nopen\nother\ntimed_out\ncount\n\n0\n1\n1\n\n1000\n5000\n5000\n60000\n\n1\n";
        let fields = vec![bulk("t"), bulk("5000"), bulk("e"), bulk(&format!("{one}\u{1e}{other}"))];
        let entry = Value::Array(vec![bulk("7-3"), Value::Array(fields)]);
        let mut read = read_bucket_entries(Value::Array(vec![entry])).expect("readable");
        let (_, events) = read.remove(0);
        let json = serde_json::to_value(&events).expect("JSON");
        assert_eq!(json[0]["source"], "/v1/barriers/import");
        assert_eq!(json[0]["type"], "dev.stockade.barrier.failed");
        assert_eq!((&json[0]["subject"], &json[0]["cursor"]), (&"import".into(), &"0-7-3-0".into()));
        assert_ne!(json[0]["id"], json[1]["id"]);
        let data = &json[0]["data"];
        assert_eq!(
            data["failed_participants"][0],
            serde_json::json!({"participant": "b", "note": "lost\n\u{fc}"})
        );
        assert_eq!(data["failed_participants"][1], serde_json::json!({"participant": "c", "note": null}));
        assert_eq!((&data["missing"][0], &data["truncated"]), (&"d".into(), &false.into()));
        assert_eq!(data["link"], "/v1/barriers/import/participants?status=missing");
        let urls: Vec<&str> = events[0].notify.iter().map(|url| url.as_str()).collect();
        assert_eq!(urls, ["http://a/", "http://b/"]);
        let data = &json[1]["data"];
        assert_eq!((&data["status"], &data["truncated"]), (&"timed_out".into(), &true.into()));
        assert!(data["link"].is_null() && data["expected"].is_null() && events[1].notify.is_empty());
    }
}
