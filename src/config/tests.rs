//! Which options there are, and which are refused.

use super::*;
use clap::CommandFactory;

fn config(arguments: &[&str]) -> Result<Config, clap::Error> {
    Config::try_parse_from(std::iter::once(&"stockade").chain(arguments))
}

#[test]
fn the_command_line_is_sound_and_every_flag_has_a_variable() {
    <Config as CommandFactory>::command().debug_assert();
    for argument in
        <Config as CommandFactory>::command().get_arguments().filter(|argument| argument.get_env().is_none())
    {
        assert!(["help", "version"].contains(&argument.get_id().as_str()), "{argument:?}");
    }
}

#[test]
fn serve_is_the_default_and_flags_stand_on_either_side() {
    assert_eq!(config(&[]).unwrap().command(), Command::Serve);
    let after = config(&["serve", "--listen", "127.0.0.1:0"]).unwrap();
    let before = config(&["--listen", "127.0.0.1:0", "serve"]).unwrap();
    assert_eq!((after.options.listen, after.command()), (before.options.listen, before.command()));
}

#[test]
fn an_address_is_open_if_others_can_reach_it() {
    let open = |arguments: &[&str]| config(arguments).unwrap().options.open_address();
    assert_eq!(open(&[]), None);
    assert_eq!(open(&["--listen", "[::1]:80", "--ops-listen", "127.0.0.9:81"]), None);
    assert_eq!(open(&["--listen", "0.0.0.0:80"]), "0.0.0.0:80".parse().ok());
    assert_eq!(open(&["--ops-listen", "[::]:81"]), "[::]:81".parse().ok());
}

#[test]
fn a_key_is_made_for_something() {
    let add = ["keys", "add", "shop", "--scope", "storefront,metrics", "--sales", "drop-*", "x"];
    let Command::Keys(KeysCommand::Add { name, scopes, sales }) = config(&add).unwrap().command() else {
        panic!("another command")
    };
    assert_eq!((name.as_str(), scopes), ("shop", vec![Scope::Storefront, Scope::Metrics]));
    assert_eq!(sales.iter().map(SalePattern::as_str).collect::<Vec<_>>(), ["drop-*", "x"]);
    for bad in [
        &["keys", "add", "shop"][..],
        &["keys", "add", "a b", "--scope", "metrics"],
        &["keys", "add", "shop", "--scope", "root"],
        &["keys", "add", "shop", "--scope", "metrics", "--sales", "[a]"],
    ] {
        assert!(config(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_rate_is_requests_and_seconds() {
    let rate = |text| {
        let rate = config(&["--rate-limit", text]).unwrap().options.rate_limit.unwrap();
        (rate.requests.get(), rate.seconds.get())
    };
    assert_eq!((rate("100"), rate("100/10")), ((100, 1), (100, 10)));
    assert_eq!((rate("1000000"), rate("1/86400")), ((1_000_000, 1), (1, 86_400)));
    assert_eq!(config(&[]).unwrap().options.rate_limit, None);
}

#[test]
fn a_wrong_url_is_not_shown() {
    for bad in [
        ["--redis-url", "redi://app:s3cret@cache"],
        ["--redis-url", "redis+sentinel://app:s3cret@a,b"],
        ["--lock-nodes", "redis://app:s3cret@a,redis://app:s3cret@b"],
    ] {
        let said = config(&bad).unwrap_err().to_string();
        assert!(said.contains(bad[0]) && said.contains("must") && !said.contains("s3cret"), "{said}");
    }
}

#[test]
fn wrong_options_stop_the_start() {
    for bad in [
        ["--drain-seconds", "0"],
        ["--pool-size", "0"],
        ["--log", "xml"],
        ["--listen", "here"],
        ["--redis-url", "localhost"],
        ["--redis-timeout-ms", "1"],
        ["--allowed-host", "http://shop"],
        ["--events-retention-seconds", "59"],
        ["--events-max", "999"],
        ["--metrics-sales-max", "10001"],
        ["--metrics-skus-max", "-1"],
        ["--lock-nodes", "redis://a,redis://b"],
        ["--rate-limit", "0"],
        ["--rate-limit", "-1"],
        ["--rate-limit", "+1"],
        ["--rate-limit", "1.5"],
        ["--rate-limit", "many"],
        ["--rate-limit", "1000001"],
        ["--rate-limit", "10/"],
        ["--rate-limit", "/10"],
        ["--rate-limit", "10/0"],
        ["--rate-limit", "10/86401"],
        ["--rate-limit", "10/1/1"],
        ["--rate-limit", "10/1s"],
    ] {
        assert!(config(&bad).is_err(), "{bad:?}");
    }
}
