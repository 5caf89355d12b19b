#include "core/tensor/cuda/fake_driver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/time.h"

namespace dpipe::cuda {
namespace {

constexpr int64_t kFilledBytes = 64 << 20;  // of a block

}  // namespace

FakeDriver::FakeDriver(uint64_t seed)
    : gpus_({{0, "Fake GPU", 9, 0, 132, int64_t{80} << 30, "0000:01:00.0"}}),
      rules_({132, 8, 8}),
      random_(seed, 0, 0, RandomPurpose::kTest) {}

FakeDriver::~FakeDriver() { RunAll(); }

std::vector<std::string> FakeDriver::violations() const {
  absl::MutexLock lock(&mutex_);
  return violations_;
}

int64_t FakeDriver::live_bytes() const {
  absl::MutexLock lock(&mutex_);
  return live_bytes_;
}

int FakeDriver::num_live_handles() const {
  absl::MutexLock lock(&mutex_);
  int live = static_cast<int>(streams_.size() + pinned_.size() + graphs_.size());
  for (const auto& [event, state] : events_) live += state.destroyed ? 0 : 1;
  for (const auto& [pool, state] : pools_) live += state.destroyed ? 0 : 1;
  return live;
}

void FakeDriver::SetNumGpus(int count) {
  gpus_.assign(count, Gpu(gpus_[0]));
  for (int i = 0; i < count; ++i) gpus_[i].index = i;
}

void FakeDriver::set_memory_limit(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  memory_limit_ = bytes;
}

void FakeDriver::HideMemory() {
  absl::MutexLock lock(&mutex_);
  if (hidden_ == nullptr) hidden_ = std::make_unique<HiddenMemory>();
}

void FakeDriver::FailNext(const std::string& call) {
  absl::MutexLock lock(&mutex_);
  fail_next_ = call;
}

void FakeDriver::Break(const std::string& error) {
  std::vector<std::deque<Work>> dropped;  // without the lock: it may hold tensors
  absl::MutexLock lock(&mutex_);
  broken_ = absl::InternalError(error);
  for (auto& [stream, queue] : streams_) dropped.push_back(std::exchange(queue, {}));
  changed_.SignalAll();
}

absl::Status FakeDriver::Failure(const std::string& call) {
  if (!broken_.ok()) {
    return absl::Status(broken_.code(), absl::StrCat(call, ": ", broken_.message()));
  }
  if (fail_next_ != call) return absl::OkStatus();
  fail_next_.clear();
  return absl::InternalError(call + " was told to fail");
}

absl::StatusOr<std::vector<Gpu>> FakeDriver::Gpus() {
  if (gpus_.empty()) return absl::FailedPreconditionError("no GPU: the fake driver has none");
  return gpus_;
}

absl::StatusOr<int> FakeDriver::NumShares(int gpu, int multiprocessors) {
  return rules_.total / multiprocessors - lost_shares;
}

absl::StatusOr<std::vector<Context>> FakeDriver::Divide(int gpu, int count, int multiprocessors) {
  DPIPE_CHECK(multiprocessors % rules_.multiple_of == 0 && multiprocessors >= rules_.least &&
              count * multiprocessors <= rules_.total);
  absl::MutexLock lock(&mutex_);
  std::vector<Context> contexts;
  for (int i = 0; i < count; ++i) contexts.push_back({gpu, multiprocessors, NewHandle<void*>()});
  return contexts;
}

absl::Status FakeDriver::MakeCurrent(const Context& context) {
  absl::MutexLock lock(&mutex_);
  Tell(contexts_.MakeCurrent(context));
  return absl::OkStatus();
}

void FakeDriver::Within(const Context& context, const std::function<void()>& work) {
  contexts_.Within(context, work);
}

void FakeDriver::Tell(const std::string& wrong) {
  if (!wrong.empty()) violations_.push_back(wrong);
}

absl::StatusOr<Stream> FakeDriver::CreateStream(const Context& context) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Failure("CreateStream"));
  const Stream stream = NewHandle<Stream>();
  streams_[stream];
  contexts_.Need(context.gpu);
  contexts_.Made(stream, context);
  return stream;
}

void FakeDriver::DestroyStream(Stream stream) {
  absl::MutexLock lock(&mutex_);
  if (CaptureOf(stream) != nullptr) violations_.push_back("a captured stream was destroyed");
  RunUntil([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return streams_.at(stream).empty(); });
  streams_.erase(stream);
}

