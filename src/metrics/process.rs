//! What the system says of this process, under the names that Prometheus's own libraries use.

use super::catalogue::{Kind, Metric, Scope};
use super::page::{Sample, write_family};
use metrics_process::collector::collect;

/// Writes what is known now.
pub(super) fn write(page: &mut String) {
    let now = collect();
    let number = |value: Option<u64>| value.map(|value| value as f64);
    for (name, kind, help, value) in [
        (
            "process_cpu_seconds_total",
            Kind::Counter,
            "Total user and system CPU time spent in seconds.",
            now.cpu_seconds_total,
        ),
        ("process_open_fds", Kind::Gauge, "Number of open file descriptors.", number(now.open_fds)),
        ("process_max_fds", Kind::Gauge, "Maximum number of open file descriptors.", number(now.max_fds)),
        (
            "process_resident_memory_bytes",
            Kind::Gauge,
            "Resident memory size in bytes.",
            number(now.resident_memory_bytes),
        ),
        (
            "process_virtual_memory_bytes",
            Kind::Gauge,
            "Virtual memory size in bytes.",
            number(now.virtual_memory_bytes),
        ),
        (
            "process_start_time_seconds",
            Kind::Gauge,
            "Start time of the process since unix epoch in seconds.",
            number(now.start_time_seconds),
        ),
        ("process_threads", Kind::Gauge, "Number of OS threads in the process.", number(now.threads)),
    ] {
        let samples: Vec<Sample> = value.map(Sample::new).into_iter().collect();
        write_family(page, &Metric { name, kind, scope: Scope::Process, text: help }, &samples);
    }
}
