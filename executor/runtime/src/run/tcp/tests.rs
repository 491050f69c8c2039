//! A peer that has the token and violates the protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline::{Costs, Nanos, PassTimes, Schedule, Value};

use super::frame::{HEADER, Head, MOST_WORDS};
use super::rendezvous::RendezvousSettings;
use super::{Rendezvous, free_ports, init_process_group, join};
use crate::run::inbox::Name;
use crate::run::launch::Launch;
use crate::{Failure, Plan, Timed};

fn plan() -> Plan {
    let schedule: Schedule = "F0.0 F0.1 BW0.0 BW0.1\nF1.0 BW1.0 F1.1 BW1.1\n".parse().unwrap();
    Plan::new(schedule, 2).unwrap().with_timeout(Duration::from_millis(400)).unwrap()
}

/// The failure that the process of stage 1 reports of a stage 0 that does `mischief` after the
/// rendezvous.
fn said_of(mischief: impl FnOnce(&mut TcpStream) + Send) -> Failure {
    let plan = plan();
    let port = free_ports(1).unwrap();
    let rendezvous = |rank| {
        let launch = Launch { rank, world: 2, master: "127.0.0.1".to_owned(), port };
        Rendezvous { launch, bind: None, token: b"a secret".to_vec(), about: String::new() }
    };
    let costs = Costs::uniform(plan.schedule().shape(), PassTimes::default(), Nanos(0));
    let device = Timed::new(Arc::new(costs));
    std::thread::scope(|scope| {
        let liar = scope.spawn(|| {
            let mut group =
                init_process_group(&RendezvousSettings::of(&plan, ""), &rendezvous(0)).unwrap();
            let stream = group.streams[1].as_mut().unwrap();
            stream.set_read_timeout(None).unwrap();
            mischief(stream);
            // Stays until the peer closes.
            let _ = std::io::copy(stream, &mut std::io::sink());
        });
        let end = join(&plan, &rendezvous(1), |_| Ok(device));
        liar.join().unwrap();
        end.unwrap_err()
    })
}

fn name(step: u32, attempt: u8, microbatch: u32) -> Name {
    Name { step, attempt, value: Value::Output { chunk: 0, microbatch } }
}

/// A frame whose header announces `length` bytes that do not follow.
fn hollow(head: Head, length: u64) -> Vec<u8> {
    let mut frame = head.frame(&[]);
    let at = frame.len() - 8;
    frame[at..].copy_from_slice(&length.to_le_bytes());
    frame
}

#[test]
fn frames_that_are_too_long_or_out_of_order_end_the_run() {
    let go = Head::Go.frame(&[]);
    let late = Head::Value(name(0, 0, 1)).frame(&[]);
    let again = [Head::Value(name(0, 0, 0)).frame(&[]), Head::Value(name(0, 0, 0)).frame(&[])];
    let attempt = Head::Value(name(0, 1, 0)).frame(&[]);
    let norm = Head::Norm { step: 0, round: crate::run::boundary::Round::Total }.frame(&[0; 9]);
    let sent = [
        (vec![0xFF; 24], "not a frame"),
        (hollow(Head::Value(name(0, 0, 0)), u64::MAX), "18446744073709551615 bytes"),
        (hollow(Head::Report, 1 << 40), "1099511627776 bytes"),
        (hollow(Head::Stop, MOST_WORDS as u64 + 1), "4097 bytes"),
        (late, "where Output { chunk: 0, microbatch: 0 } of step 0 (attempt 0) was due"),
        (again.concat(), "where Output { chunk: 0, microbatch: 1 } of step 0"),
        (attempt, "(attempt 1) where"),
        (norm, "norm of step 0 that was not due"),
        (Head::Ready.frame(&[0; 8]), "makes no sense"),
    ];
    for (frames, text) in sent {
        let begin = Instant::now();
        let failure = said_of(|stream| {
            // Values may come after it is ready.
            stream.read_exact(&mut [0; HEADER + 8]).unwrap();
            stream.write_all(&[go.clone(), frames].concat()).unwrap();
        });
        assert!(matches!(failure, Failure::OutOfOrder { stage: 0, .. }), "{failure}");
        assert!(failure.to_string().contains(text), "{failure}");
        assert!(begin.elapsed() < Duration::from_millis(1500));
    }
}

#[test]
fn a_peer_that_falls_silent_or_goes_is_named() {
    let failure = said_of(|_| ());
    let text = failure.to_string();
    assert!(text.contains("stage 1 has been waiting for word that all stages are ready"), "{text}");
    assert!(text.ends_with("; stage 0 does not answer"), "{text}");
    let failure = said_of(|stream| stream.shutdown(std::net::Shutdown::Write).unwrap());
    assert_eq!(failure.to_string(), "stage 0 is lost: its process has ended");
    let words = Head::Stop.frame(b"no\x1b[31m more\n");
    let failure = said_of(move |stream| stream.write_all(&words).unwrap());
    assert_eq!(failure.to_string(), "no[31m more");
}
