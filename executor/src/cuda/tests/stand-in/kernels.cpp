// The kernels as a library of the stand-in driver, which runs them where it is asked to launch them.

#include <map>

#include "../threads.h"

// Kernels that were launched before, and whether they met no barrier: fibres take most of the time.
static thread_local std::map<std::string, bool> free_of_barriers;

static thread_local void **parameters;

template <typename... A, size_t... I>
static void call(void (*kernel)(A...), std::index_sequence<I...>) {
  kernel(*(A *)parameters[I]...);
}

template <typename... A>
static void call(void (*kernel)(A...)) {
  call(kernel, std::index_sequence_for<A...>());
}

static void one_thread() {
#define RUN(kernel) \
  if (name == #kernel) return call(kernel);
#include "names.inc"
  fail("no kernel " + name);
}

extern "C" __attribute__((visibility("default"))) void stand_in_run(const char *kernel,
                                                                    const unsigned *grid,
                                                                    const unsigned *block,
                                                                    void **given) {
  name = kernel;
  parameters = given;
  Index blocks = {grid[0], grid[1], grid[2]}, shape = {block[0], block[1], block[2]};
  run_grid(blocks, shape, false, free_of_barriers[name], one_thread);
  free_of_barriers[name] = !met;
}
