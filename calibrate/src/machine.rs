//! A description of the machine that is measured.

use std::fs;
use std::sync::OnceLock;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use core_affinity::CoreId;

/// Keeps this thread on the core of that number, counted over those the process may use; whether
/// that was possible.
#[must_use]
pub fn pin(core: usize) -> bool {
    let (all, _) = known();
    let chosen = all.get(core % all.len().max(1));
    chosen.is_some_and(|core| core_affinity::set_for_current(*core))
}

/// The cores as they were when they were first asked for: a thread that is pinned, and those it
/// starts, see but one.
fn known() -> &'static (Vec<CoreId>, u64) {
    static KNOWN: OnceLock<(Vec<CoreId>, u64)> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let count = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        (core_affinity::get_core_ids().unwrap_or_default(), count)
    })
}

/// Cores that the process may use.
#[must_use]
pub fn cores() -> u64 {
    known().1
}

/// Model of the processor, or its architecture where the system does not say.
#[must_use]
pub fn cpu() -> String {
    field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Operating system and kernel.
#[must_use]
pub fn os() -> String {
    let line = |path| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    match (line("/proc/sys/kernel/ostype"), line("/proc/sys/kernel/osrelease")) {
        (Some(name), Some(release)) => format!("{name} {release}"),
        _ => std::env::consts::OS.to_owned(),
    }
}

/// Whether the processor is virtual, so that other guests may share it.
#[must_use]
pub fn is_virtual() -> bool {
    let flags = field("/proc/cpuinfo", "flags").unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
}

/// The rule by which the clock of the processor changes, where the system tells.
#[must_use]
pub fn governor() -> Option<String> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The clock of the first core in MHz, where the system tells.
#[must_use]
pub fn megahertz() -> Option<String> {
    field("/proc/cpuinfo", "cpu MHz")
}

/// Number of threads that ran or waited to run in the last minute, on average.
#[must_use]
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let entries = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = entries.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    values.next().map(str::to_owned)
}

/// Today, UTC, as in 2026-11-30.
#[must_use]
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date `days` after 1970-01-01 (Howard Hinnant, chrono-compatible low-level date algorithms,
/// `civil_from_days`).
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_still_knows_all_cores() {
        let all = cores();
        let pinned = thread::spawn(move || (pin(0), cores(), known().0.len()));
        let (is_pinned, cores, ids) = pinned.join().unwrap();
        assert_eq!(cores, all);
        assert!(!is_pinned || ids > 0);
        // A thread that a pinned one starts can be pinned elsewhere.
        let inner = thread::spawn(|| pin(0) && thread::spawn(|| pin(1)).join().unwrap());
        assert_eq!(inner.join().unwrap(), is_pinned);
    }

    #[test]
    fn dates() {
        let known = [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_788, "2026-12-01"),
            (364, "1970-12-31"),
        ];
        for (days, text) in known {
            assert_eq!(date(days), text);
        }
    }
}
