//! What operators ask for: probes, metrics, pages.

use crate::sandbox::eventually;
use crate::service::{InProcess, Sale, document, lines, shared_api};
use serde_json::json;
use std::collections::BTreeSet;

const RANDOM_PATHS: usize = 10_000;

#[tokio::test]
async fn probes_answer() {
    let api = shared_api();
    assert_eq!(api.get("/livez").await.expect(200, "").body, json!({"status": "alive"}));
    assert_eq!(api.get("/readyz").await.expect(200, "").body, json!({"status": "ready"}));
    for path in ["/livez", "/readyz"] {
        let answer = api.call("HEAD", path).send().await;
        assert_eq!((answer.status, answer.text.as_str()), (200, ""), "{path}");
    }
}

#[tokio::test]
async fn every_metric_has_its_help_and_type() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 1).await;
    sale.take(2).await;
    sale.hold(1).await;
    let answer = service.api.get("/metrics").await.expect(200, "");
    assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
    let of = |kind: &str| -> BTreeSet<String> {
        let lines = answer.text.lines().filter_map(|line| line.strip_prefix(kind));
        lines.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let (help, types) = (of("# HELP "), of("# TYPE "));
    assert_eq!(help, types);
    for (series, value) in service.api.metrics().await {
        let name = series.split('{').next().unwrap();
        let base =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(help.contains(name) || help.contains(base), "{name} has no help");
        let is_ours = name.starts_with("stockade_") || name.starts_with("process_");
        assert!(is_ours && value.is_finite(), "{series} {value}");
    }
    let counted = |verb: &str, outcome: &str| {
        let series = format!("stockade_reservations_total{{verb=\"{verb}\",outcome=\"{outcome}\"}}");
        answer.text.lines().any(|line| line == format!("{series} 1"))
    };
    assert!(counted("reserve", "held") && counted("reserve", "sold_out"), "{}", answer.text);
    let zero = "stockade_reservations_total{verb=\"confirm\",outcome=\"confirmed\"} 0";
    assert!(answer.text.contains(zero), "counters exist at 0");
}

#[tokio::test]
async fn no_client_makes_series() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 1).await;
    let names = |series: Vec<(String, f64)>| -> BTreeSet<String> {
        series.into_iter().map(|(name, _)| name).collect()
    };
    let hit = async |n: usize| {
        let path = match n % 5 {
            0 => format!("/x{n}"),
            1 => format!("/v1/sales/s{n}"),
            2 => format!("/v1/sales/s{n}/stock/k{n}"),
            3 => sale.at(&format!("/reservations/r{n}")),
            _ => format!("/problems/p{n}?q={n}"),
        };
        let method = ["GET", "DELETE", "PATCH", "BREW"][n % 4];
        service.api.call(method, &path).send().await;
    };
    // Each kind of path with each method once; then all the others.
    for n in 0..20 {
        hit(n).await;
    }
    sale.reserve("k", lines(&[("nothing", 1)])).await;
    // What workers see comes when they have looked.
    let watched = format!("stockade_sale_units{{sale=\"{}\",state=\"held\"}}", sale.name);
    let seen = [watched.as_str(), "stockade_webhook_backlog"];
    eventually("all workers have looked", async || {
        let names = names(service.api.metrics().await);
        seen.iter().all(|name| names.contains(*name))
    })
    .await;
    let before = names(service.api.metrics().await);
    for from in (20..RANDOM_PATHS).step_by(50) {
        futures_util::future::join_all((from..from + 50).map(&hit)).await;
    }
    for n in 0..50 {
        sale.reserve(&format!("k{n}"), lines(&[(&format!("sku{n}"), 1)])).await.expect(404, "unknown_sku");
    }
    let after = names(service.api.metrics().await);
    assert_eq!(after.difference(&before).next(), None);
}

#[tokio::test]
async fn the_page_of_the_api_needs_no_other_host() {
    let api = shared_api();
    assert_eq!(api.get("/docs").await.expect(307, "").header("location"), "/docs/");
    let page = api.get("/docs/").await.expect(200, "");
    assert!(page.header("content-type").starts_with("text/html"));
    let attributes = page.text.split(['"', '\'']).skip(1).step_by(2);
    let files: Vec<&str> =
        attributes.filter(|text| text.ends_with(".js") || text.ends_with(".css")).collect();
    assert!(files.len() >= 2, "{}", page.text);
    for file in &files {
        let file = file.trim_start_matches("./");
        assert!(!file.contains("//"), "{file} is elsewhere");
        api.get(&format!("/docs/{file}")).await.expect(200, "");
    }
    assert!(!page.text.contains("http://") && !page.text.contains("https://"), "{}", page.text);
    let initializer = api.get("/docs/swagger-initializer.js").await.expect(200, "").text;
    assert!(initializer.contains("/openapi.json"), "{initializer}");
    assert!(!initializer.contains("http"), "{initializer}");
    api.get("/docs/nothing.js").await.expect(404, "not_found");
    api.get("/docs/..%2f..%2fCargo.toml").await.expect(404, "not_found");
}

#[tokio::test]
async fn every_problem_has_its_page() {
    let api = shared_api();
    let all = api.get("/problems").await.expect(200, "").body;
    for problem in all.as_array().unwrap() {
        let page = api.get(&format!("/problems/{}", problem["code"].as_str().unwrap())).await.expect(200, "");
        assert_eq!(&page.body, problem);
    }
    assert!(document()["components"]["schemas"]["ProblemType"].is_object());
}
