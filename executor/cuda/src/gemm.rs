//! Products of matrices by cuBLASLt.
#![allow(unsafe_code)] // calls into cuBLASLt

use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::{MaybeUninit, size_of_val};
use std::ptr;
use std::sync::Arc;

use cudarc::cublaslt::sys as lt;

use super::call::{blas, failed};
use super::device::{Gpu, Queue};
use super::element::Element;
use super::layout::{Matrix, Product, alignment};
use super::memory::Memory;
use super::probe;
use runtime::DeviceError;

/// Workspace bytes: NVIDIA's recommendation for Hopper.
const WORKSPACE: usize = 32 << 20;

/// The key of a cached algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    product: Product,
    /// Whether the product is accumulated into an f32 result, whatever the factors are.
    accumulates: bool,
    /// Alignment of both factors and the result.
    alignments: [u32; 3],
}

/// Addresses of a product, as [`Product`] names them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) first: u64,
    pub(crate) second: u64,
    pub(crate) result: u64,
}

/// A descriptor of cuBLASLt, destroyed with this.
struct Owned<T: Copy> {
    raw: T,
    destroy: unsafe fn(T) -> lt::cublasStatus_t,
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: created by cuBLASLt and destroyed here alone.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

type Layout = Owned<lt::cublasLtMatrixLayout_t>;
type Description = Owned<lt::cublasLtMatmulDesc_t>;
type Preference = Owned<lt::cublasLtMatmulPreference_t>;

/// The descriptors and the algorithm of a product.
struct Plan {
    description: Description,
    first: Layout,
    second: Layout,
    result: Layout,
    algorithm: lt::cublasLtMatmulAlgo_t,
}

/// cuBLASLt for one stream.
pub(crate) struct Blas {
    handle: lt::cublasLtHandle_t,
    workspace: Memory,
    queue: Queue,
    /// Multiprocessors of the stream, if not all.
    multiprocessors: Option<i32>,
    plans: HashMap<Key, Plan>,
}

// SAFETY: handle and descriptions may be used on any thread, by one at a time.
unsafe impl Send for Blas {}

impl Drop for Blas {
    fn drop(&mut self) {
        self.plans.clear();
        // SAFETY: created by `new`.
        let _ = unsafe { lt::cublasLtDestroy(self.handle) };
    }
}

fn layout(matrix: Matrix, count: i32, kind: lt::cudaDataType) -> Result<Layout, DeviceError> {
    use lt::cublasLtMatrixLayoutAttribute_t as Of;
    let mut raw = ptr::null_mut();
    // SAFETY: the layout is written before it is read; attributes have the types given.
    unsafe {
        let made = lt::cublasLtMatrixLayoutCreate(
            &mut raw,
            kind,
            matrix.rows,
            matrix.columns,
            matrix.leading,
        );
        blas("cublasLtMatrixLayoutCreate", made)?;
        let layout = Owned { raw, destroy: lt::cublasLtMatrixLayoutDestroy };
        let set = |which, value: *const c_void, bytes| {
            let done = lt::cublasLtMatrixLayoutSetAttribute(raw, which, value, bytes);
            blas("cublasLtMatrixLayoutSetAttribute", done)
        };
        set(Of::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, (&raw const count).cast(), 4)?;
        let stride = &raw const matrix.stride;
        set(Of::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride.cast(), 8)?;
        Ok(layout)
    }
}

impl Blas {
    /// A handle for `queue` of `gpu`; `multiprocessors`: their number, if not all.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        queue: Queue,
        multiprocessors: Option<i32>,
    ) -> Result<Self, DeviceError> {
        probe::cublaslt()?;
        let workspace = Memory::new(gpu, WORKSPACE, queue)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the library is there, and a context is current.
        blas("cublasLtCreate", unsafe { lt::cublasLtCreate(&mut handle) })?;
        Ok(Self { handle, workspace, queue, multiprocessors, plans: HashMap::new() })
    }

    /// Products are accumulated in f32 without TF32, whatever the elements are.
    fn description(&self, product: Product) -> Result<Description, DeviceError> {
        use lt::cublasLtMatmulDescAttributes_t as Of;
        let (compute, scale) =
            (lt::cublasComputeType_t::CUBLAS_COMPUTE_32F, lt::cudaDataType::CUDA_R_32F);
        let mut raw = ptr::null_mut();
        // SAFETY: the description is written before it is read; attributes have the types given.
        unsafe {
            let made = lt::cublasLtMatmulDescCreate(&mut raw, compute, scale);
            blas("cublasLtMatmulDescCreate", made)?;
            let description = Owned { raw, destroy: lt::cublasLtMatmulDescDestroy };
            let set = |which, value: i32| {
                let (at, bytes) = ((&raw const value).cast(), size_of_val(&value));
                let done = lt::cublasLtMatmulDescSetAttribute(raw, which, at, bytes);
                blas("cublasLtMatmulDescSetAttribute", done)
            };
            // CUBLAS_OP_N and CUBLAS_OP_T.
            set(Of::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(product.first.transposed))?;
            set(Of::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(product.second.transposed))?;
            if let Some(count) = self.multiprocessors {
                set(Of::CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, count)?;
            }
            Ok(description)
        }
    }

