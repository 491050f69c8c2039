//! How the processes of a run come together: all call rank 0, which tells them where the others
//! listen; then each calls those below it and is called by those above.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::hello::{Hello, Party, Refusal, take};
use super::lobby::{Greeted, Lobby};
use super::stream::{read_by, write_by};
use crate::run::clock::nanos_since;
use crate::run::launch::Launch;

/// Round trips of which the shortest tells how far two clocks are apart.
const ROUND_TRIPS: usize = 24;
/// How long a process waits before it calls again one that does not listen yet.
const AGAIN: Duration = Duration::from_millis(20);
/// The longest that a caller has to say who it is.
const PER_CALL: Duration = Duration::from_secs(3);
/// Bytes of an address: IPv6, port.
const ADDRESS: usize = 18;

/// Where and how processes meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// Which process this is, and where rank 0 listens.
    pub launch: Launch,
    /// The address this process listens at; the loopback of this machine if none is given.
    pub bind: Option<IpAddr>,
    /// A secret that all processes of the run know, and nobody else. It is never sent.
    pub token: Vec<u8>,
    /// A description that must be the same for all processes besides the plan, such as model and
    /// seed.
    pub about: String,
}

/// Why processes did not come together.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MeetingError {
    /// Not one process for each stage.
    #[error("{world} processes for {stages} stages: start one for each stage")]
    World {
        /// Processes.
        world: usize,
        /// Stages of the schedule.
        stages: usize,
    },
    /// No secret to know each other by.
    #[error("the token is empty: give all processes of the run the same secret")]
    NoToken,
    /// An address that cannot be listened at.
    #[error("cannot listen at {address}: {message}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The message of the system.
        message: String,
    },
    /// A name that has no address.
    #[error("{host} has no address: {message}")]
    Name {
        /// The name.
        host: String,
        /// The message of the system.
        message: String,
    },
    /// A process that does not answer.
    #[error("rank {rank} at {address} did not answer within {waited:.1?}: {message}")]
    Unreachable {
        /// Its rank.
        rank: usize,
        /// Its address.
        address: String,
        /// How long it was tried.
        waited: Duration,
        /// The error of the last attempt.
        message: String,
    },
    /// Processes that did not come.
    #[error(
        "ranks {ranks:?} did not come within {waited:.1?}{}",
        .turned_away.as_ref().map(|who| format!("; turned away: {who}")).unwrap_or_default()
    )]
    Missing {
        /// Who was waited for.
        ranks: Vec<usize>,
        /// How long.
        waited: Duration,
        /// The last one who came but was let go, and why.
        turned_away: Option<String>,
    },
    /// A process with another token.
    #[error("rank {rank} has another token: all processes of a run need the same one")]
    Token {
        /// Its rank.
        rank: usize,
    },
    /// A process that is to run something else.
    #[error("rank {rank} has another {what}: {there}, here {here}")]
    Differs {
        /// Its rank.
        rank: usize,
        /// The part that differs.
        what: &'static str,
        /// Here.
        here: String,
        /// There.
        there: String,
    },
    /// A rank that is not due, such as one that is there already.
    #[error("a process calls itself rank {rank}, which is not due: start each rank once")]
    Rank {
        /// The rank.
        rank: usize,
    },
}

/// A process that has met all others.
pub struct Met {
    /// By rank; none for this process itself.
    pub streams: Vec<Option<TcpStream>>,
    /// Zero of all clocks, by the clock of this machine.
    pub epoch: Instant,
}

/// Meets all other processes of the run.
pub fn meet(party: &Party, meeting: &Meeting) -> Result<Met, MeetingError> {
    let Launch { rank, world, .. } = meeting.launch;
    let stages = party.world;
    if world != stages || rank >= world {
        return Err(MeetingError::World { world, stages });
    }
    if meeting.token.is_empty() {
        return Err(MeetingError::NoToken);
    }
    let ip = meeting.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let port = if rank == 0 { meeting.launch.port } else { 0 };
    let address = SocketAddr::new(ip, port);
    let message = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| MeetingError::Bind { address, message: message(error) })?;
    let port = listener.local_addr().map_or(0, |address| address.port());
    let begin = Instant::now();
    let deadline = begin + party.patience;
    let hello = Hello::new(party, meeting, port);
    let hall = Hall { meeting, listener, hello, begin, deadline };
    if rank == 0 { hall.gather() } else { hall.come() }
}

