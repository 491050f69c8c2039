// Runs the kernels on a processor: every thread of a block is a fibre, switched at barriers and
// shuffles only, so that what a kernel leaves to the order of threads shows when the order is turned
// round. Reads buffers and launches from standard input, writes the buffers to standard output.
// KERNELS (a file) and ELEMENT_BF16 are defined by whoever compiles this.

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
static Index threadIdx, blockIdx, blockDim, gridDim;

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
static std::vector<Fibre> fibres;
static Fibre *running;
static ucontext_t scheduler;
static unsigned threads;
static bool moved;

struct Barrier {
  unsigned arrived = 0, round = 0;
};
static Barrier block_barrier, warp_barriers[32];
static char slots[32][32][8];

static void wait_at(Barrier &barrier, unsigned all) {
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
#define __shared__ static

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

#include KERNELS

// ---- launches

static std::vector<std::vector<char *>> buffers;  // address and end of each

struct Argument {
  uint64_t kind, bits;
};

template <typename A>
static A value_of(Argument argument) {
  char kind = std::is_pointer_v<A>            ? 'p'
              : std::is_same_v<A, float>      ? 'f'
              : std::is_same_v<A, unsigned>   ? 'u'
              : std::is_same_v<A, u64>        ? 'l'
                                              : '?';
  if (argument.kind != (uint64_t)kind) fail("an argument of another type");
  if constexpr (std::is_pointer_v<A>) {
    uint64_t buffer = (argument.bits >> 40) - 1, offset = argument.bits & ((1ull << 40) - 1);
    if (buffer >= buffers.size()) fail("a pointer into no buffer");
    return (A)(void *)(buffers[buffer][0] + offset);
  } else {
    A value;
    memcpy(&value, &argument.bits, sizeof value);
    return value;
  }
}

template <typename... A, size_t... I>
static void call(void (*kernel)(A...), const std::vector<Argument> &given,
                 std::index_sequence<I...>) {
  if (given.size() != sizeof...(A)) fail("another number of arguments");
  kernel(value_of<A>(given[I])...);
}

template <typename... A>
static void call(void (*kernel)(A...), const std::vector<Argument> &given) {
  call(kernel, given, std::index_sequence_for<A...>());
}

static std::string name;
static std::vector<Argument> arguments;

static void one_thread() {
#define RUN(kernel) \
  if (name == #kernel) return call(kernel, arguments);
#include "names.inc"
  fail("no kernel " + name);
}

static void fibre_main() {
  one_thread();
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

static uint64_t number() {
  uint64_t value;
  if (fread(&value, 8, 1, stdin) != 1) fail("input too short");
  return value;
}

static unsigned small() { return (unsigned)number(); }

static void launch(bool reversed) {
  name.resize(number());
  if (fread(name.data(), 1, name.size(), stdin) != name.size()) fail("input too short");
  gridDim = {small(), small(), small()};
  blockDim = {small(), small(), small()};
  arguments.resize(number());
  for (Argument &argument : arguments) argument = {number(), number()};
  threads = blockDim.x * blockDim.y * blockDim.z;
  if (threads == 0 || threads > 1024 || threads % 32) fail("blocks must be whole warps");
  if (fibres.size() < threads) fibres.resize(threads);
  for (unsigned z = 0; z < gridDim.z; z++)
    for (unsigned y = 0; y < gridDim.y; y++)
      for (unsigned x = 0; x < gridDim.x; x++) {
        unsigned last_x = gridDim.x - 1 - x, last_y = gridDim.y - 1 - y;
        blockIdx = reversed ? Index{last_x, last_y, z} : Index{x, y, z};
        run_block(reversed);
      }
}

int main() {
  bool reversed = number();
  buffers.resize(number());
  for (auto &buffer : buffers) {
    uint64_t bytes = number();
    // Its very size, so that a read past its end is found.
    char *data = (char *)malloc(bytes);
    if (bytes && fread(data, 1, bytes, stdin) != bytes) fail("input too short");
    buffer = {data, data + bytes};
  }
  for (uint64_t left = number(); left > 0; left--) launch(reversed);
  for (auto &buffer : buffers) fwrite(buffer[0], 1, buffer[1] - buffer[0], stdout);
  fflush(stdout);
  _exit(0);
}
