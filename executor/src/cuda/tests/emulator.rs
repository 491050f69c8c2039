//! The kernels compiled by a C++ compiler and run on the processor, thread by thread.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, id};
use std::sync::OnceLock;

use super::super::element::{Bf16, Element};
use super::super::launch::{Address, Arg, Kernel, Launch};
use super::{Machine, cases};

/// The kernels as a program for the processor.
struct Emulator {
    program: PathBuf,
}

/// Addresses are the number of a buffer, from 1, above these bits, and an offset.
const OFFSET_BITS: u32 = 40;

fn compile<E: Element>() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda");
    let folder = env::temp_dir().join(format!("kernels-{}-{}", E::NAME, id()));
    fs::create_dir_all(&folder).ok()?;
    let mut names = String::new();
    Kernel::ALL.iter().for_each(|kernel| writeln!(names, "RUN({})", kernel.name()).unwrap());
    fs::write(folder.join("names.inc"), names).ok()?;
    let program = folder.join("emulator");
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    // With the sanitizers, which find reads past the end of a buffer, where they are installed.
    for checks in [Some("-fsanitize=address,undefined"), None] {
        let mut command = Command::new(&compiler);
        command.args([
            "-std=c++17",
            "-O1",
            "-w",
            "-fno-strict-aliasing",
            "-fno-sanitize-recover=all",
        ]);
        command.args(checks).arg(format!("-DKERNELS=\"{}\"", here.join("kernels.cu").display()));
        command.args(E::IS_BF16.then_some("-DELEMENT_BF16")).arg("-I").arg(&folder);
        command.arg(here.join("tests/emulator.cpp")).arg("-o").arg(&program);
        match command.output() {
            Ok(output) if output.status.success() => return Some(program),
            Ok(output) if checks.is_none() => {
                panic!("{compiler}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Ok(_) => {}
            Err(_) => return None,
        }
    }
    None
}

/// The emulator for elements `E`; `None`, said aloud, where there is no C++ compiler.
fn emulator<E: Element>() -> Option<Emulator> {
    static PROGRAMS: [OnceLock<Option<PathBuf>>; 2] = [OnceLock::new(), OnceLock::new()];
    let program = PROGRAMS[usize::from(E::IS_BF16)].get_or_init(compile::<E>).clone();
    if program.is_none() {
        println!("skipped: no C++ compiler (CXX, or c++)");
    }
    program.map(|program| Emulator { program })
}

fn put(input: &mut Vec<u8>, words: impl IntoIterator<Item = u64>) {
    words.into_iter().for_each(|word| input.extend(word.to_le_bytes()));
}

fn put_launch(input: &mut Vec<u8>, launch: &Launch) {
    let name = launch.kernel.name();
    put(input, [name.len() as u64]);
    input.extend(name.bytes());
    put(input, launch.grid.into_iter().chain(launch.block).map(u64::from));
    put(input, [launch.args.len() as u64]);
    for arg in &launch.args {
        let kind = match arg {
            Arg::Pointer(_) => b'p',
            Arg::Word(_) => b'u',
            Arg::Size(_) => b'l',
            Arg::Real(_) => b'f',
        };
        put(input, [u64::from(kind), arg.bits()]);
    }
}

impl Emulator {
    fn output(&self, reversed: bool, buffers: &[Vec<u8>], launches: &[Launch]) -> Vec<u8> {
        let mut input = Vec::new();
        put(&mut input, [u64::from(reversed), buffers.len() as u64]);
        for buffer in buffers {
            put(&mut input, [buffer.len() as u64]);
            input.extend(buffer);
        }
        put(&mut input, [launches.len() as u64]);
        launches.iter().for_each(|launch| put_launch(&mut input, launch));
        let pipe = Stdio::piped;
        let mut command = Command::new(&self.program);
        let mut child = command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        output.stdout
    }
}

impl Machine for Emulator {
    fn bytes<E: Element>(
        &self,
        buffers: &[Vec<u8>],
        plan: &dyn Fn(&[Address]) -> Vec<Launch>,
    ) -> Vec<Vec<u8>> {
        let addresses: Vec<Address> =
            (1..=buffers.len() as u64).map(|buffer| buffer << OFFSET_BITS).collect();
        let launches = plan(&addresses);
        let output = self.output(false, buffers, &launches);
        let reversed = self.output(true, buffers, &launches);
        assert!(output == reversed, "the result depends on the order of threads: {launches:?}");
        let mut rest = output.as_slice();
        buffers
            .iter()
            .map(|buffer| rest.split_off(..buffer.len()).expect("all buffers come back").to_vec())
            .collect()
    }
}

macro_rules! emulated {
    ($($case:ident,)*) => {
        $(#[test]
        fn $case() {
            if let Some(emulator) = emulator::<f32>() {
                cases::$case::<f32>(&emulator);
            }
            if let Some(emulator) = emulator::<Bf16>() {
                cases::$case::<Bf16>(&emulator);
            }
        })*
    };
}

cases::all!(emulated);

#[test]
fn the_emulator_finds_reads_past_the_end_and_wrong_arguments() {
    let Some(emulator) = emulator::<f32>() else { return };
    let good = |n| Launch {
        kernel: Kernel::Add,
        grid: [1, 1, 1],
        block: [32, 1, 1],
        args: vec![Arg::Pointer(1 << OFFSET_BITS), Arg::Pointer(2 << OFFSET_BITS), Arg::Size(n)],
    };
    let buffers = [vec![0; 12], vec![0; 12]];
    assert_eq!(emulator.output(false, &buffers, &[good(3)]).len(), 24);
    let fails = |launch: Launch| {
        std::panic::catch_unwind(|| emulator.output(false, &buffers, &[launch])).is_err()
    };
    let mut wrong = good(3);
    wrong.args[2] = Arg::Word(3);
    assert!(fails(wrong));
    assert!(fails(Launch { args: Vec::new(), ..good(3) }));
    assert!(fails(Launch { block: [31, 1, 1], ..good(3) }));
}
