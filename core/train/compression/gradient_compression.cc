#include "core/train/compression/gradient_compression.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "core/train/compression/fused_sparse_reducer.h"
#include "core/train/compression/low_rank_reducer.h"

namespace dpipe {

absl::StatusOr<GradientReducerFactory> CompressionFactory(const std::string& name,
                                                          const CompressionOptions& options) {
  if (name == "l-greco") {
    return GradientReducerFactory([options](Communicator* communicator) {
      return std::make_unique<LowRankReducer>(communicator, options);
    });
  }
  if (name == "cupcake") {
    if (!(options.kept_share >= 0 && options.kept_share <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cupcake keeps a share of gradients from 0 to 1; kept_share is ", options.kept_share));
    }
    return GradientReducerFactory([options](Communicator* communicator) {
      return std::make_unique<FusedSparseReducer>(communicator, options);
    });
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the plan's compression is '", name, "'; there are l-greco, cupcake"));
}

}  // namespace dpipe
