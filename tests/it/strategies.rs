//! `examples/strategies`: what it says of each strategy is so in every run.

use crate::sandbox::{Sandbox, eventually_blocking, signal};
use crate::support::example_program;
use std::process::{Command, Output, Stdio};

/// The example; its servers live in the sandbox.
fn strategies(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = Command::new(example_program("strategies"));
    command.args(args).env("TMPDIR", sandbox.path()).stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> (Output, String) {
    let output = strategies(&Sandbox::new(), args).output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    (output, said)
}

/// Sold, oversold, and what the counter says.
fn row(said: &str, letter: char) -> [u32; 3] {
    let start = format!("{letter}  ");
    let row =
        said.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{letter}: {said}"));
    let numbers: Vec<&str> = row[start.len() + 30..].split_whitespace().collect();
    [0, 1, 2].map(|n| numbers[n].parse().unwrap_or_else(|_| panic!("{row}")))
}

#[test]
fn three_strategies_oversell_and_five_do_not() {
    let folder = Sandbox::new();
    let chart = folder.path().join("chart.svg");
    let (output, said) = run(&[
        "--stock=30",
        "--buyers=90",
        "--tasks=8",
        "--slow-every=10",
        "--seed=11",
        "--svg",
        chart.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Seed 11.") && said.contains("oversold  counter  purchases/s  retries"), "{said}");
    for letter in 'a'..='c' {
        let [sold, oversold, _] = row(&said, letter);
        assert!(oversold > 0 && sold == 30 + oversold, "{said}");
    }
    for letter in 'd'..='h' {
        assert_eq!(row(&said, letter), [30, 0, 30], "{said}");
    }
    // A document, with a bar for each.
    let count = "import sys, xml.dom.minidom as dom; \
                 print(len(dom.parse(sys.argv[1]).documentElement.getElementsByTagName('rect')))";
    let read = Command::new("python3").args(["-c", count]).arg(&chart).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), "8", "{read:?}");
    let chart = std::fs::read_to_string(&chart).unwrap();
    assert_eq!(chart.matches(" oversold</tspan>").count(), 3, "{chart}");
}

/// One task alone has nobody who comes between, so a does not oversell: then the table is not what it should show.
#[test]
fn a_table_that_is_not_as_said_is_a_failure() {
    let (output, said) = run(&["--only=a", "--tasks=1", "--stock=2", "--buyers=3", "--slow-every=2"]);
    assert_eq!(row(&said, 'a'), [2, 0, 2], "{said}");
    assert!(said.contains("NOT AS SAID: a ") && !said.contains("As said"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn options_that_show_nothing_are_refused_by_name() {
    for (args, named) in [
        (&["--buyers=5", "--stock=5"][..], "--buyers must be larger than --stock"),
        (&["--slow-every=200", "--stock=199"], "--slow-every must not be larger than --stock"),
        (&["--only=a,x"], "--only"),
        (&["--tasks=0"], "--tasks"),
    ] {
        let (output, said) = run(args);
        assert!(!output.status.success() && said.contains(named), "{said}");
    }
}

#[test]
fn its_servers_end_with_it() {
    let sandbox = Sandbox::new();
    let mut child = strategies(&sandbox, &["--only=b"]).stdout(Stdio::null()).spawn().unwrap();
    // The four servers; the processes of b are not in the sandbox.
    eventually_blocking("the servers run", || sandbox.pids().len() >= 4);
    signal("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(sandbox.pids(), [0; 0]);
}
