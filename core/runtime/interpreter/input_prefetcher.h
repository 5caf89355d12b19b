// Creates a step's inputs on a separate thread before they are requested.
//
// The thread that enqueues a GPU's work waits for the GPU once per step, when the gradients' norm
// decides if the step counts. The GPU is then idle until the thread has enqueued the next step's
// first kernel. Drawing the noise of 64 images of 512 pixels and of their latents alone takes tens
// of milliseconds. So the inputs that a rank has requested for one step are also created for the
// next step, while the GPU works. Inputs are functions of the step and the samples, so the numbers
// do not depend on this.
#ifndef DPIPE_CORE_RUNTIME_INTERPRETER_INPUT_PREFETCHER_H_
#define DPIPE_CORE_RUNTIME_INTERPRETER_INPUT_PREFETCHER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/runtime/input_provider.h"

namespace dpipe {

// Belongs to one rank and one thread. Holds, for the next step, the inputs requested in one step.
class InputPrefetcher {
 public:
  // `inputs` outlives this. The prefetcher's thread creates inputs on `device`, which does no other
  // work.
  InputPrefetcher(InputProvider* inputs, std::shared_ptr<Device> device);
  // Waits for the input in progress.
  ~InputPrefetcher();
  InputPrefetcher(const InputPrefetcher&) = delete;
  InputPrefetcher& operator=(const InputPrefetcher&) = delete;

  // Returns the prefetched input, after waiting for it if it is in progress; it is complete and on
  // the prefetcher's device. Otherwise returns the result of LoadInput on `device`. In either case
  // starts to prefetch the same input of the next step. Errors concern only the requested input.
  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device);

 private:
  // Step, component, input, first and last sample; ordered by step.
  using Request = std::tuple<int64_t, std::string, std::string, int, int>;
  struct Guess {
    enum class State { kQueued, kBeingMade, kMade };
    State state = State::kQueued;
    absl::StatusOr<Tensor> value;
  };

  void Run();
  absl::StatusOr<Tensor> Make(const Request& request, const std::shared_ptr<Device>& device);
  // Runs on the prefetcher's thread and waits until the input is written.
  absl::StatusOr<Tensor> MakeAhead(const Request& request);
  // Returns the prefetched input once it is ready. Returns an error if it was not begun or has
  // failed.
  absl::StatusOr<Tensor> Take(const Request& request);
  void MakeLater(Request request);

  InputProvider& inputs_;
  const std::shared_ptr<Device> device_;
  absl::Mutex mutex_;
  std::map<Request, Guess> guesses_ ABSL_GUARDED_BY(mutex_);
  // Guesses in the order of creation. Some may have been dropped since.
  std::deque<Request> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INTERPRETER_INPUT_PREFETCHER_H_
