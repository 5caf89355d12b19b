// Which of the engines that a library has for an operation runs it: the one that its heuristics
// name first, or the one that was fastest when all were timed.
//
// Engines add up in different orders, so two of them may differ in the last bits, and a choice by
// time may come out otherwise the next time. Choices are therefore made once for all devices of a
// process, and kept in a file: with the same file a run computes the same again.
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

// An operation on a device: what an engine's time depends on. Texts, in a file for people to read.
struct EngineUse {
  std::string operation;  // "a convolution of bf16 [64, 64, 64, 320], ..."
  std::string device;     // "NVIDIA H200, 132 multiprocessors"
  std::string library;    // "cuDNN 9.19.0"; another version may have other engines

  friend bool operator<(const EngineUse& a, const EngineUse& b) {
    return std::tie(a.operation, a.device, a.library) < std::tie(b.operation, b.device, b.library);
  }
};

// One that could run it.
struct Engine {
  std::string name;                   // as the library will know it again
  std::function<absl::Status()> run;  // enqueues the operation
};

// Thread-safe.
class EngineChoices {
 public:
  // Those of this process, which devices go by.
  static EngineChoices& OfProcess();

  // Takes the choices that the file `path` has; it need not be there if `time_others`. Then
  // operations without one are timed when they are first met, and the file is written anew after
  // each, unless this process is not to `keep` them. InvalidArgument where it is no such file,
  // naming what is wrong with it.
  absl::Status Open(const std::string& path, bool time_others, bool keep = true)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether only engines may run that compute the same every time: true unless said otherwise,
  // which is to be said before the first operation. Choices are kept apart.
  void set_deterministic(bool deterministic) ABSL_LOCKS_EXCLUDED(mutex_);
  bool deterministic() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is anything to ask Choose for.
  bool in_use() const ABSL_LOCKS_EXCLUDED(mutex_);

  // The name of the engine for `use`; empty: the first. `engines` gives those to time, the
  // library's first choice first; it is called if there is no choice yet and, on this device,
  // timing may be (not while its work is being recorded). One device times at a time. An error only
  // if the file cannot be written or an engine's failure is the device's.
  absl::StatusOr<std::string> Choose(EngineUse use, Device& device,
                                     const std::function<std::vector<Engine>()>& engines)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Choice {
    std::string engine;
    double microseconds = 0;        // a run
    double first_microseconds = 0;  // of the library's first choice
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

// times[i]: what engine i took in some runs, or nothing where it failed. The index of the one with
// the least median; of the first unless another's is less by more than noise, 3 %.
int FastestEngine(const std::vector<std::vector<Nanos>>& times);

// Runs engines in turns, so that a changing clock speed meets them all, and each often enough to be
// told from the events around it. An engine that fails has no times.
absl::StatusOr<std::vector<std::vector<Nanos>>> TimeEngines(Device& device,
                                                            const std::vector<Engine>& engines);

}  // namespace internal

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_ENGINE_CHOICES_H_
