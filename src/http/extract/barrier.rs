//! What is asked of barriers.

use super::{Parameters, QueryParameters, number};
use crate::domain::page::{is_arrival_cursor, is_name_cursor};
use crate::domain::{BarrierId, BarrierStatus, PageRequest, ParticipantFilter};
use crate::http::problem::Problem;
use crate::store::BarrierFilter;

/// Longest wait of one call: below the idle time of usual load balancers.
const WAIT_SECONDS_MAX: u64 = 50;
const WAIT_SECONDS_DEFAULT: u64 = 30;

/// Which barriers.
pub struct BarrierList(pub BarrierFilter, pub PageRequest);

impl QueryParameters for BarrierList {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        let status = match parameters.take("status") {
            Some(word) => Some(BarrierStatus::from_word(&word).ok_or_else(|| {
                Problem::invalid("status", "must be open, completed, failed, timed_out or cancelled")
            })?),
            None => None,
        };
        let prefix = parameters.take("prefix").unwrap_or_default();
        if !prefix.is_empty() && prefix.parse::<BarrierId>().is_err() {
            return Err(Problem::invalid("prefix", "must be the beginning of a name"));
        }
        let page = PageRequest::take(parameters)?;
        page.check(is_name_cursor)?;
        Ok(Self(BarrierFilter { status, prefix }, page))
    }
}

/// Which participants.
pub struct ParticipantList(pub ParticipantFilter, pub PageRequest);

impl QueryParameters for ParticipantList {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        let word = parameters.take("status");
        let filter = ParticipantFilter::from_word(word.as_deref().unwrap_or("missing"));
        let filter =
            filter.ok_or_else(|| Problem::invalid("status", "must be missing, arrived or failed"))?;
        let page = PageRequest::take(parameters)?;
        page.check(match filter {
            ParticipantFilter::Missing => is_name_cursor,
            ParticipantFilter::Arrived | ParticipantFilter::Failed => is_arrival_cursor,
        })?;
        Ok(Self(filter, page))
    }
}

/// How long to wait.
pub struct WaitSeconds(pub u64);

impl QueryParameters for WaitSeconds {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        let Some(text) = parameters.take("seconds") else { return Ok(Self(WAIT_SECONDS_DEFAULT)) };
        let read = number(&text).filter(|seconds| *seconds <= WAIT_SECONDS_MAX);
        read.map(Self).ok_or_else(|| Problem::invalid("seconds", "must be an integer from 0 to 50"))
    }
}