absl::StatusOr<Event> FakeDriver::CreateEvent(const Context& context) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Failure("CreateEvent"));
  const Event event = NewHandle<Event>();
  events_[event];
  contexts_.Need(context.gpu);
  contexts_.Made(event, context);
  return event;
}

// What waits for it goes on waiting.
void FakeDriver::DestroyEvent(Event event) {
  absl::MutexLock lock(&mutex_);
  EventState& state = events_.at(event);
  DPIPE_CHECK(!state.destroyed);
  captured_events_.erase(event);
  state.destroyed = true;
  if (state.done == state.recorded) events_.erase(event);
}

bool FakeDriver::IsDone(Event event, int64_t recording) {
  const auto it = events_.find(event);
  return it == events_.end() || it->second.done >= recording;
}

absl::Status FakeDriver::Push(const char* call, Stream stream, Work work) {
  FakeCapture* const capture = CaptureOf(stream);
  const absl::Status failure = Failure(call);
  if (!failure.ok()) {
    return capture == nullptr ? failure : capture->Spoil(std::string(failure.message()));
  }
  if (capture != nullptr) {
    if (work.ready != nullptr || work.graph != nullptr || !work.run) {
      return capture->Spoil(absl::StrCat(call, " cannot be captured"));
    }
    capture->Add(stream, std::move(work.run));
    return absl::OkStatus();
  }
  const auto it = streams_.find(stream);
  if (it == streams_.end()) {
    violations_.push_back(absl::StrCat(call, " on a stream that does not exist"));
    return absl::OkStatus();
  }
  it->second.push_back(std::move(work));
  changed_.SignalAll();
  return absl::OkStatus();
}

absl::Status FakeDriver::Record(Event event, Stream stream) {
  absl::MutexLock lock(&mutex_);
  Tell(contexts_.Record(event, stream));
  captured_events_.erase(event);
  for (const auto& capture : captures_) {
    if (!capture->Has(stream)) continue;
    DPIPE_RETURN_IF_ERROR(Failure("Record"));
    captured_events_[event] = {capture, capture->Tail(stream)};
    return absl::OkStatus();
  }
  DPIPE_RETURN_IF_ERROR(Failure("Record"));
  const int64_t recording = ++events_.at(event).recorded;
  return Push("Record", stream, {[this, event, recording]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                EventState& state = events_.at(event);
                state.done = std::max(state.done, recording);
                state.time_ns = by_the_clock ? MonotonicNow() : clock_ns_;
                if (state.destroyed && state.done == state.recorded) events_.erase(event);
              }});
}

absl::Status FakeDriver::Wait(Stream stream, Event event) {
  absl::MutexLock lock(&mutex_);
  if (CaptureOf(stream) != nullptr || captured_events_.count(event) > 0) {
    return CaptureWait(stream, event);
  }
  Work work{[] {}, nullptr, event, events_.at(event).recorded};
  return Push("Wait", stream, std::move(work));
}

absl::StatusOr<bool> FakeDriver::Done(Event event) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Done", event));
  DPIPE_RETURN_IF_ERROR(Failure("Done"));
  bool is_enough = IsDone(event, events_.at(event).recorded);
  RunWhile([&is_enough] { return !std::exchange(is_enough, true); });
  return IsDone(event, events_.at(event).recorded);
}

absl::Status FakeDriver::Synchronize(Event event) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Synchronize", event));
  const int64_t recording = events_.at(event).recorded;
  RunUntil(
      [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !broken_.ok() || IsDone(event, recording); });
  return Failure("Synchronize");
}

absl::Status FakeDriver::Synchronize(Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Synchronize", stream));
  RunUntil([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return streams_.at(stream).empty(); });
  return Failure("Synchronize");
}

void FakeDriver::RunAll() {
  absl::MutexLock lock(&mutex_);
  RunWhile([] { return true; });
}

template <typename Wanted>
bool FakeDriver::RunWhile(const Wanted& wanted) {
  const HiddenMemory::Leave leave(hidden_.get());
  bool any = false;
  while (wanted() && RunOne()) any = true;
  return any;
}

template <typename Reached>
void FakeDriver::RunUntil(const Reached& reached) {
  while (!reached()) {
    if (RunWhile([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !reached(); })) {
      changed_.SignalAll();
    } else if (changed_.WaitWithTimeout(&mutex_, absl::Seconds(30))) {
      DPIPE_CHECK(RunWhile([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !reached(); }))
          << "streams wait for each other";
    }
  }
}

void FakeDriver::Poke() {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
}

