//! Bulk: many reservations in one call, each with its own answer.

use super::answer::{self, Answer, Done, STOCKADE_OUTCOME};
use super::body::Body;
use super::docs::ProblemDocument;
use super::extract::{At, Who};
use super::idempotency::Key;
use super::layer::CallLog;
use super::problem::{Code, Document, Problem};
use crate::domain::{Decision, Outcome, Refusal, Reservation, ReserveBulk, SaleId};
use crate::store::{Decided, Store};
use actix_web::http::StatusCode;
use actix_web::http::header::HeaderValue;
use actix_web::web::Data;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// Answers to the requests of one call, in their order.
#[derive(Serialize, ToSchema)]
pub struct BulkAnswer {
    results: Vec<BulkResult>,
}

/// What a call of its own would have been answered. Either `reservation` or `problem` is null.
#[derive(Serialize, ToSchema)]
pub struct BulkResult {
    /// Status of the answer.
    status: u16,
    /// What there is, where the status is 2xx.
    reservation: Option<Reservation>,
    /// Why there is none. Its fields are those of the request, its `instance` is the call's id, `#` and the place of
    /// the request.
    #[schema(value_type = Option<ProblemDocument>)]
    problem: Option<Placed>,
}

/// A problem and its `instance`.
struct Placed(Problem, String);

impl Serialize for Placed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document { problem: &self.0, instance: &self.1 }.serialize(serializer)
    }
}

const ROUTE: &str = "/v1/sales/{sale}/reservations/bulk";

/// Reserve for many requests in one call
///
/// Each is decided by itself and has the answer that a call of its own would have had: one refusal changes nothing for
/// the others. A request without `idempotency_key` has one made from the header's key and its place, so a repeat of
/// the whole call is safe; without either it is not. A request with status 503 may be sent again with the same key, the
/// others are answered. When the body is wrong anywhere, nothing is done. A call goes on to its end even if its client
/// goes away. `Stockade-Outcome` is `held` if any hold was made; else `outcome_unknown` if that is the outcome of any;
/// else `replayed` if all were repeats, and `unchanged` if not.
#[utoipa::path(
    post, path = "/v1/sales/{sale}/reservations/bulk", operation_id = "reserve_bulk", tag = "Reservations",
    params(("sale" = SaleId, Path, description = "Name of the sale")),
    request_body = ReserveBulk,
    responses((status = 200, description = "An answer to each request", body = BulkAnswer)),
)]
pub async fn reserve_bulk(
    store: Data<Store>,
    At(sale): At<SaleId>,
    Who(caller): Who,
    Key(key): Key,
    log: CallLog,
    Body(ReserveBulk { requests }): Body<ReserveBulk>,
) -> Answer {
    let decided = store.reserve_bulk(sale, caller, key, requests).await;
    if decided.iter().all(|one| matches!(one, Ok(Decision::Refused(Refusal::UnknownSale)))) {
        return Err(Problem::new(Code::UnknownSale));
    }
    let outcome = outcome(&decided);
    let results: Vec<BulkResult> =
        decided.into_iter().enumerate().map(|(place, one)| result(place, one, &log)).collect();
    let mut answer = answer::json(StatusCode::OK, &BulkAnswer { results })?;
    match outcome {
        Whole::Done(outcome) => answer::say_outcome(&mut answer, outcome),
        Whole::Unknown => {
            let unknown = HeaderValue::from_static(Code::OutcomeUnknown.as_str());
            answer.headers_mut().insert(STOCKADE_OUTCOME, unknown);
        }
    }
    Ok(answer)
}

fn result(place: usize, decided: Decided<Reservation>, log: &CallLog) -> BulkResult {
    match answer::done(decided) {
        Ok(Done { outcome, value }) => {
            let status = if outcome == Outcome::Replayed { StatusCode::OK } else { StatusCode::CREATED };
            BulkResult { status: status.as_u16(), reservation: Some(value), problem: None }
        }
        Err(problem) => {
            let (status, instance) = (problem.code().status(), format!("{}#{place}", log.id()));
            if status >= 500 {
                log.say(&instance, ROUTE, &problem);
            }
            BulkResult { status, reservation: None, problem: Some(Placed(problem, instance)) }
        }
    }
}

/// How the whole call went.
enum Whole {
    Done(Outcome),
    Unknown,
}

fn outcome(decided: &[Decided<Reservation>]) -> Whole {
    let is = |wanted: Outcome| move |one: &Decided<_>| matches!(one, Ok(Decision::Done(outcome, _)) if *outcome == wanted);
    let is_unknown =
        |one: &Decided<_>| matches!(one, Err(error) if Code::from(error).outcome() == Some("unknown"));
    if decided.iter().any(is(Outcome::Held)) {
        Whole::Done(Outcome::Held)
    } else if decided.iter().any(is_unknown) {
        Whole::Unknown
    } else if decided.iter().all(is(Outcome::Replayed)) {
        Whole::Done(Outcome::Replayed)
    } else {
        Whole::Done(Outcome::Unchanged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;
    use serde_json::{Value, json};

    #[test]
    fn a_call_has_one_word_for_all_of_it() {
        let word = |decided: &[Decided<Reservation>]| match outcome(decided) {
            Whole::Done(outcome) => outcome.as_str(),
            Whole::Unknown => "outcome_unknown",
        };
        let refused = || Ok(Decision::Refused(Refusal::SalePaused));
        let unknown = || Err(StoreError::Unknown("lost".into()));
        assert_eq!(word(&[refused(), Err(StoreError::NotApplied("queue_full"))]), "unchanged");
        assert_eq!(word(&[refused(), unknown()]), "outcome_unknown");
    }

    #[test]
    fn a_result_is_as_a_call_of_its_own() {
        let log = CallLog::for_test("req-7");
        let full = result(3, Err(StoreError::NotApplied("queue_full")), &log);
        let full: Value = serde_json::to_value(full).expect("JSON");
        assert_eq!((&full["status"], &full["reservation"]), (&json!(503), &Value::Null));
        let problem = &full["problem"];
        assert_eq!(
            [
                &problem["code"],
                &problem["status"],
                &problem["retryable"],
                &problem["outcome"],
                &problem["instance"]
            ],
            [&json!("queue_full"), &json!(503), &json!(true), &json!("not_applied"), &json!("req-7#3")]
        );
    }
}