struct Hall<'a> {
    meeting: &'a Meeting,
    listener: TcpListener,
    hello: Hello,
    begin: Instant,
    deadline: Instant,
}

impl Hall<'_> {
    /// Rank 0: waits for all, then tells each where the others listen.
    fn gather(self) -> Result<Met, MeetingError> {
        let world = self.meeting.launch.world;
        let mut streams: Vec<Option<TcpStream>> = (0..world).map(|_| None).collect();
        let mut addresses = vec![[0u8; ADDRESS]; world];
        self.receive(&mut streams, 1, |rank, hello, stream| {
            answer_pings(stream, self.begin, self.deadline)?;
            addresses[rank] = to_bytes(SocketAddr::new(stream.peer_addr()?.ip(), hello.port));
            Ok(())
        })?;
        for (rank, stream) in streams.iter().enumerate() {
            let Some(stream) = stream else { continue };
            let table = addresses.concat();
            write_by(stream, &table, self.deadline)
                .map_err(|error| self.silent(rank, stream, &error))?;
        }
        Ok(Met { streams, epoch: self.begin })
    }

    /// Other ranks: calls rank 0, then those below, and is called by those above.
    fn come(self) -> Result<Met, MeetingError> {
        let Launch { rank: own, world, ref master, port } = self.meeting.launch;
        let mut streams: Vec<Option<TcpStream>> = (0..world).map(|_| None).collect();
        let resolved = (master.as_str(), port).to_socket_addrs();
        let name = |message| MeetingError::Name { host: master.clone(), message };
        let addresses: Vec<SocketAddr> =
            resolved.map_err(|error| name(error.to_string()))?.collect();
        if addresses.is_empty() {
            return Err(name("nothing found".to_owned()));
        }
        let first = self.call(0, &addresses)?;
        let lost = |error: &std::io::Error| self.silent(0, &first, error);
        let epoch = ping(&first, self.deadline).map_err(|error| lost(&error))?;
        let mut table = vec![0; ADDRESS * world];
        read_by(&first, &mut table, self.deadline).map_err(|error| lost(&error))?;
        let mut rest = &table[..];
        for (rank, stream) in streams.iter_mut().enumerate().take(own) {
            let Some(address) = take(&mut rest).map(from_bytes) else { break };
            if rank > 0 {
                *stream = Some(self.call(rank, &[address])?);
            }
        }
        streams[0] = Some(first);
        self.receive(&mut streams, own + 1, |_, _, _| Ok(()))?;
        Ok(Met { streams, epoch })
    }

    /// Is called by all ranks from `from` on. Strangers are turned away.
    fn receive(
        &self,
        streams: &mut [Option<TcpStream>],
        from: usize,
        mut welcome: impl FnMut(usize, &Hello, &TcpStream) -> std::io::Result<()>,
    ) -> Result<(), MeetingError> {
        let greet = |stream: &TcpStream| self.meet_caller(stream);
        std::thread::scope(|scope| {
            let mut lobby = Lobby::new(scope, &greet);
            let mut turned_away = None;
            while let Some(missing) = (from..streams.len()).find(|&rank| streams[rank].is_none()) {
                if Instant::now() >= self.deadline {
                    let is_missing = |rank: &usize| streams[*rank].is_none();
                    let ranks = (missing..streams.len()).filter(is_missing).collect();
                    let waited = self.begin.elapsed();
                    return Err(MeetingError::Missing { ranks, waited, turned_away });
                }
                let Some(Greeted { address, stream, end, .. }) = lobby.attend(&self.listener)
                else {
                    continue;
                };
                match (end, Arc::into_inner(stream)) {
                    (Ok(hello), Some(stream)) => {
                        let rank = hello.rank as usize;
                        if rank < from || streams.get(rank).is_none_or(Option::is_some) {
                            return Err(MeetingError::Rank { rank });
                        }
                        let welcomed = welcome(rank, &hello, &stream);
                        welcomed.map_err(|error| self.silent(rank, &stream, &error))?;
                        streams[rank] = Some(stream);
                    }
                    (Err(Refusal::Unfit(error)), _) => return Err(error),
                    (Err(Refusal::Stranger(why)), _) => {
                        turned_away = Some(format!("{address}, {why}"));
                    }
                    // Nobody else holds the stream of one who has been greeted.
                    (Ok(_), None) => {}
                }
            }
            Ok(())
        })
    }

    fn meet_caller(&self, stream: &TcpStream) -> Result<Hello, Refusal> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let deadline = self.deadline.min(Instant::now() + PER_CALL);
        self.hello.fresh().answer(stream, &self.meeting.token, deadline)
    }

    /// Calls `rank` until it answers.
    fn call(&self, rank: usize, addresses: &[SocketAddr]) -> Result<TcpStream, MeetingError> {
        let mut last = String::from("nobody listens");
        for address in addresses.iter().cycle() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.try_call(address, left) {
                Ok((other, _)) if other.rank as usize != rank => {
                    return Err(MeetingError::Rank { rank: other.rank as usize });
                }
                Ok((_, stream)) => return Ok(stream),
                Err(Refusal::Unfit(error)) => return Err(error),
                Err(Refusal::Stranger(message)) => last = message,
            }
            std::thread::sleep(AGAIN.min(left));
        }
        let address = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let waited = self.begin.elapsed();
        Err(MeetingError::Unreachable { rank, address, waited, message: last })
    }

    fn try_call(
        &self,
        address: &SocketAddr,
        left: Duration,
    ) -> Result<(Hello, TcpStream), Refusal> {
        let stream = TcpStream::connect_timeout(address, left)?;
        // Where nobody listens yet, a system that lends this very port to the call connects it to
        // itself, and the port is taken for whoever was to listen there.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(Refusal::Stranger("nobody listens there".to_owned()));
        }
        stream.set_nodelay(true)?;
        let other = self.hello.fresh().call(&stream, &self.meeting.token, self.deadline)?;
        Ok((other, stream))
    }

    fn silent(&self, rank: usize, stream: &TcpStream, error: &std::io::Error) -> MeetingError {
        let address = stream.peer_addr().map_or_else(|_| "?".to_owned(), |a| a.to_string());
        let (waited, message) = (self.begin.elapsed(), error.to_string());
        MeetingError::Unreachable { rank, address, waited, message }
    }
}

