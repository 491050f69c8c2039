//! `record SCRIPT [ARGUMENT..]`: the words of each launch of a script, as the tests compare them.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::disallowed_methods)]

use launches::{Options, record};

fn main() {
    launches::stand_in();
    let mut words = std::env::args().skip(1);
    let script = words.next().unwrap_or_default();
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seconds = number("LIMIT").unwrap_or(20);
    let options = Options { seconds, nodes: number("NODES"), ..Options::default() };
    match record(script.as_ref(), &words.collect::<Vec<_>>(), &options) {
        Ok(own) => {
            own.launches.iter().for_each(|launch| println!("{:?}", launch.words));
            eprintln!("missing {:?} made {:?}", own.missing, own.made);
            eprintln!("lax {} ended {:?}\n{}", own.without_set_e, own.ended, own.output);
        }
        Err(refused) => {
            eprintln!("{}", refused.message);
            std::process::exit(3);
        }
    }
}
