//! The schedules in groups, with a description of each in a line.

use answer::schedules::Entry;
use pipeline::{About, Choice, Family, Placement, Semantics, Vocabulary};
use serde::Serialize;

use crate::wording::said;

/// All schedules, in groups.
#[derive(Serialize)]
pub(crate) struct Grouped {
    groups: Vec<Group>,
}

/// Schedules of one idea.
#[derive(Serialize)]
struct Group {
    name: &'static str,
    /// The idea.
    about: &'static str,
    schedules: Vec<Member>,
}

/// A schedule of a group.
#[derive(Serialize)]
struct Member {
    name: &'static str,
    /// Its description, in a line.
    summary: String,
    source: &'static str,
    needs: String,
    bubble: &'static str,
    memory: &'static str,
}

/// The groups in their order: name and idea.
const GROUPS: [(&str, &str); 8] = [
    ("Classic", "Whole backward passes, chunks from the first stage to the last."),
    ("Zero Bubble", "The backward pass is split into B and W, and W fills bubbles."),
    ("V", "Chunks go down the stages and up again, so that memory is even over the stages."),
    ("Bidirectional", "Microbatches enter at both ends of the pipeline."),
    (
        "Offload",
        "Activations spend the time between F and B on the host, or the order makes room for that.",
    ),
    ("Vocabulary", "The output layer is spread over all stages."),
    (
        "Asynchronous",
        "The pipeline never flushes: gradients are of older weights, so that figures do not compare.",
    ),
    (SEARCH, "Orders that are searched for the very question."),
];
const SEARCH: &str = "Search";

/// The name of the group of `family`.
fn group(family: Family) -> &'static str {
    let About { semantics, vocabulary, choice, placement, whole_backwards, .. } = *family.about();
    match (semantics, vocabulary, choice, placement) {
        (Semantics::Asynchronous, ..) => "Asynchronous",
        (_, Vocabulary::OneBarrier | Vocabulary::TwoBarriers, ..) => "Vocabulary",
        (.., Choice::Group | Choice::Offload, _) => "Offload",
        (.., Placement::Mirrored) => "Bidirectional",
        _ if family == Family::DualPipeV => "Bidirectional",
        _ if family == Family::GisH => "Offload",
        (.., Placement::Vee) => "V",
        (.., Placement::Looped) if whole_backwards => "Classic",
        (.., Placement::Looped) => "Zero Bubble",
    }
}

/// All of them.
pub(crate) fn schedules() -> Grouped {
    let all = answer::schedules::schedules().schedules;
    let groups = GROUPS.map(|(name, about)| {
        let of_group = all.iter().filter_map(|entry| member(entry, name));
        Group { name, about, schedules: of_group.collect() }
    });
    Grouped { groups: groups.into() }
}

/// `entry` as a member of the group `name`, if it is one.
fn member(entry: &Entry, name: &str) -> Option<Member> {
    let (own, summary) = match Family::named(entry.name) {
        Some(family) => (group(family), family.summary()),
        None => (SEARCH, "The order that a search finds under the memory limit.".to_owned()),
    };
    let Entry { name: schedule, source, bubble, memory, .. } = *entry;
    let needs = said(entry.needs);
    (own == name).then_some(Member { name: schedule, summary, source, needs, bubble, memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schedule_is_in_one_group_and_has_a_line() {
        let Grouped { groups } = schedules();
        let count: usize = groups.iter().map(|group| group.schedules.len()).sum();
        assert_eq!(count, answer::schedules::schedules().schedules.len());
        for member in groups.iter().flat_map(|group| &group.schedules) {
            let summary = &member.summary;
            assert!(summary.ends_with('.') && !summary.contains(['`', '[']), "{summary}");
        }
        let names = |name: &str| -> Vec<&str> {
            let found = groups.iter().filter(|group| group.name == name);
            found.flat_map(|group| &group.schedules).map(|one| one.name).collect()
        };
        assert_eq!(names("Asynchronous"), ["pipedream", "pipedream-2bw"]);
        assert_eq!(names("Zero Bubble"), ["zb-h1", "zb-h2", "zb-heuristic", "zb-1p", "zb-2p"]);
        assert!(names("Bidirectional").contains(&"dualpipe-v") && names("V").contains(&"zb-v"));
    }
}
