// Runs the kernels on a CPU, thread by thread, so that a dependency of a kernel on the order of threads
// shows when the order is reversed. Reads buffers and launches from standard input,
// writes the buffers to standard output.

#include "threads.h"

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

static std::vector<Argument> arguments;

static void one_thread() {
#define RUN(kernel) \
  if (name == #kernel) return call(kernel, arguments);
#include "names.inc"
  fail("no kernel " + name);
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
  Index grid = {small(), small(), small()};
  Index block = {small(), small(), small()};
  arguments.resize(number());
  for (Argument &argument : arguments) argument = {number(), number()};
  run_grid(grid, block, reversed, false, one_thread);
}

int main() {
  bool reversed = number();
  buffers.resize(number());
  for (auto &buffer : buffers) {
    uint64_t bytes = number();
    // Its exact size, so that a read past its end is detected.
    char *data = (char *)malloc(bytes);
    if (bytes && fread(data, 1, bytes, stdin) != bytes) fail("input too short");
    buffer = {data, data + bytes};
  }
  for (uint64_t left = number(); left > 0; left--) launch(reversed);
  for (auto &buffer : buffers) fwrite(buffer[0], 1, buffer[1] - buffer[0], stdout);
  fflush(stdout);
  _exit(0);
}
