// The kernels between the matrix products, for tensors of bf16 (ELEMENT_BF16 defined) or f32.
//
// Tensors are read and written in chunks of 16 bytes, W elements, where address and length allow;
// all arithmetic is in f32, sums over whole buffers in f64. No result depends on the order in which
// threads run: there are no atomics, and every sum has a fixed order.
//
// Sizes come checked from the host: blocks of whole warps (32 threads), one row per block where a
// row is reduced. The text needs no header, so that it compiles wherever NVRTC is.

typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef ELEMENT_BF16
typedef unsigned short T;
#define W 8
#else
typedef float T;
#define W 4
#endif

#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__
#define ALL_LANES 0xffffffffu
#define INFINITE __uint_as_float(0x7f800000u)

DEVICE float from_t(T x) {
#ifdef ELEMENT_BF16
  return __uint_as_float((u32)x << 16);
#else
  return x;
#endif
}

// To the nearest, ties to even; NaN stays NaN.
DEVICE T to_t(float x) {
#ifdef ELEMENT_BF16
  u32 bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (T)((bits >> 16) | 0x40u);
  return (T)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#else
  return x;
#endif
}

DEVICE void unpack(uint4 raw, float v[W]) {
  u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
#ifdef ELEMENT_BF16
    v[2 * i] = __uint_as_float(words[i] << 16);
    v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
#else
    v[i] = __uint_as_float(words[i]);
#endif
  }
}

