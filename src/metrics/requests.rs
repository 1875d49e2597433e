//! Counters of HTTP: those of one route and method are made together, and found by status alone.

use super::{ORIGIN, catalogue, key};
use metrics::{Counter, Histogram, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Statuses that this service answers with, as label values.
const STATUSES: [(u16, &str); 21] = [
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (307, "307"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (412, "412"),
    (413, "413"),
    (415, "415"),
    (421, "421"),
    (422, "422"),
    (429, "429"),
    (500, "500"),
    (503, "503"),
];

/// Counters of one method of one route.
pub struct HttpMetrics {
    route: &'static str,
    method: &'static str,
    duration: OnceLock<Histogram>,
    requests: [OnceLock<Counter>; STATUSES.len()],
    recorder: Arc<PrometheusRecorder>,
}

impl HttpMetrics {
    pub(super) fn new(
        recorder: &Arc<PrometheusRecorder>,
        route: &'static str,
        method: &'static str,
        at_once: &[u16],
    ) -> Self {
        let metrics = Self {
            route,
            method,
            duration: OnceLock::new(),
            requests: [const { OnceLock::new() }; STATUSES.len()],
            recorder: Arc::clone(recorder),
        };
        for status in at_once {
            metrics.of_status(*status);
            metrics.duration();
        }
        metrics
    }

    /// A request was answered; one without a duration by a stream that has just begun.
    pub fn answered(&self, status: u16, duration: Option<Duration>) {
        if let Some(duration) = duration {
            self.duration().record(duration);
        }
        self.of_status(status).increment(1);
    }

    fn duration(&self) -> &Histogram {
        self.duration.get_or_init(|| {
            let labels = [("route", self.route), ("method", self.method)];
            self.recorder.register_histogram(&key(catalogue::HTTP_DURATION, &labels), &ORIGIN)
        })
    }

    fn of_status(&self, status: u16) -> &Counter {
        let known = STATUSES.iter().position(|(known, _)| *known == status);
        // A status outside the list is a fault of this service; it is counted as one.
        let place = known.unwrap_or(STATUSES.len() - 2);
        self.requests[place].get_or_init(|| {
            let labels = [("route", self.route), ("method", self.method), ("status", STATUSES[place].1)];
            self.recorder.register_counter(&key(catalogue::HTTP_REQUESTS, &labels), &ORIGIN)
        })
    }
}
