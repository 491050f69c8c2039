use std::collections::BTreeMap;
use std::path::PathBuf;

use pipeline::Family;
use plan::Setup;
use question::{Context, Diagnostic};
use scenarios::PAPER;

use super::super::{Validated, ValidationQuestion, validate};
use super::*;

/// The answer to a question about a file with this text.
fn of_file(text: &str) -> Result<Validated, Diagnostic> {
    let path = PathBuf::from("own.csv");
    let host = BTreeMap::from([(path.clone(), text.as_bytes().to_vec())]);
    validate(&Context::new(&host), &ValidationQuestion { built_in: false, files: vec![path] })
}

#[test]
fn every_line_is_a_run_or_is_set_apart_with_its_reason() {
    let (runs, apart) = published_runs().unwrap();
    let is_row = |line: &&str| !line.starts_with('#');
    let rows = |source: &Source| PAPER.text(source.file()).lines().filter(is_row).count() - 1;
    let lines: usize = Source::ALL.iter().map(rows).sum();
    assert_eq!(runs.len() + apart.len(), lines);
    assert!(apart.iter().all(|one| !one.reason.is_empty()));
    let fitted = |run: &&Run| run.apart.is_none() && run.source.is_fitted();
    let fitted: Vec<&Run> = runs.iter().filter(fitted).collect();
    let configurations: BTreeSet<&str> =
        fitted.iter().map(|run| run.configuration.as_str()).collect();
    assert_eq!((fitted.len(), configurations.len()), (167, 98));
    for run in &runs {
        assert_eq!(run.layout.total(), run.model.layers, "{}", run.place);
        assert_eq!(run.layout.chunks(), run.setup.pipeline * run.setup.chunks, "{}", run.place);
        assert_eq!(run.layout.mtp(), run.model.mtp, "{}", run.place);
        assert!(run.setup.microbatches(run.recipe.batch).is_some(), "{}", run.place);
    }
}

#[test]
fn the_rows_of_a_file_are_predicted_as_those_built_in() {
    let text = PAPER.text("today-mlperf.csv");
    let own = of_file(text).unwrap();
    assert_eq!(own.sets.len(), 1);
    let rows = &own.sets[0].rows;
    assert_eq!(rows.iter().filter(|row| row.quantity == TIME).count(), 21);
    assert!(rows.iter().filter(|row| row.quantity == TIME).all(|row| row.fitted));
    // Another batch is another configuration, to which nothing was fitted.
    let header = text.lines().next().unwrap();
    let line = text.lines().find(|line| line.contains("eos-dfw_n512_ngc23.09")).unwrap();
    let other = line.replace(",1,16,2048,2048,", ",1,32,4096,2048,");
    assert_ne!(line, other);
    let unknown = of_file(&format!("{header}\n{other}\n")).unwrap();
    let row = &unknown.sets[0].rows[0];
    assert!(!row.fitted && row.held_out.is_none());
    let known = rows.iter().find(|row| row.run.starts_with("MLPerf 3:")).unwrap();
    assert!(row.predicted > 1.7 * known.predicted && row.predicted < 2.0 * known.predicted);
}

/// No device of a published run holds more than a plan's memory budget allows, except those that are
/// set apart.
#[test]
fn published_peaks_lie_within_the_errors_of_memory() {
    let error = super::super::memory_error().unwrap();
    let mut most: f64 = 0.0;
    for source in [Source::MlPerf, Source::Bridge, Source::Torchtitan, Source::SimuMax] {
        let own = of_file(PAPER.text(source.file())).unwrap();
        let peaks =
            own.sets[0].rows.iter().filter(|row| row.quantity == PEAK && row.apart.is_none());
        for row in peaks {
            let more = row.measured / row.predicted - 1.0;
            let may = if source == Source::Torchtitan { error.torchtitan } else { error.megatron };
            assert!(more <= may, "{}: {more}", row.run);
            if source == Source::Torchtitan {
                most = most.max(more);
            }
        }
    }
    // No more than is needed.
    assert!((most - error.torchtitan).abs() < 2e-3, "{most}");
}

#[test]
fn columns_may_stand_in_any_order() {
    let text = PAPER.text("today-torchtitan.csv");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut turned = csv::Writer::from_writer(Vec::new());
    let header: Vec<String> = reader.headers().unwrap().iter().rev().map(str::to_owned).collect();
    turned.write_record(&header).unwrap();
    for record in reader.records() {
        let record: Vec<String> = record.unwrap().iter().rev().map(str::to_owned).collect();
        turned.write_record(&record).unwrap();
    }
    let turned = String::from_utf8(turned.into_inner().unwrap()).unwrap();
    assert_eq!(of_file(&turned).unwrap().sets, of_file(text).unwrap().sets);
}

