//! The project's own files, and small ones of the kinds that it has none of.

use std::sync::Arc;

use executor::Model;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use pipeline::{Bytes, Footprint, Placement};
use profile::{
    Backward, Element, Link, LinkKind, Machine, Message, ModelShape, Optimizer, Part, Profile,
    Quantity, RecordedChunk, Resident, TrainerProfile,
};

use super::files::{of_folder, root};
use super::parsers::Parser;
use crate::sweep::journal::Journal;

/// The sweep whose journal is read.
pub(super) const SWEEP: &str = concat!(
    "# debubble sweep 0123456789abcdef shard 1/1 questions 6 version ",
    env!("CARGO_PKG_VERSION"),
);

/// The seeds of the inputs of `parser`.
pub(super) fn of(parser: &Parser) -> Vec<Vec<u8>> {
    let files = |folder: &str, ending: &str| -> Vec<Vec<u8>> {
        let found = of_folder(&root().join(folder), ending);
        found.into_iter().map(|(_, bytes)| bytes).collect()
    };
    let mut seeds = files(&format!("tests/fuzz/{}", parser.name), "");
    let scenarios = ["scenarios", "scenarios/execute", "scenarios/paper"];
    let all_scenarios = || scenarios.iter().flat_map(|folder| files(folder, ".toml"));
    let is_sweep = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains("[sweep");
    let is_machine = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains("[device]");
    let is_package = |bytes: &Vec<u8>| bytes.starts_with(b"[package]");
    // For searches alone: it names no schedule.
    let is_records = |bytes: &Vec<u8>| *bytes == scenarios::RECORDS.as_bytes();
    seeds.extend(match parser.name {
        // Clusters are named by where they lie, which inputs do not.
        "scenario" => all_scenarios()
            .filter(|bytes| !is_sweep(bytes) && !String::from_utf8_lossy(bytes).contains(".toml\""))
            .filter(|bytes| !is_machine(bytes) && !is_package(bytes) && !is_records(bytes))
            .collect(),
        "sweep" => all_scenarios().filter(is_sweep).collect(),
        "cluster" => files("scenarios/clusters", ".toml"),
        "machine" => {
            let machines = files("scenarios/machines", ".toml").into_iter();
            machines.chain(all_scenarios().filter(is_machine)).collect()
        }
        "profile" => vec![profile().to_toml().into_bytes(), trainer().to_toml().into_bytes()],
        "plan" => files("scenarios/plan", ".toml"),
        // Those that are planned; what is refused at a key is not read any further.
        "config" => {
            let planned = ["llama-3-8b.json", "mixtral-8x7b.json", "qwen3-30b-a3b.json"];
            planned.into_iter().flat_map(|name| files("tests/configs", name)).collect()
        }
        "schedule" => files("tests/golden", ".txt"),
        "certificate" => files("tests/golden", ".cert"),
        "trace-parquet" => parquet_files(),
        "trace-nsys" => files("tests/traces/nsys", ".jsonl"),
        "journal" => vec![journal()],
        "shard" => vec![shard()],
        "command-line" => command_lines(),
        _ => Vec::new(),
    });
    seeds
}

/// A profile of a tiny model.
fn profile() -> Profile {
    let quantity = |base: u64| {
        let samples = (0..12).map(|at| base + at * 7 % 5).collect();
        Quantity::of(samples).expect("there are samples")
    };
    let part = |base: u64| Part {
        forward: quantity(base),
        backward_input: quantity(2 * base),
        backward_weight: quantity(base + 100),
        footprint: Footprint { until_backward: Bytes(2240), until_weight: Bytes(2048) },
    };
    let message =
        |bytes| Message { bytes, pairs: 1, both_ways: false, time: quantity(900 + bytes) };
    let model = Model::new(8, 2, 1, 16, 4, 1).expect("a model of such sizes exists");
    Profile {
        machine: Machine {
            cpu: "a processor".to_owned(),
            cores: 2,
            os: "an operating system".to_owned(),
            device: "cpu, one core".to_owned(),
            driver: None,
            clocks: None,
            pinned: false,
            neighbours: 0,
            date: "2026-11-22".to_owned(),
            program: concat!("debubble ", env!("CARGO_PKG_VERSION")).to_owned(),
            remark: None,
        },
        model: ModelShape::new(model, Element::F32).expect("a model of such sizes exists"),
        half_width: 0.02,
        overhead: quantity(800),
        layer: part(40_000),
        embedding: part(1_000),
        head: part(9_000),
        optimizer: Optimizer { parameters: 1_000, step: quantity(5_000) },
        links: vec![Link { kind: LinkKind::Queue, messages: vec![message(0), message(1 << 16)] }],
    }
}

/// A profile of a trainer of two chunks.
fn trainer() -> TrainerProfile {
    let quantity = |base: u64| Quantity::of((0..9).map(|at| base + at % 4).collect());
    let chunk = |base: u64| RecordedChunk {
        forward: quantity(base).expect("there are samples"),
        backward: Backward::Split {
            input: quantity(base + 10).expect("there are samples"),
            weight: quantity(base + 5).expect("there are samples"),
            whole: quantity(2 * base),
        },
        footprint: Some(Footprint { until_backward: Bytes(300), until_weight: Bytes(200) }),
        resident: Some(Resident {
            weights: Bytes(40),
            gradients: Bytes(80),
            optimizer: Bytes(120),
            pass: Bytes(base / 1_000),
        }),
    };
    TrainerProfile {
        machine: profile().machine,
        schedule: "zb-h1".to_owned(),
        stages: 2,
        placement: Placement::Looped,
        microbatches: 4,
        one_device: true,
        half_width: 0.05,
        message: Some(Bytes(4096)),
        hop: quantity(50_000),
        overhead: quantity(20_000),
        chunks: vec![chunk(1_000_000), chunk(1_100_000)],
    }
}

