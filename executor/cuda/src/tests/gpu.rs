//! The kernels and their environment on a GPU. Skipped, with a message, without one.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::call::lock;
use super::super::element::{Bf16, Element, encode};
use super::super::kernels::{await_value, take_time};
use super::super::launch::{Address, Launch};
use super::super::libraries::loaded_libraries;
use super::super::memory::Buffer;
use super::super::partition::{Parts, Sharing, split};
use super::super::probe::devices;
use super::super::stage::Cuda;
use super::{Machine, cases, close, numbers, skipped, tolerance};
use gpt::{At, Gemm, Ops};
use runtime::DeviceError;

/// The first GPU; `None`, with a message, without one. With a GPU, all libraries must be present
/// too.
pub(super) fn gpu<E: Element>() -> Option<Cuda<E>> {
    match Cuda::whole(0) {
        Ok(cuda) => Some(cuda),
        Err(none @ DeviceError::NoGpu { .. }) => {
            skipped(&none);
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn libraries_are_found_and_named() {
    if gpu::<f32>().is_none() {
        return;
    }
    let files = loaded_libraries();
    files.iter().for_each(|file| println!("loaded: {}", file.display()));
    for name in ["libcuda.so", "libnvrtc.so", "libcublasLt.so"] {
        let named = |file: &&PathBuf| file.to_string_lossy().contains(name);
        assert_eq!(files.iter().filter(named).count(), 1, "{name}: {files:?}");
    }
    devices().unwrap().iter().for_each(|info| println!("{info:?}"));
}

/// A GPU that runs the cases.
struct Device;

impl Machine for Device {
    fn bytes<E: Element>(
        &self,
        buffers: &[Vec<u8>],
        plan: &dyn Fn(&[Address]) -> Vec<Launch>,
    ) -> Vec<Vec<u8>> {
        let mut cuda = Cuda::<E>::whole(0).unwrap();
        let on_gpu: Vec<Buffer<u8>> = buffers
            .iter()
            .map(|bytes| {
                let buffer = cuda.scratch(bytes.len()).unwrap();
                cuda.upload(bytes, buffer.memory.address()).unwrap();
                buffer
            })
            .collect();
        let addresses: Vec<Address> = on_gpu.iter().map(|buffer| buffer.memory.address()).collect();
        cuda.launch(&plan(&addresses)).unwrap();
        on_gpu.iter().map(|buffer| cuda.bytes_of(buffer).unwrap()).collect()
    }
}

macro_rules! on_gpu {
    ($($case:ident,)*) => {
        $(#[test]
        fn $case() {
            if gpu::<f32>().is_some() {
                cases::$case::<f32>(&Device);
                cases::$case::<Bf16>(&Device);
            }
        })*
    };
}

cases::all!(on_gpu);

pub(super) fn filled<E: Element>(cuda: &mut Cuda<E>, values: &[f64]) -> Buffer<E> {
    let mut tensor = cuda.tensor(values.len()).unwrap();
    cuda.write(values, At::start(&mut tensor)).unwrap();
    tensor
}

/// `scale` op(A) op(B), row by row.
fn reference(shape: Gemm, a: &[f64], b: &[f64]) -> Vec<f64> {
    let Gemm { rows, columns, inner, .. } = shape;
    let mut c = Vec::new();
    for i in 0..shape.count {
        let (a, b) = (&a[i * rows * inner..], &b[i * inner * columns..]);
        let a_at = |r, k| if shape.transpose_a { a[k * rows + r] } else { a[r * inner + k] };
        let b_at = |k, c| if shape.transpose_b { b[c * inner + k] } else { b[k * columns + c] };
        for (r, c_at) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
            let sum: f64 = (0..inner).map(|k| a_at(r, k) * b_at(k, c_at)).sum();
            c.push(f64::from(shape.scale) * sum);
        }
    }
    c
}

/// Relative error of hundreds of f32 products summed in any order: sequential sums err by up to
/// 1e-5, and tensor cores may truncate instead of rounding.
const OF_SUMS: f64 = 1e-4;

/// The same, rounded to an element.
fn of_product<E: Element>() -> f64 {
    tolerance::<E>().max(OF_SUMS)
}

fn products<E: Element>() {
    let Some(mut cuda) = gpu::<E>() else { return };
    for (rows, columns, inner) in [(1, 1, 1), (5, 7, 3), (64, 32, 48), (130, 72, 257)] {
        for (flags, count) in (0..4).flat_map(|flags| [(flags, 1), (flags, 3)]) {
            let (transpose_a, transpose_b) = (flags & 1 == 1, flags & 2 == 2);
            let shape = Gemm { rows, columns, inner, transpose_a, transpose_b, count, scale: 0.5 };
            // After one element, so that nothing is aligned.
            let a = numbers::<E>(1, 1 + count * rows * inner);
            let b = numbers::<E>(2, 1 + count * inner * columns);
            let before = numbers::<f32>(3, 1 + count * rows * columns);
            let want = reference(shape, &a[1..], &b[1..]);
            let (a, b) = (filled(&mut cuda, &a), filled(&mut cuda, &b));
            let one = |buffer| At { buffer, from: 1 };
            let mut c = cuda.tensor(1 + want.len()).unwrap();
            cuda.gemm(shape, one(&a), one(&b), At { buffer: &mut c, from: 1 }).unwrap();
            close("c", &cuda.read(&c).unwrap()[1..], &want, of_product::<E>());
            let mut sums = cuda.accumulator(before.len()).unwrap();
            cuda.write_accumulator(&before, At::start(&mut sums)).unwrap();
            let to = At { buffer: &mut sums, from: 1 };
            cuda.gemm_accumulate(shape, one(&a), one(&b), to).unwrap();
            let sum: Vec<f64> = want.iter().zip(&before[1..]).map(|(c, sum)| c + sum).collect();
            close("sums", &cuda.read_accumulator(&sums).unwrap()[1..], &sum, OF_SUMS);
        }
    }
}

#[test]
fn products_of_all_transposes() {
    products::<f32>();
    products::<Bf16>();
}

#[test]
fn too_short_buffers_are_refused() {
    let Some(mut cuda) = gpu::<f32>() else { return };
    let x = filled(&mut cuda, &[1.0; 7]);
    let mut y = cuda.tensor(8).unwrap();
    assert!(cuda.add(8, &x, &mut y).is_err());
    assert!(cuda.gelu(usize::MAX, &x, &mut y).is_err());
    let tokens = cuda.tokens(&[0, 9]).unwrap();
    assert!(cuda.cross_entropy_backward(2, 4, 1.0, &mut y, &tokens).is_err());
}

/// Sends a tensor through stages on one GPU, and times it.
fn pass_on(mut stages: Vec<Cuda<Bf16>>) {
    let (len, epoch) = (1 << 20, Instant::now());
    let mut tensor = filled(&mut stages[0], &vec![1.0; len]);
    for _ in 0..3 {
        for i in 0..stages.len() {
            let stage = &mut stages[i];
            stage.stamp().unwrap();
            let mut sum = filled(stage, &vec![0.0; len]);
            stage.add(len, &tensor, &mut sum).unwrap();
            let one = filled(stage, &vec![1.0; len]);
            stage.add(len, &one, &mut sum).unwrap();
            stage.stamp().unwrap();
            let transfer = stage.send(sum).unwrap();
            let next = (i + 1) % stages.len();
            tensor = stages[next].receive(transfer).unwrap();
        }
    }
    let want = 1.0 + 3.0 * stages.len() as f64;
    assert_eq!(stages[0].read(&tensor).unwrap(), vec![want; len]);
    for stage in &mut stages {
        stage.synchronize().unwrap();
        let times = stage.stamps(epoch).unwrap().unwrap();
        let now = u64::try_from(epoch.elapsed().as_nanos()).unwrap();
        assert!(times.len() == 6 && times.is_sorted() && times[5] <= now + 1_000_000, "{times:?}");
    }
}

#[test]
fn tensors_go_from_stage_to_stage_on_one_gpu() {
    if gpu::<Bf16>().is_none() {
        return;
    }
    pass_on(vec![Cuda::whole(0).unwrap(), Cuda::whole(0).unwrap()]);
    pass_on(split::<Bf16>(0, 4, false).unwrap().0);
}

#[test]
fn parts_have_equal_numbers_of_multiprocessors_of_their_own() {
    if gpu::<Bf16>().is_none() {
        return;
    }
    let all = devices().unwrap()[0].multiprocessors;
    for (stages, of_hopper) in [(2, 64), (4, 32), (8, 16)] {
        let (kernels, sharing) = split::<Bf16>(0, stages, false).unwrap();
        println!("{stages} stages on {all} multiprocessors: {sharing:?}");
        let Sharing::Partitioned { multiprocessors } = sharing else {
            panic!("{stages} stages share the GPU: {sharing:?}");
        };
        let taken = multiprocessors * u32::try_from(stages).unwrap();
        assert!(taken <= all && 2 * taken > all && kernels.len() == stages);
        if all == 132 {
            assert_eq!(multiprocessors, of_hopper);
        }
    }
    assert!(split::<Bf16>(0, all as usize + 1, false).is_err());
    if Parts::cut(0, 17).is_err() {
        let (kernels, sharing) = split::<Bf16>(0, 17, true).unwrap();
        assert_eq!((kernels.len(), sharing), (17, Sharing::Shared));
    }
}

#[test]
fn tensors_go_to_another_gpu_and_back() {
    if devices().map_or(0, |found| found.len()) < 2 {
        println!("skipped: no second GPU");
        return;
    }
    let [mut one, mut other] = [0, 1].map(|ordinal| Cuda::<Bf16>::whole(ordinal).unwrap());
    let values = numbers::<Bf16>(1, 1_000_003);
    for _ in 0..3 {
        let tensor = filled(&mut one, &values);
        let transfer = one.send(tensor).unwrap();
        let mut there = other.receive(transfer).unwrap();
        let same = filled(&mut other, &values);
        other.add(values.len(), &same, &mut there).unwrap();
        let transfer = other.send(there).unwrap();
        let back = one.receive(transfer).unwrap();
        let twice: Vec<f64> = values.iter().map(|value| 2.0 * value).collect();
        assert!(one.read(&back).unwrap() == twice);
    }
}

#[test]
fn tensors_go_through_bytes() {
    let Some(mut cuda) = gpu::<Bf16>() else { return };
    // Larger than the pieces of an upload.
    let values = numbers::<Bf16>(1, 3_000_001);
    let tensor = filled(&mut cuda, &values);
    let transfer = cuda.send(tensor).unwrap();
    let bytes = cuda.pack(transfer).unwrap();
    assert!(bytes == encode::<Bf16>(&values));
    let transfer = cuda.unpack(&bytes).unwrap();
    let tensor = cuda.receive(transfer).unwrap();
    assert!(cuda.read(&tensor).unwrap() == values);
    assert!(cuda.unpack(&bytes[..3]).is_err());
}

#[test]
fn what_does_not_fit_is_said_to_be_too_much() {
    let Some(mut cuda) = gpu::<f32>() else { return };
    let error = cuda.tensor(1 << 44).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
    assert!(cuda.tensor(usize::MAX).is_err());
    assert!(cuda.tensor(1 << 10).is_ok());
}

#[test]
fn passes_and_hops_take_their_time_by_the_clock_of_the_gpu() {
    let (Some(mut near), Some(mut far)) = (gpu::<f32>(), gpu::<f32>()) else { return };
    let epoch = Instant::now();
    let (pass, hop) = (Duration::from_millis(4), Duration::from_millis(2));
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
    let made = near.scratch::<f32>(2).unwrap();
    near.stamp().unwrap();
    near.launch(&[take_time(made.memory.address(), nanos(pass))]).unwrap();
    near.stamp().unwrap();
    let transfer = near.send(made).unwrap();
    let there = far.receive(transfer).unwrap();
    far.launch(&[await_value(there.memory.address(), nanos(hop))]).unwrap();
    far.stamp().unwrap();
    near.synchronize().unwrap();
    far.synchronize().unwrap();
    let times = near.stamps(epoch).unwrap().unwrap();
    let arrived = far.stamps(epoch).unwrap().unwrap();
    assert!(times[1] - times[0] >= nanos(pass), "{times:?}");
    // The host's clock relates the two streams to some microseconds.
    assert!(arrived[0] + 100_000 >= times[1] + nanos(hop), "{times:?} {arrived:?}");
}

#[test]
fn a_full_gpu_that_stays_busy_is_not_waited_for_without_end() {
    let Some(cuda) = gpu::<f32>() else { return };
    let made = cuda.scratch::<f32>(2).unwrap();
    cuda.launch(&[take_time(made.memory.address(), 400_000_000)]).unwrap();
    let wait = |timeout| lock(&cuda.gpu.pool).wait_for_all(&cuda.gpu, timeout);
    let error = wait(Duration::from_millis(50)).unwrap_err();
    assert!(error.to_string().contains("it is busy after 50ms"), "{error}");
    wait(Duration::from_secs(60)).unwrap();
}

/// The products of a layer of the Zero Bubble paper's 6.2 B model: h = 4096, s = 1024, b = 3. For trying it
/// out, PRODUCTS_WIDTH is another h.
#[test]
#[ignore = "prints the speed of products; run it alone on an idle GPU"]
fn speed_of_the_products_of_a_layer() {
    let Some(mut cuda) = gpu::<Bf16>() else { return };
    let width = std::env::var("PRODUCTS_WIDTH").ok().and_then(|width| width.parse().ok());
    let (tokens, h): (usize, usize) = (3 * 1024, width.unwrap_or(4096));
    for (columns, inner) in [(3 * h, h), (h, h), (4 * h, h), (h, 4 * h)] {
        let a = filled(&mut cuda, &numbers::<Bf16>(1, tokens * inner));
        let b = filled(&mut cuda, &numbers::<Bf16>(2, inner * columns));
        let mut c = cuda.tensor(tokens * columns).unwrap();
        let shape = Gemm {
            rows: tokens,
            columns,
            inner,
            transpose_a: false,
            transpose_b: false,
            count: 1,
            scale: 1.0,
        };
        let epoch = Instant::now();
        let mut run = |times: u32| {
            cuda.stamp().unwrap();
            for _ in 0..times {
                cuda.gemm(shape, At::start(&a), At::start(&b), At::start(&mut c)).unwrap();
            }
            cuda.stamp().unwrap();
            cuda.synchronize().unwrap();
            let stamps = cuda.stamps(epoch).unwrap().unwrap();
            stamps[1] - stamps[0]
        };
        run(20);
        let nanoseconds = run(100) as f64 / 100.0;
        let operations = 2.0 * (tokens * columns * inner) as f64;
        println!(
            "[{tokens}, {inner}] x [{inner}, {columns}]: {:.0} TFLOP/s",
            operations / nanoseconds / 1e3
        );
    }
}
