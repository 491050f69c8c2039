//! Published settings and figures that are built in, under the names of their files.

/// The files of `scenarios/paper` with their texts.
macro_rules! texts {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/paper/", $name)),
        )),*]
    };
}

const TEXTS: &[(&str, &str)] = texts![
    "table2.toml",
    "table5.toml",
    "table8.toml",
    "interleave.toml",
    "fig9.csv",
    "vocabulary.csv",
    "vocabulary-tables.csv",
    "odc.csv",
    "odc-lengths.csv",
    "controllable.csv",
    "offload-fig1.csv",
    "offload-fig15.csv",
    "korthikanti2022.csv",
    "megatron2021.csv",
    "megatron2021-settings.csv",
    "megatron2021-zero3.csv",
    "vtrain-errors.csv",
    "vtrain-multi.toml",
    "zb-models.csv",
    "zb-throughput.csv",
];

/// The text of the built-in file `name`, if there is one.
pub(crate) fn get(name: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
