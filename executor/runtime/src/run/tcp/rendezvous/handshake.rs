//! The handshake of two processes: mutual authentication by a shared token, then equal versions and
//! plans.
//!
//! ```text
//! caller                     callee
//! Hello (with a nonce)  ->
//!                       <-   Hello (with a nonce)
//! HMAC(token, caller, both) ->
//!                       <-   1 byte: whether it is right; HMAC(token, callee, both)
//! ```
//! The token itself is never sent, and both proofs cover both hellos.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use pipeline::{Placement, Schedule};
use sha2::{Digest, Sha256};

use super::super::bytes::take;
use super::super::stream::{read_by, write_by};
use super::error::RendezvousError;
use crate::run::Boundary;
use crate::run::launch::Launch;
use crate::run::plan::Plan;

/// Version of the protocol: changes when old and new processes would not understand each other.
const PROTOCOL: u32 = 3;
const MAGIC: [u8; 8] = *b"debubble";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Magic, protocol, version, rank, world, port, schedule, plan, nonce.
const LENGTH: usize = 8 + 4 + 16 + 4 + 4 + 2 + 32 + 32 + 32;

type Digest32 = [u8; 32];

/// The first message of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    protocol: u32,
    version: [u8; 16],
    pub(super) rank: u32,
    world: u32,
    /// The port at which it listens.
    pub(super) port: u16,
    schedule: Digest32,
    plan: Digest32,
    nonce: Digest32,
}

/// The settings that all processes of a run share: world size, timeout, and digests of what must be
/// equal for all of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RendezvousSettings {
    pub(super) world: usize,
    pub(super) timeout: Duration,
    schedule: Digest32,
    plan: Digest32,
}

impl RendezvousSettings {
    /// Settings for one process per stage of `plan`, which compute what `about` describes.
    pub(in crate::run::tcp) fn of(plan: &Plan, about: &str) -> Self {
        Self {
            world: plan.schedule().shape().stages(),
            timeout: plan.timeout(),
            schedule: digest_of_schedule(plan.schedule()),
            plan: digest_of_rest(plan, about),
        }
    }

    /// Settings for `world` processes without a pipeline, all with the same `work`.
    pub fn without_stages(world: usize, timeout: Duration, work: &str) -> Self {
        Self { world, timeout, schedule: [0; 32], plan: Sha256::digest(work).into() }
    }
}

/// Why a handshake failed.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A process that does not belong to this run, or that disconnected: it is ignored.
    Unknown(String),
    /// A process that belongs to this run, but cannot take part in it.
    Rejected(RendezvousError),
}

impl Hello {
    /// The hello of this process.
    pub(super) fn new(settings: &RendezvousSettings, launch: &Launch, port: u16) -> Self {
        let mut version = [0; 16];
        version.iter_mut().zip(VERSION.bytes()).for_each(|(to, from)| *to = from);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            protocol: PROTOCOL,
            version,
            rank: number(launch.rank),
            world: number(launch.world),
            port,
            schedule: settings.schedule,
            plan: settings.plan,
            nonce: nonce(),
        }
    }

    /// The same with another nonce: every connection has its own.
    pub(super) fn fresh(&self) -> Self {
        Self { nonce: nonce(), ..self.clone() }
    }

    fn to_bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let parts: [&[u8]; 9] = [
            &MAGIC,
            &self.protocol.to_le_bytes(),
            &self.version,
            &self.rank.to_le_bytes(),
            &self.world.to_le_bytes(),
            &self.port.to_le_bytes(),
            &self.schedule,
            &self.plan,
            &self.nonce,
        ];
        let all = parts.into_iter().flatten();
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        bytes
    }

    fn from_bytes(bytes: &[u8; LENGTH]) -> Option<Self> {
        let mut rest = &bytes[..];
        let magic: [u8; 8] = take(&mut rest)?;
        let hello = Self {
            protocol: u32::from_le_bytes(take(&mut rest)?),
            version: take(&mut rest)?,
            rank: u32::from_le_bytes(take(&mut rest)?),
            world: u32::from_le_bytes(take(&mut rest)?),
            port: u16::from_le_bytes(take(&mut rest)?),
            schedule: take(&mut rest)?,
            plan: take(&mut rest)?,
            nonce: take(&mut rest)?,
        };
        (magic == MAGIC).then_some(hello)
    }

    /// Whether `other` can take part in the same run.
    fn check(&self, other: &Self) -> Result<(), RendezvousError> {
        let rank = other.rank as usize;
        let differs = |what, here: String, there: String| {
            Err(RendezvousError::Differs { rank, what, here, there })
        };
        let text = |version: &[u8; 16]| {
            String::from_utf8_lossy(version).trim_end_matches('\0').escape_default().to_string()
        };
        if (self.protocol, self.version) != (other.protocol, other.version) {
            return differs("version of debubble", text(&self.version), text(&other.version));
        }
        if self.world != other.world {
            let [here, there] = [self.world, other.world].map(|world| world.to_string());
            return differs("number of processes", here, there);
        }
        let hex =
            |sum: &Digest32| sum[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if self.schedule != other.schedule {
            return differs("schedule", hex(&self.schedule), hex(&other.schedule));
        }
        if self.plan != other.plan {
            let what = "plan (steps, warm-up, boundary, hop, or what is computed)";
            return differs(what, hex(&self.plan), hex(&other.plan));
        }
        Ok(())
    }

    /// The caller's side of the handshake: the hello of the callee, if it is accepted.
    pub(super) fn call(
        &self,
        stream: &TcpStream,
        token: &[u8],
        deadline: Instant,
    ) -> Result<Self, Refusal> {
        write_by(stream, &self.to_bytes(), deadline)?;
        let other = self.read_hello(stream, deadline)?;
        write_by(stream, &proof(token, b"caller", self, &other), deadline)?;
        let mut answer = [0; 1];
        read_by(stream, &mut answer, deadline)?;
        if answer != [1] {
            return Err(Refusal::Rejected(RendezvousError::Token { rank: other.rank as usize }));
        }
        let mut proven = [0; 32];
        read_by(stream, &mut proven, deadline)?;
        if !is_proof(token, b"callee", self, &other, &proven) {
            return Err(Refusal::Rejected(RendezvousError::Token { rank: other.rank as usize }));
        }
        self.check(&other).map_err(Refusal::Rejected)?;
        Ok(other)
    }

    /// The callee's side of the handshake: the hello of the caller, if it is accepted.
    pub(super) fn answer(
        &self,
        stream: &TcpStream,
        token: &[u8],
        deadline: Instant,
    ) -> Result<Self, Refusal> {
        let other = self.read_hello(stream, deadline)?;
        write_by(stream, &self.to_bytes(), deadline)?;
        let mut proven = [0; 32];
        read_by(stream, &mut proven, deadline)?;
        if !is_proof(token, b"caller", &other, self, &proven) {
            write_by(stream, &[0], deadline)?;
            let unknown =
                format!("a process that calls itself rank {} has another token", other.rank);
            return Err(Refusal::Unknown(unknown));
        }
        write_by(stream, &[1], deadline)?;
        write_by(stream, &proof(token, b"callee", &other, self), deadline)?;
        self.check(&other).map_err(Refusal::Rejected)?;
        Ok(other)
    }

    fn read_hello(&self, stream: &TcpStream, deadline: Instant) -> Result<Self, Refusal> {
        let mut bytes = [0; LENGTH];
        read_by(stream, &mut bytes, deadline)?;
        let unknown = || Refusal::Unknown("it does not speak debubble's protocol".to_owned());
        let other = Self::from_bytes(&bytes).ok_or_else(unknown)?;
        if other.nonce == self.nonce {
            return Err(Refusal::Unknown("it repeats what it hears".to_owned()));
        }
        Ok(other)
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self::Unknown(error.to_string())
    }
}

