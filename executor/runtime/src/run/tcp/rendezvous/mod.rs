//! The rendezvous of the processes of a run: all connect to rank 0, which sends them the addresses
//! of all; then each connects to the ranks below it and accepts those above.

mod accept;
mod error;
mod handshake;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bytes::take;
pub use error::RendezvousError;
pub use handshake::RendezvousSettings;

use self::accept::{Acceptor, EndedHandshake};
use self::handshake::{Hello, Refusal};
use super::stream::{read_by, write_by};
use crate::run::clock::nanos_since;
use crate::run::launch::Launch;

/// Round trips, the shortest of which gives the offset of two clocks.
const ROUND_TRIPS: usize = 24;
/// Delay before a process retries a connection.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The longest handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of an address: IPv6, port.
const ADDRESS: usize = 18;

/// Where and how processes find each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendezvous {
    /// The rank of this process, and the address of rank 0.
    pub launch: Launch,
    /// The address at which this process listens; the loopback of this machine if none is given.
    pub bind: Option<IpAddr>,
    /// A secret that only the processes of the run know. It is never sent.
    pub token: Vec<u8>,
    /// A description that must be equal for all processes besides the plan, such as model and seed.
    pub about: String,
}

/// The connections of a process to all other processes of the run.
pub struct ProcessGroup {
    /// By rank; `None` for this process itself.
    pub streams: Vec<Option<TcpStream>>,
    /// Time zero of all clocks, by the clock of this machine.
    pub epoch: Instant,
}

/// Connects this process with all other processes of the run.
pub fn init_process_group(
    settings: &RendezvousSettings,
    rendezvous: &Rendezvous,
) -> Result<ProcessGroup, RendezvousError> {
    let Launch { rank, world, .. } = rendezvous.launch;
    let stages = settings.world;
    if world != stages || rank >= world {
        return Err(RendezvousError::World { world, stages });
    }
    if rendezvous.token.is_empty() {
        return Err(RendezvousError::NoToken);
    }
    let ip = rendezvous.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let port = if rank == 0 { rendezvous.launch.port } else { 0 };
    let address = SocketAddr::new(ip, port);
    let message = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| RendezvousError::Bind { address, message: message(error) })?;
    let port = listener.local_addr().map_or(0, |address| address.port());
    let begin = Instant::now();
    let deadline = begin + settings.timeout;
    let hello = Hello::new(settings, &rendezvous.launch, port);
    let endpoint = Endpoint { rendezvous, listener, hello, begin, deadline };
    if rank == 0 { endpoint.accept_all() } else { endpoint.connect_all() }
}

struct Endpoint<'a> {
    rendezvous: &'a Rendezvous,
    listener: TcpListener,
    hello: Hello,
    begin: Instant,
    deadline: Instant,
}