/// Two steps of two stages and two microbatches of 1F1B, in the ways that a writer may choose.
fn parquet_files() -> Vec<Vec<u8>> {
    let plain = || WriterProperties::builder().set_dictionary_enabled(false);
    let dictionary = WriterProperties::builder;
    vec![
        parquet_file(dictionary()),
        parquet_file(dictionary().set_compression(Compression::SNAPPY)),
        parquet_file(dictionary().set_writer_version(WriterVersion::PARQUET_2_0)),
        parquet_file(dictionary().set_data_page_row_count_limit(3).set_write_batch_size(1)),
        parquet_file(plain()),
        parquet_file(plain().set_encoding(Encoding::PLAIN).set_compression(Compression::SNAPPY)),
        parquet_file(
            plain()
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_column_encoding(ColumnPath::from("optype"), Encoding::PLAIN),
        ),
    ]
}

fn parquet_file(properties: WriterPropertiesBuilder) -> Vec<u8> {
    const SCHEMA: &str = "message trace { required int64 dp_rank; required int64 stage; \
        required int64 step; required binary optype (UTF8); required double start_ts; \
        required double duration; required int64 mc; required int64 mb_id; }";
    /// Stage, whether it is a forward, microbatch, start in seconds.
    const STEP: [(i64, bool, i64, f64); 8] = [
        (0, true, 0, 0.0),
        (0, true, 1, 1.0),
        (1, true, 0, 1.0),
        (1, false, 0, 2.0),
        (0, false, 0, 4.0),
        (1, true, 1, 4.0),
        (1, false, 1, 5.0),
        (0, false, 1, 7.0),
    ];
    let rows = [0, 1].into_iter().flat_map(|step| STEP.map(|row| (step, row)));
    let rows: Vec<(i64, (i64, bool, i64, f64))> = rows.collect();
    let whole = |value: fn(i64, (i64, bool, i64, f64)) -> i64| -> Vec<i64> {
        rows.iter().map(|&(step, row)| value(step, row)).collect()
    };
    let decimal = |value: fn(i64, (i64, bool, i64, f64)) -> f64| -> Vec<f64> {
        rows.iter().map(|&(step, row)| value(step, row)).collect()
    };
    let optype = |row: (i64, bool, i64, f64)| if row.1 { "forward-compute" } else { "BW" };
    let optypes: Vec<ByteArray> = rows.iter().map(|&(_, row)| optype(row).into()).collect();
    let schema = Arc::new(parse_message_type(SCHEMA).expect("this schema can be read"));
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()));
    let mut writer = writer.expect("a vector takes all that is written to it");
    let mut group = writer.next_row_group().expect("a file may have groups");
    column::<Int64Type>(&mut group, &whole(|_, _| 0));
    column::<Int64Type>(&mut group, &whole(|_, row| row.0));
    column::<Int64Type>(&mut group, &whole(|step, _| step));
    column::<ByteArrayType>(&mut group, &optypes);
    #[allow(clippy::cast_precision_loss)]
    column::<DoubleType>(&mut group, &decimal(|step, row| row.3 + 10.0 * step as f64));
    column::<DoubleType>(&mut group, &decimal(|_, row| if row.1 { 1.0 } else { 2.0 }));
    column::<Int64Type>(&mut group, &whole(|_, _| 0));
    column::<Int64Type>(&mut group, &whole(|_, row| row.2));
    group.close().expect("the group is whole");
    writer.into_inner().expect("the file is whole")
}

fn column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, Vec<u8>>, values: &[T::T]) {
    let column = group.next_column().expect("columns come in order");
    let mut column = column.expect("the schema has this column");
    column.typed::<T>().write_batch(values, None, None).expect("values have the column's type");
    column.close().expect("the column is whole");
}

/// The journal of a sweep that was killed after two blocks.
fn journal() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let mut journal = Journal::open(&folder.path().join("rows.csv"), SWEEP).expect("it is new");
    for block in ["a,1\nb,2\n", "c,3\nd,4\ne,5\n"] {
        let rows = block.lines().count() as u64;
        journal.add(rows, &[block.as_bytes().to_vec()]).expect("there is room for rows");
    }
    std::fs::read(folder.path().join("rows.csv.partial")).expect("it is there")
}

/// The only shard of a sweep.
fn shard() -> Vec<u8> {
    let mut text = format!("{SWEEP}\nschedule,span_ns\n");
    (0..6).for_each(|row| text.push_str(&format!("1f1b,{}\n", 1000 * row)));
    let end = question::sweep::shard::last_line(super::checksum(text.as_bytes()));
    (text + &end).into_bytes()
}

/// The commands of the README and of the book that ask for no file.
fn command_lines() -> Vec<Vec<u8>> {
    let folders = ["", "docs/tutorial", "docs/how-to"].map(|folder| root().join(folder));
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let mut pages: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    let texts = pages.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    texts.flat_map(|text| commands(&text)).collect()
}

/// The commands of a page.
fn commands(page: &str) -> Vec<Vec<u8>> {
    // What stands between fences is code.
    let code = page.split("```").skip(1).step_by(2);
    let joined: String = code.map(|code| code.replace("\\\n", " ")).collect();
    let lines = joined.lines().map(|line| line.trim().trim_start_matches("$ "));
    let commands = lines.filter(|line| line.starts_with("debubble "));
    let plain = |line: &&str| !line.contains(['|', '>', '$', '"', '\'', '#', '&', ';', '(']);
    // Nobody has a profile before it is measured, nor a folder for it.
    let commands = commands.filter(plain).filter(|line| !line.contains("scenarios/profiles"));
    commands.map(|line| line.as_bytes().to_vec()).collect()
}
