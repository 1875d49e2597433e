//! `stockade keys`, as one types it.

use crate::sandbox::Sandbox;
use crate::service::program;
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Output, Stdio};
use stockade::api_keys::ApiKeys;
use stockade::domain::Scope;

const TOGETHER: usize = 8;

struct Shell(Sandbox);

impl Shell {
    fn new() -> Self {
        Self(Sandbox::new())
    }

    fn spawn(&self, line: &str) -> Child {
        let mut command = program(self.0.path());
        command.env("STOCKADE_KEYS_FILE", "keys.json").arg("keys").args(line.split(' '));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn run(&self, line: &str) -> Output {
        self.spawn(line).wait_with_output().unwrap()
    }

    /// What it prints on standard output.
    #[track_caller]
    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it complains about.
    #[track_caller]
    fn fails(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(!output.status.success() && output.stdout.is_empty(), "{line}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.0.path().join("keys.json")).unwrap()
    }

    fn keys(&self) -> ApiKeys {
        ApiKeys::open(&self.0.path().join("keys.json")).unwrap()
    }
}

#[test]
fn a_key_is_made_listed_and_revoked() {
    let shell = Shell::new();
    let token = shell.ok("add shop --scope storefront --scope metrics --sales drop-* x.eu");
    let token = token.trim_end();
    let (id, secret) = token.split_once('.').unwrap();
    assert!(!shell.text().contains(secret), "only its hash is kept");

    let key = shell.keys().find(token).unwrap();
    assert_eq!((key.caller.name(), key.scopes()), ("shop", &[Scope::Storefront, Scope::Metrics][..]));
    for (sale, is_seen) in [("drop-1", true), ("x.eu", true), ("shop", false)] {
        assert_eq!(key.caller.may_see(&sale.parse().unwrap()), is_seen, "{sale}");
    }
    let boss = shell.ok("add boss --scope operator");
    assert!(shell.keys().find(boss.trim_end()).unwrap().caller.may_see_all());

    let list = shell.ok("list");
    let row = list.lines().find(|line| line.starts_with(id)).unwrap();
    for word in ["shop", "storefront,metrics", "drop-*,x.eu"] {
        assert!(row.contains(word), "{list}");
    }
    let column = |line: &str, word: &str| line.find(word).unwrap();
    let head = list.lines().next().unwrap();
    assert_eq!(column(head, "SALES"), column(row, "drop-*"), "{list}");
    assert!(!list.contains(secret) && list.lines().count() == 3, "{list}");

    assert!(shell.fails("add shop --scope operator").contains("there is a key named shop"));
    shell.ok("revoke shop");
    assert!(shell.keys().find(token).is_none() && shell.keys().find(boss.trim_end()).is_some());
    assert!(shell.fails("revoke shop").contains("there is no key named shop"));
    let anew = shell.ok("add shop --scope storefront");
    assert_ne!(anew.trim_end(), token);
}

#[test]
fn a_key_is_rotated_with_both_in_force_for_a_while() {
    let shell = Shell::new();
    let old = shell.ok("add shop --scope storefront --sales drop-*");
    let new = shell.ok("rotate shop");
    let (old, new) = (old.trim_end(), new.trim_end());
    let keys = shell.keys();
    let [first, second] = [old, new].map(|token| keys.find(token).unwrap());
    assert_eq!((first.caller.name(), first.scopes()), (second.caller.name(), second.scopes()));
    assert!(!second.caller.may_see(&"x".parse().unwrap()));
    let id = old.split_once('.').unwrap().0;
    shell.ok(&format!("revoke shop --id {id}"));
    assert!(shell.keys().find(old).is_none() && shell.keys().find(new).is_some());
    assert!(shell.fails(&format!("revoke shop --id {id}")).contains("no key"));
    assert!(shell.fails("rotate nobody").contains("there is no key named nobody"));
}

#[test]
fn the_file_is_its_owners_alone_and_is_replaced_as_a_whole() {
    let shell = Shell::new();
    let path = shell.0.path().join("keys.json");
    let state = || {
        let metadata = std::fs::metadata(&path).unwrap();
        (metadata.permissions().mode() & 0o7777, metadata.ino())
    };
    shell.ok("add one --scope operator");
    let (mode, inode) = state();
    assert_eq!(mode, 0o600);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    // A reader that has it open goes on reading the old one.
    let reader = std::fs::File::open(&path).unwrap();
    shell.ok("add two --scope operator");
    let (mode, second) = state();
    assert_eq!(mode, 0o600);
    assert_ne!(inode, second);
    assert_eq!(reader.metadata().unwrap().ino(), inode);
    let left: Vec<_> =
        std::fs::read_dir(shell.0.path()).unwrap().flatten().map(|file| file.file_name()).collect();
    assert_eq!(left, ["keys.json"], "nothing else is left behind");
}

#[test]
fn commands_at_once_lose_no_key() {
    let shell = Shell::new();
    let children: Vec<_> = (0..TOGETHER).map(|n| shell.spawn(&format!("add k{n} --scope metrics"))).collect();
    let tokens: BTreeSet<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    assert_eq!(tokens.len(), TOGETHER);
    let keys = shell.keys();
    assert!(tokens.iter().all(|token| keys.find(token.trim_end()).is_some()));
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let shell = Shell::new();
    for line in ["list", "revoke a"] {
        let mut command = program(shell.0.path());
        let output = command.arg("keys").args(line.split(' ')).output().unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("STOCKADE_KEYS_FILE"), "{output:?}");
    }
    for line in
        ["add a", "add a --scope root", "add a.b/c --scope metrics", "add a --scope metrics --sales [a]"]
    {
        shell.fails(line);
    }
    assert!(!shell.0.path().join("keys.json").exists());
    std::fs::write(shell.0.path().join("keys.json"), "{\"keys\": [").unwrap();
    for line in ["add a --scope metrics", "revoke a", "rotate a", "list"] {
        assert!(shell.fails(line).contains("keys.json is not a keys file"), "{line}");
    }
    assert_eq!(shell.text(), "{\"keys\": [");
}