fn mac(token: &[u8], role: &[u8], caller: &Hello, callee: &Hello) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token).ok()?;
    mac.update(role);
    mac.update(&caller.to_bytes());
    mac.update(&callee.to_bytes());
    Some(mac)
}

fn proof(token: &[u8], role: &[u8], caller: &Hello, callee: &Hello) -> Digest32 {
    let mac = mac(token, role, caller, callee);
    mac.map_or([0; 32], |mac| mac.finalize().into_bytes().into())
}

/// Compares in constant time.
fn is_proof(token: &[u8], role: &[u8], caller: &Hello, callee: &Hello, proven: &Digest32) -> bool {
    mac(token, role, caller, callee).is_some_and(|mac| mac.verify_slice(proven).is_ok())
}

fn digest_of_schedule(schedule: &Schedule) -> Digest32 {
    let shape = schedule.shape();
    let placement: u8 = match schedule.placement() {
        Placement::Looped => 0,
        Placement::Vee => 1,
        Placement::Mirrored => 2,
    };
    let mut sum = Sha256::new();
    sum.update([placement]);
    sum.update((shape.stages() as u64).to_le_bytes());
    sum.update(shape.chunks_per_stage().to_le_bytes());
    sum.update(shape.microbatches().to_le_bytes());
    sum.update(schedule.to_string());
    sum.finalize().into()
}

fn digest_of_rest(plan: &Plan, about: &str) -> Digest32 {
    let (kind, max_norm): (u8, f64) = match plan.boundary() {
        Boundary::Asynchronous => (0, 0.0),
        Boundary::Barrier { max_norm } => (1, max_norm),
        Boundary::PostValidation { max_norm } => (2, max_norm),
    };
    let mut sum = Sha256::new();
    sum.update([kind]);
    sum.update(max_norm.to_bits().to_le_bytes());
    sum.update(plan.segments().to_le_bytes());
    sum.update(format!("{:?}", plan.updates()));
    sum.update(plan.steps().to_le_bytes());
    sum.update(plan.warm_up().to_le_bytes());
    for hop in plan.hops().by_link() {
        sum.update(hop.0.to_le_bytes());
    }
    sum.update(about);
    sum.finalize().into()
}

/// A number used once. It is unpredictable because of the keys of [`RandomState`], which the system
/// draws.
fn nonce() -> Digest32 {
    let mut sum = Sha256::new();
    for _ in 0..4 {
        sum.update(RandomState::new().build_hasher().finish().to_le_bytes());
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    sum.update(now.as_nanos().to_le_bytes());
    sum.update(std::process::id().to_le_bytes());
    sum.finalize().into()
}
