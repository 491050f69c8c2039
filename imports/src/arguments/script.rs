//! Arguments among the words of a launch script.

use super::super::shell::{self, Script};
use super::super::table::{MEGATRON, Row};
use super::{Arguments, Style};

impl Arguments {
    /// Those of the last launch of `script`; where none has sizes of a model, those of all and of its variables, which
    /// another script uses.
    pub(in super::super) fn of_script(script: &Script) -> Self {
        let mut own = Self { batch: script.batch, ..Self::default() };
        own.are_of(&MEGATRON);
        let of = |words: &Vec<String>| {
            let mut own = Self::default();
            own.add(words);
            own
        };
        let has_sizes = |words: &&Vec<String>| of(words).values.contains_key("hidden-size");
        let mut launches: Vec<_> = script.commands.iter().filter(has_sizes).collect();
        launches.dedup();
        own.launches = launches.len();
        if let Some(last) = launches.last() {
            own.add(last);
            return own;
        }
        let others = script.commands.iter().filter(|words| shell::is_launch(words));
        others.for_each(|words| own.add(words));
        let has_flags = |words: &&Vec<String>| {
            words.iter().any(|word| word.contains("--") || shell::many(word).is_some())
        };
        script.variables.values().filter(has_flags).for_each(|words| own.add(words));
        own
    }

    /// Those of the words of a launch, as they are.
    pub(in super::super) fn of_launch(words: &[String]) -> Self {
        let mut own = Self::default();
        own.are_of(&MEGATRON);
        own.add(words);
        own
    }

    /// The name of an argument whose value was asked for, and that has none.
    pub(in super::super) fn without_value(&self) -> Option<&str> {
        let read = self.read.borrow();
        let is_empty = |values: &[String]| values.first().is_none_or(String::is_empty);
        let is_switch = |name: &str| self.row(name).is_none_or(Row::is_switch);
        let mut all = self.values.iter().filter(|(name, _)| read.contains(*name));
        all.find(|(name, values)| is_empty(values) && !is_switch(name))
            .map(|(name, _)| name.as_str())
    }

    /// The name of a variable that may have further arguments, if there is one.
    pub(in super::super) fn open_variable(&self) -> Option<&str> {
        // A switch has no value, so what follows is further arguments.
        let switched = self.values.iter().find_map(|(name, values)| {
            let first = values.first().and_then(|value| shell::many(value))?;
            self.row(name).is_none_or(Row::is_switch).then_some(first)
        });
        self.open.first().map(String::as_str).or(switched)
    }

    /// Adds the arguments among `words`; those of a command in quotes, too.
    fn add(&mut self, words: &[String]) {
        let mut name = None;
        let parts: Vec<&str> = words
            .iter()
            .flat_map(|word| match word.contains(" --") || word.starts_with("--") {
                true => word.split_whitespace().collect::<Vec<_>>(),
                false => vec![word.as_str()],
            })
            .collect();
        for (at, word) in parts.iter().copied().enumerate() {
            let flag = word.strip_prefix("--");
            if let Some(variable) = shell::many(word) {
                let values = name.as_ref().and_then(|name: &String| self.values.get(name));
                let is_list = name.as_ref().is_some_and(|name| name.contains("data"));
                if !is_list && values.is_none_or(|values| !values.is_empty()) {
                    self.open.push(variable.to_owned());
                    continue;
                }
            }
            self.add_short(&parts, at);
            match flag.filter(|flag| flag.starts_with(|c: char| c.is_ascii_alphabetic())) {
                Some(flag) => {
                    let (flag, value) = match flag.split_once('=') {
                        Some((flag, value)) => (flag, Some(value.to_owned())),
                        None => (flag, None),
                    };
                    let flag = flag.replace('_', "-");
                    self.values.insert(flag.clone(), value.into_iter().collect());
                    name = Some(flag);
                }
                None => {
                    let own = name.as_ref().and_then(|name: &String| self.values.get_mut(name));
                    own.into_iter().for_each(|own| own.push(word.to_owned()));
                }
            }
        }
    }

    /// Adds nodes or tasks, if a short option of a launcher that counts them is at the place `at`.
    fn add_short(&mut self, words: &[&str], at: usize) {
        let word = words[at];
        let launchers = ["srun", "mpirun", "mpiexec"];
        let before = words.get(..at).unwrap_or_default();
        let is_launcher = before.iter().any(|word| launchers.contains(&shell::program_name(word)))
            && !before.iter().any(|word| word.contains("python") || word.contains("torchrun"));
        let (option, value) = match word.get(..2).filter(|_| !word.starts_with("-np")) {
            Some(option) if word.len() > 2 => (option, word.get(2..)),
            _ => (word, words.get(at + 1).copied()),
        };
        let flag = match option {
            "-N" => "nodes",
            "-n" | "-np" => "ntasks",
            _ => return,
        };
        if let Some(value) = value.filter(|_| is_launcher) {
            self.values.insert(flag.to_owned(), vec![value.to_owned()]);
        }
    }

    /// Those of the commands of `script` in the form `table.name=value`, with plus signs before names that are new.
    pub(in super::super) fn of_overrides(script: &Script) -> Self {
        let launches = || script.commands.iter().filter(|words| shell::is_launch(words)).flatten();
        let unknown = launches().filter_map(|word| shell::many(word));
        let open = unknown.map(str::to_owned).collect();
        Self { open, ..Self::of_settings(launches()) }
    }

    /// Those of `words` in this form.
    pub(in super::super) fn of_settings<'a>(words: impl Iterator<Item = &'a String>) -> Self {
        let mut own = Self { style: Style::Keys, ..Self::default() };
        for word in words {
            // A whole array in quotes is one word here.
            let is_several =
                word.split_whitespace().skip(1).any(|part| override_of(part).is_some());
            let parts = match is_several {
                true => word.split_whitespace().collect(),
                false => vec![word.as_str()],
            };
            for (name, value) in parts.into_iter().filter_map(override_of) {
                own.set(&name.replace('_', "-"), Some(vec![value.to_owned()]));
            }
        }
        own
    }
}

/// The name and the value of an override, `table.name=value`.
fn override_of(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let name = name.trim_start_matches('+');
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (name.contains('.') && name.chars().all(is_part)).then_some((name, value))
}
