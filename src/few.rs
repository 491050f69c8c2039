//! Help in two sizes: `--help` shows the flags that most questions need, `--help-all` every flag.

use clap::{Arg, ArgAction, Command};
use question::questions::QUESTIONS;

/// Flags that `--help` shows of commands that are not named as their questions.
const FEW: [(&str, &str); 3] = [
    ("simulate", "explain json csv svg html baseline"),
    ("export", "format"),
    ("execute", "device gpus processes steps duration check json csv svg"),
];

/// Commands with more flags than fit a screen or two, and the flags that `--help` shows of each.
fn all_few() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_questions = QUESTIONS.iter().map(|kind| (kind.name, kind.few));
    of_questions.filter(|(_, few)| !few.is_empty()).chain(FEW)
}

/// The keys of a scenario that `--help` shows as flags, of each command that has them.
const KEYS: [&str; 19] = [
    "schedule",
    "stages",
    "microbatches",
    "chunks",
    "layout",
    "profile",
    "forward",
    "backward",
    "backward_input",
    "backward_weight",
    "hop",
    "memory_limit",
    "hidden",
    "heads",
    "seq",
    "recompute",
    "cluster",
    "jitter",
    "replicas",
];

/// `command` with `--help` for few flags and `--help-all` for all of them, where there are many.
pub fn few(command: Command) -> Command {
    // Of the subcommand that is asked, when it is.
    command.mut_subcommands(|one| one.defer(in_two_sizes))
}

fn in_two_sizes(command: Command) -> Command {
    let after =
        command.get_after_long_help().map(|text| text.ansi().to_string()).unwrap_or_default();
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let Some((_, own)) = all_few().find(|(name, _)| *name == command.get_name()) else {
        let more = format!("More on each flag: debubble {} --help-all", command.get_name());
        return command
            .disable_help_flag(true)
            .next_help_heading(None::<&str>)
            .arg(help.help("Print help"))
            .arg(all().hide(true))
            .after_help(format!("{more}\n\n{after}").trim_end().to_owned());
    };
    let shown = |arg: &Arg| {
        let id = arg.get_id().as_str();
        arg.is_positional() || KEYS.contains(&id) || own.split_whitespace().any(|one| one == id)
    };
    let flags = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let more = format!("All {} flags: debubble {} --help-all", flags.count(), command.get_name());
    let few = format!("{more}\n\n{after}");
    command
        .mut_args(|arg| if shown(&arg) { arg } else { arg.hide_short_help(true) })
        .disable_help_flag(true)
        .next_help_heading(None::<&str>)
        .arg(help.help("Print the help of the most used flags"))
        .arg(all())
        .after_help(few.trim_end().to_owned())
}

fn all() -> Arg {
    Arg::new("help-all")
        .long("help-all")
        .action(ArgAction::HelpLong)
        .help("Print the help of all flags")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn help(name: &str, is_long: bool) -> String {
        let mut root = few(crate::Cli::command());
        let command = root.find_subcommand_mut(name).unwrap();
        if is_long { command.render_long_help() } else { command.render_help() }.to_string()
    }

    fn flags(help: &str) -> usize {
        let flags = help.split_once("Examples:").map_or(help, |(flags, _)| flags);
        flags
            .lines()
            .filter(|line| line.trim_start().starts_with("--") && line.starts_with("  "))
            .count()
    }

    #[test]
    fn every_name_is_a_flag() {
        let root = crate::Cli::command();
        let mut keys: std::collections::BTreeSet<&str> = std::collections::BTreeSet::new();
        for (name, own) in all_few() {
            let command = root.find_subcommand(name).unwrap();
            let has = |flag: &&str| command.get_arguments().any(|arg| arg.get_id() == *flag);
            let unknown: Vec<&str> = own.split_whitespace().filter(|flag| !has(flag)).collect();
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
            keys.extend(KEYS.into_iter().filter(|flag| has(flag)));
        }
        assert_eq!(keys.len(), KEYS.len());
    }

    #[test]
    fn help_shows_few_flags_and_says_how_to_see_all() {
        for (name, _) in all_few() {
            let [few, all] = [false, true].map(|is_long| help(name, is_long));
            assert!(flags(&few) <= 30 && flags(&few) < flags(&all), "{name}: {}", flags(&few));
            assert!(few.contains(&format!("debubble {name} --help-all")), "{few}");
            assert!(few.contains("Examples:") && all.contains("Examples:"), "{name}");
        }
    }
}