#[test]
fn a_line_that_is_no_run_is_an_error_with_its_row() {
    let text = PAPER.text("today-torchtitan.csv");
    let header = text.lines().next().unwrap();
    let line = text.lines().nth(1).unwrap();
    let wrong = [
        (",8,8,8,1,1,1,", ",8,8,8,3,1,1,", "does not divide gpus"),
        (",8,8,8,1,1,1,", ",0,8,8,1,1,1,", "gpus must be"),
        (",8,8,8,1,1,1,", ",99999999999,8,8,1,1,1,", "gpus must be"),
        (",bf16,", ",int3,", "precision must be"),
        (",selective,", ",sometimes,", "recompute must be"),
        (",2.8435,", ",-1,", "step_seconds must be"),
        (",8192,", ",99999999,", "sequence"),
        (",2,16,", ",3,16,", "global_batch"),
    ];
    for (from, to, message) in wrong {
        let changed = line.replacen(from, to, 1);
        assert_ne!(changed, line, "{from}");
        let error = of_file(&format!("{header}\n{changed}\n")).unwrap_err();
        let message_and_help = format!("{} {}", error.message, error.help.unwrap_or_default());
        assert!(
            message_and_help.contains("row 1") && message_and_help.contains(message),
            "{message_and_help}"
        );
    }
}

/// NVIDIA chose virtual stages for these runs: with one chunk a stage, each would take longer.
#[test]
fn virtual_stages_pay_where_recipes_have_them() {
    let (runs, _) = published_runs().unwrap();
    let is_virtual = |run: &&Run| {
        let is_tuned = [Source::MlPerf, Source::Bridge, Source::Nemo].contains(&run.source);
        is_tuned && run.setup.chunks > 1 && run.model.experts.is_none() && run.apart.is_none()
    };
    let runs: Vec<Run> = runs.iter().filter(is_virtual).cloned().collect();
    let with_one_chunk = runs.iter().map(|run| {
        let stages = run.setup.pipeline;
        let layers = run.model.layers;
        let of = |stage: u64| (stage + 1) * layers / stages - stage * layers / stages;
        let chunks: Vec<String> = (0..stages).map(|stage| format!("t*{}", of(stage))).collect();
        let layout = format!("E{}L", chunks.join("|")).parse().unwrap();
        let setup = Setup { chunks: 1, family: Family::OneFOneB, ..run.setup };
        Run { setup, layout, ..run.clone() }
    });
    let plain = study::without_fits(with_one_chunk.collect()).unwrap();
    let own = study::without_fits(runs).unwrap();
    let gains: Vec<(&str, f64)> = own
        .iter()
        .zip(&plain)
        .map(|(own, plain)| (&*own.run.name, plain.prediction.seconds / own.prediction.seconds))
        .collect();
    assert!(gains.len() >= 20);
    assert!(gains.iter().all(|(_, gain)| *gain > 1.0), "{gains:?}");
}

/// The error that the book has of ccl-bench with a network of its own.
#[test]
fn a_ring_that_half_of_the_runs_give_predicts_the_other_half() {
    let (runs, _) = published_runs().unwrap();
    let own = OwnNetwork::of(&runs).unwrap();
    let [built_in, held_out] = [own.errors(|row| row.built_in), own.errors(|row| row.by_both)];
    assert_eq!(own.rows.len(), 12);
    assert!(built_in[0] > 0.5 && held_out[0] <= 0.15, "{held_out:?}");
    let book = include_str!("../../../docs/explanation/accuracy.md").replace('\n', " ");
    let [file, ring, both] = [built_in, own.errors(|row| row.by_ring), held_out]
        .map(|errors| errors.map(question::format::percent));
    for said in [
        format!(
            "from {} with the machine's file to {}, and to {} where",
            file[0], ring[0], both[0]
        ),
        format!("means are {}, {} and {}", file[1], ring[1], both[1]),
        format!("the largest error, {}, is of one of them", both[2]),
        format!("median error {} held out, {} with the machine's file", both[0], file[0]),
    ] {
        assert!(book.contains(&said), "{said}");
    }
}
