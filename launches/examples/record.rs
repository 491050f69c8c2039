//! `record SCRIPT [ARGUMENT..]`: what the script launches, words and folder separated by NULs, as the tests compare it.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit, clippy::disallowed_methods)]

fn main() {
    launches::stand_in();
    let mut words = std::env::args().skip(1);
    let script = words.next().unwrap_or_default();
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let options = launches::Options {
        seconds: number("SECONDS_LIMIT").unwrap_or(20),
        nodes: number("NODES"),
        ..launches::Options::default()
    };
    match launches::record(script.as_ref(), &words.collect::<Vec<_>>(), &options) {
        Ok(own) => {
            let lines = own.launches.iter().map(|launch| launch.words.join("\0"));
            print!("{}", lines.map(|line| line + "\n\0").collect::<String>());
            let launches::Recording { missing, made, without_set_e, ended, output, .. } = own;
            eprintln!("{missing:?} {made:?} {without_set_e} {ended:?}\n{output}");
        }
        Err(refused) => {
            eprintln!("{refused}");
            std::process::exit(3);
        }
    }
}
