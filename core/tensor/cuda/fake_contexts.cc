#include "core/tensor/cuda/fake_contexts.h"

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace dpipe::cuda {
namespace {

bool Same(const Context& a, const Context& b) { return a.gpu == b.gpu && a.green == b.green; }

}  // namespace

struct FakeContexts::Threads {
  absl::Mutex mutex;
  std::map<std::thread::id, Context> current ABSL_GUARDED_BY(mutex);
  std::map<Stream, Context> streams ABSL_GUARDED_BY(mutex);
  std::map<Event, Context> events ABSL_GUARDED_BY(mutex);
  std::map<Pool, Context> pools ABSL_GUARDED_BY(mutex);

  // The calling thread's, until it ends.
  void Set(const std::shared_ptr<Threads>& self, const Context& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (current.count(std::this_thread::get_id()) == 0) Own(self);
    current[std::this_thread::get_id()] = context;
  }

 private:
  // Forgets what its thread has when that ends.
  struct OfThread {
    std::vector<std::weak_ptr<Threads>> drivers;
    ~OfThread() {
      for (const std::weak_ptr<Threads>& driver : drivers) {
        const std::shared_ptr<Threads> threads = driver.lock();
        if (threads == nullptr) continue;
        absl::MutexLock lock(&threads->mutex);
        threads->current.erase(std::this_thread::get_id());
      }
    }
  };
  static void Own(const std::shared_ptr<Threads>& self) {
    static thread_local OfThread of_thread;
    of_thread.drivers.push_back(self);
  }
};

FakeContexts::FakeContexts() : threads_(std::make_shared<Threads>()) {}
FakeContexts::~FakeContexts() = default;

std::string FakeContexts::MakeCurrent(const Context& context) {
  absl::MutexLock lock(&threads_->mutex);
  std::string wrong;
  for (const auto& [thread, current] : threads_->current) {
    if (context.green == nullptr || thread == std::this_thread::get_id()) continue;
    if (!Same(context, current)) continue;
    wrong = "a green context is made current to a second thread";
  }
  threads_->Set(threads_, context);
  return wrong;
}

void FakeContexts::Need(int gpu) {
  absl::MutexLock lock(&threads_->mutex);
  if (threads_->current.count(std::this_thread::get_id()) > 0) return;
  threads_->Set(threads_, {gpu, 0, nullptr});
}

void FakeContexts::Made(Stream stream, const Context& context) {
  absl::MutexLock lock(&threads_->mutex);
  threads_->streams[stream] = context;
}

void FakeContexts::Made(Event event, const Context& context) {
  absl::MutexLock lock(&threads_->mutex);
  threads_->events[event] = context;
}

void FakeContexts::Made(Pool pool, const Context& context) {
  absl::MutexLock lock(&threads_->mutex);
  threads_->pools[pool] = context;
}

std::string FakeContexts::Reach(Stream stream, Pool pool) const {
  absl::MutexLock lock(&threads_->mutex);
  const auto of_pool = threads_->pools.find(pool);
  const auto of_stream = threads_->streams.find(stream);
  if (of_pool == threads_->pools.end() || of_stream == threads_->streams.end()) return "";
  if (of_pool->second.gpu == of_stream->second.gpu) return "";
  return absl::StrCat("a kernel on GPU ", of_stream->second.gpu, " uses memory of GPU ",
                      of_pool->second.gpu);
}

std::string FakeContexts::Launch(Stream stream) const {
  absl::MutexLock lock(&threads_->mutex);
  const auto of_stream = threads_->streams.find(stream);
  if (of_stream == threads_->streams.end()) return "";  // told elsewhere
  const auto current = threads_->current.find(std::this_thread::get_id());
  if (current == threads_->current.end())
    return "a kernel is launched by a thread without a context";
  const bool fits =
      current->second.green == nullptr || current->second.green == of_stream->second.green;
  if (current->second.gpu == of_stream->second.gpu && fits) return "";
  return absl::StrCat("a kernel is launched on a stream of ",
                      of_stream->second.green != nullptr ? "a green context of GPU " : "GPU ",
                      of_stream->second.gpu, " by a thread that has made ",
                      current->second.green != nullptr ? "a green context of GPU " : "GPU ",
                      current->second.gpu, " current");
}

std::string FakeContexts::Record(Event event, Stream stream) const {
  absl::MutexLock lock(&threads_->mutex);
  const auto of_event = threads_->events.find(event);
  const auto of_stream = threads_->streams.find(stream);
  if (of_event == threads_->events.end() || of_stream == threads_->streams.end()) return "";
  if (of_event->second.gpu == of_stream->second.gpu) return "";
  return absl::StrCat("an event of GPU ", of_event->second.gpu, " is recorded on GPU ",
                      of_stream->second.gpu);
}

std::string FakeContexts::Elapsed(Event begin, Event end) const {
  absl::MutexLock lock(&threads_->mutex);
  const auto first = threads_->events.find(begin), second = threads_->events.find(end);
  if (first == threads_->events.end() || second == threads_->events.end()) return "";
  if (first->second.gpu == second->second.gpu) return "";
  return absl::StrCat("the time between events of GPU ", first->second.gpu, " and GPU ",
                      second->second.gpu);
}

}  // namespace dpipe::cuda
