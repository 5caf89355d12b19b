// Has a step's inputs made before they are asked for, on a thread of its own.
//
// The thread that enqueues a GPU's work waits for the GPU once a step, where the gradients' norm
// tells whether the step counts. All that it does from there to the next step's first kernel, the
// GPU is idle: drawing the noise of 64 images of 512 pixels, and of their latents, alone takes tens
// of milliseconds. What a rank has asked for of one step is therefore made of the next one, too,
// while the GPU works. Inputs are functions of the step and the samples, so that numbers do not
// depend on it.
#ifndef DPIPE_CORE_RUNTIME_INPUT_PREFETCHER_H_
#define DPIPE_CORE_RUNTIME_INPUT_PREFETCHER_H_

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

// One rank's, one thread's. Holds what one step has asked for, of the step after it.
class InputPrefetcher {
 public:
  // `inputs` outlives it. `device`: where its thread has them, which nobody else works for.
  InputPrefetcher(InputProvider* inputs, std::shared_ptr<Device> device);
  // Waits for what is being made.
  ~InputPrefetcher();
  InputPrefetcher(const InputPrefetcher&) = delete;
  InputPrefetcher& operator=(const InputPrefetcher&) = delete;

  // What has been made, or is being made, written already and on the prefetcher's device; or else
  // what LoadInput gives on `device`. And the same of the next step is begun. Errors are only of
  // what is asked for.
  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device);

 private:
  // Step, component, input, first and last sample: of earlier steps first.
  using Request = std::tuple<int64_t, std::string, std::string, int, int>;
  struct Guess {
    enum class State { kQueued, kBeingMade, kMade };
    State state = State::kQueued;
    absl::StatusOr<Tensor> value;
  };

  void Run();
  absl::StatusOr<Tensor> Make(const Request& request, const std::shared_ptr<Device>& device);
  // On the thread, and waits until it is written.
  absl::StatusOr<Tensor> MakeAhead(const Request& request);
  // What has been guessed for it, once it is there; an error where nothing has, or in vain.
  absl::StatusOr<Tensor> Take(const Request& request);
  void MakeLater(Request request);

  InputProvider& inputs_;
  const std::shared_ptr<Device> device_;
  absl::Mutex mutex_;
  std::map<Request, Guess> guesses_ ABSL_GUARDED_BY(mutex_);
  // Guesses in the order in which they are to be made; some may have been dropped since.
  std::deque<Request> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INPUT_PREFETCHER_H_
