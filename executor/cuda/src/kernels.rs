//! The kernel launches of each operation, from addresses and sizes alone.
#![forbid(unsafe_code)]

use super::launch::slices;
use super::launch::{Address, Arg, Kernel, Launch, THREADS, along_x, along_y, flat, row_threads};
use gpt::{AdamW, Heads};
use runtime::DeviceError;

type Launches = Result<Vec<Launch>, DeviceError>;

/// Threads per block of the sums over rows: columns by rows.
const COLUMNS_BY_ROWS: [u32; 3] = [32, 8, 1];
/// Threads per block of the embeddings' gradients.
const EMBED_THREADS: usize = 64;
/// Most blocks of a norm's first kernel.
const NORM_BLOCKS: usize = 1024;

/// The kernels for one element type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    /// Elements per 16 bytes.
    chunk: usize,
}

/// Addresses of AdamW's arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) weights: Address,
    pub(crate) master: Address,
    pub(crate) first: Address,
    pub(crate) second: Address,
    pub(crate) gradients: Address,
}

/// Addresses of a layer norm's backward pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NormBackward {
    pub(crate) x: Address,
    pub(crate) stats: Address,
    pub(crate) gain: Address,
    pub(crate) dy: Address,
    pub(crate) dx: Address,
    /// Scratch of twice [`Kernels::parts`] numbers.
    pub(crate) parts: Address,
    pub(crate) dgain: Address,
    pub(crate) dbias: Address,
}

/// Addresses of the tokens of a microbatch, as [`super::tokens`] lays them out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenList {
    pub(crate) tokens: Address,
    pub(crate) order: Address,
    pub(crate) starts: Address,
    /// Number of distinct tokens.
    pub(crate) runs: usize,
}

use Arg::{Pointer, Real, Word};

impl Kernels {
    pub(crate) const fn new(element_bytes: usize) -> Self {
        Self { chunk: 16 / element_bytes }
    }

    /// Launches one thread per chunk of 16 bytes.
    fn flat(self, kernel: Kernel, n: usize, args: Vec<Arg>) -> Launches {
        if n == 0 {
            return Ok(Vec::new());
        }
        let grid = [flat(n.div_ceil(self.chunk))?, 1, 1];
        Ok(vec![Launch { kernel, grid, block: [THREADS, 1, 1], args }])
    }

    /// Launches one block per row.
    fn by_row(self, kernel: Kernel, rows: usize, columns: usize, args: Vec<Arg>) -> Launches {
        if rows == 0 || columns == 0 {
            return Ok(Vec::new());
        }
        let block = [row_threads(columns.div_ceil(self.chunk)), 1, 1];
        Ok(vec![Launch { kernel, grid: [along_x(rows)?, 1, 1], block, args }])
    }

    pub(crate) fn add_bias(
        self,
        rows: usize,
        columns: usize,
        bias: Address,
        x: Address,
    ) -> Launches {
        let n = rows * columns;
        let args = vec![Pointer(x), Pointer(bias), Arg::size(n), Arg::size(columns)];
        self.flat(Kernel::AddBias, n, args)
    }

    pub(crate) fn add(self, n: usize, x: Address, to: Address) -> Launches {
        self.flat(Kernel::Add, n, vec![Pointer(to), Pointer(x), Arg::size(n)])
    }

    pub(crate) fn gelu(self, n: usize, x: Address, y: Address) -> Launches {
        self.flat(Kernel::Gelu, n, vec![Pointer(x), Pointer(y), Arg::size(n)])
    }

    pub(crate) fn gelu_backward(self, n: usize, x: Address, dy: Address) -> Launches {
        self.flat(Kernel::GeluBackward, n, vec![Pointer(x), Pointer(dy), Arg::size(n)])
    }

