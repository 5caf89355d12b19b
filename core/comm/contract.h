// Argument checks and error messages shared by all transports.
#ifndef DPIPE_CORE_COMM_CONTRACT_H_
#define DPIPE_CORE_COMM_CONTRACT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/shard.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/communicator.h"

namespace dpipe {

// Returns InvalidArgument unless `peer` is one of the `size` ranks and not `rank` itself.
absl::Status CheckPeer(Rank rank, int size, Rank peer, const std::string& what);

// The ranks of a collective and this rank's position among them.
struct RankGroup {
  std::vector<int> ranks;  // increasing
  Shard own;               // this rank's share of data divided among them

  int size() const { return own.count; }
};
// Returns the group. CHECK-fails unless `group` is sorted and contains this rank once.
RankGroup GroupOf(Rank rank, absl::Span<const Rank> group, const std::string& what);

// Formats as "fp32[2, 3], bf16[4]".
std::string SpecNames(absl::Span<const TensorSpec> specs);
// Returns the shape and type of each tensor.
std::vector<TensorSpec> SpecsOf(absl::Span<const Tensor> tensors);
// Returns Internal, naming both: "rank 1: WHAT from rank 0 should be (fp32[3]) but is (fp32[2])".
absl::Status WrongSpecs(Rank to, Rank from, const std::string& what, const std::string& expected,
                        const std::string& received);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_CONTRACT_H_
