// A stand-in for the driver of NVIDIA GPUs (libcuda): every stream has a thread that runs the enqueued
// work on the CPU, asynchronously to the host. It refuses calls that a real driver would refuse, and
// writes a log to STAND_IN_LOG.
//
//   STAND_IN_GPUS        number of GPUs [1]
//   STAND_IN_VERSION     the CUDA that the driver is for [13000]
//   STAND_IN_NO_PARTS    multiprocessors cannot be split where it is set
//   STAND_IN_NO_LIMITS   the driver does not say how small parts may be, where it is set
//   STAND_IN_CAPABILITY  compute capability, as 80 or 90 [90]
//   STAND_IN_LAUNCH_US   microseconds that the host spends on every launch of a kernel [0]
//
// It measures the depth of the launch queue: the work enqueued on a stream after the last event that
// the host has waited for.

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  NOT_SUPPORTED = 801,
};

typedef uint64_t u64;
static const u64 MEMORY = 4ull << 30;
static const unsigned MULTIPROCESSORS = 132, LEAST = 8;
// The byte that fills uninitialized memory: NaN in any type of element.
static const int UNWRITTEN = 0xff;

static std::mutex lock;
static u64 in_use;
// Never destroyed: threads of streams may outlive `main`.
static auto &allocated = *new std::map<u64, size_t>;
// Launches and copies so far, on all streams.
static std::atomic<u64> enqueued;

static std::string variable(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value ? value : otherwise;
}

static void tell(const std::string &line) {
  const char *path = getenv("STAND_IN_LOG");
  if (!path) return;
  if (FILE *file = fopen(path, "a")) {
    fputs((line + "\n").c_str(), file);
    fclose(file);
  }
}

// A point in a stream, once it is reached.
struct Mark {
  std::mutex lock;
  std::condition_variable reached;
  bool done = false;
  std::chrono::steady_clock::time_point at;

  void reach() {
    std::lock_guard<std::mutex> held(lock);
    at = std::chrono::steady_clock::now();
    done = true;
    reached.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> held(lock);
    reached.wait(held, [this] { return done; });
  }
  bool is_past() {
    std::lock_guard<std::mutex> held(lock);
    return done;
  }
};

typedef std::function<void()> Work;

struct Stream {
  int part;  // -1: all multiprocessors
  std::atomic<u64> count{0}, waited_for{0}, most_ahead{0};
  std::mutex lock;
  std::condition_variable came;
  std::deque<Work> queue;
  bool begun = false, ended = false;

  void push(Work work) {
    std::lock_guard<std::mutex> held(lock);
    queue.push_back(std::move(work));
    if (!begun) std::thread([this] { live(); }).detach();
    begun = true;
    came.notify_one();
  }
  void live() {
    for (;;) {
      std::unique_lock<std::mutex> held(lock);
      came.wait(held, [this] { return ended || !queue.empty(); });
      if (queue.empty()) {
        begun = false;
        return;
      }
      Work work = std::move(queue.front());
      queue.pop_front();
      held.unlock();
      work();
    }
  }
  void end() {
    std::lock_guard<std::mutex> held(lock);
    ended = true;
    came.notify_one();
  }
  // Enqueues work that counts as a launch or a copy.
  void enqueue(Work work) {
    enqueued++;
    u64 ahead = ++count - waited_for;
    if (ahead > most_ahead) most_ahead = ahead;
    push(std::move(work));
  }
  std::shared_ptr<Mark> mark() {
    auto mark = std::make_shared<Mark>();
    push([mark] { mark->reach(); });
    return mark;
  }
  void synchronize() {
    u64 all = count;
    mark()->wait();
    reached(all);
  }
  void reached(u64 mark) {
    u64 before = waited_for;
    while (before < mark && !waited_for.compare_exchange_weak(before, mark)) {
    }
  }
};

static std::mutex streams_lock;
static auto &streams = *new std::set<Stream *>;

static Stream *new_stream(int part) {
  Stream *stream = new Stream{part};
  std::lock_guard<std::mutex> held(streams_lock);
  streams.insert(stream);
  return stream;
}
static void settle_all() {
  std::set<Stream *> all;
  {
    std::lock_guard<std::mutex> held(streams_lock);
    all = streams;
  }
  for (Stream *stream : all) stream->synchronize();
}

