// Which of a fake driver's contexts each thread has made current, and what CUDA wants of them.
#ifndef DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CONTEXTS_H_
#define DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CONTEXTS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Thread-safe. A thread's current context is its own until it makes another one current, or ends.
class FakeContexts {
 public:
  using Handle = const void*;  // a stream, an event or a pool

  FakeContexts();
  ~FakeContexts();

  // What is wrong with it, in words; empty: nothing. A green context is current to one thread at a
  // time.
  std::string MakeCurrent(const Context& context);
  // See Driver::Within.
  void Within(const Context& context, const std::function<void()>& work);
  std::optional<Context> Current() const;
  // What a call that needs a GPU's primary context, or another one of that GPU, does to a thread
  // that has none: it gets the primary one.
  void Need(int gpu);

  void Made(Handle handle, const Context& context);
  // What is wrong, likewise, with each of these: a launch of a kernel by the calling thread, which
  // must have made the stream's context current, or the primary one of its GPU;
  std::string Launch(Stream stream) const;
  // the use of a pool's memory on a stream, which cannot reach other GPUs' (`what`: "a kernel");
  std::string Reach(const std::string& what, Stream stream, Pool pool) const;
  // a copy between GPUs that takes a pool's memory for that of `gpu`;
  std::string Named(Pool pool, int gpu) const;
  // the recording of an event, which must be of the stream's GPU;
  std::string Record(Event event, Stream stream) const;
  // the time between two events, which must be of one GPU.
  std::string Elapsed(Event begin, Event end) const;

 private:
  struct Threads;
  const std::shared_ptr<Threads> threads_;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CONTEXTS_H_
