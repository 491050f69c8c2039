//! Keys as flags of a command line (feature `clap`).

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::field::{Field, Kind, Plain, Word};
use super::table::{Row, Set};
use crate::diagnostic::Diagnostic;

/// Lets a command take a set of keys as its flags.
macro_rules! flags {
    ($set:ident) => {
        impl clap::Args for $set {
            fn augment_args(command: clap::Command) -> clap::Command {
                $crate::keys::flags::add::<Self>(command)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                $crate::keys::flags::add::<Self>(command)
            }
        }

        impl clap::FromArgMatches for $set {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                let mut keys = Self::default();
                $crate::keys::flags::take(&mut keys, matches).map(|()| keys)
            }

            fn update_from_arg_matches(
                &mut self,
                matches: &clap::ArgMatches,
            ) -> Result<(), clap::Error> {
                $crate::keys::flags::take(self, matches)
            }
        }
    };
}
pub(crate) use flags;

/// The flags of a set of keys that a command line has, to stand over the keys of a file.
#[derive(Clone, Debug)]
pub struct Flags<T> {
    /// Places of keys among the rows, and their values.
    given: Vec<(usize, Vec<Plain>)>,
    of: PhantomData<T>,
}

impl<T: Set> Flags<T> {
    /// Whether the key `name` is among them.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let rows = T::rows();
        self.given.iter().any(|(at, _)| rows.get(*at).is_some_and(|row| row.name == name))
    }

    /// `keys` with the values of the flags in place of theirs.
    pub fn over(self, mut keys: T) -> Result<T, Diagnostic> {
        let mut fields = keys.fields_mut();
        for (at, values) in self.given {
            fields[at].clear();
            for value in values {
                fields[at].put(value).map_err(Diagnostic::new)?;
            }
        }
        Ok(keys)
    }
}

impl<T: Set> Args for Flags<T> {
    fn augment_args(command: Command) -> Command {
        add::<T>(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        add::<T>(command)
    }
}

impl<T: Set> FromArgMatches for Flags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        // Values that are none of their key's are errors of the command line.
        take(&mut T::default(), matches)?;
        let is_given =
            |row: &Row| matches.value_source(row.field) == Some(ValueSource::CommandLine);
        let rows = T::rows().into_iter().enumerate().filter(|(_, row)| is_given(row));
        let given = rows.map(|(at, row)| (at, values(row, matches))).collect();
        Ok(Self { given, of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// `command` with a flag for each key.
pub(crate) fn add<T: Set>(command: Command) -> Command {
    command.args(T::rows().into_iter().map(argument))
}

/// The flag of a key.
fn argument(row: &'static Row) -> Arg {
    let arg = Arg::new(row.field).long(row.name).help(sentence(&row.meaning()));
    let arg = match row.heading {
        "" => arg,
        heading => arg.help_heading(heading),
    };
    let arg = match row.conflicts {
        Some(other) => arg.conflicts_with(other),
        None => arg,
    };
    if matches!(row.kind, Kind::Flag) {
        return arg.action(ArgAction::SetTrue);
    }
    let is_number =
        matches!(row.kind, Kind::Whole | Kind::Narrow | Kind::Size | Kind::Number) && row.signed;
    let arg = arg.value_name(row.value).value_parser(parser(row));
    let arg = arg.allow_negative_numbers(is_number).allow_hyphen_values(row.signed && !is_number);
    let arg = match row.is_list {
        true => arg.action(ArgAction::Append).value_delimiter(','),
        false => arg.action(ArgAction::Set),
    };
    match row.default {
        Some(default) => arg.default_value(default),
        None => arg,
    }
}

/// `text` as a help ends: without its full stop.
fn sentence(text: &str) -> String {
    match text.strip_suffix('.') {
        Some(rest) if !rest.ends_with('.') => rest.to_owned(),
        _ => text.to_owned(),
    }
}

/// A word as help and completions name it.
pub(crate) fn possible(word: &Word) -> PossibleValue {
    PossibleValue::new(word.name).help(sentence(word.meaning.trim()))
}

/// The parser of one value of a key.
fn parser(row: &Row) -> ValueParser {
    match (row.kind, row.range) {
        (Kind::Whole, Some((least, most))) => {
            RangedU64ValueParser::<u64>::new().range(least..=most).into()
        }
        (Kind::Whole, None) => clap::value_parser!(u64).into(),
        (Kind::Narrow, _) => clap::value_parser!(u32).into(),
        (Kind::Size, _) => clap::value_parser!(usize).into(),
        (Kind::Number, _) => clap::value_parser!(f64).into(),
        (Kind::Path, _) => clap::value_parser!(PathBuf),
        (Kind::Name | Kind::Flag, _) => ValueParser::string(),
        (Kind::Text(check), _) => {
            ValueParser::new(move |text: &str| check(text).map(|()| text.to_owned()))
        }
        (Kind::Word(_, _, words), _) => {
            PossibleValuesParser::new(words.iter().map(possible)).into()
        }
    }
}

/// Takes the flags that are given into the fields of `keys`.
pub(crate) fn take<T: Set>(keys: &mut T, matches: &ArgMatches) -> Result<(), Error> {
    for (row, field) in T::rows().into_iter().zip(keys.fields_mut()) {
        let values = values(row, matches);
        if !values.is_empty() {
            field.clear();
        }
        for value in values {
            put(field, value)?;
        }
    }
    Ok(())
}

fn put(field: &mut dyn Field, value: Plain) -> Result<(), Error> {
    field.put(value).map_err(|text| Error::raw(clap::error::ErrorKind::ValueValidation, text))
}

/// The values that the flag of a key has.
fn values(row: &Row, matches: &ArgMatches) -> Vec<Plain> {
    fn all<T: Clone + Send + Sync + 'static>(
        row: &Row,
        matches: &ArgMatches,
        plain: fn(T) -> Plain,
    ) -> Vec<Plain> {
        matches.get_many::<T>(row.field).into_iter().flatten().cloned().map(plain).collect()
    }
    match row.kind {
        Kind::Flag => all(row, matches, Plain::Flag),
        Kind::Whole => all(row, matches, Plain::Whole),
        Kind::Narrow => all(row, matches, |one: u32| Plain::Whole(one.into())),
        Kind::Size => all(row, matches, |one: usize| Plain::Whole(one as u64)),
        Kind::Number => all(row, matches, Plain::Number),
        Kind::Path => all(row, matches, Plain::Path),
        Kind::Name | Kind::Text(_) | Kind::Word(..) => all(row, matches, Plain::Text),
    }
}

#[cfg(test)]
mod tests;