bool FakeDriver::RunOne() {
  std::vector<std::deque<Work>*> ready;
  for (auto& [stream, queue] : streams_) {
    if (queue.empty()) continue;
    const Work& next = queue.front();
    const bool reached = next.waits_for == nullptr || IsDone(next.waits_for, next.recording);
    if (reached && (next.ready == nullptr || next.ready())) ready.push_back(&queue);
  }
  if (ready.empty()) return false;
  std::deque<Work>& queue = *ready[random_.NextBelow(ready.size())];
  if (const auto graph = queue.front().graph; graph != nullptr && !graph->finished()) {
    const std::vector<int> nodes = graph->Ready();
    clock_ns_ += 1000;
    graph->Run(nodes[random_.NextBelow(nodes.size())]);
    return true;
  }
  const Work work = std::move(queue.front());
  queue.pop_front();
  if (work.graph != nullptr) return true;
  clock_ns_ += 1000;
  work.run();
  return true;
}

absl::StatusOr<int64_t> FakeDriver::ElapsedNs(Event begin, Event end) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Failure("ElapsedNs"));
  Tell(contexts_.Elapsed(begin, end));
  return events_.at(end).time_ns - events_.at(begin).time_ns;
}

absl::StatusOr<Pool> FakeDriver::CreatePool(const Context& context) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("CreatePool"));
  DPIPE_RETURN_IF_ERROR(Failure("CreatePool"));
  const Pool pool = NewHandle<Pool>();
  pools_[pool].gpu = context.gpu;
  contexts_.Need(context.gpu);
  contexts_.Made(pool, context);
  return pool;
}

void FakeDriver::DestroyPool(Pool pool) {
  absl::MutexLock lock(&mutex_);
  PoolState& state = pools_.at(pool);
  DPIPE_CHECK(!state.destroyed);
  state.destroyed = true;
  state.reserved_bytes = state.live_bytes;
  if (state.live_bytes == 0) pools_.erase(pool);
}

int64_t FakeDriver::ReservedOn(int gpu) const {
  int64_t bytes = 0;
  for (const auto& [pool, state] : pools_) bytes += state.gpu == gpu ? state.reserved_bytes : 0;
  return bytes;
}

absl::StatusOr<void*> FakeDriver::Allocate(Pool pool, int64_t size_bytes, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Allocate", stream));
  DPIPE_RETURN_IF_ERROR(Failure("Allocate"));
  PoolState& of_pool = pools_.at(pool);
  const int64_t reserved = ReservedOn(of_pool.gpu);
  const int64_t lacking = of_pool.live_bytes + size_bytes - of_pool.reserved_bytes;
  if (memory_limit_ > 0 && lacking > 0 && reserved + lacking > memory_limit_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(reserved, " of ", memory_limit_, " bytes in use"));
  }
  live_bytes_ += size_bytes;
  of_pool.live_bytes += size_bytes;
  of_pool.reserved_bytes = std::max(of_pool.reserved_bytes, of_pool.live_bytes);
  Block block{nullptr, size_bytes, pool};
  if (hidden_ == nullptr) block.data.reset(new char[size_bytes]);
  char* const data = hidden_ == nullptr ? block.data.get() : hidden_->Allocate(size_bytes);
  if (hidden_ == nullptr) std::memset(data, 0xcd, std::min(size_bytes, kFilledBytes));
  blocks_[data] = std::move(block);
  return data;
}

absl::Status FakeDriver::Free(void* data, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Free", stream));
  return Push("Free", stream, {[this, data]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                Block& block = blocks_.at(static_cast<char*>(data));
                if (!block.live) return violations_.push_back("a block was freed twice");
                block.live = false;
                live_bytes_ -= block.size_bytes;
                PoolState& pool = pools_.at(block.pool);
                pool.live_bytes -= block.size_bytes;
                if (pool.destroyed) pool.reserved_bytes = pool.live_bytes;
                if (pool.destroyed && pool.live_bytes == 0) pools_.erase(block.pool);
                std::memset(data, 0xdd, std::min(block.size_bytes, kFilledBytes));
              }});
}

absl::Status FakeDriver::Trim(Pool pool) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("Trim"));
  DPIPE_RETURN_IF_ERROR(Failure("Trim"));
  pools_.at(pool).reserved_bytes = pools_.at(pool).live_bytes;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FakeDriver::ReservedBytes(Pool pool) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Failure("ReservedBytes"));
  return pools_.at(pool).reserved_bytes;
}

absl::StatusOr<void*> FakeDriver::AllocatePinned(const Context& context, int64_t size_bytes) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Unsafe("AllocatePinned"));
  DPIPE_RETURN_IF_ERROR(Failure("AllocatePinned"));
  Block block{std::unique_ptr<char[]>(new char[size_bytes]), size_bytes};
  char* const data = block.data.get();
  pinned_[data] = std::move(block);
  return data;
}

