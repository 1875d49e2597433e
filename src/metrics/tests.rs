//! That the page says what was counted.

use super::*;

#[test]
fn counters_are_there_before_anything_happened() {
    let metrics = Metrics::new().expect("buckets are legal");
    let _http = metrics.http("/v1/sales/{sale}", "PUT", 201);
    let page = metrics.render();
    for line in [
        "stockade_reservations_total{verb=\"reserve\",outcome=\"sold_out\"} 0",
        "stockade_reservation_units_total{transition=\"held\"} 0",
        "stockade_redis_errors_total{kind=\"outcome_unknown\"} 0",
        "stockade_http_requests_total{route=\"/v1/sales/{sale}\",method=\"PUT\",status=\"503\"} 0",
        "stockade_redis_up 0",
    ] {
        assert!(page.lines().any(|there| there == line), "{line}\n{page}");
    }
    for metric in METRICS {
        assert!(page.contains(&format!("# HELP {} {}\n", metric.name, metric.help())), "{}", metric.name);
    }
}

#[test]
fn words_outside_the_closed_sets_make_no_series() {
    let metrics = Metrics::new().expect("buckets are legal");
    let series = metrics.render().lines().count();
    metrics.reservation("reserve", "a word of tomorrow");
    metrics.redis_error("moon phase");
    assert_eq!(metrics.render().lines().count(), series);
    assert!(metrics.render().contains("stockade_reservations_total{verb=\"reserve\",outcome=\"other\"} 1"));
}

#[test]
fn histograms_have_buckets_and_counters_count() {
    let metrics = Metrics::new().expect("buckets are legal");
    let http = metrics.http("/livez", "GET", 200);
    http.answered(200, Some(Duration::from_micros(700)));
    http.answered(599, Some(Duration::from_secs(60)));
    metrics.upkeep();
    let page = metrics.render();
    let bucket =
        "stockade_http_request_duration_seconds_bucket{route=\"/livez\",method=\"GET\",le=\"0.001\"} 1";
    assert!(page.contains(bucket), "{page}");
    assert!(page.contains("stockade_http_requests_total{route=\"/livez\",method=\"GET\",status=\"500\"} 1"));
}
