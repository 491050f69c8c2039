//! The kernels compiled by a C++ compiler and run on the processor, thread by thread.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, id};
use std::sync::OnceLock;

use super::super::element::{Bf16, Element};
use super::super::launch::{Address, Arg, Kernel, Launch};
use super::{Machine, cases};

/// The kernels compiled for a CPU.
#[derive(Clone)]
struct Emulator {
    program: PathBuf,
    /// Whether it detects accesses past the end of a buffer.
    checks: bool,
}

/// An address is a buffer number, from 1, above these bits, and an offset below.
const OFFSET_BITS: u32 = 40;

/// A hash of sources, kernel names and compiler.
fn hash(sources: &Path, names: &str, compiler: &str) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    for source in ["kernels.cu", "tests/emulator.cpp", "tests/threads.h"] {
        fs::read(sources.join(source)).ok()?.hash(&mut hasher);
    }
    (names, compiler).hash(&mut hasher);
    Some(hasher.finish())
}

fn compile<E: Element>() -> Option<Emulator> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut names = String::new();
    Kernel::ALL.iter().for_each(|kernel| writeln!(names, "RUN({})", kernel.name()).unwrap());
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    // In the target folder of this test, so that it is removed with it.
    let folder = format!("kernels-{}-{:016x}", E::NAME, hash(&here, &names, &compiler)?);
    let folder = env::current_exe().ok()?.with_file_name(folder);
    fs::create_dir_all(&folder).ok()?;
    fs::write(folder.join("names.inc"), names).ok()?;
    let fresh = folder.join(format!("emulator-{}", id()));
    // With sanitizers, which detect reads past the end of a buffer, if they are installed.
    for checks in [Some("-fsanitize=address,undefined"), None] {
        let program = folder.join(if checks.is_some() { "checked" } else { "unchecked" });
        if program.is_file() {
            return Some(Emulator { program, checks: checks.is_some() });
        }
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
        command.arg(here.join("tests/emulator.cpp")).arg("-o").arg(&fresh);
        match command.output() {
            Ok(output) if output.status.success() => {
                fs::rename(fresh, &program).ok()?;
                return Some(Emulator { program, checks: checks.is_some() });
            }
            Ok(output) if checks.is_none() => {
                panic!("{compiler}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Ok(_) => {}
            Err(_) => return None,
        }
    }
    None
}

/// The emulator for elements `E`; `None`, with a message, without a C++ compiler.
fn emulator<E: Element>() -> Option<Emulator> {
    static PROGRAMS: [OnceLock<Option<Emulator>>; 2] = [OnceLock::new(), OnceLock::new()];
    let emulator = PROGRAMS[usize::from(E::IS_BF16)].get_or_init(compile::<E>).clone();
    if emulator.is_none() {
        println!("skipped: no C++ compiler (CXX, or c++)");
    }
    emulator
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
    /// The contents of the buffers afterwards, concatenated, or an error.
    fn output(
        &self,
        reversed: bool,
        buffers: &[Vec<u8>],
        launches: &[Launch],
    ) -> Result<Vec<u8>, String> {
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
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
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
        let output = self.output(false, buffers, &launches).unwrap();
        let reversed = self.output(true, buffers, &launches).unwrap();
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
fn the_emulator_finds_what_is_wrong_with_a_launch() {
    let Some(emulator) = emulator::<f32>() else { return };
    let pointers = [1 << OFFSET_BITS, 2 << OFFSET_BITS].map(Arg::Pointer);
    let launch = |block, last| Launch {
        kernel: Kernel::Add,
        grid: [1, 1, 1],
        block: [block, 1, 1],
        args: [&pointers[..], last].concat(),
    };
    let buffers = [vec![0; 12], vec![0; 12]];
    let run = |launch| emulator.output(false, &buffers, &[launch]);
    assert_eq!(run(launch(32, &[Arg::Size(3)])).unwrap().len(), 24);
    let error = |launch| run(launch).unwrap_err();
    assert!(error(launch(32, &[Arg::Word(3)])).contains("another type"));
    assert!(error(launch(32, &[])).contains("another number"));
    assert!(error(launch(31, &[Arg::Size(3)])).contains("whole warps"));
    if emulator.checks {
        assert!(error(launch(32, &[Arg::Size(4)])).contains("buffer-overflow"));
    }
}
