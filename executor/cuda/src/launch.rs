//! Kernel launches: names, arguments, grid and block sizes.
#![forbid(unsafe_code)]

use runtime::DeviceError;

/// An address on a device.
pub(crate) type Address = u64;

/// A kernel argument, by its type in the source.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Arg {
    Pointer(Address),
    /// `unsigned int`.
    Word(u32),
    /// `unsigned long long`.
    Size(u64),
    /// `float`.
    Real(f32),
}

impl Arg {
    pub(crate) fn size(value: usize) -> Self {
        Self::Size(value as u64)
    }

    /// Its bits, in the low bytes of a 64-bit word: a little-endian host stores a parameter of any
    /// of these types there.
    pub(crate) fn bits(self) -> u64 {
        match self {
            Self::Pointer(value) | Self::Size(value) => value,
            Self::Word(value) => u64::from(value),
            Self::Real(value) => u64::from(value.to_bits()),
        }
    }
}

macro_rules! kernels {
    ($($variant:ident = $name:literal,)*) => {
        /// The kernels of `kernels.cu`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Kernel { $(#[doc = $name] $variant,)* }

        impl Kernel {
            /// All of them, in the order of their numbers.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in the source.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

kernels! {
    AddBias = "add_bias",
    Add = "add",
    Gelu = "gelu",
    GeluBackward = "gelu_backward",
    SplitHeads = "split_heads",
    JoinHeads = "join_heads",
    MergeHeads = "merge_heads",
    UnmergeHeads = "unmerge_heads",
    LayerNorm = "layer_norm",
    LayerNormBackward = "layer_norm_backward",
    CausalSoftmax = "causal_softmax",
    SoftmaxBackward = "softmax_backward",
    SumRows = "sum_rows",
    LayerNormWeights = "layer_norm_weights",
    AddParts = "add_parts",
    Embed = "embed",
    EmbedTokensBackward = "embed_tokens_backward",
    EmbedPositionsBackward = "embed_positions_backward",
    CrossEntropyRows = "cross_entropy_rows",
    CrossEntropyTotal = "cross_entropy_total",
    CrossEntropyBackward = "cross_entropy_backward",
    NormParts = "norm_parts",
    NormTotal = "norm_total",
    AdamW = "adamw",
    AdamWUndo = "adamw_undo",
    AwaitValue = "await_value",
    TakeTime = "take_time",
}

/// One launch of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: Kernel,
    /// Blocks along x, y and z: at most 2^31 - 1, 65535 and 65535.
    pub(crate) grid: [u32; 3],
    /// Threads of a block along x, y and z: whole warps, at most 1024 together.
    pub(crate) block: [u32; 3],
    /// The arguments of the kernel.
    pub(crate) args: Vec<Arg>,
}

/// Threads of a warp.
const WARP: usize = 32;
/// Threads per block where each thread has its own element.
pub(crate) const THREADS: u32 = 256;
/// Most threads per block for one row: several blocks fit on a multiprocessor.
const MOST_PER_ROW: usize = 512;
/// Most blocks along x.
const MOST_X: usize = (1 << 31) - 1;
/// Most blocks along y.
const MOST_Y: usize = 65_535;

fn too_large(blocks: usize) -> DeviceError {
    DeviceError::Call {
        call: "cuLaunchKernel",
        message: format!("{blocks} blocks are more than a launch can have"),
    }
}

/// `blocks` along x as a grid size.
pub(crate) fn along_x(blocks: usize) -> Result<u32, DeviceError> {
    match u32::try_from(blocks) {
        Ok(count) if blocks <= MOST_X => Ok(count),
        _ => Err(too_large(blocks)),
    }
}

/// `blocks` along y as a grid size.
pub(crate) fn along_y(blocks: usize) -> Result<u32, DeviceError> {
    match u32::try_from(blocks) {
        Ok(count) if blocks <= MOST_Y => Ok(count),
        _ => Err(too_large(blocks)),
    }
}

/// Blocks of [`THREADS`] for `items`, one thread each.
pub(crate) fn flat(items: usize) -> Result<u32, DeviceError> {
    along_x(items.div_ceil(THREADS as usize))
}

/// Threads for a row of `chunks` chunks: whole warps, one thread per chunk up to a limit.
pub(crate) fn row_threads(chunks: usize) -> u32 {
    let threads = chunks.clamp(1, MOST_PER_ROW).next_multiple_of(WARP);
    u32::try_from(threads).unwrap_or(THREADS)
}

/// The slices of `rows` that are summed in parallel: (slices, rows of each but the last). At least
/// 64 rows each, at most 64 slices: with 32 columns a block, thousands of blocks for the widths of
/// a transformer.
pub(crate) fn slices(rows: usize) -> (usize, usize) {
    let per_slice = rows.div_ceil(64).max(64);
    (rows.div_ceil(per_slice), per_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_items_and_stay_within_the_limits_of_a_grid() {
        assert_eq!(flat(1).unwrap(), 1);
        assert_eq!(flat(256).unwrap(), 1);
        assert_eq!(flat(257).unwrap(), 2);
        assert_eq!(flat(MOST_X * 256).unwrap(), 2_147_483_647);
        assert!(flat(MOST_X * 256 + 1).is_err());
        assert!(along_x(usize::MAX).is_err());
        assert_eq!(along_y(65_535).unwrap(), 65_535);
        assert!(along_y(65_536).is_err());
    }

    #[test]
    fn rows_get_whole_warps() {
        let threads = [0, 1, 32, 33, 128, 512, 100_000].map(row_threads);
        assert_eq!(threads, [32, 32, 32, 64, 128, 512, 512]);
    }

    #[test]
    fn slices_cover_every_row_once() {
        for rows in [1, 63, 64, 65, 128, 3072, 4096, 4097, 1 << 20] {
            let (count, each) = slices(rows);
            assert!(count <= 64 && (count - 1) * each < rows && rows <= count * each, "{rows}");
        }
    }

    #[test]
    fn every_kernel_has_its_name_in_the_source_once() {
        let source = super::super::program::SOURCE;
        for kernel in Kernel::ALL {
            let head = format!("KERNEL {}(", kernel.name());
            assert_eq!(source.matches(&head).count(), 1, "{head}");
        }
        let defined = source.lines().filter(|line| line.starts_with("KERNEL ")).count();
        assert_eq!(defined, Kernel::ALL.len());
    }

    #[test]
    fn arguments_lie_in_the_low_bytes() {
        assert_eq!(Arg::Real(1.5).bits().to_le_bytes()[..4], 1.5f32.to_le_bytes());
        assert_eq!(Arg::Word(7).bits(), 7);
        assert_eq!(Arg::size(1 << 40).bits(), 1 << 40);
    }
}
