//! The keys file is read again while the service runs.

use super::Keyring;
use crate::redis_server::RedisServer;
use crate::sandbox::eventually;
use crate::service::{Service, ServiceOptions, failed_start};
use stockade::domain::Scope;

const BROKEN: &str = "THE KEYS FILE IS BROKEN";

async fn status(service: &Service, token: &str) -> u16 {
    service.api().with_token(token).get("/v1/sales").await.status
}

#[tokio::test]
async fn keys_come_and_go_and_a_broken_file_changes_nothing() {
    let keyring = Keyring::new();
    let first = keyring.add("first", Scope::Operator, &[]);
    let redis = RedisServer::start();
    let options = ServiceOptions {
        redis_url: Some(redis.url()),
        args: keyring.flags().to_vec(),
        ..ServiceOptions::default()
    };
    let service = Service::with(options).await;
    assert_eq!(status(&service, &first).await, 200);

    let second = keyring.add("second", Scope::Operator, &[]);
    eventually("a new key is in force", async || status(&service, &second).await == 200).await;
    keyring.revoke("first");
    eventually("a revoked key is refused", async || status(&service, &first).await == 401).await;

    // Broken in place, as an editor might; then gone; then a folder. Each is said, and the old keys stay.
    let good = std::fs::read(keyring.path()).unwrap();
    let is_said = async |times: usize| {
        eventually("it is said", async || service.log().matches(BROKEN).count() >= times).await;
        assert_eq!(status(&service, &second).await, 200);
        assert_eq!(status(&service, &first).await, 401);
    };
    std::fs::write(keyring.path(), &good[..good.len() / 2]).unwrap();
    is_said(1).await;
    std::fs::remove_file(keyring.path()).unwrap();
    is_said(2).await;
    std::fs::create_dir(keyring.path()).unwrap();
    is_said(3).await;
    assert!(!service.log().contains(second.split_once('.').unwrap().1), "no secret in the log");

    // Mended, with another key.
    std::fs::remove_dir(keyring.path()).unwrap();
    std::fs::write(keyring.path(), &good).unwrap();
    let third = keyring.add("third", Scope::Operator, &[]);
    eventually("the mended file is in force", async || status(&service, &third).await == 200).await;
    assert_eq!(status(&service, &second).await, 200);

    // Without any key nobody is let in: it does not fall open.
    keyring.revoke("second");
    keyring.revoke("third");
    eventually("nobody is let in", async || status(&service, &third).await == 401).await;
    service.api().get("/v1/sales").await.expect(401, "unauthorized");
}

/// Same length, same times: only the text tells.
#[tokio::test]
async fn a_change_that_no_time_shows_is_seen() {
    let keyring = Keyring::new();
    let token = keyring.add("boss", Scope::Operator, &[]);
    let service = keyring.service();
    let api = service.api.with_token(&token);
    api.get("/v1/sales").await.expect(200, "");
    let text = std::fs::read_to_string(keyring.path()).unwrap();
    let file = std::fs::File::options().write(true).open(keyring.path()).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    let other_id = text.replace(token.split_once('.').unwrap().0, "0123456789abcdef");
    std::os::unix::fs::FileExt::write_all_at(&file, other_id.as_bytes(), 0).unwrap();
    file.set_modified(modified).unwrap();
    eventually("the key is gone", async || api.get("/v1/sales").await.status == 401).await;
}

#[tokio::test]
async fn a_service_does_not_start_without_its_keys() {
    let keyring = Keyring::new();
    let start = |path: &std::path::Path| {
        let args = ["--keys-file".to_owned(), path.to_str().unwrap().to_owned()];
        let start = move || failed_start("/nonexistent".as_ref(), &args.each_ref().map(String::as_str));
        tokio::task::spawn_blocking(start)
    };
    let (status, said) = start(&keyring.folder.path().join("nothing.json")).await.unwrap();
    assert!(!status.success() && said.contains("nothing.json cannot be read"), "{said}");
    std::fs::write(keyring.path(), "{}").unwrap();
    let (status, said) = start(&keyring.path()).await.unwrap();
    assert!(!status.success() && said.contains("is not one") && said.contains("missing field"), "{said}");
}

#[tokio::test]
async fn with_keys_any_address_is_served() {
    let keyring = Keyring::new();
    let token = keyring.add("boss", Scope::Operator, &[]);
    let service = keyring.service_with(&["--listen", "0.0.0.0:0"]);
    service.api.get("/v1/sales").await.expect(401, "unauthorized");
    service.api.with_token(&token).get("/v1/sales").await.expect(200, "");
}
