// Compressed gradient sums with error feedback: the part that a rank's compression omits is added
// to its gradient of the next step. Changes the mathematics; see Plan.compression.
//
//   "l-greco"  low-rank factors by one power iteration (PowerSGD: Vogels, Karimireddy, Jaggi, arXiv
//              1905.13727), both summed by all-reduce. L-GreCo chooses the rank of each parameter
//              under the error of one rank for all (choose_ranks.h), again after every
//              `choose_every` steps. Vectors, and matrices that would not get smaller, are summed
//              whole.
//   "cupcake"  the largest numbers of groups of parameters that are fused as Cupcake does
//              (choose_fusion.h), gathered as values and positions.
//
// All ranks of a group make the same choices, because they use the same numbers.
#ifndef DPIPE_CORE_TRAIN_COMPRESSION_GRADIENT_COMPRESSION_H_
#define DPIPE_CORE_TRAIN_COMPRESSION_GRADIENT_COMPRESSION_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/runtime/gradient_reducer.h"
#include "core/train/compression/choose_fusion.h"

namespace dpipe {

struct CompressionOptions {
  // "l-greco"
  int rank = 4;       // its error on all parameters is the budget; also the rank of the first steps
  int max_rank = 16;  // maximum rank of a parameter
  int64_t choose_every = 50;  // steps; 0: all keep `rank`
  // "cupcake"
  double kept_share = 0.01;  // of a group's numbers, at least one; from 0 to 1
  // Assumed, not measured: the costs of choosing the largest of n numbers, and of gathering those
  // of all ranks with their positions. `sent_share` is set from `kept_share` and the number of
  // ranks.
  FusionCosts fusion = {20000, 8.0, 30000, 5.0};
};

// Returns the factory of reducers for `name`, which is Plan.compression and not empty. Returns
// InvalidArgument with the known names, or with the option that is invalid.
absl::StatusOr<GradientReducerFactory> CompressionFactory(const std::string& name,
                                                          const CompressionOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_GRADIENT_COMPRESSION_H_
