//! Where a feed of events begins.

use super::{Parameters, Query, QueryParameters, limit};
use crate::http::problem::Problem;
use crate::store::EventsAfter;
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use std::future::{Ready, ready};

fn events_after(text: &str, field: &str) -> Result<EventsAfter, Problem> {
    match text {
        "latest" => Ok(EventsAfter::Latest),
        text => text
            .parse()
            .map(EventsAfter::Cursor)
            .map_err(|()| Problem::invalid(field, "must be `latest` or the cursor of an event")),
    }
}

/// Which events are asked for.
pub struct Feed {
    /// Where it begins.
    pub after: EventsAfter,
    /// At most so many.
    pub limit: usize,
}

impl QueryParameters for Feed {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        let limit = limit(parameters)?;
        let after = parameters.take_after().map(|text| events_after(&text, "after")).transpose()?;
        Ok(Self { after: after.unwrap_or(EventsAfter::Oldest), limit })
    }
}

/// Where a stream of events begins: `Last-Event-ID` wins over `after`, because a client that comes back sends both.
pub struct LiveFrom(pub EventsAfter);

struct LiveQuery(Option<String>);

impl QueryParameters for LiveQuery {
    fn take(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self(parameters.take_after()))
    }
}

impl FromRequest for LiveFrom {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        const FIELD: &str = "Last-Event-ID";
        let query = Query::<LiveQuery>::from_request(request, payload).into_inner();
        ready(query.and_then(|Query(LiveQuery(after))| {
            let header = request.headers().get(FIELD).filter(|value| !value.is_empty());
            match (header.map(|value| value.to_str().unwrap_or_default()), after) {
                (Some(text), _) => events_after(text, FIELD),
                (None, Some(text)) => events_after(&text, "after"),
                (None, None) => Ok(EventsAfter::Latest),
            }
            .map(Self)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: QueryParameters>(query: &str) -> Result<T, Problem> {
        Parameters::read(query).and_then(|mut parameters| T::take(&mut parameters))
    }

    #[test]
    fn a_feed_begins_at_a_cursor_or_at_an_end() {
        assert!(matches!(read("after=latest"), Ok(Feed { after: EventsAfter::Latest, .. })));
        assert!(matches!(
            read("after=9f3c-1764518400000-3-17"),
            Ok(Feed { after: EventsAfter::Cursor(_), .. })
        ));
        assert!(matches!(read("limit=7"), Ok(Feed { after: EventsAfter::Oldest, limit: 7 })));
        assert!(read::<Feed>("after=yesterday").is_err());
    }
}
