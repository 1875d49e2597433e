//! A folder that takes its processes with it when it goes.
//!
//! Servers under test are stopped, killed and orphaned on purpose, so no test keeps a list of them: a process
//! belongs to a folder if that is its working folder. They are killed when the [`Sandbox`] is dropped, and,
//! when the test process itself dies, by a watchdog that waits for the end of a pipe that only we hold.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Long enough for a loaded machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Below the ports that the system gives to clients.
const PORTS_FROM: u16 = 20_000;

/// Ends with `rm`, because a test process that was killed cannot clean up either.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
for process in /proc/[0-9]*; do
    case "$(readlink "$process/cwd")" in "$1"|"$1"/*) kill -9 "${process#/proc/}" ;; esac
done
rm -rf "$1"
"#;

/// A temporary folder and everything that runs in it.
pub struct Sandbox {
    dir: TempDir,
    watchdog: Child,
}

impl Sandbox {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("stockade-test-").tempdir().expect("a temporary folder");
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(dir.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        Self { dir, watchdog }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Processes that run in this folder or below it.
    pub fn pids(&self) -> Vec<u32> {
        pids_below(self.path())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for pid in self.pids() {
            signal("KILL", pid);
        }
        let since = Instant::now();
        while !self.pids().is_empty() && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        // Not by closing its pipe: it would look through all processes once more.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }
}

fn pids_below(folder: &Path) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let in_folder =
        |process: &PathBuf| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    let folders = processes.map(|entry| entry.path()).filter(in_folder);
    folders.filter_map(|process| process.file_name()?.to_str()?.parse().ok()).collect()
}

/// An address that nobody else uses: all of 127.0.0.0/8 is this machine, so each process of tests takes an IP for
/// itself, and a port for each that listens.
pub fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(PORTS_FROM);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, 64 | high & 63, middle, low);
    SocketAddr::from((ip, NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Sends a signal, named as in `kill -NAME`. A process that is gone already is none of our business. One that is told to
/// stop has stopped when this returns: its threads may be a moment from doing something.
pub fn signal(name: &str, pid: u32) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null()).status();
    if name == "STOP" {
        eventually_blocking("it has stopped", || has_stopped(pid));
    }
}

/// Whether no thread of it runs.
fn has_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // `<id> (<name>) <state> ...`
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        matches!(state, None | Some('T' | 't' | 'Z' | 'X'))
    })
}

/// Waits until `condition` holds; fails the test, saying `what`, if it does not come true.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !condition().await {
        assert!(since.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// As [`eventually`], for tests and set-up that are not async.
pub fn eventually_blocking(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
