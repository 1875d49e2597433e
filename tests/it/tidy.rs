//! The style of the project, where a test can tell.

mod lua;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 300;

/// Files that are longer for now: whoever touches one takes a piece out of it.
const TOO_LONG: [&str; 1] = ["src/store/reply.rs"];

/// What the modules of the crate may use of each other.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("domain", &[]),
    ("embedded_redis", &[]),
    ("trace", &[]),
    ("metrics", &[]),
    ("config", &["domain"]),
    ("telemetry", &["config", "trace"]),
    ("store", &["domain", "metrics", "trace"]),
    ("audit_command", &["domain", "store"]),
    ("api_keys", &["config", "domain"]),
    ("keys_command", &["api_keys", "config", "domain"]),
    ("webhooks", &["domain", "trace"]),
    ("workers", &["api_keys", "domain", "metrics", "store", "webhooks"]),
    ("http", &["api_keys", "config", "domain", "metrics", "store", "trace", "webhooks"]),
    (
        "app",
        &[
            "api_keys",
            "config",
            "domain",
            "embedded_redis",
            "http",
            "metrics",
            "store",
            "telemetry",
            "trace",
            "webhooks",
            "workers",
        ],
    ),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files of a folder whose names end so, by their path below the project.
fn files(folder: &str, end: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(end) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

/// Without comments.
fn code_of(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The words that follow `start`, where it begins a path; all of a list in braces.
fn words_after<'a>(code: &'a str, start: &str) -> Vec<&'a str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let places = code.match_indices(start).filter(|(at, _)| !code[..*at].ends_with(is_word));
    let mut words = Vec::new();
    for (at, _) in places {
        let rest = &code[at + start.len()..];
        let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or(rest);
        let items: Vec<&str> = if rest.starts_with('{') { list.split(',').collect() } else { vec![list] };
        words.extend(
            items.into_iter().map(|item| item.trim().split(|c| !is_word(c)).next().unwrap_or_default()),
        );
    }
    words
}

fn module_of(path: &str) -> &str {
    let path = path.strip_prefix("src/").unwrap();
    path.split(['/', '.']).next().unwrap()
}

#[test]
fn modules_use_each_other_one_way() {
    for (path, source) in files("src", ".rs") {
        let module = module_of(&path);
        if module == "lib" || module == "main" {
            continue; // on top of all
        }
        let (_, allowed) =
            MAY_USE.iter().find(|(name, _)| *name == module).unwrap_or_else(|| panic!("{path} is new"));
        let code = code_of(&source);
        let used = ["crate::", "stockade::"].map(|start| words_after(&code, start)).concat();
        for used in used.into_iter().filter(|used| MAY_USE.iter().any(|(name, _)| name == used)) {
            assert!(used == module || allowed.contains(&used), "{path} uses {used}");
        }
        if path == format!("src/{module}.rs") {
            for used in words_after(&code, "super::") {
                assert!(
                    !MAY_USE.iter().any(|(name, _)| *name == used && !allowed.contains(name)),
                    "{path}: {used}"
                );
            }
        }
    }
}

#[test]
fn only_the_store_knows_redis_and_only_http_knows_actix() {
    for (path, source) in files("src", ".rs") {
        let (module, code) = (module_of(&path), code_of(&source));
        let uses = |name: &str| !words_after(&code, name).is_empty();
        assert!(!uses("redis::") || ["store", "embedded_redis"].contains(&module), "{path} uses redis");
        assert!(!uses("actix_web::") || ["http", "app", "main"].contains(&module), "{path} uses actix_web");
        assert!(!uses("bb8_redis::") || module == "store", "{path} uses bb8");
    }
}

#[test]
fn no_file_is_dead() {
    let sources = files("src", ".rs");
    let mut reached: BTreeSet<String> = ["src/lib.rs", "src/main.rs"].map(String::from).into();
    let mut open: Vec<String> = reached.iter().cloned().collect();
    while let Some(path) = open.pop() {
        let folder = match path.as_str() {
            "src/lib.rs" | "src/main.rs" => "src".to_owned(),
            path => path.strip_suffix(".rs").unwrap().to_owned(),
        };
        let modules = sources[&path].lines().filter_map(|line| {
            let line = line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            line.strip_prefix("mod ")?.strip_suffix(';')
        });
        for module in modules {
            let file = format!("{folder}/{module}.rs");
            assert!(sources.contains_key(&file), "{path}: {file}");
            if reached.insert(file.clone()) {
                open.push(file);
            }
        }
    }
    let dead: Vec<&String> = sources.keys().filter(|path| !reached.contains(*path)).collect();
    assert!(dead.is_empty(), "no `mod` names {dead:?}");
    let scripts = &sources["src/store/scripts.rs"];
    for path in files("lua", ".lua").keys() {
        let name = Path::new(path).with_extension("");
        let named = match path.contains("/shared/") {
            true => format!("(\"{}\", include_str!", name.file_name().unwrap().to_str().unwrap()),
            false => format!("= \"{}\",", name.to_str().unwrap().trim_start_matches("lua/")),
        };
        assert!(scripts.contains(&named), "src/store/scripts.rs does not name {path}");
    }
}

#[test]
fn files_are_short_enough_to_read() {
    let mut all = files("src", ".rs");
    for folder in ["lua/barrier", "lua/reservation", "lua/sale", "lua/webhook"] {
        all.extend(files(folder, ".lua"));
    }
    for (path, source) in all {
        let lines = source.lines().count();
        match TOO_LONG.contains(&path.as_str()) {
            true => assert!(lines > LINES_MAX, "{path} is short now: take it off the list"),
            false => assert!(lines <= LINES_MAX, "{path} has {lines} lines"),
        }
    }
}

#[test]
fn the_readme_tells_every_metric() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for metric in stockade::metrics::catalogue::METRICS {
        assert!(readme.contains(&format!("`{}", metric.name)), "{}", metric.name);
    }
}

/// `module::of::tests::function`, below `tests/it` unless it begins with `src`.
fn is_a_test(name: &str) -> bool {
    let (module, function) = name.rsplit_once("::").unwrap();
    let file = format!("{}.rs", module.replace("::", "/"));
    let file = if file.starts_with("src/") { file } else { format!("tests/it/{file}") };
    let source = fs::read_to_string(root().join(file)).unwrap_or_default();
    let mut lines = source.lines().zip(source.lines().skip(1));
    lines.any(|(above, line)| above.contains("test") && line.contains(&format!("fn {function}(")))
}

#[test]
fn the_tests_that_the_security_page_names_are_there() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 20, "{}", rows.len());
    for row in rows {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let tests: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "nothing shows it: {row}");
        tests.into_iter().for_each(|test| assert!(is_a_test(test), "{test} is no test"));
    }
}
