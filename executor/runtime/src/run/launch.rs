//! The rank of this process in a run, as its launcher sets it.

use thiserror::Error;

/// The default port of rank 0, as in `torch.distributed`.
const DEFAULT_PORT: u16 = 29_500;

/// The environment variables of a launcher: rank and number of processes.
const LAUNCHERS: [(&str, &str); 3] = [
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
];

/// The place of a process among those of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Rank of this process, from 0: the stage it runs.
    pub rank: usize,
    /// World size: the number of processes.
    pub world: usize,
    /// Host name or address of rank 0.
    pub master: String,
    /// The port where rank 0 listens.
    pub port: u16,
}

/// Why the environment does not give the rank of this process.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LaunchError {
    /// Only one variable of a pair is set.
    #[error("{set} is set, but {missing} is not: a launcher sets both")]
    Half {
        /// The one that is set.
        set: &'static str,
        /// The other.
        missing: &'static str,
    },
    /// Not a whole number, or one too large.
    #[error("{name}={text} is not a whole number up to {most}")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// The text found.
        text: String,
        /// The largest it may be.
        most: u32,
    },
    /// A rank beyond the number of processes.
    #[error("{name}={rank}, but there are only {world} processes, counted from 0")]
    Beyond {
        /// The variable of the rank.
        name: &'static str,
        rank: usize,
        /// How many processes there are.
        world: usize,
    },
    /// Two launchers whose variables disagree.
    #[error(
        "{first} and {second} disagree: rank {} of {} against rank {} of {}; unset those of the \
         launcher that did not start this process",
        .ranks.0, .worlds.0, .ranks.1, .worlds.1
    )]
    Contradiction {
        /// The rank variable of one.
        first: &'static str,
        /// The rank variable of the other.
        second: &'static str,
        /// Both ranks.
        ranks: (usize, usize),
        /// Both numbers of processes.
        worlds: (usize, usize),
    },
    /// The address of rank 0 is not set.
    #[error("MASTER_ADDR is not set: set it to the host of rank 0 on all {world} processes")]
    NoMaster {
        /// How many processes there are.
        world: usize,
    },
}

impl Launch {
    /// Reads the place of this process from the environment that `variable` gives: torchrun's
    /// variables, SLURM's, or those of Open MPI; `None` if there are none. torchrun started by
    /// another launcher (`TORCHELASTIC_RUN_ID` is set) takes precedence; else all that are set must
    /// agree. `MASTER_ADDR` and `MASTER_PORT` (29500 unless set) say where rank 0 is; a process
    /// alone needs no address.
    ///
    /// ```
    /// use runtime::Launch;
    ///
    /// let variables = [("RANK", "1"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "node0")];
    /// let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    /// let launch = Launch::read(get)?.ok_or("not launched")?;
    /// assert_eq!((launch.rank, launch.world, launch.port), (1, 4, 29_500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, LaunchError> {
        let elastic = variable("TORCHELASTIC_RUN_ID").is_some();
        let mut found: Option<(&'static str, usize, usize)> = None;
        for (rank_name, world_name) in LAUNCHERS {
            let Some((rank, world)) = pair(&variable, rank_name, world_name)? else { continue };
            match found {
                None => found = Some((rank_name, rank, world)),
                Some(("RANK", ..)) if elastic => {}
                Some((_, r, w)) if (r, w) == (rank, world) => {}
                Some((first, r, w)) => {
                    let (ranks, worlds) = ((r, rank), (w, world));
                    let second = rank_name;
                    return Err(LaunchError::Contradiction { first, second, ranks, worlds });
                }
            }
        }
        let Some((_, rank, world)) = found else { return Ok(None) };
        let port = number(&variable, "MASTER_PORT", u32::from(u16::MAX))?;
        let port = port.map_or(DEFAULT_PORT, |port| u16::try_from(port).unwrap_or(DEFAULT_PORT));
        let master = match variable("MASTER_ADDR").filter(|address| !address.is_empty()) {
            Some(address) => address,
            None if world == 1 => "127.0.0.1".to_owned(),
            None => return Err(LaunchError::NoMaster { world }),
        };
        Ok(Some(Self { rank, world, master, port }))
    }
}

/// Rank and number of processes, if either is set.
fn pair(
    variable: &impl Fn(&str) -> Option<String>,
    rank_name: &'static str,
    world_name: &'static str,
) -> Result<Option<(usize, usize)>, LaunchError> {
    let most = u32::from(u16::MAX);
    let (rank, world) = (number(variable, rank_name, most)?, number(variable, world_name, most)?);
    match (rank, world) {
        (None, None) => Ok(None),
        // The shell of an allocation has the number of tasks, but is not a task itself.
        (None, Some(_)) if rank_name == "SLURM_PROCID" => Ok(None),
        (None, Some(_)) => Err(LaunchError::Half { set: world_name, missing: rank_name }),
        (Some(_), None) => Err(LaunchError::Half { set: rank_name, missing: world_name }),
        (Some(rank), Some(world)) if rank >= world => {
            Err(LaunchError::Beyond { name: rank_name, rank, world })
        }
        (Some(rank), Some(world)) => Ok(Some((rank, world))),
    }
}

fn number(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    most: u32,
) -> Result<Option<usize>, LaunchError> {
    let Some(text) = variable(name) else { return Ok(None) };
    match text.parse::<u32>() {
        Ok(value) if value <= most => Ok(Some(value as usize)),
        _ => {
            let text = text.chars().take(40).collect();
            Err(LaunchError::NotANumber { name, text, most })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Launch>, LaunchError> {
        let find = |name: &str| variables.iter().find(|(other, _)| *other == name);
        Launch::read(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn launchers_are_understood() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("SLURM_NTASKS", "4")]), Ok(None));
        let master = [("MASTER_ADDR", "node0"), ("MASTER_PORT", "1234")];
        for (rank, world) in LAUNCHERS {
            let launch = read(&[(rank, "2"), (world, "4"), master[0], master[1]]);
            let expected = Launch { rank: 2, world: 4, master: "node0".to_owned(), port: 1234 };
            assert_eq!(launch, Ok(Some(expected)));
        }
        let alone = read(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap().unwrap();
        assert_eq!((alone.master.as_str(), alone.port), ("127.0.0.1", DEFAULT_PORT));
    }

    #[test]
    fn contradictions_are_refused() {
        let both =
            [("RANK", "2"), ("WORLD_SIZE", "4"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2")];
        let message = read(&both).unwrap_err().to_string();
        assert!(message.contains("rank 2 of 4 against rank 0 of 2"), "{message}");
        let elastic = [&both[..], &[("TORCHELASTIC_RUN_ID", "x"), ("MASTER_ADDR", "a")]].concat();
        assert_eq!(read(&elastic).unwrap().unwrap().rank, 2);
        let message = |variables: &[(&str, &str)]| read(variables).unwrap_err().to_string();
        assert!(message(&[("RANK", "2")]).contains("WORLD_SIZE is not"));
        assert!(message(&[("RANK", "4"), ("WORLD_SIZE", "4")]).contains("RANK=4, but"));
        assert!(message(&[("RANK", "-1"), ("WORLD_SIZE", "4")]).contains("not a whole number"));
        assert!(message(&[("RANK", "1"), ("WORLD_SIZE", "99999999")]).contains("up to 65535"));
        assert!(message(&[("RANK", "1"), ("WORLD_SIZE", "2")]).contains("MASTER_ADDR"));
    }
}
