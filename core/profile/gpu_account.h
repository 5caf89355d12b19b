// An account of a GPU's time: the work that ran, the operation that enqueued it, and how close it
// came to the GPU's limits.
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
  std::string name;    // of a kernel, demangled
  int operation = -1;  // index of the operation that enqueued it; -1: none
  Nanos begin_ns = 0, end_ns = 0;
};

// All calls of an operation with the same detail, for example one shape.
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

// Returns the class of an operation named by RunOn or a WorkScope, such as "convolution, forward".
// Copies and fills outside any operation are "copies and layouts", unknown kernels are "other".
std::string GpuWorkClass(absl::string_view operation, GpuActivity::Kind kind);

// Computes the account. Idle time is the sum of the gaps in the union of all activities. The flops
// and bytes of an operation also count for its class. O(n log n) in the number of activities,
// because of sorting.
GpuAccount MakeGpuAccount(const GpuRecording& recording, const GpuCeilings& ceilings, int steps,
                          const std::string& device);

// Returns tables of times per step: the classes; the longest gaps with the operations before and
// after them; the longest `max_operations` operations and `max_kernels` kernels. Rows have about
// 110 characters at most.
std::string GpuAccountText(const GpuAccount& account, int max_operations, int max_kernels);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_GPU_ACCOUNT_H_