/// Answers every byte with the time since `epoch`.
fn answer_pings(stream: &TcpStream, epoch: Instant, deadline: Instant) -> std::io::Result<()> {
    for _ in 0..ROUND_TRIPS {
        read_by(stream, &mut [0], deadline)?;
        write_by(stream, &nanos_since(epoch, Instant::now()).to_le_bytes(), deadline)?;
    }
    Ok(())
}

/// The epoch of the other side by this clock: its answer was given halfway through the shortest
/// round trip.
fn ping(stream: &TcpStream, deadline: Instant) -> std::io::Result<Instant> {
    let mut best: Option<(Duration, Instant)> = None;
    for _ in 0..ROUND_TRIPS {
        let sent = Instant::now();
        write_by(stream, &[0], deadline)?;
        let mut answer = [0; 8];
        read_by(stream, &mut answer, deadline)?;
        let trip = sent.elapsed();
        let halfway = sent + trip / 2;
        let epoch = halfway.checked_sub(Duration::from_nanos(u64::from_le_bytes(answer)));
        let epoch = epoch.unwrap_or(sent);
        if best.is_none_or(|(shortest, _)| trip < shortest) {
            best = Some((trip, epoch));
        }
    }
    Ok(best.map_or_else(Instant::now, |(_, epoch)| epoch))
}

fn to_bytes(address: SocketAddr) -> [u8; ADDRESS] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; ADDRESS];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_le_bytes());
    bytes
}

fn from_bytes(bytes: [u8; ADDRESS]) -> SocketAddr {
    let mut rest = &bytes[..];
    let ip = Ipv6Addr::from(take::<16>(&mut rest).unwrap_or_default()).to_canonical();
    SocketAddr::new(ip, u16::from_le_bytes(take(&mut rest).unwrap_or_default()))
}
