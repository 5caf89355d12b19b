// Streams, events and the execution of enqueued work of the fake driver.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/time.h"
#include "core/tensor/cuda/testing/fake_driver.h"

namespace dpipe::cuda {

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

// Streams that wait for the event keep waiting.
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
  if (streams_.count(stream) == 0) {
    violations_.push_back(absl::StrCat(call, " on a stream that does not exist"));
    return absl::OkStatus();
  }
  RunUntil([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return HasRoomFor(1, stream); });
  streams_.at(stream).push_back(std::move(work));
  changed_.SignalAll();
  return absl::OkStatus();
}

bool FakeDriver::HasRoomFor(size_t count, Stream stream) const {
  return queue_limit_ == 0 || streams_.at(stream).size() + count <= queue_limit_;
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
          << "deadlock: streams wait for each other";
    }
  }
}

bool FakeDriver::HasRoom(Stream stream, size_t count) const {
  absl::MutexLock lock(&mutex_);
  return HasRoomFor(count, stream);
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

absl::Status FakeDriver::Enqueue(Stream stream, std::function<void()> work,
                                 std::function<bool()> ready) {
  absl::MutexLock lock(&mutex_);
  return Push("Enqueue", stream, {std::move(work), std::move(ready)});
}

}  // namespace dpipe::cuda
