//! The table of all published tables: a table is added by its data file and one entry here.

use super::table::Table;
use super::{
    beyond, closed_forms, controllable, encoder, fig9, headlines, odc, offload, overlap, picture,
    rates, recycle, vocabulary, zero_bubble,
};

/// The default entry: a table without picture, whose orders are not searched.
const PLAIN: Table = Table {
    name: "",
    help: "",
    sources: &[],
    is_summary: false,
    cells: rates::cells,
    picture: None,
    contenders: None,
};

/// All published tables, in the order in which they are answered.
pub static TABLES: &[Table] = &[
    Table {
        name: "headlines",
        help: "the gains that abstracts claim, each in a line: Zero Bubble, offloading, ODC, encoders, ReCycle, vocabulary",
        sources: &[
            headlines::CLAIMS,
            vocabulary::SETTINGS,
            zero_bubble::MODELS,
            zero_bubble::TABLE_4,
            zero_bubble::TABLE_6,
            zero_bubble::POST_VALIDATION,
            zero_bubble::PROFILE,
            vocabulary::PROFILE,
            vocabulary::SCALING,
            vocabulary::TABLES,
            odc::FIGURES,
            odc::LENGTHS,
            odc::TASKS,
            odc::MODELS,
            odc::CLAIMS,
            offload::FIGURE_1,
            offload::FIGURE_15,
            offload::MODELS,
            recycle::SETTINGS,
            recycle::CLAIMS,
            encoder::FIGURES,
            encoder::MODELS,
            encoder::CLAIMS,
        ],
        is_summary: true,
        cells: headlines::cells,
        ..PLAIN
    },
    Table {
        name: "table2",
        help: "closed forms of bubble and memory, without and with communication",
        sources: &["table2.toml"],
        cells: closed_forms::cells,
        ..PLAIN
    },
    Table {
        name: "table5",
        help: "bubble rates, 12 settings x 6 schedules",
        sources: &["table5.toml"],
        cells: rates::cells,
        picture: Some(picture::bars),
        contenders: Some(beyond::zb_1p_and_zb_2p),
        ..PLAIN
    },
    Table {
        name: "table8",
        help: "bubble rates with ZB-V, 9 settings x 5 schedules",
        sources: &["table8.toml"],
        cells: rates::cells,
        picture: Some(picture::bars),
        contenders: Some(beyond::zb_v),
        ..PLAIN
    },
    Table {
        name: "fig9",
        help: "bubble rate over the memory limit, 17 limits x 9 settings x 2 methods",
        sources: &[fig9::SETTINGS, fig9::FIGURES],
        cells: fig9::cells,
        picture: Some(fig9::curves),
        contenders: Some(fig9::contenders),
        ..PLAIN
    },
    Table {
        name: "interleave",
        help: "profiled interleaved 1F1B, 12 settings",
        sources: &["interleave.toml"],
        cells: rates::cells,
        picture: Some(picture::bars),
        ..PLAIN
    },
    Table {
        name: "throughput",
        help: "figure 5, tables 4 and 6: throughput, memory, gains over 1F1B; few microbatches",
        sources: &[
            zero_bubble::MODELS,
            zero_bubble::TABLE_4,
            zero_bubble::TABLE_6,
            zero_bubble::POST_VALIDATION,
            zero_bubble::PROFILE,
        ],
        cells: zero_bubble::throughput,
        picture: Some(zero_bubble::throughput_picture),
        ..PLAIN
    },
    Table {
        name: "post-validation",
        help: "ZB-2p with post-validation and with an all-reduce between steps, 4 models",
        sources: &[zero_bubble::POST_VALIDATION, zero_bubble::MODELS, zero_bubble::PROFILE],
        cells: zero_bubble::post_validation,
        ..PLAIN
    },
    Table {
        name: "vocabulary",
        help: "the output layer over all stages: iterations, scaling, memory, gains; 177 cells",
        sources: &[vocabulary::PROFILE, vocabulary::SCALING, vocabulary::TABLES],
        cells: vocabulary::cells,
        ..PLAIN
    },
    Table {
        name: "controllable",
        help: "bubbles and peaks of V-Min, V-Half and the adaptive V",
        sources: &[controllable::FIGURES],
        cells: controllable::cells,
        ..PLAIN
    },
    Table {
        name: "odc",
        help: "ODC: packing in 18 plans, and its speed-ups by task and model",
        sources: &[odc::FIGURES, odc::LENGTHS, odc::TASKS, odc::MODELS, odc::CLAIMS],
        cells: odc::cells,
        ..PLAIN
    },
    Table {
        name: "offload",
        help: "PipeOffload: closed forms, k, slowdown, memory, throughput, against tensor parallelism",
        sources: &[offload::FIGURE_1, offload::FIGURE_15, offload::MODELS],
        cells: offload::cells,
        picture: Some(offload::picture),
        ..PLAIN
    },
    Table {
        name: "recycle",
        help: "ReCycle: steps with a dead worker whose passes are rerouted, against its claims",
        sources: &[recycle::SETTINGS, recycle::CLAIMS],
        cells: recycle::cells,
        ..PLAIN
    },
    Table {
        name: "encoder",
        help: "Optimus: an encoder in the bubbles of a language model, against Megatron-LM and balanced layers",
        sources: &[encoder::FIGURES, encoder::MODELS, encoder::CLAIMS],
        cells: encoder::cells,
        ..PLAIN
    },
    Table {
        name: "overlap",
        help: "a pair of DualPipe, segment by segment; steps of pairs; measured gains by overlap",
        sources: &[
            overlap::SEGMENTS,
            overlap::FIGURES,
            overlap::GAINS,
            overlap::RUNS,
            overlap::MODELS,
        ],
        cells: overlap::cells,
        ..PLAIN
    },
    Table {
        name: "overlap-gain",
        help: "gains over 1F1B together with tensor, context and expert parallelism, with pairs and without",
        sources: &[
            overlap::SETTINGS,
            overlap::CLAIMS,
            overlap::MODELS,
            overlap::SEGMENTS,
            overlap::GAINS,
            overlap::RUNS,
            overlap::FIGURES,
        ],
        is_summary: true,
        cells: overlap::combined,
        picture: Some(overlap::combined_picture),
        ..PLAIN
    },
];

impl Table {
    /// The table of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use scenarios::PAPER;

    use super::*;

    #[test]
    fn every_table_has_a_name_of_its_own_and_files_that_are_built_in() {
        let names: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
        assert_eq!(names.len(), TABLES.len());
        for table in TABLES {
            assert!(!table.sources.is_empty() && !table.help.is_empty(), "{}", table.name);
            assert!(table.sources.iter().all(|name| PAPER.get(name).is_some()), "{}", table.name);
            assert!(Table::named(table.name).is_some_and(|found| std::ptr::eq(found, table)));
        }
    }
}