    /// Launches one thread per chunk of a head, or per element where a head is not a whole number
    /// of chunks.
    fn by_head(self, kernel: Kernel, sizes: Heads, parts: usize, mut args: Vec<Arg>) -> Launches {
        let step = if sizes.width.is_multiple_of(self.chunk) { self.chunk } else { 1 };
        let total = sizes.batch * sizes.sequence * parts * sizes.heads * (sizes.width / step);
        if total == 0 {
            return Ok(Vec::new());
        }
        for size in [sizes.sequence, sizes.heads, sizes.width, step, total] {
            args.push(Word(u32::try_from(size).map_err(|_| DeviceError::Call {
                call: kernel.name(),
                message: format!("{size} does not fit 32 bits"),
            })?));
        }
        Ok(vec![Launch { kernel, grid: [flat(total)?, 1, 1], block: [THREADS, 1, 1], args }])
    }

    pub(crate) fn split_heads(self, sizes: Heads, qkv: Address, parts: [Address; 3]) -> Launches {
        let [q, k, v] = parts.map(Pointer);
        self.by_head(Kernel::SplitHeads, sizes, 3, vec![Pointer(qkv), q, k, v])
    }

    pub(crate) fn join_heads(self, sizes: Heads, parts: [Address; 3], qkv: Address) -> Launches {
        let [q, k, v] = parts.map(Pointer);
        self.by_head(Kernel::JoinHeads, sizes, 3, vec![q, k, v, Pointer(qkv)])
    }

    pub(crate) fn merge_heads(self, sizes: Heads, x: Address, y: Address) -> Launches {
        self.by_head(Kernel::MergeHeads, sizes, 1, vec![Pointer(x), Pointer(y)])
    }

    pub(crate) fn unmerge_heads(self, sizes: Heads, y: Address, x: Address) -> Launches {
        self.by_head(Kernel::UnmergeHeads, sizes, 1, vec![Pointer(y), Pointer(x)])
    }

    /// `[x, gain, bias, y, stats]`.
    pub(crate) fn layer_norm(self, rows: usize, columns: usize, buffers: [Address; 5]) -> Launches {
        let mut args = buffers.map(Pointer).to_vec();
        args.push(Arg::size(columns));
        self.by_row(Kernel::LayerNorm, rows, columns, args)
    }

    /// Scratch numbers of the sums over slices of `rows`.
    pub(crate) fn parts(rows: usize, columns: usize) -> usize {
        slices(rows).0 * columns
    }

    fn over_slices(kernel: Kernel, rows: usize, columns: usize, mut args: Vec<Arg>) -> Launches {
        let (count, each) = slices(rows);
        args.extend([Arg::size(rows), Arg::size(columns), Arg::size(each)]);
        let grid = [along_x(columns.div_ceil(32))?, along_y(count)?, 1];
        Ok(vec![Launch { kernel, grid, block: COLUMNS_BY_ROWS, args }])
    }

    fn add_parts(
        rows: usize,
        columns: usize,
        parts: Address,
        into: Address,
    ) -> Result<Launch, DeviceError> {
        let count = Arg::size(slices(rows).0);
        let args = vec![Pointer(parts), Pointer(into), count, Arg::size(columns)];
        let grid = [flat(columns)?, 1, 1];
        Ok(Launch { kernel: Kernel::AddParts, grid, block: [THREADS, 1, 1], args })
    }

    pub(crate) fn layer_norm_backward(
        self,
        rows: usize,
        columns: usize,
        at: NormBackward,
    ) -> Launches {
        if rows == 0 || columns == 0 {
            return Ok(Vec::new());
        }
        let mut args = [at.x, at.stats, at.gain, at.dy, at.dx].map(Pointer).to_vec();
        args.push(Arg::size(columns));
        let mut launches = self.by_row(Kernel::LayerNormBackward, rows, columns, args)?;
        let bias_parts = at.parts + (Self::parts(rows, columns) * size_of::<f32>()) as u64;
        let args = [at.x, at.stats, at.dy, at.parts, bias_parts].map(Pointer).to_vec();
        launches.extend(Self::over_slices(Kernel::LayerNormWeights, rows, columns, args)?);
        launches.push(Self::add_parts(rows, columns, at.parts, at.dgain)?);
        launches.push(Self::add_parts(rows, columns, bias_parts, at.dbias)?);
        Ok(launches)
    }

