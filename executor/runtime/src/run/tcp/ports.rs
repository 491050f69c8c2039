//! Ports for processes on this machine.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::rendezvous::RendezvousError;

/// Below the ephemeral ports (32768 and up on Linux): no outgoing connection takes one of these
/// before its listener does, not even a connection to that port.
const LOWEST: u16 = 10_000;
/// Number of candidate ports.
const COUNT: u16 = 20_000;
/// Number of draws before giving up.
const TRIES: usize = 64;

/// The first of `count` consecutive ports that are currently free on the loopback address.
pub fn free_ports(count: u16) -> Result<u16, RendezvousError> {
    let spare = u64::from(COUNT.saturating_sub(count)).max(1);
    let draw = || RandomState::new().build_hasher().finish() % spare;
    let bind = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let are_free = |first: &u16| {
        // All are bound before any is released, so that no two are the same.
        let held: Option<Vec<_>> = first
            .checked_add(count)
            .and_then(|end| (*first..end).map(|port| bind(port).ok()).collect());
        held.is_some()
    };
    let drawn = (0..TRIES).filter_map(|_| Some(LOWEST + u16::try_from(draw()).ok()?));
    drawn.into_iter().find(are_free).ok_or_else(|| RendezvousError::Bind {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        message: format!("there are no {count} free ports in a row"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_a_row_are_free_and_not_for_callers() {
        let first = free_ports(8).unwrap();
        assert!((LOWEST..LOWEST + COUNT).contains(&first), "{first}");
        for port in first..first + 8 {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
        assert!(free_ports(u16::MAX).is_err());
    }
}
