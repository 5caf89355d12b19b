#include "core/tensor/cuda/testing/fake_contexts.h"

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"

namespace dpipe::cuda {

struct FakeContexts::Threads {
  absl::Mutex mutex;
  std::map<std::thread::id, Context> current ABSL_GUARDED_BY(mutex);
  std::map<Handle, Context> made ABSL_GUARDED_BY(mutex);

  // Sets the calling thread's current context, until the thread ends.
  void Set(const std::shared_ptr<Threads>& self, const Context& context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (current.count(std::this_thread::get_id()) == 0) Own(self);
    current[std::this_thread::get_id()] = context;
  }
  // Returns a description if the two handles are of different GPUs, else "". `between` is its
  // format, with placeholders for the GPU numbers. Unknown handles are reported elsewhere.
  std::string OfTwoGpus(Handle a, Handle b, const absl::FormatSpec<int, int>& between) {
    absl::MutexLock lock(&mutex);
    const auto first = made.find(a), second = made.find(b);
    if (first == made.end() || second == made.end()) return "";
    if (first->second.gpu == second->second.gpu) return "";
    return absl::StrFormat(between, first->second.gpu, second->second.gpu);
  }

 private:
  // Removes the entries of its thread when the thread ends.
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
    if (context.green != current.green) continue;
    wrong = "a green context is made current to a second thread";
  }
  threads_->Set(threads_, context);
  return wrong;
}

std::optional<Context> FakeContexts::Current() const {
  absl::MutexLock lock(&threads_->mutex);
  const auto current = threads_->current.find(std::this_thread::get_id());
  if (current == threads_->current.end()) return std::nullopt;
  return current->second;
}

void FakeContexts::Within(const Context& context, const std::function<void()>& work) {
  const std::optional<Context> before = Current();
  const auto make_current = [this](const Context& current) {
    absl::MutexLock lock(&threads_->mutex);
    threads_->Set(threads_, current);
  };
  const bool is_own =
      before.has_value() && before->gpu == context.gpu && before->green == context.green;
  if (!is_own) make_current({context.gpu, 0, nullptr});
  work();
  if (!is_own && before.has_value()) make_current(*before);
}

void FakeContexts::Need(int gpu) {
  absl::MutexLock lock(&threads_->mutex);
  if (threads_->current.count(std::this_thread::get_id()) > 0) return;
  threads_->Set(threads_, {gpu, 0, nullptr});
}

void FakeContexts::Made(Handle handle, const Context& context) {
  absl::MutexLock lock(&threads_->mutex);
  threads_->made[handle] = context;
}

std::string FakeContexts::Launch(Stream stream) const {
  absl::MutexLock lock(&threads_->mutex);
  const auto of_stream = threads_->made.find(stream);
  if (of_stream == threads_->made.end()) return "";  // reported elsewhere
  const auto current = threads_->current.find(std::this_thread::get_id());
  if (current == threads_->current.end()) {
    return "a kernel is launched by a thread without a context";
  }
  const bool fits =
      current->second.green == nullptr || current->second.green == of_stream->second.green;
  if (current->second.gpu == of_stream->second.gpu && fits) return "";
  return absl::StrCat("a kernel is launched on a stream of ",
                      of_stream->second.green != nullptr ? "a green context of GPU " : "GPU ",
                      of_stream->second.gpu, " by a thread that has made ",
                      current->second.green != nullptr ? "a green context of GPU " : "GPU ",
                      current->second.gpu, " current");
}

std::string FakeContexts::Reach(const std::string& what, Stream stream, Pool pool) const {
  const std::string wrong = threads_->OfTwoGpus(stream, pool, "on GPU %d uses memory of GPU %d");
  return wrong.empty() ? "" : absl::StrCat(what, " ", wrong);
}

std::string FakeContexts::Named(Pool pool, int gpu) const {
  absl::MutexLock lock(&threads_->mutex);
  const auto of_pool = threads_->made.find(pool);
  if (of_pool == threads_->made.end() || of_pool->second.gpu == gpu) return "";
  return absl::StrCat("memory of GPU ", of_pool->second.gpu, " is copied as if of GPU ", gpu);
}

std::string FakeContexts::Record(Event event, Stream stream) const {
  return threads_->OfTwoGpus(event, stream, "an event of GPU %d is recorded on GPU %d");
}

std::string FakeContexts::Elapsed(Event begin, Event end) const {
  return threads_->OfTwoGpus(begin, end, "the time between events of GPU %d and GPU %d");
}

}  // namespace dpipe::cuda
