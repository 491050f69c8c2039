//! Readers of files that somebody sent, given files that are changed at random: each is read or refused, in little stack.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use super::*;
use planning::config;

/// Pieces of shell, Python, YAML, TOML, JSON and logs.
const PIECES: &str = r#"$( ) ${ } $(( )) (( [ ] [[ ]] { "" ' " ` \ # ; ;; && || | & < > << <<EOF = += == := :- :+ % ## ! * ? , . : -- - + / ** @ $@ $# $1 if then else elif fi for in do done while until case esac function f() f local return exit break eval source . read export declare unset set shift torchrun bash -c srun --num-layers --hidden-size pretrain_gpt.py A=1 A=$A$A ${A:=$A} L=(1 L+=($L) ${L[@]} "${L[@]}" def class return: lambda None True import @dataclass cfg.model. """ ''' - &a *a !!int {a: | > null 1e999 -1 NaN 0x 99999999999999999999 [a.b] {" ":[ \u0000 "num_experts": elapsed (ms): 1,5 | iteration"#;

struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % most.max(1)
    }

    /// `text`, changed in a few places.
    fn changed(&mut self, text: &str) -> String {
        let pieces: Vec<&str> = PIECES.split(' ').collect();
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len() + 1);
            let end = (at + (1 << self.below(8))).min(bytes.len());
            let piece = pieces[self.below(pieces.len())];
            let other = SEEDS[self.below(SEEDS.len())].1.as_bytes();
            let from = self.below(other.len());
            let part = &other[from..(from + (1 << self.below(9))).min(other.len())];
            match self.below(9) {
                0 => drop(bytes.drain(at..end)),
                1 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
                2 => drop(bytes.splice(at..end, part.iter().copied())),
                3 if self.below(20) == 0 => {
                    let deep = piece.repeat(1 << self.below(16));
                    drop(bytes.splice(at..at, deep.into_bytes()));
                }
                4 => bytes.truncate(at),
                5 if at < bytes.len() => bytes[at] = u8::try_from(self.below(256)).unwrap(),
                6 => drop(bytes.splice(at..at, format!("\n{piece} ").into_bytes())),
                _ => drop(bytes.splice(at..at, format!(" {piece} ").into_bytes())),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Names and texts of files to begin with.
const SEEDS: [(&str, &str); 10] = [
    ("a.sh", include_str!("../../tests/fuzz/script/train.sh")),
    ("a.log", include_str!("../../tests/fuzz/script/run.log")),
    ("b.log", include_str!("../../tests/fuzz/log/others.log")),
    ("a.py", include_str!("../../tests/fuzz/recipe/bridge.txt")),
    ("b.py", include_str!("../../tests/fuzz/recipe/registry.txt")),
    ("a.yaml", include_str!("../../tests/fuzz/configuration/primus.yaml")),
    ("b.yaml", include_str!("../../tests/fuzz/configuration/maxtext.yml")),
    ("a.toml", include_str!("../../tests/fuzz/configuration/torchtitan.toml")),
    ("a.json", include_str!("../../tests/fuzz/configuration/simumax.json")),
    ("b.json", include_str!("../../tests/fuzz/config/llama.json")),
];

fn read_all(name: &str, text: &str) {
    let beside = "A=2\nf() { A=4; }\n".as_bytes().to_vec();
    let files = BTreeMap::from([
        (PathBuf::from(name), text.as_bytes().to_vec()),
        (PathBuf::from("f"), beside),
    ]);
    let context = Context::new(&files);
    let given =
        Given { machine: Some("h100".to_owned()), vocabulary: Some(32_000), ..Given::default() };
    let path = Path::new(name);
    if name.ends_with(".json") {
        let wanted =
            config::Wanted { sequence: None, attention: plan::Attention::Flash, vision: true };
        let _ = config::read(&context, path, wanted);
    }
    if let Ok(asked) = read(&context, path, &given) {
        let _ = asked.to_toml();
    }
    let _ = read_log(&context, path, 1e6);
}

#[test]
fn readers_hold() {
    #[allow(clippy::disallowed_methods)] // How many cases a test tries is not a question.
    let times = std::env::var("DEBUBBLE_CASES").map_or(1, |times| times.parse::<usize>().unwrap());
    let body = move || {
        let mut draw = Draw(0x2545_f491_4f6c_dd1d);
        for number in 0..400 * times {
            let (name, text) = SEEDS[number % SEEDS.len()];
            let text = draw.changed(text);
            let held = catch_unwind(AssertUnwindSafe(|| read_all(name, &text)));
            assert!(held.is_ok(), "{number}, {name}:\n{text}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(body).unwrap();
    assert!(thread.join().is_ok());
}
