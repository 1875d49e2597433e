//! Open files: every connection is one, and callers must not take those that Redis is called with.

/// Most connections that one worker thread serves, however many files there may be.
const CONNECTIONS_MAX: usize = 25_600;

/// Raises the limit of open files to the most that this process may have, and says what it is. What a shell or a supervisor
/// gives is often 1,024: enough for programs that cannot count further, and soon used up by callers who keep connections.
pub fn raise() -> usize {
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or_else(|error| {
        tracing::warn!(%error, "The limit of open files stays as it is");
        rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(u64::MAX, |(soft, _)| soft)
    });
    usize::try_from(files).unwrap_or(usize::MAX)
}

/// Most connections of callers that each of `workers` serves: three quarters of the files. Who comes then waits to be
/// accepted until somebody leaves, while Redis, webhooks and probes can still be reached.
pub fn connections_max(files: usize, workers: usize) -> usize {
    (files / 4 * 3 / workers).clamp(1, CONNECTIONS_MAX)
}

/// The same of the listener of probes and metrics.
pub fn probes_max(files: usize) -> usize {
    (files / 16).clamp(1, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_leave_some_files_to_redis() {
        assert_eq!(connections_max(1_024, 2), 384);
        assert_eq!(connections_max(65_536, 1), 25_600);
        assert_eq!(connections_max(usize::MAX, 64), 25_600);
        assert_eq!(connections_max(8, 64), 1);
        assert_eq!(probes_max(1_024), 64);
    }
}
