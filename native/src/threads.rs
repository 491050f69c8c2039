//! How many threads the library may start.

use std::env;
use std::thread;

/// The variable that says how many threads there are to be.
pub const VARIABLE: &str = "RAYON_NUM_THREADS";
/// The most threads where a machine has fewer cores: more take minutes to start and are no faster.
const MOST: usize = 256;

/// The number of threads that `RAYON_NUM_THREADS` asks for, if it is beyond any use, and the number to
/// start instead; `None` where it asks for none or for fewer.
#[must_use]
pub fn too_many() -> Option<[usize; 2]> {
    let asked = env::var(VARIABLE).ok()?.trim().parse().ok()?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    capped(asked, cores).map(|most| [asked, most])
}

fn capped(asked: usize, cores: usize) -> Option<usize> {
    let most = MOST.max(cores);
    (asked > most).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_cores_are_started_up_to_a_limit() {
        assert_eq!(capped(8, 2), None);
        assert_eq!(capped(256, 2), None);
        assert_eq!(capped(100_000, 2), Some(256));
        assert_eq!(capped(512, 1024), None);
        assert_eq!(capped(2000, 1024), Some(1024));
    }
}
