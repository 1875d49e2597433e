//! The demos end as README says: with balanced books, and with nothing lost beside Stockade's name.

use crate::sandbox::{Sandbox, own_address};
use std::path::Path;
use std::process::Command;

fn run(script: &str, args: &[&str]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(script);
    let done = Command::new("python3")
        .arg(path)
        .args(args)
        .env("STOCKADE_BINARY", env!("CARGO_BIN_EXE_stockade"))
        .output()
        .unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    said
}

#[test]
fn the_demo_ends_with_balanced_books() {
    let said = run("demo.py", &["--shoppers", "400", "--seed", "1"]);
    assert!(said.contains("The books") && said.contains("the books balance"), "{said}");
}

#[test]
fn thirty_lines_lose_units_and_stockade_none() {
    let said = run("demo_lua.py", &["--seed", "7"]);
    let lost = |name: &str| -> i64 {
        let row = said.lines().find(|line| line.starts_with(name)).unwrap();
        row.split_whitespace().last().unwrap().parse().unwrap()
    };
    assert!(lost("thirty lines") > 0, "{said}");
    assert_eq!(lost("Stockade"), 0, "{said}");
    assert!(said.contains("the books balance"), "{said}");
}

#[test]
fn a_cluster_lives_as_long_as_what_runs_on_it() {
    let sandbox = Sandbox::new();
    let (folder, first) = (sandbox.path().to_str().unwrap(), format!("{}:7001", own_address().ip()));
    let options = ["--folder", folder, "--first", &first];
    let tried = format!(r#"{} audit && echo "on $STOCKADE_REDIS_URL""#, env!("CARGO_BIN_EXE_stockade"));
    // The second time the servers are those of the first.
    for _ in 0..2 {
        let said = run("cluster.py", &[&options[..], &["sh", "-c", &tried]].concat());
        assert!(said.contains("the books balance"), "{said}");
        assert!(said.contains(&format!("on redis+cluster://{first},")), "{said}");
        assert!(sandbox.pids().is_empty());
    }
}