DEVICE uint4 pack(const float v[W]) {
  u32 words[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
#ifdef ELEMENT_BF16
    words[i] = (u32)to_t(v[2 * i]) | ((u32)to_t(v[2 * i + 1]) << 16);
#else
    words[i] = __float_as_uint(v[i]);
#endif
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

DEVICE u64 chunks_of(u64 n) { return (n + W - 1) / W; }

// Chunk `c` of the `n` elements at `p`, zeros behind the last. Returns how many there are.
DEVICE u32 load(const T *p, u64 c, u64 n, float v[W]) {
  p += c * W;
  u64 left = n - c * W;
  if (left >= W && ((u64)p & 15) == 0) {
    unpack(*(const uint4 *)p, v);
    return W;
  }
#pragma unroll
  for (u32 j = 0; j < W; j++) v[j] = j < left ? from_t(p[j]) : 0.0f;
  return left < W ? (u32)left : W;
}

DEVICE void store(T *p, u64 c, u64 n, const float v[W]) {
  p += c * W;
  u64 left = n - c * W;
  if (left >= W && ((u64)p & 15) == 0) {
    *(uint4 *)p = pack(v);
    return;
  }
#pragma unroll
  for (u32 j = 0; j < W; j++)
    if (j < left) p[j] = to_t(v[j]);
}

DEVICE float bigger(float a, float b) { return a > b ? a : b; }

// Over all threads of a block, the same bits in each: pairs within a warp, then warp by warp.
template <typename N>
DEVICE N block_sum(N x) {
  __shared__ N parts[32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
  __syncthreads();  // an earlier sum may still be read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  N total = 0;
  for (u32 w = 0; w < blockDim.x / 32; w++) total += parts[w];
  return total;
}

DEVICE float block_max(float x) {
  __shared__ float parts[32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x = bigger(x, __shfl_xor_sync(ALL_LANES, x, d));
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  float most = parts[0];
  for (u32 w = 1; w < blockDim.x / 32; w++) most = bigger(most, parts[w]);
  return most;
}

DEVICE u64 global_index() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

// ---- element by element: one chunk per thread

KERNEL add_bias(T *x, const T *bias, u64 n, u64 columns) {
  u64 c = global_index();
  if (c >= chunks_of(n)) return;
  float v[W];
  load(x, c, n, v);
  u64 column = c * W % columns;
#pragma unroll
  for (u32 j = 0; j < W; j++) {
    v[j] += from_t(bias[column]);
    column = column + 1 == columns ? 0 : column + 1;
  }
  store(x, c, n, v);
}

KERNEL add(T *to, const T *x, u64 n) {
  u64 c = global_index();
  if (c >= chunks_of(n)) return;
  float a[W], b[W];
  load(to, c, n, a);
  load(x, c, n, b);
#pragma unroll
  for (u32 j = 0; j < W; j++) a[j] += b[j];
  store(to, c, n, a);
}

#define ROOT_2_OVER_PI 0.79788456080286535588f
#define CUBE 0.044715f

KERNEL gelu(const T *x, T *y, u64 n) {
  u64 c = global_index();
  if (c >= chunks_of(n)) return;
  float v[W];
  load(x, c, n, v);
#pragma unroll
  for (u32 j = 0; j < W; j++) {
    float t = tanhf(ROOT_2_OVER_PI * (v[j] + CUBE * v[j] * v[j] * v[j]));
    v[j] = 0.5f * v[j] * (1.0f + t);
  }
  store(y, c, n, v);
}

KERNEL gelu_backward(const T *x, T *dy, u64 n) {
  u64 c = global_index();
  if (c >= chunks_of(n)) return;
  float v[W], d[W];
  load(x, c, n, v);
  load(dy, c, n, d);
#pragma unroll
  for (u32 j = 0; j < W; j++) {
    float square = v[j] * v[j];
    float t = tanhf(ROOT_2_OVER_PI * (v[j] + CUBE * v[j] * square));
    float inner = ROOT_2_OVER_PI * (1.0f + 3.0f * CUBE * square);
    d[j] *= 0.5f * (1.0f + t) + 0.5f * v[j] * (1.0f - t * t) * inner;
  }
  store(dy, c, n, d);
}

// ---- heads: `step` elements per thread, W where a head is whole chunks, else 1

DEVICE void copy(const T *from, T *to, u32 step) {
  if (step == W)
    *(uint4 *)to = *(const uint4 *)from;
  else
    *to = *from;
}

// qkv is [batch, sequence, 3, heads, width], a part [batch, heads, sequence, width].
DEVICE u64 place_in_part(u32 i, u32 sequence, u32 heads, u32 width, u32 step, u32 *part) {
  u32 per_head = width / step;
  u32 w = i % per_head;
  i /= per_head;
  u32 head = i % heads;
  i /= heads;
  *part = i % 3;
  i /= 3;
  u32 token = i % sequence;
  u64 batch = i / sequence;
  return ((batch * heads + head) * sequence + token) * width + (u64)w * step;
}

KERNEL split_heads(const T *qkv, T *q, T *k, T *v, u32 sequence, u32 heads, u32 width, u32 step,
                   u32 total) {
  u64 i = global_index();
  if (i >= total) return;
  u32 part;
  u64 place = place_in_part((u32)i, sequence, heads, width, step, &part);
  copy(qkv + i * step, (part == 0 ? q : part == 1 ? k : v) + place, step);
}

KERNEL join_heads(const T *q, const T *k, const T *v, T *qkv, u32 sequence, u32 heads, u32 width,
                  u32 step, u32 total) {
  u64 i = global_index();
  if (i >= total) return;
  u32 part;
  u64 place = place_in_part((u32)i, sequence, heads, width, step, &part);
  copy((part == 0 ? q : part == 1 ? k : v) + place, qkv + i * step, step);
}

// Where chunk `i` of [batch, sequence, heads, width] lies in [batch, heads, sequence, width].
DEVICE u64 place_by_head(u32 i, u32 sequence, u32 heads, u32 width, u32 step) {
  u32 per_head = width / step;
  u32 w = i % per_head;
  i /= per_head;
  u32 head = i % heads;
  i /= heads;
  u32 token = i % sequence;
  u64 batch = i / sequence;
  return ((batch * heads + head) * sequence + token) * width + (u64)w * step;
}

KERNEL merge_heads(const T *x, T *y, u32 sequence, u32 heads, u32 width, u32 step, u32 total) {
  u64 i = global_index();
  if (i >= total) return;
  copy(x + place_by_head((u32)i, sequence, heads, width, step), y + i * step, step);
}

KERNEL unmerge_heads(const T *y, T *x, u32 sequence, u32 heads, u32 width, u32 step, u32 total) {
  u64 i = global_index();
  if (i >= total) return;
  copy(y + i * step, x + place_by_head((u32)i, sequence, heads, width, step), step);
}

// ---- row by row: one block per row

KERNEL layer_norm(const T *x, const T *gain, const T *bias, T *y, float *stats, u64 columns) {
  u64 row = blockIdx.x;
  const T *in = x + row * columns;
  u64 chunks = chunks_of(columns);
  float v[W], g[W], b[W];
  float sum = 0.0f;
  for (u64 c = threadIdx.x; c < chunks; c += blockDim.x) {
    load(in, c, columns, v);
#pragma unroll
    for (u32 j = 0; j < W; j++) sum += v[j];
  }
  float mean = block_sum(sum) / (float)columns;
  float squares = 0.0f;
  for (u64 c = threadIdx.x; c < chunks; c += blockDim.x) {
    u32 count = load(in, c, columns, v);
#pragma unroll
    for (u32 j = 0; j < W; j++)
      if (j < count) squares += (v[j] - mean) * (v[j] - mean);
  }
  float rstd = 1.0f / sqrtf(block_sum(squares) / (float)columns + 1e-5f);
  for (u64 c = threadIdx.x; c < chunks; c += blockDim.x) {
    load(in, c, columns, v);
    load(gain, c, columns, g);
    load(bias, c, columns, b);
#pragma unroll
    for (u32 j = 0; j < W; j++) v[j] = (v[j] - mean) * rstd * g[j] + b[j];
    store(y + row * columns, c, columns, v);
  }
  if (threadIdx.x == 0) {
    stats[2 * row] = mean;
    stats[2 * row + 1] = rstd;
  }
}

// dx = rstd (g - mean of g - xhat mean of g xhat), with g = dy gain and xhat = (x - mean) rstd.
KERNEL layer_norm_backward(const T *x, const float *stats, const T *gain, const T *dy, T *dx,
                           u64 columns) {
  u64 row = blockIdx.x;
  const T *in = x + row * columns, *out = dy + row * columns;
  float mean = stats[2 * row], rstd = stats[2 * row + 1];
  u64 chunks = chunks_of(columns);
  float v[W], g[W], d[W];
  float sum = 0.0f, dot = 0.0f;
  for (u64 c = threadIdx.x; c < chunks; c += blockDim.x) {
    load(in, c, columns, v);
    load(gain, c, columns, g);
    load(out, c, columns, d);
#pragma unroll
    for (u32 j = 0; j < W; j++) {
      float grad = d[j] * g[j];  // 0 behind the end
      sum += grad;
      dot += grad * (v[j] - mean) * rstd;
    }
  }
  sum = block_sum(sum) / (float)columns;
  dot = block_sum(dot) / (float)columns;
  for (u64 c = threadIdx.x; c < chunks; c += blockDim.x) {
    load(in, c, columns, v);
    load(gain, c, columns, g);
    load(out, c, columns, d);
#pragma unroll
    for (u32 j = 0; j < W; j++) v[j] = rstd * (d[j] * g[j] - sum - (v[j] - mean) * rstd * dot);
    store(dx + row * columns, c, columns, v);
  }
}

// Row r of a matrix [n, n] has its first r % n + 1 elements before or on the diagonal.
KERNEL causal_softmax(T *x, u64 n) {
  u64 row = blockIdx.x;
  T *in = x + row * n;
  u64 seen = row % n + 1;
  u64 chunks = chunks_of(n);
  float v[W];
  float most = -INFINITE;
  for (u64 c = threadIdx.x; c < chunks_of(seen); c += blockDim.x) {
    load(in, c, n, v);
#pragma unroll
    for (u32 j = 0; j < W; j++)
      if (c * W + j < seen) most = bigger(most, v[j]);
  }
  most = block_max(most);
  float sum = 0.0f;
  for (u64 c = threadIdx.x; c < chunks_of(seen); c += blockDim.x) {
    load(in, c, n, v);
#pragma unroll
    for (u32 j = 0; j < W; j++)
      if (c * W + j < seen) sum += expf(v[j] - most);
  }
  float inverse = 1.0f / block_sum(sum);
  for (u64 c = threadIdx.x; c < chunks; c += blockDim.x) {
    load(in, c, n, v);
#pragma unroll
    for (u32 j = 0; j < W; j++) v[j] = c * W + j < seen ? expf(v[j] - most) * inverse : 0.0f;
    store(in, c, n, v);
  }
}

KERNEL softmax_backward(const T *p, T *dp, u64 n, float scale) {
  u64 row = blockIdx.x;
  const T *in = p + row * n;
  T *out = dp + row * n;
  u64 seen = row % n + 1;
  float v[W], d[W];
  float dot = 0.0f;
  for (u64 c = threadIdx.x; c < chunks_of(seen); c += blockDim.x) {
    load(in, c, n, v);
    load(out, c, n, d);
#pragma unroll
    for (u32 j = 0; j < W; j++)
      if (c * W + j < seen) dot += v[j] * d[j];
  }
  dot = block_sum(dot);
  for (u64 c = threadIdx.x; c < chunks_of(n); c += blockDim.x) {
    load(in, c, n, v);
    load(out, c, n, d);
#pragma unroll
    for (u32 j = 0; j < W; j++) d[j] = c * W + j < seen ? scale * v[j] * (d[j] - dot) : 0.0f;
    store(out, c, n, d);
  }
}

// ---- sums over rows: slices of rows first, then over the slices in order. Blocks of 32 columns
// by 8 rows.

DEVICE float column_sum(float x) {
  __shared__ float parts[8][32];
  __syncthreads();
  parts[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  float sum = 0.0f;
  for (u32 y = 0; y < 8; y++) sum += parts[y][threadIdx.x];
  return sum;
}

KERNEL sum_rows(const T *x, float *parts, u64 rows, u64 columns, u64 rows_per_slice) {
  u64 column = (u64)blockIdx.x * 32 + threadIdx.x;
  u64 from = blockIdx.y * rows_per_slice;
  u64 to = from + rows_per_slice < rows ? from + rows_per_slice : rows;
  float sum = 0.0f;
  if (column < columns)
    for (u64 row = from + threadIdx.y; row < to; row += 8) sum += from_t(x[row * columns + column]);
  sum = column_sum(sum);
  if (threadIdx.y == 0 && column < columns) parts[blockIdx.y * columns + column] = sum;
}

// The shares of each slice in the gradients of gain and of bias.
KERNEL layer_norm_weights(const T *x, const float *stats, const T *dy, float *gain_parts,
                          float *bias_parts, u64 rows, u64 columns, u64 rows_per_slice) {
  u64 column = (u64)blockIdx.x * 32 + threadIdx.x;
  u64 from = blockIdx.y * rows_per_slice;
  u64 to = from + rows_per_slice < rows ? from + rows_per_slice : rows;
  float gain = 0.0f, bias = 0.0f;
  if (column < columns)
    for (u64 row = from + threadIdx.y; row < to; row += 8) {
      float d = from_t(dy[row * columns + column]);
      gain += d * (from_t(x[row * columns + column]) - stats[2 * row]) * stats[2 * row + 1];
      bias += d;
    }
  gain = column_sum(gain);
  bias = column_sum(bias);
  if (threadIdx.y == 0 && column < columns) {
    gain_parts[blockIdx.y * columns + column] = gain;
    bias_parts[blockIdx.y * columns + column] = bias;
  }
}

KERNEL add_parts(const float *parts, float *into, u64 slices, u64 columns) {
  u64 column = global_index();
  if (column >= columns) return;
  float sum = 0.0f;
  for (u64 slice = 0; slice < slices; slice++) sum += parts[slice * columns + column];
  into[column] += sum;
}

// ---- embeddings

KERNEL embed(const u32 *tokens, const T *table, const T *positions, T *y, u64 sequence,
             u64 columns) {
  u64 row = blockIdx.x;
  const T *word = table + tokens[row] * columns;
  const T *place = positions + row % sequence * columns;
  float a[W], b[W];
  for (u64 c = threadIdx.x; c < chunks_of(columns); c += blockDim.x) {
    load(word, c, columns, a);
    load(place, c, columns, b);
#pragma unroll
    for (u32 j = 0; j < W; j++) a[j] += b[j];
    store(y + row * columns, c, columns, a);
  }
}

DEVICE void add_to(float *into, u64 c, u64 columns, const float v[W]) {
#pragma unroll
  for (u32 j = 0; j < W; j++)
    if (c * W + j < columns) into[c * W + j] += v[j];
}

// One block row of the grid per different token: `order` holds the rows of each, in turn, from
// starts[run] to starts[run + 1].
KERNEL embed_tokens_backward(const u32 *tokens, const u32 *order, const u32 *starts, const T *dy,
                             float *gradients, u64 columns) {
  u64 c = (u64)blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= chunks_of(columns)) return;
  u32 from = starts[blockIdx.x], to = starts[blockIdx.x + 1];
  float sum[W] = {}, v[W];
  for (u32 i = from; i < to; i++) {
    load(dy + order[i] * columns, c, columns, v);
#pragma unroll
    for (u32 j = 0; j < W; j++) sum[j] += v[j];
  }
  add_to(gradients + tokens[order[from]] * columns, c, columns, sum);
}

KERNEL embed_positions_backward(const T *dy, float *gradients, u64 batch, u64 sequence,
                                u64 columns) {
  u64 c = (u64)blockIdx.y * blockDim.x + threadIdx.x;
  if (c >= chunks_of(columns)) return;
  float sum[W] = {}, v[W];
  for (u64 b = 0; b < batch; b++) {
    load(dy + (b * sequence + blockIdx.x) * columns, c, columns, v);
#pragma unroll
    for (u32 j = 0; j < W; j++) sum[j] += v[j];
  }
  add_to(gradients + blockIdx.x * columns, c, columns, sum);
}

// ---- the loss

// The greatest of a row and the sum of exp(x - greatest), in one go over the row.
DEVICE float row_exponents(const T *row, u64 columns, float *sum) {
  float v[W];
  float most = -INFINITE, total = 0.0f;
  for (u64 c = threadIdx.x; c < chunks_of(columns); c += blockDim.x) {
    u32 count = load(row, c, columns, v);
    float before = most;
#pragma unroll
    for (u32 j = 0; j < W; j++)
      if (j < count) most = bigger(most, v[j]);
    if (most > before) total *= expf(before - most);
#pragma unroll
    for (u32 j = 0; j < W; j++)
      if (j < count) total += expf(v[j] - most);
  }
  float all = block_max(most);
  // A thread that saw nothing has nothing to rescale, and -inf - -inf is NaN.
  *sum = block_sum(total == 0.0f ? 0.0f : total * expf(most - all));
  return all;
}

KERNEL cross_entropy_rows(const T *logits, const u32 *targets, float *losses, u64 columns) {
  u64 row = blockIdx.x;
  const T *in = logits + row * columns;
  float sum;
  float most = row_exponents(in, columns, &sum);
  if (threadIdx.x == 0) losses[row] = most + logf(sum) - from_t(in[targets[row]]);
}

// One block.
KERNEL cross_entropy_total(const float *losses, float *loss, u64 rows, float scale) {
  double sum = 0.0;
  for (u64 row = threadIdx.x; row < rows; row += blockDim.x) sum += losses[row];
  sum = block_sum(sum);
  if (threadIdx.x == 0) loss[0] = (float)(loss[0] + scale * sum);
}

KERNEL cross_entropy_backward(T *logits, const u32 *targets, u64 columns, float scale) {
  u64 row = blockIdx.x;
  T *in = logits + row * columns;
  u32 target = targets[row];
  float sum;
  float most = row_exponents(in, columns, &sum);
  float factor = scale / sum;
  float v[W];
  for (u64 c = threadIdx.x; c < chunks_of(columns); c += blockDim.x) {
    load(in, c, columns, v);
#pragma unroll
    for (u32 j = 0; j < W; j++) {
      v[j] = expf(v[j] - most) * factor;
      if (c * W + j == target) v[j] -= scale;
    }
    store(in, c, columns, v);
  }
}

// ---- the optimizer

// Sum of squares of each block, then, `gridDim.x` further on, how many are NaN or infinite.
KERNEL norm_parts(const float *x, double *parts, u64 n) {
  double sum = 0.0, bad = 0.0;
  for (u64 i = global_index(); i < n; i += (u64)gridDim.x * blockDim.x) {
    float value = x[i];
    sum += (double)value * value;
    if ((__float_as_uint(value) & 0x7f800000u) == 0x7f800000u) bad += 1.0;
  }
  sum = block_sum(sum);
  bad = block_sum(bad);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
    parts[gridDim.x + blockIdx.x] = bad;
  }
}

// One block: both totals, to `total`.
KERNEL norm_total(const double *parts, double *total, u64 blocks) {
  double sum = 0.0, bad = 0.0;
  for (u64 i = threadIdx.x; i < blocks; i += blockDim.x) {
    sum += parts[i];
    bad += parts[blocks + i];
  }
  sum = block_sum(sum);
  bad = block_sum(bad);
  if (threadIdx.x == 0) {
    total[0] = sum;
    total[1] = bad;
  }
}

// The step of AdamW without weight decay: rate times the ratio of the moments without bias.
DEVICE float step_of(float m, float v, float rate, float bias1, float bias2, float epsilon) {
  return rate * (m / bias1) / (sqrtf(v / bias2) + epsilon);
}

// rest is 1 - beta, bias 1 - beta^step, keep 1 - rate decay.
KERNEL adamw(T *weights, float *master, float *first, float *second, const float *gradients, u64 n,
             float scale, float rate, float beta1, float rest1, float bias1, float beta2,
             float rest2, float bias2, float epsilon, float keep) {
  u64 i = global_index();
  if (i >= n) return;
  float g = gradients[i] * scale;
  float m = beta1 * first[i] + rest1 * g;
  float v = beta2 * second[i] + rest2 * g * g;
  float w = keep * master[i] - step_of(m, v, rate, bias1, bias2, epsilon);
  first[i] = m;
  second[i] = v;
  master[i] = w;
  weights[i] = to_t(w);
}

KERNEL adamw_undo(T *weights, float *master, float *first, float *second, const float *gradients,
                  u64 n, float scale, float rate, float beta1, float rest1, float bias1,
                  float beta2, float rest2, float bias2, float epsilon, float keep) {
  u64 i = global_index();
  if (i >= n) return;
  float g = gradients[i] * scale;
  float m = first[i], v = second[i];
  float w = (master[i] + step_of(m, v, rate, bias1, bias2, epsilon)) / keep;
  float square = (v - rest2 * g * g) / beta2;
  first[i] = (m - rest1 * g) / beta1;
  second[i] = square < 0.0f ? 0.0f : square;  // rounding may go below; NaN stays
  master[i] = w;
  weights[i] = to_t(w);
}

// ---- time without work, by one thread

#ifdef __CUDA_ARCH__
// Nanoseconds of a clock that all multiprocessors share.
DEVICE u64 timer() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Sleeps a microsecond or two where that ends in time.
DEVICE void rest(u64 left) {
  if (left > 4000) asm volatile("nanosleep.u32 1000;");
}
#endif

DEVICE void wait_until(u64 end) {
  for (u64 now = timer(); now < end; now = timer()) rest(end - now);
}

// Until `hop` after the moment in `made`.
KERNEL await_value(const u64 *made, u64 hop) {
  if (threadIdx.x == 0) wait_until(*made + hop);
}

// For `time`; the moment at which it ends, to `made`.
KERNEL take_time(u64 *made, u64 time) {
  if (threadIdx.x != 0) return;
  wait_until(timer() + time);
  *made = timer();
}