struct Event {
  bool timed;
  // The point of its last record: waits for an earlier record go on.
  std::shared_ptr<Mark> mark;
  Stream *stream = nullptr;
  u64 count = 0;
};

struct Context {
  int device;
};
static Context primary[8];
static thread_local Context *current;

struct Resource {  // as CUDA 13.0 lays it out
  int kind;
  int part;  // in its padding
  unsigned char padding[88];
  unsigned count, least, alignment;
  unsigned char more[36];
};
static_assert(sizeof(Resource) == 144, "as the driver's");

struct Green {
  int part;
};

struct Function {
  void *(*bind)(const char *, const unsigned *, const unsigned *, void **);
  void (*run)(void *);
  std::string name;
};

struct Library {
  void *handle;
};

#define API extern "C" __attribute__((visibility("default"))) int

// For the stand-in of cuBLASLt: `run` of `product` on `stream`.
extern "C" __attribute__((visibility("default"))) void stand_in_enqueue(Stream *stream,
                                                                        void (*run)(void *),
                                                                        void *product) {
  stream->enqueue([=] { run(product); });
}

API cuInit(unsigned) {
  tell("init " + variable("CUDA_DEVICE_MAX_CONNECTIONS", "-"));
  const std::string seen = variable("CUDA_VISIBLE_DEVICES", "0");
  return variable("STAND_IN_GPUS", "1") == "0" || seen == "-1" ? NO_DEVICE : SUCCESS;
}
API cuDriverGetVersion(int *version) {
  *version = atoi(variable("STAND_IN_VERSION", "13000").c_str());
  return SUCCESS;
}
API cuGetErrorString(int, const char **text) {
  *text = "as the stand-in says";
  return SUCCESS;
}
API cuDeviceGetCount(int *count) {
  *count = atoi(variable("STAND_IN_GPUS", "1").c_str());
  return SUCCESS;
}
API cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return SUCCESS;
}
API cuDeviceTotalMem_v2(size_t *bytes, int) {
  *bytes = MEMORY;
  return SUCCESS;
}
API cuDeviceGetName(char *name, int, int) {
  strcpy(name, "Stand-in");
  return SUCCESS;
}
API cuDeviceGetAttribute(int *value, int which, int) {
  switch (which) {
    case 13: *value = 1980000; break;
    case 16: *value = MULTIPROCESSORS; break;
    case 75: *value = atoi(variable("STAND_IN_CAPABILITY", "90").c_str()) / 10; break;
    case 76: *value = atoi(variable("STAND_IN_CAPABILITY", "90").c_str()) % 10; break;
    default: return INVALID_VALUE;
  }
  return SUCCESS;
}
API cuDevicePrimaryCtxRetain(Context **context, int device) {
  tell("retain " + std::to_string(device));
  primary[device].device = device;
  *context = &primary[device];
  return SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(int device) {
  tell("release " + std::to_string(device));
  return SUCCESS;
}
API cuCtxSetCurrent(Context *context) {
  current = context;
  return SUCCESS;
}
API cuCtxSynchronize() {
  if (!current) return INVALID_CONTEXT;
  settle_all();
  return SUCCESS;
}
API cuDeviceCanAccessPeer(int *can, int, int) {
  *can = 1;
  return SUCCESS;
}
API cuCtxEnablePeerAccess(Context *, unsigned) { return current ? SUCCESS : INVALID_CONTEXT; }

// ---- memory

API cuMemAlloc_v2(u64 *address, size_t bytes) {
  if (!current) return INVALID_CONTEXT;
  std::lock_guard<std::mutex> held(lock);
  if (bytes > MEMORY - in_use) return OUT_OF_MEMORY;
  void *memory = aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!memory) return OUT_OF_MEMORY;
  memset(memory, UNWRITTEN, bytes);
  *address = (u64)memory;
  allocated[*address] = bytes;
  in_use += bytes;
  tell("alloc " + std::to_string(enqueued));
  return SUCCESS;
}
// Waits, as the real one does, for all work that may use it.
API cuMemFree_v2(u64 address) {
  settle_all();
  std::lock_guard<std::mutex> held(lock);
  auto found = allocated.find(address);
  if (found == allocated.end()) return INVALID_VALUE;
  in_use -= found->second;
  allocated.erase(found);
  free((void *)address);
  return SUCCESS;
}
API cuMemGetInfo_v2(size_t *left, size_t *total) {
  std::lock_guard<std::mutex> held(lock);
  *left = MEMORY - in_use;
  *total = MEMORY;
  return SUCCESS;
}
API cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  if (!current) return INVALID_CONTEXT;
  tell("host-alloc " + std::to_string(enqueued));
  *address = aligned_alloc(512, (bytes + 511) / 512 * 512);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}