impl Endpoint<'_> {
    /// Rank 0: accepts all ranks, then sends each the addresses of all.
    fn accept_all(self) -> Result<ProcessGroup, RendezvousError> {
        let world = self.rendezvous.launch.world;
        let mut streams: Vec<Option<TcpStream>> = (0..world).map(|_| None).collect();
        let mut addresses = vec![[0u8; ADDRESS]; world];
        self.accept_from(&mut streams, 1, |rank, hello, stream| {
            answer_clock_requests(stream, self.begin, self.deadline)?;
            addresses[rank] = to_bytes(SocketAddr::new(stream.peer_addr()?.ip(), hello.port));
            Ok(())
        })?;
        for (rank, stream) in streams.iter().enumerate() {
            let Some(stream) = stream else { continue };
            let table = addresses.concat();
            write_by(stream, &table, self.deadline)
                .map_err(|error| self.unreachable(rank, stream, &error))?;
        }
        Ok(ProcessGroup { streams, epoch: self.begin })
    }

    /// Other ranks: connects to rank 0, then to the ranks below, and accepts those above.
    fn connect_all(self) -> Result<ProcessGroup, RendezvousError> {
        let Launch { rank: own, world, ref master, port } = self.rendezvous.launch;
        let mut streams: Vec<Option<TcpStream>> = (0..world).map(|_| None).collect();
        let resolved = (master.as_str(), port).to_socket_addrs();
        let name = |message| RendezvousError::Name { host: master.clone(), message };
        let addresses: Vec<SocketAddr> =
            resolved.map_err(|error| name(error.to_string()))?.collect();
        if addresses.is_empty() {
            return Err(name("nothing found".to_owned()));
        }
        let first = self.connect(0, &addresses)?;
        let lost = |error: &std::io::Error| self.unreachable(0, &first, error);
        let epoch = epoch_of_rank_0(&first, self.deadline).map_err(|error| lost(&error))?;
        let mut table = vec![0; ADDRESS * world];
        read_by(&first, &mut table, self.deadline).map_err(|error| lost(&error))?;
        let mut rest = &table[..];
        for (rank, stream) in streams.iter_mut().enumerate().take(own) {
            let Some(address) = take(&mut rest).map(from_bytes) else { break };
            if rank > 0 {
                *stream = Some(self.connect(rank, &[address])?);
            }
        }
        streams[0] = Some(first);
        self.accept_from(&mut streams, own + 1, |_, _, _| Ok(()))?;
        Ok(ProcessGroup { streams, epoch })
    }

    /// Accepts all ranks from `from` on, and disconnects unknown callers.
    fn accept_from(
        &self,
        streams: &mut [Option<TcpStream>],
        from: usize,
        mut accepted_rank: impl FnMut(usize, &Hello, &TcpStream) -> std::io::Result<()>,
    ) -> Result<(), RendezvousError> {
        let handshake = |stream: &TcpStream| self.handshake(stream);
        std::thread::scope(|scope| {
            let mut acceptor = Acceptor::new(scope, &handshake);
            let mut turned_away = None;
            while let Some(missing) = (from..streams.len()).find(|&rank| streams[rank].is_none()) {
                if Instant::now() >= self.deadline {
                    let is_missing = |rank: &usize| streams[*rank].is_none();
                    let ranks = (missing..streams.len()).filter(is_missing).collect();
                    let waited = self.begin.elapsed();
                    return Err(RendezvousError::Missing { ranks, waited, turned_away });
                }
                let Some(EndedHandshake { address, stream, end, .. }) =
                    acceptor.accept(&self.listener)
                else {
                    continue;
                };
                match (end, Arc::into_inner(stream)) {
                    (Ok(hello), Some(stream)) => {
                        let rank = hello.rank as usize;
                        if rank < from || streams.get(rank).is_none_or(Option::is_some) {
                            return Err(RendezvousError::Rank { rank });
                        }
                        let accepted = accepted_rank(rank, &hello, &stream);
                        accepted.map_err(|error| self.unreachable(rank, &stream, &error))?;
                        streams[rank] = Some(stream);
                    }
                    (Err(Refusal::Rejected(error)), _) => return Err(error),
                    (Err(Refusal::Unknown(why)), _) => {
                        turned_away = Some(format!("{address}, {why}"));
                    }
                    // The thread of an ended handshake holds its stream no more.
                    (Ok(_), None) => {}
                }
            }
            Ok(())
        })
    }

    fn handshake(&self, stream: &TcpStream) -> Result<Hello, Refusal> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let deadline = self.deadline.min(Instant::now() + HANDSHAKE_TIMEOUT);
        self.hello.fresh().answer(stream, &self.rendezvous.token, deadline)
    }

    /// Retries a connection to `rank` until it answers.
    fn connect(&self, rank: usize, addresses: &[SocketAddr]) -> Result<TcpStream, RendezvousError> {
        let mut last = String::from("no process listens");
        for address in addresses.iter().cycle() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.try_connect(address, left) {
                Ok((other, _)) if other.rank as usize != rank => {
                    return Err(RendezvousError::Rank { rank: other.rank as usize });
                }
                Ok((_, stream)) => return Ok(stream),
                Err(Refusal::Rejected(error)) => return Err(error),
                Err(Refusal::Unknown(message)) => last = message,
            }
            std::thread::sleep(RETRY_INTERVAL.min(left));
        }
        let address = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let waited = self.begin.elapsed();
        Err(RendezvousError::Unreachable { rank, address, waited, message: last })
    }

    fn try_connect(
        &self,
        address: &SocketAddr,
        left: Duration,
    ) -> Result<(Hello, TcpStream), Refusal> {
        let stream = TcpStream::connect_timeout(address, left)?;
        // Self-connect of TCP: while no process listens, the system may lend this very port to the
        // connection, which then connects to itself and blocks the port for its listener.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(Refusal::Unknown("no process listens there".to_owned()));
        }
        stream.set_nodelay(true)?;
        let other = self.hello.fresh().call(&stream, &self.rendezvous.token, self.deadline)?;
        Ok((other, stream))
    }

    fn unreachable(
        &self,
        rank: usize,
        stream: &TcpStream,
        error: &std::io::Error,
    ) -> RendezvousError {
        let address = stream.peer_addr().map_or_else(|_| "?".to_owned(), |a| a.to_string());
        let (waited, message) = (self.begin.elapsed(), error.to_string());
        RendezvousError::Unreachable { rank, address, waited, message }
    }
}

/// Answers every byte with the time since `epoch`.
fn answer_clock_requests(
    stream: &TcpStream,
    epoch: Instant,
    deadline: Instant,
) -> std::io::Result<()> {
    for _ in 0..ROUND_TRIPS {
        read_by(stream, &mut [0], deadline)?;
        write_by(stream, &nanos_since(epoch, Instant::now()).to_le_bytes(), deadline)?;
    }
    Ok(())
}

/// The epoch of rank 0 by this clock, on the assumption that its answer was sent halfway through
/// the shortest round trip.
fn epoch_of_rank_0(stream: &TcpStream, deadline: Instant) -> std::io::Result<Instant> {
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