    pub(crate) fn sum_rows(
        rows: usize,
        columns: usize,
        x: Address,
        parts: Address,
        into: Address,
    ) -> Launches {
        if rows == 0 || columns == 0 {
            return Ok(Vec::new());
        }
        let args = vec![Pointer(x), Pointer(parts)];
        let mut launches = Self::over_slices(Kernel::SumRows, rows, columns, args)?;
        launches.push(Self::add_parts(rows, columns, parts, into)?);
        Ok(launches)
    }

    pub(crate) fn causal_softmax(self, count: usize, n: usize, x: Address) -> Launches {
        self.by_row(Kernel::CausalSoftmax, count * n, n, vec![Pointer(x), Arg::size(n)])
    }

    pub(crate) fn softmax_backward(
        self,
        count: usize,
        n: usize,
        scale: f32,
        p: Address,
        dp: Address,
    ) -> Launches {
        let args = vec![Pointer(p), Pointer(dp), Arg::size(n), Real(scale)];
        self.by_row(Kernel::SoftmaxBackward, count * n, n, args)
    }

    /// `[tokens, table, positions, y]`.
    pub(crate) fn embed(
        self,
        rows: usize,
        sequence: usize,
        columns: usize,
        buffers: [Address; 4],
    ) -> Launches {
        let mut args = buffers.map(Pointer).to_vec();
        args.extend([Arg::size(sequence), Arg::size(columns)]);
        self.by_row(Kernel::Embed, rows, columns, args)
    }

    /// `[dy, table, positions]`, the last two gradients. One thread sums the rows of each token,
    /// and of each position, in their order, so that the sum is deterministic.
    pub(crate) fn embed_backward(
        self,
        rows: usize,
        sequence: usize,
        columns: usize,
        list: TokenList,
        [dy, table, positions]: [Address; 3],
    ) -> Launches {
        if rows == 0 || columns == 0 {
            return Ok(Vec::new());
        }
        let block = [row_threads(EMBED_THREADS), 1, 1];
        let across = along_y(columns.div_ceil(self.chunk).div_ceil(EMBED_THREADS))?;
        let mut tokens = [list.tokens, list.order, list.starts, dy, table].map(Pointer).to_vec();
        tokens.push(Arg::size(columns));
        let sizes = [rows / sequence, sequence, columns].map(Arg::size);
        let places = [vec![Pointer(dy), Pointer(positions)], sizes.to_vec()].concat();
        Ok(vec![
            Launch {
                kernel: Kernel::EmbedTokensBackward,
                grid: [along_x(list.runs)?, across, 1],
                block,
                args: tokens,
            },
            Launch {
                kernel: Kernel::EmbedPositionsBackward,
                grid: [along_x(sequence)?, across, 1],
                block,
                args: places,
            },
        ])
    }

    /// `[logits, targets, losses, loss]`; `losses` are `rows` numbers of scratch.
    pub(crate) fn cross_entropy(
        self,
        rows: usize,
        columns: usize,
        scale: f32,
        [logits, targets, losses, loss]: [Address; 4],
    ) -> Launches {
        let args = vec![Pointer(logits), Pointer(targets), Pointer(losses), Arg::size(columns)];
        let mut launches = self.by_row(Kernel::CrossEntropyRows, rows, columns, args)?;
        if !launches.is_empty() {
            let args = vec![Pointer(losses), Pointer(loss), Arg::size(rows), Real(scale)];
            launches.push(one_block(Kernel::CrossEntropyTotal, args));
        }
        Ok(launches)
    }

