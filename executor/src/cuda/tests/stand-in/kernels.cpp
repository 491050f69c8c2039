// The kernels as a library of the stand-in driver, which runs them where it is asked to launch them.

#include "../threads.h"

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
  run_grid({grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, false, one_thread);
}
