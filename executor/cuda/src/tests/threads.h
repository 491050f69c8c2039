// Kernels of CUDA C++ on a processor: every thread of a block is a fibre, switched at barriers and
// shuffles only. Several threads of the host may launch at a time. KERNELS (a file) and ELEMENT_BF16
// are defined on the compiler's command line.

#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

struct Index {
  unsigned x, y, z;
};
static thread_local Index threadIdx, blockIdx, blockDim, gridDim;

[[noreturn]] static void fail(const std::string &why) {
  fprintf(stderr, "%s\n", why.c_str());
  _exit(1);  // on a fibre, what `exit` would run may hang
}

// ---- threads of a block

struct Fibre {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 << 10);
  Index index;
  unsigned number;
  bool done;
};
static thread_local std::vector<Fibre> fibres;
static thread_local Fibre *running;
static thread_local ucontext_t scheduler;
static thread_local unsigned threads;
static thread_local bool moved;
// Whether a thread of the current launch has met a barrier or a shuffle.
static thread_local bool met;

struct Barrier {
  unsigned arrived = 0, round = 0;
};
static thread_local Barrier block_barrier, warp_barriers[32];
static thread_local char slots[32][32][8];

static void wait_at(Barrier &barrier, unsigned all) {
  if (!running) fail("a barrier in a kernel that had none before");
  met = true;
  unsigned round = barrier.round;
  if (++barrier.arrived == all) {
    barrier.arrived = 0;
    barrier.round++;
    moved = true;
    return;
  }
  while (barrier.round == round) swapcontext(&running->context, &scheduler);
}

static void __syncthreads() { wait_at(block_barrier, threads); }

template <typename N>
static N __shfl_xor_sync(unsigned mask, N value, int distance) {
  if (mask != 0xffffffffu) fail("a shuffle without all lanes");
  if (!running) fail("a shuffle in a kernel that had none before");
  unsigned warp = running->number / 32, lane = running->number % 32;
  memcpy(slots[warp][lane], &value, sizeof value);
  wait_at(warp_barriers[warp], 32);
  memcpy(&value, slots[warp][lane ^ distance], sizeof value);
  wait_at(warp_barriers[warp], 32);
  return value;
}

// ---- what CUDA C++ has beyond C++

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static thread_local

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static unsigned __float_as_uint(float value) {
  unsigned bits;
  memcpy(&bits, &value, 4);
  return bits;
}

static unsigned long long timer() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec;
}
// Sleeps as long as the system reliably wakes this thread in time.
static void rest(unsigned long long left) {
  if (left < 90000) return;
  left -= 90000;
  timespec time = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
  nanosleep(&time, nullptr);
}

#include KERNELS

// ---- launches

// The function that every thread of the current launch runs.
static thread_local void (*every_thread)();
// The kernel of that launch.
static thread_local std::string name;

static void fibre_main() {
  every_thread();
  running->done = true;
  moved = true;
  swapcontext(&running->context, &scheduler);
}

static void run_block(bool reversed) {
  for (unsigned i = 0; i < threads; i++) {
    Fibre &fibre = fibres[i];
    fibre.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    fibre.number = i;
    fibre.done = false;
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.data();
    fibre.context.uc_stack.ss_size = fibre.stack.size();
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, fibre_main, 0);
  }
  for (unsigned left = threads; left > 0;) {
    moved = false;
    left = 0;
    for (unsigned i = 0; i < threads; i++) {
      Fibre &fibre = fibres[reversed ? threads - 1 - i : i];
      if (fibre.done) continue;
      running = &fibre;
      threadIdx = fibre.index;
      swapcontext(&scheduler, &fibre.context);
      left += !fibre.done;
    }
    if (left > 0 && !moved) fail(name + ": threads wait at a barrier that others never reach");
  }
  if (block_barrier.arrived) fail(name + ": a barrier left by some threads only");
}

// Threads one after the other, without fibres: for kernels that meet no barrier.
static void run_freely(Index grid, Index block) {
  running = nullptr;
  for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
        for (unsigned i = 0; i < threads; i++) {
          threadIdx = {i % block.x, i / block.x % block.y, i / block.x / block.y};
          every_thread();
        }
}

// Runs `thread` for every thread; `free`: no fibres are needed.
static void run_grid(Index grid, Index block, bool reversed, bool free, void (*thread)()) {
  gridDim = grid;
  blockDim = block;
  every_thread = thread;
  threads = block.x * block.y * block.z;
  if (threads == 0 || threads > 1024 || threads % 32) fail("blocks must be whole warps");
  met = false;
  if (free) return run_freely(grid, block);
  if (fibres.size() < threads) fibres.resize(threads);
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        blockIdx = reversed ? Index{grid.x - 1 - x, grid.y - 1 - y, z} : Index{x, y, z};
        run_block(reversed);
      }
}