    pub(crate) fn cross_entropy_backward(
        self,
        rows: usize,
        columns: usize,
        scale: f32,
        logits: Address,
        targets: Address,
    ) -> Launches {
        let args = vec![Pointer(logits), Pointer(targets), Arg::size(columns), Real(scale)];
        self.by_row(Kernel::CrossEntropyBackward, rows, columns, args)
    }

    /// Number of f64 that the norm of `n` numbers takes: its partial sums, then the two of the
    /// result.
    pub(crate) fn norm_parts(n: usize) -> usize {
        2 * norm_blocks(n)
    }

    /// `total` becomes the sum of squares and the number of NaN and infinite ones, two f64.
    pub(crate) fn norm(n: usize, x: Address, parts: Address, total: Address) -> Launches {
        let blocks = norm_blocks(n);
        let args = vec![Pointer(x), Pointer(parts), Arg::size(n)];
        let grid = [along_x(blocks)?, 1, 1];
        let first = Launch { kernel: Kernel::NormParts, grid, block: [THREADS, 1, 1], args };
        let args = vec![Pointer(parts), Pointer(total), Arg::size(blocks)];
        Ok(vec![first, one_block(Kernel::NormTotal, args)])
    }

    /// `undo` rolls the step back.
    pub(crate) fn adamw(
        rule: AdamW,
        step: u32,
        scale: f64,
        n: usize,
        at: State,
        undo: bool,
    ) -> Launches {
        if n == 0 {
            return Ok(Vec::new());
        }
        let keep = 1.0 - rule.learning_rate * rule.weight_decay;
        if undo && (rule.beta1 == 0.0 || rule.beta2 == 0.0 || keep == 0.0) {
            return Err(DeviceError::Call {
                call: Kernel::AdamWUndo.name(),
                message: "a beta of 0, or rate times decay of 1, leaves no way back".to_owned(),
            });
        }
        let kernel = if undo { Kernel::AdamWUndo } else { Kernel::AdamW };
        let buffers = [at.weights, at.master, at.first, at.second, at.gradients];
        let mut args = buffers.map(Pointer).to_vec();
        args.push(Arg::size(n));
        let (beta1, beta2, power) = (rule.beta1, rule.beta2, f64::from(step));
        let numbers = [
            scale,
            rule.learning_rate,
            beta1,
            1.0 - beta1,
            1.0 - beta1.powf(power),
            beta2,
            1.0 - beta2,
            1.0 - beta2.powf(power),
            rule.epsilon,
            keep,
        ];
        #[allow(clippy::cast_possible_truncation)] // to the precision of sums
        args.extend(numbers.map(|number| Real(number as f32)));
        Ok(vec![Launch { kernel, grid: [flat(n)?, 1, 1], block: [THREADS, 1, 1], args }])
    }
}

/// Number of f32 with room for a timestamp of 64 bits.
pub(crate) const TIMESTAMP_WORDS: usize = 2;

/// Waits on the device until `hop` nanoseconds after the timestamp that [`take_time`] has written
/// to `made`.
pub(crate) fn await_value(made: Address, hop: u64) -> Launch {
    one_warp(Kernel::AwaitValue, made, hop)
}

/// Takes `time` nanoseconds and computes nothing; writes the timestamp of its end to `made`.
pub(crate) fn take_time(made: Address, time: u64) -> Launch {
    one_warp(Kernel::TakeTime, made, time)
}

fn one_warp(kernel: Kernel, made: Address, nanoseconds: u64) -> Launch {
    let args = vec![Pointer(made), Arg::Size(nanoseconds)];
    Launch { kernel, grid: [1, 1, 1], block: [32, 1, 1], args }
}

fn norm_blocks(n: usize) -> usize {
    n.div_ceil(THREADS as usize).clamp(1, NORM_BLOCKS)
}

fn one_block(kernel: Kernel, args: Vec<Arg>) -> Launch {
    Launch { kernel, grid: [1, 1, 1], block: [THREADS, 1, 1], args }
}