API cuMemFreeHost(void *address) {
  settle_all();
  free(address);
  return SUCCESS;
}

// Whether all of it is memory of the device.
static bool is_there(u64 address, size_t bytes) {
  std::lock_guard<std::mutex> held(lock);
  auto after = allocated.upper_bound(address);
  if (after == allocated.begin()) return false;
  auto found = std::prev(after);
  return address + bytes <= found->first + found->second;
}

static int copy(Stream *stream, void *to, const void *from, size_t bytes) {
  if (!current) return INVALID_CONTEXT;
  stream->enqueue([=] { memcpy(to, from, bytes); });
  return SUCCESS;
}
API cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, Stream *stream) {
  return is_there(to, bytes) ? copy(stream, (void *)to, from, bytes) : INVALID_VALUE;
}
API cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, Stream *stream) {
  return is_there(from, bytes) ? copy(stream, to, (void *)from, bytes) : INVALID_VALUE;
}
API cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t bytes, Stream *stream) {
  bool fits = is_there(to, bytes) && is_there(from, bytes);
  return fits ? copy(stream, (void *)to, (void *)from, bytes) : INVALID_VALUE;
}
API cuMemcpyPeerAsync(u64 to, Context *, u64 from, Context *, size_t bytes, Stream *stream) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
API cuMemsetD8Async(u64 address, unsigned char value, size_t bytes, Stream *stream) {
  if (!current) return INVALID_CONTEXT;
  if (!is_there(address, bytes)) return INVALID_VALUE;
  stream->enqueue([=] { memset((void *)address, value, bytes); });
  return SUCCESS;
}

// ---- streams and events

API cuStreamCreate(Stream **stream, unsigned flags) {
  if (!current) return INVALID_CONTEXT;
  if (flags != 1) return INVALID_VALUE;
  *stream = new_stream(-1);
  return SUCCESS;
}
// Its memory is kept: events may still be queried for their record in it.
API cuStreamDestroy_v2(Stream *stream) {
  {
    std::lock_guard<std::mutex> held(streams_lock);
    streams.erase(stream);
  }
  stream->end();
  tell("stream part " + std::to_string(stream->part) + " enqueued " +
       std::to_string(stream->count) + " ahead " + std::to_string(stream->most_ahead));
  return SUCCESS;
}
API cuStreamSynchronize(Stream *stream) {
  stream->synchronize();
  return SUCCESS;
}
API cuStreamQuery(Stream *stream) {
  u64 all = stream->count;
  std::unique_lock<std::mutex> held(stream->lock);
  if (!stream->queue.empty()) return NOT_READY;
  held.unlock();
  // The last item taken from the queue may still run.
  stream->mark()->wait();
  stream->reached(all);
  return SUCCESS;
}
API cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
  if (!event->mark) return INVALID_HANDLE;
  stream->push([mark = event->mark] { mark->wait(); });
  return SUCCESS;
}
API cuEventCreate(Event **event, unsigned flags) {
  if (!current) return INVALID_CONTEXT;
  *event = new Event{flags == 0};
  return flags == 0 || flags == 2 ? SUCCESS : INVALID_VALUE;
}
API cuEventDestroy_v2(Event *event) {
  delete event;
  return SUCCESS;
}
API cuEventRecord(Event *event, Stream *stream) {
  event->stream = stream;
  event->count = stream->count;
  event->mark = stream->mark();
  return SUCCESS;
}
API cuEventQuery(Event *event) {
  if (!event->mark) return INVALID_HANDLE;
  return event->mark->is_past() ? SUCCESS : NOT_READY;
}
API cuEventSynchronize(Event *event) {
  if (!event->mark) return INVALID_HANDLE;
  event->mark->wait();
  event->stream->reached(event->count);
  return SUCCESS;
}
API cuEventElapsedTime_v2(float *ms, Event *from, Event *to) {
  if (!from->timed || !to->timed || !from->mark || !to->mark) return INVALID_HANDLE;
  if (!from->mark->is_past() || !to->mark->is_past()) return NOT_READY;
  *ms = std::chrono::duration<float, std::milli>(to->mark->at - from->mark->at).count();
  return SUCCESS;
}