void FakeDriver::FreePinned(void* data) {
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK_EQ(pinned_.erase(static_cast<char*>(data)), 1);
}

const FakeDriver::Block* FakeDriver::FindBlock(const void* data, int64_t size_bytes) const {
  const char* const begin = static_cast<const char*>(data);
  for (const auto* blocks : {&blocks_, &pinned_}) {
    auto it = blocks->upper_bound(begin);
    if (it == blocks->begin()) continue;
    --it;
    if (begin + size_bytes <= it->first + it->second.size_bytes) return &it->second;
  }
  return nullptr;
}

Pool FakeDriver::CheckAccess(const char* what, const void* data, int64_t size_bytes) {
  const Block* const block = FindBlock(data, size_bytes);
  if (block == nullptr) {
    violations_.push_back(absl::StrCat(what, " of memory that is not the driver's"));
    return nullptr;
  }
  if (!block->live) violations_.push_back(absl::StrCat(what, " of freed memory"));
  return block->pool;
}

void FakeDriver::CheckAccess(const char* what, const void* data, int64_t size_bytes,
                             Stream stream) {
  Tell(contexts_.Reach(what, stream, CheckAccess(what, data, size_bytes)));
}

absl::Status FakeDriver::Copy(void* to, const void* from, int64_t size_bytes, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Captured("Copy", stream, from, size_bytes));
  DPIPE_RETURN_IF_ERROR(Captured("Copy", stream, to, size_bytes));
  return Push("Copy", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                CheckAccess("a copy out", from, size_bytes, stream);
                CheckAccess("a copy in", to, size_bytes, stream);
                std::memcpy(to, from, size_bytes);
              }});
}

absl::Status FakeDriver::CopyBetween(void* to, int to_gpu, const void* from, int from_gpu,
                                     int64_t size_bytes, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Captured("CopyBetween", stream, from, size_bytes));
  DPIPE_RETURN_IF_ERROR(Captured("CopyBetween", stream, to, size_bytes));
  return Push("CopyBetween", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                Tell(contexts_.Named(CheckAccess("a copy out", from, size_bytes), from_gpu));
                Tell(contexts_.Named(CheckAccess("a copy in", to, size_bytes), to_gpu));
                std::memcpy(to, from, size_bytes);
              }});
}

absl::Status FakeDriver::Fill(void* data, int value, int64_t size_bytes, Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Captured("Fill", stream, data, size_bytes));
  return Push("Fill", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                CheckAccess("a fill", data, size_bytes, stream);
                std::memset(data, value, size_bytes);
              }});
}

absl::Status FakeDriver::Convert(void* to, DType to_dtype, const void* from, DType from_dtype,
                                 int64_t count, Stream stream) {
  const bool narrow = from_dtype == DType::kF32 && to_dtype == DType::kBf16;
  if (!narrow && !(from_dtype == DType::kBf16 && to_dtype == DType::kF32)) {
    return absl::InvalidArgumentError(
        absl::StrCat("from ", DTypeName(from_dtype), " to ", DTypeName(to_dtype)));
  }
  absl::MutexLock lock(&mutex_);
  return Push("Convert", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                CheckAccess("a conversion", from, count * (narrow ? 4 : 2), stream);
                CheckAccess("a conversion", to, count * (narrow ? 2 : 4), stream);
                for (int64_t i = 0; i < count; ++i) {
                  if (narrow) {
                    static_cast<Bf16*>(to)[i] = Bf16(static_cast<const float*>(from)[i]);
                  } else {
                    static_cast<float*>(to)[i] =
                        static_cast<float>(static_cast<const Bf16*>(from)[i]);
                  }
                }
              }});
}

absl::Status FakeDriver::Accumulate(float* sum, const float* term, int64_t count, Stream stream) {
  absl::MutexLock lock(&mutex_);
  return Push("Accumulate", stream, {[=]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                CheckAccess("a sum", sum, count * 4, stream);
                CheckAccess("a term", term, count * 4, stream);
                for (int64_t i = 0; i < count; ++i) sum[i] += term[i];
              }});
}

absl::Status FakeDriver::Enqueue(Stream stream, std::function<void()> work,
                                 std::function<bool()> ready) {
  absl::MutexLock lock(&mutex_);
  return Push("Enqueue", stream, {std::move(work), std::move(ready)});
}

}  // namespace dpipe::cuda
