// Chooses the engine of a library that runs an operation: the first of its heuristics, or the
// fastest when all were timed.
//
// Engines add up in different orders, so two of them may differ in the last bits, and a repeated
// timing may choose another one. Choices are therefore made once for all devices of a process and
// kept in a file. With the same file, a run computes the same bits again.
#ifndef DPIPE_CORE_OPS_CUDA_ENGINE_CHOICES_H_
#define DPIPE_CORE_OPS_CUDA_ENGINE_CHOICES_H_

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/tensor/device.h"

namespace dpipe::ops::cuda {

// An operation on a device: all that an engine's time depends on, as human-readable text.
struct EngineUse {
  std::string operation;  // "a convolution of bf16 [64, 64, 64, 320], ..."
  std::string device;     // "NVIDIA H200, 132 multiprocessors"
  std::string library;    // "cuDNN 9.19.0"; another version may have other engines

  friend bool operator<(const EngineUse& a, const EngineUse& b) {
    return std::tie(a.operation, a.device, a.library) < std::tie(b.operation, b.device, b.library);
  }
};

// A candidate for an operation.
struct Engine {
  std::string name;                   // by which the library finds it again
  std::function<absl::Status()> run;  // enqueues the operation
};

// Thread-safe.
class EngineChoices {
 public:
  // Returns the choices of this process, which devices use.
  static EngineChoices& OfProcess();

  // Reads the choices from file `path`, which may be missing if `time_engines`. In that case,
  // operations without a choice are timed when first used. The file is rewritten after each of
  // them, unless `keep` is false. Returns InvalidArgument, with the reason, if the file has another
  // format.
  absl::Status Open(const std::string& path, bool time_engines, bool keep = true)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // True (the default) if only deterministic engines may run. Must be set before the first
  // operation. The two settings have separate choices.
  void set_deterministic(bool deterministic) ABSL_LOCKS_EXCLUDED(mutex_);
  bool deterministic() const ABSL_LOCKS_EXCLUDED(mutex_);

  // True if Choose can return anything but the first engine.
  bool in_use() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the name of the engine for `use`; empty: the first. `engines` returns the candidates to
  // time, the library's first choice first. It is called if there is no choice yet and timing is
  // possible (not while the device's work is recorded). One device times at a time. Fails only if
  // the file cannot be written, or if the device has failed.
  absl::StatusOr<std::string> Choose(EngineUse use, Device& device,
                                     const std::function<std::vector<Engine>()>& engines)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Choice {
    std::string engine;
    double microseconds = 0;        // per run
    double first_microseconds = 0;  // per run of the library's first choice
    int num_timed = 0;
  };
  absl::Status Write() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::string path_ ABSL_GUARDED_BY(mutex_);
  bool time_others_ ABSL_GUARDED_BY(mutex_) = false;
  bool keep_ ABSL_GUARDED_BY(mutex_) = true;
  bool deterministic_ ABSL_GUARDED_BY(mutex_) = true;
  std::map<EngineUse, Choice> choices_ ABSL_GUARDED_BY(mutex_);
};

namespace internal {

// times[i] are the times of engine i in several runs; empty if it failed. Returns the index with
// the minimum median. Returns the first engine unless another is faster by more than noise, 3 %.
int FastestEngine(const std::vector<std::vector<Nanos>>& times);

// Runs the engines in turns, so that changes of the clock speed affect all of them. Each turn has
// enough runs to be measured by events. An engine that fails has no times.
absl::StatusOr<std::vector<std::vector<Nanos>>> TimeEngines(Device& device,
                                                            const std::vector<Engine>& engines);

}  // namespace internal

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_ENGINE_CHOICES_H_
