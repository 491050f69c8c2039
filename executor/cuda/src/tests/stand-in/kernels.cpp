// The kernels as a library of the stand-in driver, which runs them on the threads of its streams.

#include <functional>
#include <map>
#include <tuple>

#include "../threads.h"

// Kernels that ran before, and whether they met no barrier: fibres take most of the time.
static thread_local std::map<std::string, bool> free_of_barriers;

struct Launch {
  std::string name;
  Index grid, block;
  std::function<void()> thread;
};

template <typename... A, size_t... I>
static std::function<void()> bound(void (*kernel)(A...), void **given, std::index_sequence<I...>) {
  std::tuple<A...> values{*(A *)given[I]...};
  return [=] { std::apply(kernel, values); };
}

template <typename... A>
static std::function<void()> bound(void (*kernel)(A...), void **given) {
  return bound(kernel, given, std::index_sequence_for<A...>());
}

static std::function<void()> bound(const std::string &kernel, void **given) {
#define RUN(one) \
  if (kernel == #one) return bound(one, given);
#include "names.inc"
  fail("no kernel " + kernel);
}

static thread_local const Launch *going_on;

static void one_thread() { going_on->thread(); }

// A launch with the arguments of now, for `stand_in_run`.
extern "C" __attribute__((visibility("default"))) void *stand_in_bind(const char *kernel,
                                                                      const unsigned *grid,
                                                                      const unsigned *block,
                                                                      void **given) {
  return new Launch{kernel,
                    {grid[0], grid[1], grid[2]},
                    {block[0], block[1], block[2]},
                    bound(std::string(kernel), given)};
}

extern "C" __attribute__((visibility("default"))) void stand_in_run(void *data) {
  Launch *launch = (Launch *)data;
  name = launch->name;
  going_on = launch;
  run_grid(launch->grid, launch->block, false, free_of_barriers[name], one_thread);
  free_of_barriers[name] = !met;
  delete launch;
}
