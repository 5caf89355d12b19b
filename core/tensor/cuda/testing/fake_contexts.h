// Tracks the current context of each thread of a fake driver, and checks CUDA's rules for contexts.
#ifndef DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CONTEXTS_H_
#define DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CONTEXTS_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Thread-safe. A context stays current to a thread until the thread makes another one current or
// ends.
class FakeContexts {
 public:
  using Handle = const void*;  // a stream, an event or a pool

  FakeContexts();
  ~FakeContexts();

  // Makes the context current to the calling thread. Returns a description of the violation, or "".
  // A green context may be current to only one thread at a time.
  std::string MakeCurrent(const Context& context);
  // See Driver::Within.
  void Within(const Context& context, const std::function<void()>& work);
  std::optional<Context> Current() const;
  // Simulates a call that needs any context of the GPU: a thread without a current context gets the
  // GPU's primary one.
  void Need(int gpu);

  void Made(Handle handle, const Context& context);
  // The following functions also return a description of the violation, or "".
  //
  // Checks a kernel launch by the calling thread: the current context must be the stream's, or the
  // primary one of its GPU.
  std::string Launch(Stream stream) const;
  // Checks the use of a pool's memory on a stream, which cannot reach the memory of other GPUs.
  // `what` describes the work, for example "a kernel".
  std::string Reach(const std::string& what, Stream stream, Pool pool) const;
  // Checks a copy between GPUs that declares the pool's memory to be on `gpu`.
  std::string Named(Pool pool, int gpu) const;
  // Checks the recording of an event, which must be of the stream's GPU.
  std::string Record(Event event, Stream stream) const;
  // Checks a time measurement between two events, which must be of one GPU.
  std::string Elapsed(Event begin, Event end) const;

 private:
  struct Threads;
  const std::shared_ptr<Threads> threads_;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CONTEXTS_H_