    fn preference(key: Key) -> Result<Preference, DeviceError> {
        use lt::cublasLtMatmulPreferenceAttributes_t as Of;
        let mut raw = ptr::null_mut();
        // SAFETY: the preference is written before it is read; attributes have the types given.
        unsafe {
            let made = lt::cublasLtMatmulPreferenceCreate(&mut raw);
            blas("cublasLtMatmulPreferenceCreate", made)?;
            let preference = Owned { raw, destroy: lt::cublasLtMatmulPreferenceDestroy };
            let set = |which, value: *const c_void, bytes| {
                let done = lt::cublasLtMatmulPreferenceSetAttribute(raw, which, value, bytes);
                blas("cublasLtMatmulPreferenceSetAttribute", done)
            };
            let room = WORKSPACE as u64;
            set(Of::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (&raw const room).cast(), 8)?;
            let [first, second, result] = key.alignments;
            for (which, bytes) in [
                (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, first),
                (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, second),
                (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result),
                (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result),
            ] {
                set(which, (&raw const bytes).cast(), 4)?;
            }
            Ok(preference)
        }
    }

    /// The first algorithm of cuBLASLt's heuristic.
    fn plan<E: Element>(&self, key: Key) -> Result<Plan, DeviceError> {
        let factor = match E::IS_BF16 {
            true => lt::cudaDataType::CUDA_R_16BF,
            false => lt::cudaDataType::CUDA_R_32F,
        };
        let result_kind = if key.accumulates { lt::cudaDataType::CUDA_R_32F } else { factor };
        let count = key.product.count;
        let description = self.description(key.product)?;
        let first = layout(key.product.first, count, factor)?;
        let second = layout(key.product.second, count, factor)?;
        let result = layout(key.product.result, count, result_kind)?;
        let preference = Self::preference(key)?;
        let mut found = MaybeUninit::<lt::cublasLtMatmulHeuristicResult_t>::zeroed();
        let mut number = 0;
        // SAFETY: all descriptions live; there is room for the one answer asked for, and it is read
        // only if there is one.
        let best = unsafe {
            let got = lt::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                description.raw,
                first.raw,
                second.raw,
                result.raw,
                result.raw,
                preference.raw,
                1,
                found.as_mut_ptr(),
                &mut number,
            );
            blas("cublasLtMatmulAlgoGetHeuristic", got)?;
            if number < 1 {
                return Err(failed("cublasLtMatmulAlgoGetHeuristic", format!("none for {key:?}")));
            }
            found.assume_init()
        };
        blas("cublasLtMatmulAlgoGetHeuristic", best.state)?;
        Ok(Plan { description, first, second, result, algorithm: best.algo })
    }

    /// Enqueues `product` times `scale`: it overwrites the result, or is accumulated into it.
    ///
    /// # Safety
    /// `at` are memory of the GPU, with room for the matrices; its context is current.
    pub(crate) unsafe fn multiply<E: Element>(
        &mut self,
        product: Product,
        scale: f32,
        at: Places,
        accumulates: bool,
    ) -> Result<(), DeviceError> {
        let alignments = [at.first, at.second, at.result].map(alignment);
        let key = Key { product, accumulates, alignments };
        if !self.plans.contains_key(&key) {
            let plan = self.plan::<E>(key)?;
            self.plans.insert(key, plan);
        }
        let Some(plan) = self.plans.get(&key) else { return Ok(()) };
        let onto: f32 = if accumulates { 1.0 } else { 0.0 };
        // SAFETY: as promised; scale factors are read before the call returns.
        blas("cublasLtMatmul", unsafe {
            lt::cublasLtMatmul(
                self.handle,
                plan.description.raw,
                (&raw const scale).cast(),
                at.first as *const c_void,
                plan.first.raw,
                at.second as *const c_void,
                plan.second.raw,
                (&raw const onto).cast(),
                at.result as *const c_void,
                plan.result.raw,
                at.result as *mut c_void,
                plan.result.raw,
                &raw const plan.algorithm,
                self.workspace.address() as *mut c_void,
                self.workspace.bytes(),
                self.queue.raw.cast(),
            )
        })
    }
}
