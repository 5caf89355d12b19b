#include "core/ops/cuda/emulated_gpu/emulation.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/base/check.h"
#include "core/ops/cuda/emulated_gpu/fiber.h"

namespace dpipe::ops::cuda::emulation {
namespace {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kMaxThreads = 1024;

enum class State { kReady, kAtBarrier, kAtExchange, kEnded };

const char* Name(State state) {
  switch (state) {
    case State::kReady:
      return "runs";
    case State::kAtBarrier:
      return "waits at a barrier";
    case State::kAtExchange:
      return "waits at a shuffle";
    case State::kEnded:
      return "has ended";
  }
  return "";
}

struct Thread {
  Fiber fiber;
  State state = State::kReady;
  uint64_t bits = 0;  // passed to a shuffle, and returned by it
  uint32_t mask = 0;
};

struct SharedArray {
  const void* site;
  size_t size_bytes;
  std::unique_ptr<char[]> data;
};

// The launch that a thread of the process is executing.
class Launch {
 public:
  void SetOrder(uint64_t seed) { seed_ = seed; }

  void Run(uint32_t blocks, uint32_t threads, void (*thread)(const void*), const void* kernel) {
    DPIPE_CHECK(threads >= 1 && threads <= kMaxThreads && threads % kWarp == 0)
        << "a block of " << threads << " threads is too large or has a partial warp";
    DPIPE_CHECK(!running_) << "a kernel must not launch a kernel";
    running_ = true;
    thread_ = thread;
    kernel_ = kernel;
    here_.blocks = blocks;
    while (threads_.size() < threads) threads_.push_back(std::make_unique<Thread>());
    random_.seed(seed_);
    for (uint32_t block : Order(blocks)) RunBlock(block, threads);
    running_ = false;
  }

  const Position& here() const { return here_; }

  void Wait(State state) {
    Thread& thread = *threads_[here_.thread];
    thread.state = state;
    thread.fiber.Suspend();
  }

  uint64_t Exchange(uint64_t bits, uint32_t mask) {
    DPIPE_CHECK(mask < kWarp) << "invalid shuffle mask " << mask;
    Thread& thread = *threads_[here_.thread];
    thread.bits = bits;
    thread.mask = mask;
    Wait(State::kAtExchange);
    return thread.bits;
  }

  void* Shared(const void* site, size_t size_bytes) {
    for (const SharedArray& array : shared_) {
      if (array.site == site) return array.data.get();
    }
    shared_.push_back({site, size_bytes, std::unique_ptr<char[]>(new char[size_bytes])});
    std::memset(shared_.back().data.get(), 0xff, size_bytes);  // NaN in fp32 and in bf16
    return shared_.back().data.get();
  }

 private:
  std::vector<uint32_t> Order(uint32_t count) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    if (seed_ != 0) std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  static void Main(void* launch) {
    auto* self = static_cast<Launch*>(launch);
    self->thread_(self->kernel_);
  }

  void RunBlock(uint32_t block, uint32_t threads) {
    here_.block = block;
    shared_.clear();
    for (uint32_t i = 0; i < threads; ++i) {
      threads_[i]->state = State::kReady;
      threads_[i]->fiber.Start(&Main, this);
    }
    do {
      for (uint32_t i : Order(threads)) {
        if (threads_[i]->state != State::kReady) continue;
        here_.thread = i;
        if (threads_[i]->fiber.Resume()) threads_[i]->state = State::kEnded;
      }
    } while (Release(threads));
  }

  // Resumes all threads whose barrier or shuffle is complete. Returns false if all threads have
  // ended. No thread may be ready.
  bool Release(uint32_t threads) {
    bool released = false;
    for (uint32_t warp = 0; warp < threads; warp += kWarp) {
      if (!AllAre(State::kAtExchange, warp, warp + kWarp)) continue;
      FinishExchange(warp);
      released = true;
    }
    if (released) return true;
    if (AllAre(State::kEnded, 0, threads)) return false;
    for (uint32_t i = 0; i < threads; ++i) {
      DPIPE_CHECK(threads_[i]->state == State::kAtBarrier)
          << "block " << here_.block << " of " << here_.blocks << ": thread " << i << " "
          << Name(threads_[i]->state) << ", while thread " << FirstOther(i, threads) << " "
          << Name(threads_[FirstOther(i, threads)]->state);
    }
    for (uint32_t i = 0; i < threads; ++i) threads_[i]->state = State::kReady;
    return true;
  }

  bool AllAre(State state, uint32_t begin, uint32_t end) const {
    for (uint32_t i = begin; i < end; ++i) {
      if (threads_[i]->state != state) return false;
    }
    return true;
  }

  // Returns a thread in a different state than thread i, or i if there is none.
  uint32_t FirstOther(uint32_t i, uint32_t threads) const {
    for (uint32_t j = 0; j < threads; ++j) {
      if (threads_[j]->state != threads_[i]->state) return j;
    }
    return i;
  }

  void FinishExchange(uint32_t warp) {
    uint64_t given[kWarp];
    for (uint32_t lane = 0; lane < kWarp; ++lane) given[lane] = threads_[warp + lane]->bits;
    for (uint32_t lane = 0; lane < kWarp; ++lane) {
      Thread& thread = *threads_[warp + lane];
      DPIPE_CHECK_EQ(thread.mask, threads_[warp]->mask)
          << "lanes of one warp use different shuffle masks";
      thread.bits = given[lane ^ thread.mask];
      thread.state = State::kReady;
    }
  }

  uint64_t seed_ = 0;
  std::mt19937_64 random_;
  bool running_ = false;
  void (*thread_)(const void*) = nullptr;
  const void* kernel_ = nullptr;
  Position here_;
  std::vector<std::unique_ptr<Thread>> threads_;  // reused: creating stacks dominates the time
  std::vector<SharedArray> shared_;
};

Launch& Current() {
  static thread_local Launch launch;
  return launch;
}

}  // namespace

void SetOrder(uint64_t seed) { Current().SetOrder(seed); }

void Run(uint32_t blocks, uint32_t threads, void (*thread)(const void*), const void* kernel) {
  Current().Run(blocks, threads, thread, kernel);
}

const Position& Here() { return Current().here(); }
void Barrier() { Current().Wait(State::kAtBarrier); }
uint64_t ExchangeXor(uint64_t bits, uint32_t mask) { return Current().Exchange(bits, mask); }
void* Shared(const void* site, size_t size_bytes) { return Current().Shared(site, size_bytes); }

}  // namespace dpipe::ops::cuda::emulation