// ---- parts

API cuDeviceGetDevResource(int, Resource *resource, int kind) {
  unsigned least = getenv("STAND_IN_NO_LIMITS") ? 0 : LEAST;
  *resource = Resource{kind, -1, {}, MULTIPROCESSORS, least, least, {}};
  return kind == 1 ? SUCCESS : INVALID_VALUE;
}
API cuDevSmResourceSplitByCount(Resource *parts, unsigned *count, const Resource *all,
                                Resource *rest, unsigned flags, unsigned least) {
  if (getenv("STAND_IN_NO_PARTS")) return NOT_SUPPORTED;
  if (flags || rest || all->kind != 1) return INVALID_VALUE;
  // Alignment and minimum size of a part on a chip of that capability.
  const bool is_ampere = variable("STAND_IN_CAPABILITY", "90")[0] == '8';
  const unsigned step = is_ampere ? 2 : LEAST, smallest = is_ampere ? 4 : LEAST;
  unsigned each = std::max((least + step - 1) / step * step, smallest);
  *count = std::min(*count, all->count / each);
  for (unsigned i = 0; i < *count; i++) parts[i] = Resource{1, (int)i, {}, each, LEAST, LEAST, {}};
  tell("split " + std::to_string(*count) + " of " + std::to_string(each));
  return SUCCESS;
}
API cuDevResourceGenerateDesc(Green **description, Resource *part, unsigned count) {
  if (count != 1 || part->kind != 1) return INVALID_VALUE;
  *description = new Green{part->part};
  return SUCCESS;
}
API cuGreenCtxCreate(Green **context, Green *description, int, unsigned flags) {
  *context = new Green(*description);
  tell("green " + std::to_string(description->part));
  return flags == 1 ? SUCCESS : INVALID_VALUE;
}
API cuGreenCtxDestroy(Green *context) {
  delete context;
  return SUCCESS;
}
API cuGreenCtxStreamCreate(Stream **stream, Green *context, unsigned flags, int) {
  if (flags != 1) return INVALID_VALUE;
  *stream = new_stream(context->part);
  return SUCCESS;
}

// ---- kernels

// The code that the stand-in of NVRTC makes: an ELF's first bytes, and the type of element.
API cuLibraryLoadData(Library **library, const char *code, void *, void *, unsigned, void *, void *,
                      unsigned) {
  if (memcmp(code, "\x7f" "ELF", 4)) return INVALID_VALUE;
  Dl_info self;
  if (!dladdr((void *)cuLibraryLoadData, &self)) return NOT_FOUND;
  std::string path = self.dli_fname;
  path = path.substr(0, path.rfind('/')) + (code[4] == 'b' ? "/kernels-bf16.so" : "/kernels-f32.so");
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) fprintf(stderr, "%s\n", dlerror());
  *library = new Library{handle};
  return handle ? SUCCESS : NOT_FOUND;
}
API cuLibraryUnload(Library *library) {
  delete library;
  return SUCCESS;
}
API cuLibraryGetKernel(Function **kernel, Library *library, const char *name) {
  auto bind = (decltype(Function::bind))dlsym(library->handle, "stand_in_bind");
  auto run = (decltype(Function::run))dlsym(library->handle, "stand_in_run");
  *kernel = new Function{bind, run, name};
  return bind && run ? SUCCESS : NOT_FOUND;
}
API cuLaunchKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned width,
                   unsigned height, unsigned depth, unsigned shared, Stream *stream,
                   void **parameters, void **extra) {
  if (!current) return INVALID_CONTEXT;
  if (shared || extra || !x || !y || !z) return INVALID_VALUE;
  unsigned grid[] = {x, y, z}, block[] = {width, height, depth};
  static const int slow = atoi(variable("STAND_IN_LAUNCH_US", "0").c_str());
  if (slow) std::this_thread::sleep_for(std::chrono::microseconds(slow));
  // Arguments are those of now, whenever it runs.
  void *launch = function->bind(function->name.c_str(), grid, block, parameters);
  stream->enqueue([=] { function->run(launch); });
  return SUCCESS;
}
