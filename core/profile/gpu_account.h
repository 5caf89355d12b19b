// The account of a GPU's time: what ran, of which operation, and how close to the GPU's limits.
#ifndef DPIPE_CORE_PROFILE_GPU_ACCOUNT_H_
#define DPIPE_CORE_PROFILE_GPU_ACCOUNT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/time.h"
#include "core/proto/gpu_account.pb.h"

namespace dpipe {

// A kernel, copy or fill that a GPU has run.
struct GpuActivity {
  enum class Kind { kKernel, kCopy, kFill };
  Kind kind = Kind::kKernel;
  std::string name;    // a kernel's, demangled
  int operation = -1;  // index of the operation that enqueued it; -1: none
  Nanos begin_ns = 0, end_ns = 0;
};

// All calls of an operation with one detail, e.g. one shape.
struct GpuOperation {
  std::string name, detail;
  int64_t calls = 0;
  double flops = 0, bytes = 0;
  double bound_ns = 0;
};

struct GpuRecording {
  std::vector<GpuOperation> operations;
  std::vector<GpuActivity> activities;
  int64_t dropped = 0;
};

// "convolution, forward": the class of an operation that RunOn or a WorkScope names; of copies and
// fills outside any, "copies and layouts"; of unknown kernels, "other".
std::string GpuWorkClass(absl::string_view operation, GpuActivity::Kind kind);

// Idle time is the gaps in the union of all activities. An operation's flops and bytes are its
// class's. Linear but for sorting.
GpuAccount MakeGpuAccount(const GpuRecording& recording, const GpuCeilings& ceilings, int steps,
                          const std::string& device);

// Tables, per step: classes, the longest gaps with the operations before and after them, then the
// `max_operations` and `max_kernels` longest. Lines of at most 110 characters.
std::string GpuAccountText(const GpuAccount& account, int max_operations, int max_kernels);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_GPU_ACCOUNT_H_
