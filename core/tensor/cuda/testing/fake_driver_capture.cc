// Captures, graphs and kernels of the fake driver.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/tensor/cuda/testing/fake_driver.h"

namespace dpipe::cuda {

FakeCapture* FakeDriver::CaptureOf(Stream stream) {
  for (const auto& capture : captures_) {
    if (capture->Has(stream)) return capture.get();
  }
  return nullptr;
}

absl::Status FakeDriver::Unsafe(const char* call) {
  for (const auto& capture : captures_) {
    if (capture->IsOfThisThread()) return capture->Spoil(absl::StrCat(call, " during a capture"));
  }
  return absl::OkStatus();
}

absl::Status FakeDriver::Unsafe(const char* call, Stream stream) {
  FakeCapture* const capture = CaptureOf(stream);
  if (capture == nullptr) return Unsafe(call);
  return capture->Spoil(absl::StrCat(call, " of a stream that is being captured"));
}

absl::Status FakeDriver::Unsafe(const char* call, Event event) {
  const auto captured = captured_events_.find(event);
  if (captured == captured_events_.end()) return Unsafe(call);
  return captured->second.capture->Spoil(absl::StrCat(call, " of an event in a capture"));
}

// Waiting for an event that was never recorded has no effect.
absl::Status FakeDriver::CaptureWait(Stream stream, Event event) {
  FakeCapture* const own = CaptureOf(stream);
  const auto captured = captured_events_.find(event);
  if (captured == captured_events_.end()) {
    if (events_.at(event).recorded == 0) return absl::OkStatus();
    return own->Spoil("a captured stream waits for an event from outside the capture");
  }
  const std::shared_ptr<FakeCapture>& theirs = captured->second.capture;
  if (std::find(captures_.begin(), captures_.end(), theirs) == captures_.end()) {
    const std::string reason = "Wait for an event in a capture that is over";
    return own == nullptr ? absl::FailedPreconditionError(reason) : own->Spoil(reason);
  }
  if (own != nullptr && own != theirs.get()) {
    theirs->Spoil("another capture waits for it").IgnoreError();
    return own->Spoil("a captured stream waits for an event in another capture");
  }
  theirs->Wait(stream, captured->second.after);
  return absl::OkStatus();
}

absl::Status FakeDriver::BeginCapture(Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_RETURN_IF_ERROR(Failure("BeginCapture"));
  DPIPE_CHECK(streams_.count(stream) > 0) << "a capture of a stream that does not exist";
  if (FakeCapture* const capture = CaptureOf(stream); capture != nullptr) {
    return capture->Spoil("BeginCapture of a stream that is being captured");
  }
  captures_.push_back(std::make_shared<FakeCapture>(stream));
  return absl::OkStatus();
}

absl::Status FakeDriver::Captured(const char* call, Stream stream, const void* data,
                                  int64_t size_bytes) {
  FakeCapture* const capture = CaptureOf(stream);
  if (capture == nullptr || FindBlock(data, size_bytes) != nullptr) return absl::OkStatus();
  return capture->Spoil(absl::StrCat(call, " of memory that is not the driver's"));
}

absl::StatusOr<std::shared_ptr<FakeCapture>> FakeDriver::TakeCapture(Stream stream) {
  FakeCapture* const found = CaptureOf(stream);
  if (found == nullptr) return absl::FailedPreconditionError("EndCapture without BeginCapture");
  if (found->origin() != stream) return found->Spoil("EndCapture of a stream that joined later");
  if (!found->IsOfThisThread()) return found->Spoil("EndCapture by another thread");
  const auto it = std::find_if(captures_.begin(), captures_.end(),
                               [&](const auto& capture) { return capture.get() == found; });
  const std::shared_ptr<FakeCapture> capture = *it;
  captures_.erase(it);
  return capture;
}

void FakeDriver::DropCapture(Stream stream) {
  absl::MutexLock lock(&mutex_);
  TakeCapture(stream).status().IgnoreError();
}

absl::StatusOr<Graph> FakeDriver::EndCapture(Stream stream) {
  absl::MutexLock lock(&mutex_);
  DPIPE_ASSIGN_OR_RETURN(const std::shared_ptr<FakeCapture> capture, TakeCapture(stream));
  DPIPE_RETURN_IF_ERROR(Failure("EndCapture"));
  DPIPE_ASSIGN_OR_RETURN(const std::shared_ptr<const FakeGraph> recorded, capture->End());
  const Graph graph = NewHandle<Graph>();
  graphs_[graph] = recorded;
  return graph;
}

absl::Status FakeDriver::Launch(Graph graph, Stream stream) {
  absl::MutexLock lock(&mutex_);
  const auto it = graphs_.find(graph);
  DPIPE_CHECK(it != graphs_.end()) << "a launch of a graph that does not exist";
  ++num_launches_;
  Work work;
  work.graph = std::make_shared<FakeGraphRun>(it->second);
  return Push("Launch", stream, std::move(work));
}

int64_t FakeDriver::num_launches() const {
  absl::MutexLock lock(&mutex_);
  return num_launches_;
}

// A launch shares ownership of its graph.
void FakeDriver::DestroyGraph(Graph graph) {
  absl::MutexLock lock(&mutex_);
  const auto it = graphs_.find(graph);
  DPIPE_CHECK(it != graphs_.end()) << "a graph that does not exist is destroyed";
  if (it->second.use_count() > 1) {
    violations_.push_back("a graph was destroyed while a launch of it was in flight");
  }
  graphs_.erase(it);
}

void FakeDriver::EnqueueKernel(void* stream, std::function<void()> kernel, const void* arguments,
                               size_t size_bytes) {
  std::vector<const char*> words(size_bytes / sizeof(const char*));
  std::memcpy(words.data(), arguments, words.size() * sizeof(const char*));
  absl::MutexLock lock(&mutex_);
  Tell(contexts_.Launch(static_cast<Stream>(stream)));
  const absl::Status pushed =
      Push("EnqueueKernel", static_cast<Stream>(stream),
           {[this, stream, kernel = std::move(kernel),
             words = std::move(words)]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
             for (const char* word : words) {
               auto block = blocks_.upper_bound(word);
               if (block == blocks_.begin()) continue;
               --block;
               if (word >= block->first + block->second.size_bytes) continue;
               if (!block->second.live) violations_.push_back("a kernel uses freed memory");
               Tell(contexts_.Reach("a kernel", static_cast<Stream>(stream), block->second.pool));
             }
             kernel();
           }});
  if (pushed.ok() || !broken_.ok() || CaptureOf(static_cast<Stream>(stream)) != nullptr) return;
  violations_.push_back(absl::StrCat("EnqueueKernel: ", pushed.message()));
}

}  // namespace dpipe::cuda
