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
pub(crate) const fn get(name: &str) -> Option<&'static str> {
    let mut at = 0;
    while at < TEXTS.len() {
        let (known, text) = TEXTS[at];
        if is_equal(known.as_bytes(), name.as_bytes()) {
            return Some(text);
        }
        at += 1;
    }
    None
}

/// The text of the built-in file `name`, for constants: a name that is not there is an error of the
/// compiler.
pub(crate) const fn text(name: &str) -> &'static str {
    get(name).expect("there is no built-in file of this name")
}

/// `==`, which constants cannot use yet.
const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}
